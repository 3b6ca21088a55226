//! Receipts: issuing them, and what anybody may read, verify and compare.

use super::{Change, count, declared, log, own, own_to_change, own_to_change_later, record, score_id};
use crate::app::{App, AppState};
use crate::audit::RequestContext;
use crate::caller::Caller;
use crate::error::Error;
use crate::long_work;
use crate::once::{Done, Once};
use crate::page::page;
use chorus_choir::compare::{Comparison, compare};
use chorus_choir::evidence::MAX_BUNDLES;
use chorus_choir::verify::leaf;
use chorus_choir::{Evidence, Taken, attest, receipt, rehearse};
use chorus_protocol::api::scores::{
    CompareBody, ComparisonLink, IssuedReceipt, ReceiptBody, ReceiptLine, Verification,
};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{Payload, Receipt, VerificationStatus};
use chorus_protocol::choir::score::Score;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, EvidenceId, TraceId};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::audit::Action;
use chorus_store::choir::{self, ReceiptRow, ScoreRow};
use serde_json::{Value, json};
use std::sync::Arc;

/// Which evidence a receipt takes.
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

/// The evidence of one class that a receipt takes: its class, and hashes with bodies.
type Found = Option<(VerificationStatus, Vec<(String, String)>)>;

fn gather(tx: &mut dyn Tx, score: &ScoreRow, wanted: &Wanted) -> Result<Found, Error> {
    match wanted {
        Wanted::None => Ok(None),
        Wanted::Latest => {
            // The strongest class there is.
            for status in VerificationStatus::ALL.iter().rev() {
                let limit = MAX_BUNDLES as i64 + 1;
                let bodies = choir::bodies_of_version(tx, score.id, score.version, *status, limit)?;
                if !bodies.is_empty() {
                    return Ok(Some((*status, bodies)));
                }
            }
            Ok(None)
        }
        Wanted::These(ids) => {
            let mut found: Found = None;
            for id in ids {
                let (row, body) = choir::evidence_body(tx, score.id, *id)?
                    .ok_or_else(|| Error::not_found("evidence of this Score"))?;
                let (class, bodies) = found.get_or_insert((row.status, vec![]));
                if *class != row.status {
                    return Err(
                        Faults::one("evidence", "must be of one class: a receipt does not mix them").into()
                    );
                }
                bodies.push((row.bundle_sha256, body));
            }
            Ok(found)
        }
    }
}

fn work_out(score: &Score, found: Found) -> Result<(Payload, Receipt), Error> {
    let evidence = found.map(|(status, bodies)| {
        // The hash is of what was received; credentials in it are not kept.
        let read = |(sha256, body): (String, String)| -> Result<Taken, Error> {
            let kept = Taken::read(serde_json::from_str(&body).map_err(Error::internal)?)?;
            Ok(Taken { sha256, ..kept })
        };
        let bundles = bodies.into_iter().map(read).collect::<Result<_, Error>>()?;
        Ok::<_, Error>(Evidence { status, bundles, hub: None })
    });
    let payload = rehearse(score, evidence.transpose()?.as_ref()).map_err(|error| {
        Error::new(Code::Conflict, format_args!("{error}; name the evidence to take by its ids"))
    })?;
    let receipt = receipt(&payload);
    Ok((payload, receipt))
}

