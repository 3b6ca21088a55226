//! Scores, evidence, receipts and the transparency log.

use crate::support::{Fixture, NOW, fresh, on_both, read, write};
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::ids::{AccountId, EvidenceId, ScoreId, TraceId};
use chorus_store::Store;
use chorus_store::choir::log::{self, KeyRow};
use chorus_store::choir::{self, EvidenceRow, ReceiptRow, ScoreRow, SecretRow};
use tokio::task::JoinSet;

on_both![
    a_score_has_versions_and_an_owner,
    an_edit_link_is_claimed_once,
    what_nobody_claims_is_removed,
    the_same_bundle_of_one_class_is_one,
    secrets_end,
    receipts_and_comparisons_are_found,
    keys_replace_each_other;
    with_threads: claimed_at_once_by_two,
    the_log_has_no_gaps,
];

fn row(owner: Option<AccountId>) -> ScoreRow {
    ScoreRow {
        id: ScoreId(fresh()),
        owner,
        ingest: fresh().simple().to_string(),
        title: "Refunds".into(),
        version: 1,
        created_at: NOW,
        updated_at: NOW,
        archived_at: None,
    }
}

async fn insert(store: &Store, new: &ScoreRow, edit_hash: Option<[u8; 32]>) {
    let (new, trace) = (new.clone(), TraceId(fresh()));
    write(store, move |tx| {
        choir::insert(tx, &new, edit_hash.as_ref().map(<[u8; 32]>::as_slice), "{\"a\":1}", trace)
    })
    .await;
}

/// Unclaimed Scores are removed with all their data except receipts; claimed or recently changed ones stay.
async fn what_nobody_claims_is_removed(fixture: Fixture) {
    let store = &fixture.store;
    let (old, fresh_one, owned) = (row(None), row(None), row(Some(AccountId(fresh()))));
    for (new, hash) in [(&old, Some([1; 32])), (&fresh_one, Some([2; 32])), (&owned, None)] {
        insert(store, new, hash).await;
    }
    let (id, later, end) = (old.id, fresh_one.id, NOW + choir::UNCLAIMED_MS);
    let evidence = EvidenceRow {
        id: EvidenceId(fresh()),
        status: VerificationStatus::UserAsserted,
        bundle_sha256: "a".repeat(64),
        score_version: 1,
        events: 0,
        received_at: NOW,
        secret: None,
        supersedes: None,
        superseded_by: None,
    };
    let receipt = ReceiptRow {
        id: fresh().simple().to_string(),
        score: id,
        generated_at: NOW,
        payload_hash: "b".repeat(64),
        payload: "{}".into(),
        label: "Draft Choir Receipt".into(),
        log_index: 0,
        attestation: None,
        test_result: None,
    };
    let (kept, trace) = (receipt.clone(), TraceId(fresh()));
    write(store, move |tx| {
        choir::insert_evidence(tx, id, &evidence, "{}", trace)?;
        choir::insert_secret(
            tx,
            id,
            &SecretRow { id: evidence.id.0, prefix: "acs_12345678".into(), created_at: NOW },
        )?;
        choir::insert_receipt(tx, &kept, trace)?;
        choir::add_version(tx, later, 2, "Again", "{}", NOW + 1)
    })
    .await;
    assert_eq!(read(store, move |tx| choir::evidence_page(tx, id, None, 10)).await.len(), 1);
    assert_eq!(
        read(store, move |tx| choir::receipts_page(tx, id, 1, 10)).await,
        std::slice::from_ref(&receipt)
    );
    assert_eq!(read(store, move |tx| choir::receipts_page(tx, id, 0, 10)).await, []);

    write(store, move |tx| choir::remove_unclaimed(tx, end)).await;
    assert!(read(store, move |tx| choir::find(tx, id)).await.is_some(), "not a moment too early");
    write(store, move |tx| choir::remove_unclaimed(tx, end + 1)).await;
    let left = async |id: ScoreId| read(store, move |tx| choir::find(tx, id)).await.is_some();
    assert_eq!((left(id).await, left(later).await, left(owned.id).await), (false, true, true));
    let found = read(store, move |tx| {
        Ok((choir::body(tx, id, 1)?, choir::secrets(tx, id)?.len(), choir::count_evidence(tx, id)?))
    });
    assert_eq!(found.await, (None, 0, 0));
    let slug = receipt.id.clone();
    assert_eq!(read(store, move |tx| choir::receipt(tx, &slug)).await, Some(receipt));
}

