//! Receipts: issuing them, and reading, verifying and comparing them in public.

use super::answers::stored;
use super::{
    Change, MOST_EVIDENCE, check_unowned, count_unowned, declared, is_unowned_by, log, own, own_to_change,
    own_to_change_later, queue_id, record, score_id,
};
use chorus_choir::compare::{Comparison, compare};
use chorus_choir::evidence::MAX_BUNDLES;
pub use chorus_choir::evidence::trace_link;
use chorus_choir::rehearse::MAX_LEFT_OUT;
use chorus_choir::verify::leaf;
use chorus_choir::{Evidence, Taken, TakenAnswers, attest, receipt, rehearse};
use chorus_node::Error;
use chorus_node::audit::RequestContext;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::page::page;
use chorus_node::tasks::blocking::{LONG, block_in_place_if_large};
use chorus_node::{App, AppState};
use chorus_protocol::api::scores::{
    CompareBody, ComparisonLink, IssuedReceipt, ReceiptBody, ReceiptLine, Verification,
};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{
    LeftOut, LeftOutBundle, LeftOutReason, Payload, Receipt, VerificationStatus,
};
use chorus_protocol::choir::score::Score;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, EvidenceId, TraceId};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::audit::Action;
use chorus_store::choir::{self, EvidenceRow, ReceiptRow, ScoreRow};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// The evidence that a request selects for a receipt.
#[derive(Debug, Clone)]
enum Wanted {
    Latest,
    None,
    These(Vec<EvidenceId>),
}

impl Wanted {
    fn read(body: Option<ReceiptBody>) -> Result<Self, Error> {
        let fault = || {
            Faults::one(
                "evidence",
                format_args!("must be \"latest\", \"none\" or 1 to {MAX_BUNDLES} ids ev_…"),
            )
        };
        let ids = |items: &[Value]| {
            let ids = items.iter().map(|item| item.as_str().and_then(EvidenceId::parse));
            ids.collect::<Option<Vec<_>>>().filter(|ids| (1..=MAX_BUNDLES).contains(&ids.len()))
        };
        match body.and_then(|body| body.evidence) {
            None => Ok(Self::Latest),
            Some(Value::String(word)) if word == "latest" => Ok(Self::Latest),
            Some(Value::String(word)) if word == "none" => Ok(Self::None),
            Some(Value::Array(items)) => Ok(Self::These(ids(&items).ok_or_else(fault)?)),
            Some(_) => Err(fault().into()),
        }
    }
}

/// The evidence for a receipt.
struct Found {
    /// The one class of the bundles; `None` without evidence.
    status: Option<VerificationStatus>,
    /// The hash and body of each bundle.
    bundles: Vec<(String, String)>,
    answers: Vec<TakenAnswers>,
    superseded: Vec<String>,
    left_out: LeftOut,
}

/// The classes that `latest` takes, strongest first. Runs that the hub carried are issued one by one.
const LATEST: [VerificationStatus; 2] =
    [VerificationStatus::SignatureValid, VerificationStatus::UserAsserted];

fn gather(tx: &mut dyn Tx, score: &ScoreRow, wanted: &Wanted) -> Result<Found, Error> {
    let (status, bundles) = chosen(tx, score, wanted)?;
    let mut answers = vec![];
    for (sha256, _) in &bundles {
        let Some(status) = status else { continue };
        for row in choir::answers_of_bundle(tx, score.id, status, sha256)? {
            answers.push(stored(&row)?);
        }
    }
    let all = choir::all_of_version(tx, score.id, score.version, MOST_EVIDENCE)?;
    let is_taken = |row: &EvidenceRow| {
        Some(row.status) == status && bundles.iter().any(|(sha256, _)| *sha256 == row.bundle_sha256)
    };
    // A bundle may replace one that replaced another.
    let mut standing: HashSet<String> = bundles.iter().map(|(sha256, _)| sha256.clone()).collect();
    let mut superseded = vec![];
    loop {
        let is_next = |row: &&EvidenceRow| {
            row.superseded_by.as_ref().is_some_and(|by| standing.contains(by))
                && !standing.contains(&row.bundle_sha256)
        };
        let next: Vec<_> = all.iter().filter(is_next).map(|row| row.bundle_sha256.clone()).collect();
        if next.is_empty() {
            break;
        }
        standing.extend(next.iter().cloned());
        superseded.extend(next);
    }
    let why = |row: &EvidenceRow| match (&row.superseded_by, wanted) {
        (Some(_), _) => LeftOutReason::Superseded,
        (None, Wanted::Latest) if Some(row.status) < status => LeftOutReason::WeakerClass,
        _ => LeftOutReason::NotChosen,
    };
    let left: Vec<_> = all.iter().filter(|row| !is_taken(row)).collect();
    let named = left.iter().take(MAX_LEFT_OUT).map(|row| LeftOutBundle {
        bundle_sha256: row.bundle_sha256.clone(),
        verification_status: row.status,
        why: why(row),
    });
    let left_out = LeftOut { count: left.len(), bundles: named.collect(), rehearsals: 0 };
    Ok(Found { status, bundles, answers, superseded, left_out })
}