/// Issues a receipt, in the transparency log from the same moment on.
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
    let size = found.iter().flat_map(|(_, bodies)| bodies).map(|(_, body)| body.len()).sum();
    // Long work is not done while others wait for the store.
    let (payload, mut issued) = long_work(size, || work_out(&score, found))?;
    let (slug, now) = (app.environment.random_hex(), app.now());
    (issued.receipt_id, issued.generated_at) = (Some(slug.clone()), Some(rfc3339(now)));
    let text = canonical::text(&issued.payload);
    let row = ReceiptRow {
        id: slug,
        score: id,
        generated_at: now,
        payload_hash: issued.payload_hash.clone(),
        payload: text,
        label: payload.label.as_str().into(),
        log_index: 0,
    };
    let leaf = leaf(&serde_json::to_value(&issued).map_err(Error::internal)?);
    let (hub, by, trace) = (Arc::clone(app), caller.clone(), TraceId(app.environment.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        let score = own_to_change(tx, &caller, id)?;
        let held = if score.owner.is_none() { choir::count_receipts(tx, id)? } else { 0 };
        count(&hub, tx, &score, row.payload.len(), held)?;
        // As late as possible: others that append wait from here on.
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

/// A Score's receipts, the newest first.
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

async fn find(app: &App, id: &str) -> Result<ReceiptRow, Error> {
    let id = id.to_owned();
    let find = move |tx: &mut dyn Tx| choir::receipt(tx, &id)?.ok_or_else(|| Error::not_found("receipt"));
    app.store.read::<_, Error, _>(find).await
}

fn bare(row: &ReceiptRow) -> Result<Receipt, Error> {
    Ok(Receipt {
        receipt_id: Some(row.id.clone()),
        generated_at: Some(rfc3339(row.generated_at)),
        payload_hash: row.payload_hash.clone(),
        payload: serde_json::from_str(&row.payload).map_err(Error::internal)?,
        log: None,
        attestation: None,
    })
}

/// A receipt with its place in the log and its attestation.
pub async fn show(app: &AppState, id: &str) -> Result<Receipt, Error> {
    let row = find(app, id).await?;
    let (mut receipt, key) = (bare(&row)?, log::signing_key(app).await?);
    receipt.log = Some(log::inclusion(app, row.log_index).await?);
    receipt.attestation = Some(attest::envelope(&attest::statement(&receipt), &key));
    Ok(receipt)
}

/// The hash of a receipt, recomputed, and the bytes to recompute it from.
pub async fn verify(app: &AppState, id: &str) -> Result<Verification, Error> {
    let row = find(app, id).await?;
    let payload: Value = serde_json::from_str(&row.payload).map_err(Error::internal)?;
    let canonical_payload = canonical::text(&payload);
    let recomputed_hash = canonical::sha256(canonical_payload.as_bytes());
    Ok(Verification {
        matches: recomputed_hash == row.payload_hash,
        log: log::inclusion(app, row.log_index).await?,
        receipt_id: row.id,
        generated_at: rfc3339(row.generated_at),
        payload_hash: row.payload_hash,
        recomputed_hash,
        canonical_payload,
        label: row.label,
    })
}

/// A receipt as a signed statement of in-toto.
pub async fn attestation(app: &AppState, id: &str, predicate: Option<&str>) -> Result<Value, Error> {
    let receipt = bare(&find(app, id).await?)?;
    let statement = match predicate {
        None | Some("receipt") => attest::statement(&receipt),
        Some("test_result") => attest::test_result(&receipt),
        Some(_) => return Err(Faults::one("predicate", "must be receipt or test_result").into()),
    };
    Ok(attest::envelope(&statement, &log::signing_key(app).await?))
}

/// Where a receipt stands in the log.
pub async fn inclusion(app: &AppState, id: &str) -> Result<Value, Error> {
    let row = find(app, id).await?;
    let mut proof = log::inclusion(app, row.log_index).await?;
    proof["leaf"] = json!(leaf(&serde_json::to_value(bare(&row)?).map_err(Error::internal)?));
    Ok(proof)
}

/// Makes a public link to two receipts of one's own, side by side.
pub async fn publish_comparison(
    app: &AppState,
    owner: AccountId,
    CompareBody { receipts }: CompareBody,
    once: Once,
) -> Result<Done<ComparisonLink>, Error> {
    let (slug, now, hub) = (app.environment.random_hex(), app.now(), Arc::clone(app));
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
        hub.count_bytes(tx, owner.into(), crate::usage::event_bytes(0))?;
        let (before, after) = (&receipts[0], &receipts[1]);
        choir::insert_comparison(tx, &slug, before, after, now)?;
        Ok(ComparisonLink { slug: slug.clone(), url: url.clone() })
    };
    app.once(once, |_| Ok(()), work).await
}

/// Two receipts side by side: their ids, and what changed.
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
