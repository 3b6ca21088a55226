//! Replaced keys, disabled agents and accounts, and notifications to every node.

use crate::support::{
    Fixture, LEASE_END, NODE, NOW, agent, deliver, fresh, key, message, on_both, read, webhook, write,
};
use chorus_protocol::ids::{AccountId, AgentId, CredentialId, Principal, TraceId};
use chorus_protocol::relay::Named;
use chorus_protocol::words::DeliveryState;
use chorus_store::accounts::{self, Account, CredentialKind, NewCredential, SignIn};
use chorus_store::directory::{self, Record};
use chorus_store::relay::{self, Registrar, Registration};
use chorus_store::usage::{self, Stored};
use chorus_store::{Store, StreamKey, Tx, access, inboxes};

on_both![
    a_replaced_key_bumps_the_epoch_and_is_announced,
    who_is_kept_out_is_called_nowhere,
    an_account_takes_its_agents_along,
    an_agent_that_comes_later_is_out_as_well,
    sessions_end_together,
    nobody_signs_in_to_a_disabled_account,
    whoever_is_kept_out_invites_nobody,
    a_webhook_secret_is_counted_on,
    a_detached_agent_is_reached_by_nothing,
    tokens_are_revoked_together,
    what_a_released_agent_has_counts_for_nobody,
];

async fn announced(store: &Store, who: impl Into<Principal>) -> i64 {
    let stream = StreamKey::revocations(who);
    read(store, move |tx| tx.head(stream)).await
}

async fn found(store: &Store, id: AgentId) -> directory::Agent {
    read(store, move |tx| directory::by_id(tx, id)).await.unwrap()
}

async fn account(store: &Store, email: &'static str) -> AccountId {
    let id = AccountId(fresh());
    let new =
        Account { id, email: email.into(), name: "x".into(), created_at: NOW, disabled_at: None, seen_at: 0 };
    assert!(write(store, move |tx| accounts::insert(tx, &new, TraceId(fresh()))).await);
    id
}

async fn open(store: &Store, id: AgentId) {
    write(store, move |tx| inboxes::open(tx, id, fresh(), NODE, LEASE_END)).await;
}

async fn a_replaced_key_bumps_the_epoch_and_is_announced(fixture: Fixture) {
    let store = &fixture.store;
    let anna = agent(store, "anna").await.id;
    let registration = |registrar, new: &str| Registration {
        record: Record { name: "anna".into(), endpoint: None, card: None },
        names: Named { endpoint: true, card: true },
        registrar,
        id: AgentId(fresh()),
        key: key(new),
        trace: TraceId(fresh()),
        now: NOW,
    };
    let register =
        async |new: Registration| store.write(move |tx: &mut dyn Tx| relay::register(tx, &new)).await;
    register(registration(Registrar::Operator, "no")).await.unwrap();
    assert_eq!((found(store, anna).await.epoch, announced(store, anna).await), (0, 0));
    let rotated = register(registration(Registrar::Itself(Some(key("anna"))), "second")).await.unwrap();
    assert_eq!((rotated.agent.epoch, found(store, anna).await.epoch), (1, 1));
    assert_eq!(announced(store, anna).await, 1);
    open(store, anna).await;
    write(store, move |tx| directory::reset_key(tx, anna, &key("third"), NOW)).await;
    assert_eq!((found(store, anna).await.epoch, announced(store, anna).await), (2, 2));
    assert_eq!(read(store, |tx| inboxes::on_node(tx, NODE)).await, []);
    for (word, holds) in [("anna", false), ("no", false), ("second", false), ("third", true)] {
        let holder = read(store, move |tx| directory::by_key(tx, &key(word))).await;
        assert_eq!(holder.is_some(), holds, "{word}");
    }
    for (seq, change) in [(3, Some(b"sealed".as_slice())), (4, None)] {
        write(store, move |tx| directory::set_connection(tx, anna, change, NOW)).await;
        assert_eq!(announced(store, anna).await, seq);
    }
    write(store, move |tx| directory::set_foreign_secret(tx, anna, &key("foreign"), NOW)).await;
    assert_eq!(announced(store, anna).await, 5);
    write(store, move |tx| access::delete_agent(tx, anna, NOW, &fresh)).await;
    assert_eq!(announced(store, anna).await, 6);
}

async fn who_is_kept_out_is_called_nowhere(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, hook) = (agent(store, "anna").await, webhook(store, "hook").await);
    let id = hook.id;
    open(store, id).await;
    assert!(write(store, move |tx| access::disable_agent(tx, id, NOW)).await);
    assert!(!write(store, move |tx| access::disable_agent(tx, id, NOW + 1)).await, "once more is no news");
    assert_eq!(found(store, id).await.disabled_at, Some(NOW));
    assert_eq!((found(store, id).await.open_until, announced(store, id).await), (0, 1));
    assert_eq!(deliver(store, message(&anna, &hook)).await.1, DeliveryState::Queued);
    assert!(write(store, move |tx| access::enable_agent(tx, id, NOW)).await);
    assert!(!write(store, move |tx| access::enable_agent(tx, id, NOW)).await);
    assert_eq!(found(store, id).await.disabled_at, None);
    let sent = crate::support::send(store, message(&anna, &hook)).await.unwrap();
    assert!(matches!(sent, relay::Sent::Pending(_)), "{sent:?}");
}