/// The class, and the hash and body of each bundle.
type Chosen = (Option<VerificationStatus>, Vec<(String, String)>);

/// Returns the bundles that a request selects.
fn chosen(tx: &mut dyn Tx, score: &ScoreRow, wanted: &Wanted) -> Result<Chosen, Error> {
    match wanted {
        Wanted::None => Ok((None, vec![])),
        Wanted::Latest => {
            for status in LATEST {
                let limit = MAX_BUNDLES as i64 + 1;
                let bodies = choir::bodies_of_version(tx, score.id, score.version, status, limit)?;
                if !bodies.is_empty() {
                    return Ok((Some(status), bodies));
                }
            }
            Ok((None, vec![]))
        }
        Wanted::These(ids) => {
            let (mut class, mut bodies) = (None, vec![]);
            for id in ids {
                let (row, body) = choir::evidence_body(tx, score.id, *id)?
                    .ok_or_else(|| Error::not_found("evidence of this Score"))?;
                if *class.get_or_insert(row.status) != row.status {
                    return Err(
                        Faults::one("evidence", "must be of one class: a receipt does not mix them").into()
                    );
                }
                if let Some(by) = row.superseded_by {
                    let what = format!("{id} is superseded by the bundle {by}; choose that one");
                    return Err(Faults::one("evidence", what).into());
                }
                bodies.push((row.bundle_sha256, body));
            }
            Ok((class, bodies))
        }
    }
}

fn work_out(score: &Score, found: Found) -> Result<(Payload, Receipt), Error> {
    let Found { status, bundles, answers, superseded, left_out } = found;
    // The hash is that of the received bundle; the stored body has credentials masked.
    let read = |(sha256, body): (String, String)| -> Result<Taken, Error> {
        let kept = Taken::read(serde_json::from_str(&body).map_err(Error::internal)?)?;
        Ok(Taken { sha256, ..kept })
    };
    let bundles = bundles.into_iter().map(read).collect::<Result<_, Error>>()?;
    let evidence = status.map(|status| Evidence { status, bundles, superseded, answers, hub: None });
    let payload = rehearse(score, evidence.as_ref()).map_err(|error| {
        Error::new(Code::Conflict, format_args!("{error}; name the evidence to take by its ids"))
    })?;
    let payload = Payload { left_out: Some(left_out), ..payload };
    let receipt = receipt(&payload);
    Ok((payload, receipt))
}

