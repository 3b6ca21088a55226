//! Signed evidence: a Score's public address, and everything that is looked at before a bundle counts as signed.
//!
//! In this order: how often, whether there is such an address, syntax, headers, time, secret and signature, and only then
//! what the bundle says. Whether the secret is not known or the signature is wrong cannot be told apart, by words or by time.
//! What is not signed counts for where it comes from: no stranger uses up what the holders of a Score's secrets may send.

use super::declared;
use super::evidence::Arriving;
use crate::app::{App, AppState};
use crate::caller::key_hash;
use crate::error::Error;
use crate::rate::{Limiter, Source};
use chorus_choir::signing::{self, WINDOW_S};
pub use chorus_choir::signing::{PREFIX_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use chorus_protocol::api::scores::EvidenceView;
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::code::Code;
use chorus_protocol::ids::ScoreId;
use chorus_store::choir::{self, ScoreRow, SecretRow};
use chorus_store::{Tx, accounts};
use std::hash::Hash;
use std::sync::Arc;
use uuid::Uuid;

/// What a submission shows.
#[derive(Debug, Clone, Default)]
pub struct Signed {
    /// 64 hex digits, perhaps after `sha256=`.
    pub signature: Option<String>,
    /// Seconds since 1970.
    pub timestamp: Option<String>,
    /// The beginning of the secret.
    pub prefix: Option<String>,
}

/// Takes a signed bundle.
pub async fn submit(
    app: &AppState,
    ingest: String,
    source: Source,
    signed: Signed,
    bytes: &[u8],
) -> Result<EvidenceView, Error> {
    count(app, app.ingest_rate.as_ref(), (key_hash(&ingest), source))?;
    let find = move |tx: &mut dyn Tx| {
        let score = choir::by_ingest(tx, &ingest)?.ok_or_else(|| Error::not_found("ingest address"))?;
        let secrets = active_secrets(tx, &score)?;
        Ok((score.id, secrets))
    };
    let (score, secrets) = app.store.read::<_, Error, _>(find).await?;
    let value = crate::long_work(bytes.len(), || canonical::parse(bytes)).map_err(Error::validation)?;
    let secret = check(app, score, secrets, &signed, &canonical::text(&value), bytes)?;
    count(app, app.signed_rate.as_ref(), score)?;
    let mut arriving = Arriving::read(app, VerificationStatus::SignatureValid, value)?;
    let find = move |tx: &mut dyn Tx| {
        let row = choir::find(tx, score)?.ok_or_else(|| Error::not_found("ingest address"))?;
        declared(tx, &row)
    };
    arriving.compare(&app.store.read::<_, Error, _>(find).await?);
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let score = choir::find_to_change(tx, score)?.ok_or_else(|| Error::not_found("ingest address"))?;
        // It may have been revoked since it was looked up.
        if !active_secrets(tx, &score)?.iter().any(|row| row.id == secret) {
            return Err(not_signed());
        }
        if score.archived_at.is_some() {
            return Err(Error::new(Code::Conflict, "this Score is archived: it takes no more evidence"));
        }
        arriving.keep(&hub, tx, &score)
    };
    app.store.write::<_, Error, _>(work).await
}

/// The secrets that sign for a Score: none, while its owner is kept out or is no more.
fn active_secrets(tx: &mut dyn Tx, score: &ScoreRow) -> Result<Vec<SecretRow>, Error> {
    if let Some(owner) = score.owner
        && accounts::by_id(tx, owner)?.is_none_or(|account| account.disabled_at.is_some())
    {
        return Ok(vec![]);
    }
    Ok(choir::secrets(tx, score.id)?)
}

/// Counts a bundle for whoever answers for it.
fn count<K: Eq + Hash>(app: &App, limiter: Option<&Limiter<K>>, whose: K) -> Result<(), Error> {
    let Some(limiter) = limiter else { return Ok(()) };
    limiter.take(whose, app.elapsed()).map_err(|wait_ms| {
        app.metrics.rate_limited.inc();
        let what = "too many bundles for this address; wait as long as Retry-After says";
        Error::new(Code::RateLimited, what).retry_after_ms(wait_ms)
    })
}

/// The same words for an unknown secret and for a wrong signature.
fn not_signed() -> Error {
    Error::unauthorized("the signature is not valid for this bundle, timestamp and secret")
}

/// Which secret signed the bundle, or why none did.
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
    // Who shows an unknown one waits as long as who shows a known one.
    let id = known.as_ref().map_or(Uuid::nil(), |row| row.id);
    let (mut good, mut signed_raw) = (false, false);
    for secret in app.config.master_key.signing_secrets(score, id) {
        good |= signing::is_signed(&secret, &timestamp, text.as_bytes(), &signature);
        signed_raw |= signing::is_signed(&secret, &timestamp, raw, &signature);
    }
    match known {
        Some(row) if good => Ok(row.id),
        // Only who holds the secret comes here.
        Some(_) if signed_raw => {
            let hint = "the raw body was signed; sign the canonical form (RFC 8785) of it";
            Err(not_signed().details(serde_json::json!({"hint": hint})))
        }
        _ => Err(not_signed()),
    }
}