async fn an_account_takes_its_agents_along(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, eve) = (account(store, "anna@x").await, account(store, "eve@x").await);
    let mut agents = vec![];
    for (name, owner) in [("one", anna), ("two", anna), ("other", eve)] {
        let id = agent(store, name).await.id;
        write(store, move |tx| directory::set_owner(tx, id, Some(owner), None)).await;
        open(store, id).await;
        agents.push(id);
    }
    let [one, two, other] = agents[..] else { panic!() };
    write(store, move |tx| access::disable_agent(tx, two, NOW)).await;
    assert!(write(store, move |tx| access::disable_account(tx, anna, NOW + 5)).await);
    assert!(!write(store, move |tx| access::disable_account(tx, anna, NOW + 6)).await);
    let out = async || {
        let mut out = vec![];
        for id in [one, two, other] {
            out.push(found(store, id).await.disabled_at);
        }
        out
    };
    assert_eq!(out().await, [Some(NOW + 5), Some(NOW), None]);
    assert_eq!(read(store, |tx| inboxes::on_node(tx, NODE)).await.len(), 1);
    assert_eq!((announced(store, anna).await, announced(store, one).await), (1, 1));
    assert_eq!((announced(store, eve).await, announced(store, other).await), (0, 0));
    assert!(write(store, move |tx| access::enable_account(tx, anna, NOW)).await);
    assert_eq!(out().await, [None, Some(NOW), None], "who is kept out itself stays so");
}

async fn an_agent_that_comes_later_is_out_as_well(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, late) = (account(store, "anna@x").await, agent(store, "late").await.id);
    write(store, move |tx| access::disable_account(tx, anna, NOW)).await;
    write(store, move |tx| directory::set_owner(tx, late, Some(anna), None)).await;
    assert_eq!(found(store, late).await.disabled_at, Some(NOW));
    write(store, move |tx| directory::set_owner(tx, late, None, None)).await;
    assert_eq!(found(store, late).await.disabled_at, None);
}

fn credential(kind: CredentialKind, account: AccountId, secret: &str) -> NewCredential {
    NewCredential {
        id: CredentialId(fresh()),
        hash: key(secret),
        kind,
        account: Some(account),
        email: (kind == CredentialKind::Link).then(|| "anna@x".into()),
        label: None,
        sign_up_code: None,
        expires_at: Some(NOW + 1000),
        trace: TraceId(fresh()),
        now: NOW,
    }
}

async fn sessions_end_together(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, eve) = (account(store, "anna@x").await, account(store, "eve@x").await);
    let all = [
        credential(CredentialKind::Session, anna, "one"),
        credential(CredentialKind::Session, anna, "two"),
        credential(CredentialKind::Link, anna, "link"),
        credential(CredentialKind::Token, anna, "token"),
        credential(CredentialKind::Session, eve, "other"),
    ];
    write(store, move |tx| all.iter().try_for_each(|new| accounts::issue(tx, new))).await;
    let is_good = async |kind, secret: &'static str| {
        read(store, move |tx| accounts::by_credential(tx, kind, &key(secret), NOW)).await.is_some()
    };
    assert_eq!(write(store, move |tx| accounts::end_sessions(tx, anna, Some(&key("two")))).await, 1);
    for (kind, secret, good) in [
        (CredentialKind::Session, "one", false),
        (CredentialKind::Session, "two", true),
        (CredentialKind::Link, "link", false),
        (CredentialKind::Token, "token", true),
        (CredentialKind::Session, "other", true),
    ] {
        assert_eq!(is_good(kind, secret).await, good, "{secret}");
    }
    assert_eq!(announced(store, anna).await, 1);
    assert_eq!(write(store, move |tx| accounts::end_sessions(tx, anna, None)).await, 1);
    assert!(!is_good(CredentialKind::Session, "two").await);
    assert_eq!((announced(store, anna).await, announced(store, eve).await), (2, 0));
}

async fn nobody_signs_in_to_a_disabled_account(fixture: Fixture) {
    let store = &fixture.store;
    let anna = account(store, "anna@x").await;
    let links =
        [credential(CredentialKind::Link, anna, "one"), credential(CredentialKind::Link, anna, "two")];
    write(store, move |tx| links.iter().try_for_each(|new| accounts::issue(tx, new))).await;
    let sign_in = async |link: &'static str| {
        let with = SignIn {
            link: key(link),
            new: AccountId(fresh()),
            open: true,
            session: (CredentialId(fresh()), key(&format!("session {link}")), NOW + 9),
            trace: TraceId(fresh()),
            now: NOW,
        };
        write(store, move |tx| accounts::sign_in(tx, &with)).await
    };
    write(store, move |tx| access::disable_account(tx, anna, NOW)).await;
    assert_eq!(sign_in("one").await, None);
    write(store, move |tx| access::enable_account(tx, anna, NOW)).await;
    assert_eq!(sign_in("one").await.unwrap().id, anna, "it was not used up");
    assert_eq!(sign_in("two").await.unwrap().id, anna);
}