/// Issues a receipt and appends it to the transparency log in the same transaction.
pub async fn issue(
    app: &AppState,
    context: RequestContext,
    caller: Caller,
    id: &str,
    body: Option<ReceiptBody>,
    once: Once,
) -> Result<Done<IssuedReceipt>, Error> {
    super::may_have(&caller)?;
    let (id, wanted) = (score_id(id)?, Wanted::read(body)?);
    let by = caller.clone();
    let find = move |tx: &mut dyn Tx| {
        let row = own_to_change_later(tx, &by, id)?;
        let score = declared(tx, &row)?;
        Ok((score, gather(tx, &row, &wanted)?))
    };
    let (score, found) = app.store.read::<_, Error, _>(find).await?;
    let size = found.bundles.iter().map(|(_, body)| body.len()).sum();
    // Large receipts are issued one at a time, because each takes a processor and memory for a moment.
    let _turn = if size > LONG {
        Some(app.limits.receipts.begin(context.source(), queue_id(&caller)).await?)
    } else {
        None
    };
    // The computation runs outside the transaction, because it can take long.
    let (payload, mut issued) = block_in_place_if_large(size, || work_out(&score, found))?;
    let (slug, now) = (app.environment.random_hex(), app.now());
    (issued.receipt_id, issued.generated_at) = (Some(slug.clone()), Some(rfc3339(now)));
    let text = block_in_place_if_large(size, || canonical::text(&issued.payload));
    count_unowned(app, is_unowned_by(&caller), context.source(), text.len())?;
    // The hub signs once, when it issues. Later reads serve these envelopes.
    let key = log::signing_key(app).await?;
    let signed = |statement: &Value| canonical::text(&attest::envelope(statement, &key));
    let row = ReceiptRow {
        id: slug,
        score: id,
        generated_at: now,
        payload_hash: issued.payload_hash.clone(),
        payload: text,
        label: payload.label.as_str().into(),
        log_index: 0,
        attestation: Some(signed(&attest::statement(&issued))),
        test_result: attest::test_result(&issued).map(|statement| signed(&statement)),
    };
    let leaf = leaf(&serde_json::to_value(&issued).map_err(Error::internal)?);
    let (hub, by, trace) = (Arc::clone(app), caller.clone(), TraceId(app.environment.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        let score = own_to_change(tx, &caller, id)?;
        let held = if score.owner.is_none() { choir::count_receipts(tx, id)? } else { 0 };
        check_unowned(&score, held)?;
        // The append comes last, because it blocks other appends until the commit.
        let log_index = log::append(tx, &leaf)?;
        choir::insert_receipt(tx, &ReceiptRow { log_index, ..row.clone() }, trace)?;
        let detail = json!({"label": row.label, "log_index": log_index});
        let issued = Change { by: &caller, action: Action::ReceiptIssued, detail };
        record(tx, &hub, &context, &score, issued)?;
        Ok(row.id.clone())
    };
    let Done { result: slug, again } = app.once(once, move |tx| own(tx, &by, id).map(drop), work).await?;
    let receipt = show(app, &slug).await?;
    let verify_url = format!("{}/verify/{slug}", app.config.public_url);
    Ok(Done { result: IssuedReceipt { receipt, verify_url }, again })
}

/// Returns a page of a Score's receipts, the newest first.
pub async fn list(app: &App, caller: Caller, id: &str, asked: Page) -> Result<Items<ReceiptLine>, Error> {
    super::may_have(&caller)?;
    let before = asked.after.as_deref().map(str::parse::<i64>).transpose();
    let before = before.map_err(|_| Faults::one("after", "must be `next` of the page before"))?;
    let (id, limit) = (score_id(id)?, asked.limit);
    let find = move |tx: &mut dyn Tx| {
        own(tx, &caller, id)?;
        Ok(choir::receipts_page(tx, id, before.unwrap_or(i64::MAX), limit + 1)?)
    };
    let line = |row: ReceiptRow| {
        let payload: Payload = serde_json::from_str(&row.payload).map_err(Error::internal)?;
        Ok(ReceiptLine {
            receipt_id: row.id,
            generated_at: rfc3339(row.generated_at),
            label: row.label,
            score_version: payload.score.version,
            verdict: payload.verdict,
            log_index: row.log_index,
        })
    };
    let rows = app.store.read::<_, Error, _>(find).await?;
    let lines = rows.into_iter().map(line).collect::<Result<_, Error>>()?;
    Ok(page(app, lines, limit, |last: &ReceiptLine| last.log_index.to_string()))
}

/// A stored receipt, compared with the log.
struct StoredReceipt {
    row: ReceiptRow,
    payload: Value,
    /// The hash of the stored payload.
    recomputed_hash: String,
    /// The log's leaf at the receipt's index.
    leaf: Option<String>,
}

impl StoredReceipt {
    fn bare(&self) -> Receipt {
        Receipt {
            receipt_id: Some(self.row.id.clone()),
            generated_at: Some(rfc3339(self.row.generated_at)),
            payload_hash: self.row.payload_hash.clone(),
            payload: self.payload.clone(),
            log: None,
            attestation: None,
        }
    }

    /// Returns `true` if this is what was issued: the payload has its hash, and the log's leaf says the same.
    fn is_issued(&self) -> bool {
        let own = leaf(&json!(self.bare()));
        self.recomputed_hash == self.row.payload_hash
            && self.payload["label"] == *self.row.label
            && self.leaf.as_deref() == Some(&*own)
    }
}

async fn find(app: &App, id: &str) -> Result<StoredReceipt, Error> {
    let id = id.to_owned();
    let find = move |tx: &mut dyn Tx| {
        let row = choir::receipt(tx, &id)?.ok_or_else(|| Error::not_found("receipt"))?;
        let leaf = choir::log::leaf(tx, row.log_index)?;
        Ok((row, leaf))
    };
    let (row, leaf) = app.store.read::<_, Error, _>(find).await?;
    let (payload, recomputed_hash) = block_in_place_if_large(row.payload.len(), || {
        let payload: Value = serde_json::from_str(&row.payload).map_err(Error::internal)?;
        let hash = canonical::hash(&payload);
        Ok::<_, Error>((payload, hash))
    })?;
    Ok(StoredReceipt { row, payload, recomputed_hash, leaf })
}

/// Returns the signed statement of a receipt that is what was issued. One from before statements were kept is
/// signed now, and then never again.
async fn envelope(app: &AppState, found: &StoredReceipt) -> Result<Value, Error> {
    if let Some(kept) = &found.row.attestation {
        return serde_json::from_str(kept).map_err(Error::internal);
    }
    let key = log::signing_key(app).await?;
    let signed = canonical::text(&attest::envelope(&attest::statement(&found.bare()), &key));
    let id = found.row.id.clone();
    let keep = move |tx: &mut dyn Tx| {
        choir::keep_attestation(tx, &id, &signed)?;
        // Another reader may have signed first.
        choir::receipt(tx, &id)?.and_then(|row| row.attestation).ok_or_else(|| Error::not_found("receipt"))
    };
    let kept = app.store.write::<_, Error, _>(keep).await?;
    serde_json::from_str(&kept).map_err(Error::internal)
}

/// Returns a receipt with its inclusion proof and its attestation. A stored receipt that is not what was issued
/// gets no attestation.
pub async fn show(app: &AppState, id: &str) -> Result<Receipt, Error> {
    let found = find(app, id).await?;
    let mut receipt = found.bare();
    receipt.log = Some(log::inclusion(app, found.row.log_index).await?);
    if found.is_issued() {
        receipt.attestation = Some(envelope(app, &found).await?);
    }
    Ok(receipt)
}

/// Recomputes the hash of a receipt, compares it with the log, and returns it with the canonical bytes.
pub async fn verify(app: &AppState, id: &str) -> Result<Verification, Error> {
    let found = find(app, id).await?;
    Ok(Verification {
        matches: found.is_issued(),
        log: log::inclusion(app, found.row.log_index).await?,
        canonical_payload: canonical::text(&found.payload),
        receipt_id: found.row.id,
        generated_at: rfc3339(found.row.generated_at),
        payload_hash: found.row.payload_hash,
        recomputed_hash: found.recomputed_hash,
        label: found.row.label,
    })
}

/// Returns a receipt as a signed in-toto statement.
pub async fn attestation(app: &AppState, id: &str, predicate: Option<&str>) -> Result<Value, Error> {
    let found = find(app, id).await?;
    let test_result = match predicate {
        None | Some("receipt") => false,
        Some("test_result") => true,
        Some(_) => return Err(Faults::one("predicate", "must be receipt or test_result").into()),
    };
    if !found.is_issued() {
        let what = "the stored receipt is not what was issued, so there is no signature for it";
        return Err(Error::new(Code::Conflict, what));
    }
    if !test_result {
        return envelope(app, &found).await;
    }
    let kept = found.row.test_result.as_deref();
    let kept = kept.ok_or_else(|| {
        Error::not_found("test result of this receipt: nothing was tested, or it is an older one")
    })?;
    serde_json::from_str(kept).map_err(Error::internal)
}

/// Returns the inclusion proof of a receipt, with its leaf.
pub async fn inclusion(app: &AppState, id: &str) -> Result<Value, Error> {
    let found = find(app, id).await?;
    let mut proof = log::inclusion(app, found.row.log_index).await?;
    proof["leaf"] = json!(found.leaf);
    Ok(proof)
}

/// Makes a public link to the comparison of two receipts that the caller owns.
pub async fn publish_comparison(
    app: &AppState,
    owner: AccountId,
    CompareBody { receipts }: CompareBody,
    once: Once,
) -> Result<Done<ComparisonLink>, Error> {
    let (slug, now) = (app.environment.random_hex(), app.now());
    let url = format!("{}/compare/{slug}", app.config.public_url);
    let work = move |tx: &mut dyn Tx| {
        for id in &receipts {
            let row = choir::receipt(tx, id)?.ok_or_else(|| Error::not_found("receipt"))?;
            let score = choir::find(tx, row.score)?;
            if score.is_none_or(|score| score.owner != Some(owner)) {
                return Err(Error::new(
                    Code::Forbidden,
                    "a comparison is made by who owns the Scores of both receipts",
                ));
            }
        }
        let (before, after) = (&receipts[0], &receipts[1]);
        choir::insert_comparison(tx, &slug, before, after, now)?;
        Ok(ComparisonLink { slug: slug.clone(), url: url.clone() })
    };
    app.once(once, |_| Ok(()), work).await
}

/// Returns the ids of two compared receipts, and their differences.
pub async fn comparison(app: &AppState, slug: &str) -> Result<(String, String, Comparison), Error> {
    let slug = slug.to_owned();
    let find = move |tx: &mut dyn Tx| {
        let missing = || Error::not_found("comparison");
        let (before, after) = choir::comparison(tx, &slug)?.ok_or_else(missing)?;
        let both = (choir::receipt(tx, &before)?, choir::receipt(tx, &after)?);
        let (Some(before), Some(after)) = both else { return Err(missing()) };
        Ok((before, after))
    };
    let (before, after) = app.store.read::<_, Error, _>(find).await?;
    let payload = |row: &ReceiptRow| serde_json::from_str::<Payload>(&row.payload).map_err(Error::internal);
    let comparison = compare(&payload(&before)?, &payload(&after)?);
    Ok((before.id, after.id, comparison))
}