async fn a_score_has_versions_and_an_owner(fixture: Fixture) {
    let (store, owner) = (&fixture.store, AccountId(fresh()));
    let new = row(Some(owner));
    insert(store, &new, None).await;
    let (id, ingest) = (new.id, new.ingest.clone());
    assert_eq!(read(store, move |tx| choir::find(tx, id)).await, Some(new.clone()));
    assert_eq!(read(store, move |tx| choir::by_ingest(tx, &ingest)).await, Some(new));
    write(store, move |tx| {
        let held = choir::find_to_change(tx, id)?.map_or(0, |row| row.version);
        choir::add_version(tx, id, held + 1, "Again", "{\"a\":2}", NOW + 1)
    })
    .await;
    let found = read(store, move |tx| choir::find(tx, id)).await.unwrap();
    assert_eq!((found.version, &*found.title, found.updated_at), (2, "Again", NOW + 1));
    for (version, body) in [(1, Some("{\"a\":1}")), (2, Some("{\"a\":2}")), (3, None)] {
        assert_eq!(read(store, move |tx| choir::body(tx, id, version)).await.as_deref(), body);
    }
    insert(store, &row(Some(owner)), None).await;
    insert(store, &row(Some(AccountId(fresh()))), None).await;
    let all = read(store, move |tx| choir::page(tx, owner, None, 10)).await;
    assert_eq!((all.len(), read(store, move |tx| choir::count(tx, owner)).await), (2, 2));
    let first = all[0].id;
    let rest = read(store, move |tx| choir::page(tx, owner, Some(first), 10)).await;
    assert_eq!(rest, all[1..]);
    write(store, move |tx| choir::archive(tx, id, NOW + 2)).await;
    write(store, move |tx| choir::archive(tx, id, NOW + 3)).await;
    assert_eq!(read(store, move |tx| choir::find(tx, id)).await.unwrap().archived_at, Some(NOW + 2));
}

async fn an_edit_link_is_claimed_once(fixture: Fixture) {
    let (store, new) = (&fixture.store, row(None));
    insert(store, &new, Some([7; 32])).await;
    let (id, ann, eve) = (new.id, AccountId(fresh()), AccountId(fresh()));
    assert_eq!(read(store, |tx| choir::by_edit_link(tx, &[7; 32])).await, Some(id));
    assert!(!write(store, move |tx| choir::claim(tx, id, &[8; 32], eve)).await);
    assert!(write(store, move |tx| choir::claim(tx, id, &[7; 32], ann)).await);
    assert!(!write(store, move |tx| choir::claim(tx, id, &[7; 32], eve)).await);
    assert_eq!(read(store, |tx| choir::by_edit_link(tx, &[7; 32])).await, None);
    assert_eq!(read(store, move |tx| choir::find(tx, id)).await.unwrap().owner, Some(ann));
}

async fn claimed_at_once_by_two(fixture: Fixture) {
    let (store, new) = (&fixture.store, row(None));
    insert(store, &new, Some([7; 32])).await;
    let mut all = JoinSet::new();
    for _ in 0..8 {
        let (store, id, who) = (store.clone(), new.id, AccountId(fresh()));
        all.spawn(async move { write(&store, move |tx| choir::claim(tx, id, &[7; 32], who)).await });
    }
    assert_eq!(all.join_all().await.into_iter().filter(|won| *won).count(), 1);
}

async fn the_same_bundle_of_one_class_is_one(fixture: Fixture) {
    let (store, new) = (&fixture.store, row(None));
    insert(store, &new, None).await;
    let id = new.id;
    let evidence = |status, sha256: &str| EvidenceRow {
        id: EvidenceId(fresh()),
        status,
        bundle_sha256: sha256.into(),
        score_version: 1,
        events: 2,
        received_at: NOW,
        secret: None,
        supersedes: None,
        superseded_by: None,
    };
    let rows = [
        (evidence(VerificationStatus::UserAsserted, "bb"), "{\"b\":\"\\u0000\"}"),
        (evidence(VerificationStatus::UserAsserted, "aa"), "{\"a\":1}"),
        (evidence(VerificationStatus::SignatureValid, "aa"), "{\"a\":1}"),
    ];
    for (row, body) in rows.clone() {
        write(store, move |tx| choir::insert_evidence(tx, id, &row, body, TraceId(fresh()))).await;
    }
    let found =
        read(store, move |tx| choir::evidence_by_bundle(tx, id, VerificationStatus::UserAsserted, "bb"))
            .await;
    assert_eq!(found.as_ref(), Some(&rows[0].0));
    let twice = rows[1].0.clone();
    let again = EvidenceRow { id: EvidenceId(fresh()), ..twice };
    let refused = store.write::<_, chorus_store::StoreError, _>(move |tx| {
        choir::insert_evidence(tx, id, &again, "{}", TraceId(fresh()))
    });
    assert!(refused.await.is_err());
    let asserted = VerificationStatus::UserAsserted;
    let bodies = read(store, move |tx| choir::bodies_of_version(tx, id, 1, asserted, 10)).await;
    let told = [("aa", "{\"a\":1}"), ("bb", "{\"b\":\"\\u0000\"}")];
    assert_eq!(bodies, told.map(|(hash, body)| (hash.to_owned(), body.to_owned())), "by hash");
    assert!(read(store, move |tx| choir::bodies_of_version(tx, id, 2, asserted, 10)).await.is_empty());
    let (one, elsewhere) = (rows[2].0.id, ScoreId(fresh()));
    let signed = read(store, move |tx| choir::evidence_body(tx, id, one)).await;
    assert_eq!(signed, Some((rows[2].0.clone(), "{\"a\":1}".into())));
    assert_eq!(read(store, move |tx| choir::evidence_body(tx, elsewhere, one)).await, None);
    assert_eq!(read(store, move |tx| choir::count_evidence(tx, id)).await, 3);
}

