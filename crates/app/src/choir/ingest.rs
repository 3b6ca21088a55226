//! Incoming evidence: what an owner asserts, and the public ingest address of a Score with the checks before a bundle counts as
//! signed.
//!
//! The order is: rate, address, syntax, headers, time, secret and signature, and only then the content of the
//! bundle. An unknown secret and a wrong signature cannot be told apart, neither by the error nor by the time
//! it takes. Unsigned bundles count against their source, so that a stranger cannot use up the quota of the
//! holders of a Score's secrets.

use super::answers::{self, ArrivingAnswers};
use super::evidence::{self, Arriving};
use super::{count_unowned, declared, is_unowned_by, may_have, score_id};
use chorus_choir::signing::{self, WINDOW_S};
pub use chorus_choir::signing::{PREFIX_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use chorus_node::Error;
use chorus_node::caller::{Caller, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_node::limits::rate::Limiter;
use chorus_node::source::Source;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{App, AppState};
use chorus_protocol::api::scores::EvidenceView;
use chorus_protocol::canonical;
use chorus_protocol::choir::answers::AnswersRecord;
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::code::Code;
use chorus_protocol::ids::ScoreId;
use chorus_store::choir::{self, ScoreRow, SecretRow};
use chorus_store::{Tx, accounts};
use serde_json::Value;
use std::hash::Hash;
use uuid::Uuid;

/// Stores a bundle, or a record of answers, that the owner of a Score asserts.
pub async fn assert(
    app: &AppState,
    caller: Caller,
    source: Source,
    id: &str,
    sent: Value,
    once: Once,
) -> Result<Done<EvidenceView>, Error> {
    may_have(&caller)?;
    if is_unowned_by(&caller) {
        count_unowned(app, true, source, sent.to_string().len())?;
    }
    if !AnswersRecord::is_claimed_by(&sent) {
        return evidence::assert(app, caller, id, sent, once).await;
    }
    answers::assert(app, caller, score_id(id)?, sent, once).await
}

/// The signature headers of a submission.
#[derive(Debug, Clone, Default)]
pub struct Signed {
    /// 64 hex digits, optionally after `sha256=`.
    pub signature: Option<String>,
    /// Seconds since 1970.
    pub timestamp: Option<String>,
    /// The public prefix of the secret.
    pub prefix: Option<String>,
}

/// A signed body.
enum Submission {
    Bundle(Box<Arriving>),
    Answers(ArrivingAnswers),
}

/// Checks a signed bundle, or a signed record of answers, and stores it.
pub async fn submit(
    app: &AppState,
    ingest: String,
    source: Source,
    signed: Signed,
    bytes: &[u8],
) -> Result<EvidenceView, Error> {
    count(app, app.limits.ingest_rate.as_ref(), (key_hash(&ingest), source))?;
    let find = move |tx: &mut dyn Tx| {
        let score = choir::by_ingest(tx, &ingest)?.ok_or_else(|| Error::not_found("ingest address"))?;
        let secrets = valid_secrets(tx, &score)?;
        Ok((score.id, secrets))
    };
    let (score, secrets) = app.store.read::<_, Error, _>(find).await?;
    let value =
        block_in_place_if_large(bytes.len(), || canonical::parse(bytes)).map_err(Error::validation)?;
    let secret = check(app, score, secrets, &signed, &canonical::text(&value), bytes)?;
    count(app, app.limits.signed_rate.as_ref(), score)?;
    let find = move |tx: &mut dyn Tx| {
        let row = choir::find(tx, score)?.ok_or_else(|| Error::not_found("ingest address"))?;
        Ok((row.owner.is_none(), declared(tx, &row)?))
    };
    let (is_unowned, known) = app.store.read::<_, Error, _>(find).await?;
    count_unowned(app, is_unowned, source, bytes.len())?;
    let arriving = if AnswersRecord::is_claimed_by(&value) {
        let by = (VerificationStatus::SignatureValid, Some(secret));
        Submission::Answers(ArrivingAnswers::read(app, by, value)?)
    } else {
        let mut arriving =
            Arriving::read(app, VerificationStatus::SignatureValid, value)?.signed_with(secret);
        arriving.compare(&known);
        Submission::Bundle(Box::new(arriving))
    };
    let work = move |tx: &mut dyn Tx| {
        let score = choir::find_to_change(tx, score)?.ok_or_else(|| Error::not_found("ingest address"))?;
        // The secret may have been revoked since it was looked up.
        if !valid_secrets(tx, &score)?.iter().any(|row| row.id == secret) {
            return Err(not_signed());
        }
        if score.archived_at.is_some() {
            return Err(Error::new(Code::Conflict, "this Score is archived: it takes no more evidence"));
        }
        match &arriving {
            Submission::Answers(answers) => answers.keep(tx, &score, &known),
            Submission::Bundle(bundle) => bundle.keep(tx, &score),
        }
    };
    app.store.write::<_, Error, _>(work).await
}

/// Returns the valid signing secrets of a Score. There are none if its owner is disabled or deleted.
fn valid_secrets(tx: &mut dyn Tx, score: &ScoreRow) -> Result<Vec<SecretRow>, Error> {
    if let Some(owner) = score.owner
        && accounts::by_id(tx, owner)?.is_none_or(|account| account.disabled_at.is_some())
    {
        return Ok(vec![]);
    }
    Ok(choir::secrets(tx, score.id)?)
}

/// Counts a bundle against the rate limit of `whose`.
fn count<K: Eq + Hash>(app: &App, limiter: Option<&Limiter<K>>, whose: K) -> Result<(), Error> {
    let Some(limiter) = limiter else { return Ok(()) };
    limiter.take(whose, app.elapsed()).map_err(|wait_ms| {
        app.telemetry.metrics.rate_limited.inc();
        let what = "too many bundles for this address; wait as long as Retry-After says";
        Error::new(Code::RateLimited, what).retry_after_ms(wait_ms)
    })
}

/// Returns the error for an unknown secret and for a wrong signature alike.
fn not_signed() -> Error {
    Error::unauthorized("the signature is not valid for this bundle, timestamp and secret")
}

/// Returns the id of the secret that signed the bundle. Fails if none did.
fn check(
    app: &AppState,
    score: ScoreId,
    secrets: Vec<SecretRow>,
    signed: &Signed,
    text: &str,
    raw: &[u8],
) -> Result<Uuid, Error> {
    let shown = |value: &Option<String>, name: &str| {
        let missing = || Error::new(Code::Unauthorized, format_args!("the header {name} is missing"));
        value.clone().ok_or_else(missing)
    };
    let signature = shown(&signed.signature, SIGNATURE_HEADER)?;
    let timestamp = shown(&signed.timestamp, TIMESTAMP_HEADER)?;
    let prefix = shown(&signed.prefix, PREFIX_HEADER)?;
    let decimal = timestamp.len() <= 15 && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = timestamp.parse::<i64>().ok().filter(|_| decimal);
    let stale = || {
        let what = format!(
            "{TIMESTAMP_HEADER} must be seconds since 1970, at most {WINDOW_S} s from now; is the clock right?"
        );
        Error::unauthorized(&what)
    };
    if (seconds.ok_or_else(stale)? - app.now() / 1000).abs() > WINDOW_S {
        return Err(stale());
    }
    let known = secrets.into_iter().find(|row| row.prefix == prefix);
    // An unknown prefix costs the same time as a known one.
    let id = known.as_ref().map_or(Uuid::nil(), |row| row.id);
    let (mut good, mut signed_raw) = (false, false);
    for secret in app.config.master_key.signing_secrets(score, id) {
        good |= signing::is_signed(&secret, &timestamp, text.as_bytes(), &signature);
        signed_raw |= signing::is_signed(&secret, &timestamp, raw, &signature);
    }
    match known {
        Some(row) if good => Ok(row.id),
        // Only a holder of the secret can get this hint.
        Some(_) if signed_raw => {
            let hint = "the raw body was signed; sign the canonical form (RFC 8785) of it";
            Err(not_signed().details(serde_json::json!({"hint": hint})))
        }
        _ => Err(not_signed()),
    }
}