async fn whoever_is_kept_out_invites_nobody(fixture: Fixture) {
    let store = &fixture.store;
    let anna = account(store, "anna@x").await;
    let new = credential(CredentialKind::SignUpCode, anna, "invitation");
    write(store, move |tx| accounts::issue(tx, &new)).await;
    let redeem = async || {
        write(store, |tx| accounts::redeem(tx, CredentialKind::SignUpCode, &key("invitation"), NOW)).await
    };
    write(store, move |tx| access::disable_account(tx, anna, NOW)).await;
    let peeked =
        read(store, |tx| accounts::peek(tx, CredentialKind::SignUpCode, &key("invitation"), NOW)).await;
    assert_eq!((peeked, redeem().await), (None, None));
    write(store, move |tx| access::enable_account(tx, anna, NOW)).await;
    assert!(redeem().await.is_some() && redeem().await.is_none());
}

async fn a_webhook_secret_is_counted_on(fixture: Fixture) {
    let store = &fixture.store;
    let hook = webhook(store, "hook").await;
    assert_eq!((hook.webhook_rotations, hook.webhook_rotated_at), (0, None));
    let id = hook.id;
    for n in 1..3 {
        assert_eq!(write(store, move |tx| directory::rotate_webhook_secret(tx, id, NOW + n)).await, n);
        let now = found(store, id).await;
        assert_eq!((now.webhook_rotations, now.webhook_rotated_at), (n, Some(NOW + n)));
    }
    assert_eq!(announced(store, id).await, 0, "nobody was let in by it");
}

async fn a_detached_agent_is_reached_by_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, hook) = (agent(store, "anna").await, webhook(store, "hook").await);
    let id = hook.id;
    let set = move |tx: &mut dyn Tx| {
        directory::set_connection(tx, id, Some(b"sealed"), NOW)?;
        directory::set_broken(tx, id, Some(("gone", NOW)))?;
        directory::set_foreign_secret(tx, id, &key("foreign"), NOW)?;
        directory::rotate_webhook_secret(tx, id, NOW)
    };
    write(store, set).await;
    let (before, told) = (found(store, id).await, announced(store, id).await);
    write(store, move |tx| directory::detach(tx, id, NOW + 1)).await;
    let now = found(store, id).await;
    assert_eq!((now.endpoint, now.connection, now.broken), (None, None, None));
    assert_eq!((now.webhook_rotations, now.webhook_rotated_at), (2, None), "no former secret goes on");
    assert!(now.epoch > before.epoch && announced(store, id).await > told);
    assert_eq!(read(store, |tx| directory::by_foreign_secret(tx, &key("foreign"))).await, None);
    assert_eq!(deliver(store, message(&anna, &hook)).await.1, DeliveryState::Queued);
}

async fn tokens_are_revoked_together(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, eve) = (account(store, "anna@x").await, account(store, "eve@x").await);
    let all = [
        credential(CredentialKind::Token, anna, "one"),
        credential(CredentialKind::Token, anna, "two"),
        credential(CredentialKind::Session, anna, "session"),
        credential(CredentialKind::Token, eve, "other"),
    ];
    write(store, move |tx| all.iter().try_for_each(|new| accounts::issue(tx, new))).await;
    let is_good = async |kind, secret: &'static str| {
        read(store, move |tx| accounts::by_credential(tx, kind, &key(secret), NOW)).await.is_some()
    };
    assert_eq!(write(store, move |tx| accounts::revoke_tokens(tx, anna, Some(&key("two")))).await, 1);
    for (kind, secret, good) in [
        (CredentialKind::Token, "one", false),
        (CredentialKind::Token, "two", true),
        (CredentialKind::Session, "session", true),
        (CredentialKind::Token, "other", true),
    ] {
        assert_eq!(is_good(kind, secret).await, good, "{secret}");
    }
    assert_eq!(write(store, move |tx| accounts::revoke_tokens(tx, anna, None)).await, 1);
    assert!(!is_good(CredentialKind::Token, "two").await);
    assert_eq!((announced(store, anna).await, announced(store, eve).await), (2, 0));
}

async fn what_a_released_agent_has_counts_for_nobody(fixture: Fixture) {
    let store = &fixture.store;
    let (eve, bob) = (account(store, "eve@x").await, agent(store, "bob").await.id);
    write(store, move |tx| usage::add(tx, bob.into(), 100)).await;
    let give = async |owner| write(store, move |tx| directory::set_owner(tx, bob, owner, None)).await;
    let of = async |who: Principal| read(store, move |tx| usage::of(tx, who)).await;
    for _ in 0..2 {
        give(Some(eve)).await;
        assert_eq!(of(bob.into()).await, Stored { bytes: 100, owner: Some((eve, 100)) }, "once");
    }
    give(None).await;
    assert_eq!(of(bob.into()).await, Stored { bytes: 100, owner: None });
    assert_eq!((of(eve.into()).await.bytes, read(store, usage::total).await), (0, 100));
}