async fn secrets_end(fixture: Fixture) {
    let (store, id, other) = (&fixture.store, ScoreId(fresh()), ScoreId(fresh()));
    let secrets = ["acs_aaaaaaaa", "acs_bbbbbbbb"].map(|prefix| SecretRow {
        id: fresh(),
        prefix: prefix.into(),
        created_at: NOW,
    });
    for secret in secrets.clone() {
        write(store, move |tx| choir::insert_secret(tx, id, &secret)).await;
    }
    assert!(!write(store, move |tx| choir::revoke_secret(tx, other, "acs_aaaaaaaa", NOW)).await);
    assert_eq!(read(store, move |tx| choir::secrets(tx, id)).await.len(), 2);
    assert!(write(store, move |tx| choir::revoke_secret(tx, id, "acs_aaaaaaaa", NOW)).await);
    assert_eq!(read(store, move |tx| choir::secrets(tx, id)).await, secrets[1..]);
}

async fn receipts_and_comparisons_are_found(fixture: Fixture) {
    let (store, score) = (&fixture.store, ScoreId(fresh()));
    let receipt = ReceiptRow {
        id: fresh().simple().to_string(),
        score,
        generated_at: NOW,
        payload_hash: "00".into(),
        payload: "{}".into(),
        label: "Draft Choir Receipt".into(),
        log_index: 3,
        attestation: None,
        test_result: None,
    };
    let (kept, id) = (receipt.clone(), receipt.id.clone());
    write(store, move |tx| choir::insert_receipt(tx, &kept, TraceId(fresh()))).await;
    assert_eq!(read(store, move |tx| choir::receipt(tx, &id)).await, Some(receipt));
    assert_eq!(read(store, |tx| choir::receipt(tx, "none")).await, None);
    assert_eq!(read(store, move |tx| choir::count_receipts(tx, score)).await, 1);
    write(store, |tx| choir::insert_comparison(tx, "s", "a", "b", NOW)).await;
    assert_eq!(read(store, |tx| choir::comparison(tx, "s")).await, Some(("a".into(), "b".into())));
    assert_eq!(read(store, |tx| choir::comparison(tx, "t")).await, None);
}

async fn keys_replace_each_other(fixture: Fixture) {
    let store = &fixture.store;
    let key = |generation: i64| KeyRow {
        generation,
        public: vec![generation as u8; 32],
        from: NOW + generation,
        until: None,
    };
    for generation in [1, 2, 2] {
        write(store, move |tx| log::replace_key(tx, &key(generation))).await;
    }
    let keys = read(store, log::keys).await;
    assert_eq!(keys, [key(2), KeyRow { until: Some(NOW + 2), ..key(1) }]);
}

/// Concurrent appends take positions one by one, and each sees the state of those before it.
async fn the_log_has_no_gaps(fixture: Fixture) {
    let store = &fixture.store;
    let mut all = JoinSet::new();
    for _ in 0..12 {
        let store = store.clone();
        all.spawn(async move {
            write(&store, move |tx| {
                let place = log::next_place(tx)?;
                if place > 0 {
                    log::node(tx, 0, place - 1)?;
                }
                log::insert_leaf(tx, place, "{}")?;
                log::insert_node(tx, 0, place, &[place as u8; 32])?;
                Ok(place)
            })
            .await
        });
    }
    let mut places = all.join_all().await;
    places.sort_unstable();
    assert_eq!(places, (0..12).collect::<Vec<_>>());
    assert_eq!(read(store, log::size).await, 12);
    assert_eq!(read(store, |tx| log::node(tx, 0, 11)).await, [11; 32]);
}
