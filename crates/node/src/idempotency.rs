//! Doing something once, however often it is asked for under one key: the first result is given again.
//!
//! A failure is not remembered, so that the same can be tried again. Results are kept sealed: one may hold a key that is shown
//! this once, and the database must not tell it.

use crate::app::App;
use crate::caller::key_hash;
use crate::error::Error;
use crate::secrets::MasterKey;
use chorus_protocol::code::Code;
use chorus_store::directory::KeyHash;
use chorus_store::idempotency::{self, Answer, Key, Known};
use chorus_store::{StoreError, Tx};
use data_encoding::BASE64;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::sync::OnceLock;

/// The lifetime of an idempotency key.
pub const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// The purpose for which results are sealed. No other table can open them.
const SEALED_FOR: &[u8] = b"answer";

/// The key of a request that may come again, if it has one.
#[derive(Debug, Clone, Default)]
pub struct Once(Option<(Key, KeyHash)>);

impl Once {
    /// A request that has none.
    pub const NO_KEY: Self = Self(None);

    /// The key that a caller gave a request: `what` is asked for, in these words. The same key for other words is refused.
    pub fn new(
        app: &App,
        door: &'static str,
        by: &dyn Display,
        what: &str,
        key: Option<&str>,
        words: &[u8],
    ) -> Self {
        Self(key.map(|key| {
            let by = by.to_string();
            let parts = [by.as_bytes(), what.as_bytes(), key.as_bytes()];
            (Key::new(door, &parts, words, Some(app.now() + KEY_LIFE_MS)), key_hash(&by))
        }))
    }
}

/// The outcome of an act.
#[derive(Debug, Clone)]
pub struct Done<T> {
    pub result: T,
    /// True if the act was done by an earlier request and this is its stored result.
    pub again: bool,
}

impl App {
    /// Runs an act's transaction, once for the same key. `may` looks each time whether its caller still may know.
    pub async fn once<T, M, F>(&self, once: Once, may: M, work: F) -> Result<Done<T>, Error>
    where
        M: Fn(&mut dyn Tx) -> Result<(), Error> + Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T, Error> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let done = self.once_prepared(once, may, move |tx: &mut dyn Tx| work(tx).map(Some)).await?;
        done.ok_or_else(|| Error::internal("an act without a result"))
    }

    /// Like [`App::once`], for work that may find its preparation out of date: `None` is not remembered, and the caller prepares again.
    pub async fn once_prepared<T, M, F>(&self, once: Once, may: M, work: F) -> Result<Option<Done<T>>, Error>
    where
        M: Fn(&mut dyn Tx) -> Result<(), Error> + Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<Option<T>, Error> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let (now, master, nonce) = (self.now(), self.config.master_key.clone(), self.environment.bytes());
        // The transaction may run again, and is counted once.
        let (answers, elapsed, counted) = (self.limits.kept_answers.clone(), self.elapsed(), OnceLock::new());
        let act = move |tx: &mut dyn Tx| {
            let Some((key, caller)) = &once.0 else {
                return Ok(work(tx)?.map(|result| Done { result, again: false }));
            };
            may(tx)?;
            match idempotency::reserve(tx, key, now, now)? {
                Known::New => {}
                Known::Answered(first) => {
                    return open(&master, &first.body).map(|result| Some(Done { result, again: true }));
                }
                Known::InProgress | Known::Conflict => return Err(conflict()),
            }
            let Some(result) = work(tx)? else {
                idempotency::forget(tx, key, now)?;
                return Ok(None);
            };
            let sealed = seal(&master, nonce, &result)?;
            if let Some(answers) = &answers {
                let take =
                    || answers.take_several(*caller, sealed.len().try_into().unwrap_or(u32::MAX), elapsed);
                counted.get_or_init(take).map_err(too_many_answers)?;
            }
            idempotency::answer(tx, key, now, &Answer::new(200, sealed))?;
            Ok(Some(Done { result, again: false }))
        };
        self.store.write(act).await
    }

    /// Returns the result that was given under this key before, if there is one. An act whose preparation can fail looks here first: what was
    /// done once is told again, whatever has changed since.
    pub async fn replay<T>(&self, once: &Once) -> Result<Option<Done<T>>, Error>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let Some((key, _)) = once.0 else { return Ok(None) };
        let now = self.now();
        let find = move |tx: &mut dyn Tx| idempotency::find(tx, &key, now);
        match self.store.read::<_, StoreError, _>(find).await? {
            Known::New | Known::InProgress => Ok(None),
            Known::Answered(first) => {
                let result = open(&self.config.master_key, &first.body)?;
                Ok(Some(Done { result, again: true }))
            }
            Known::Conflict => Err(conflict()),
        }
    }
}

fn too_many_answers(wait_ms: i64) -> Error {
    let what = "too many answers are kept for your idempotency keys; send fewer keys, or wait \
                (CHORUS_QUOTA_ANSWER_BYTES)";
    Error::new(Code::RateLimited, what).retry_after_ms(wait_ms)
}

fn conflict() -> Error {
    let what = "this idempotency key was used for something else; use a new one for new content";
    Error::new(Code::IdempotencyConflict, what)
}

fn seal(master: &MasterKey, nonce: [u8; 12], result: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(result).map_err(Error::internal)?;
    let sealed = master.seal(nonce, SEALED_FOR, &text);
    sealed.map(|sealed| BASE64.encode(&sealed)).ok_or_else(|| Error::internal("a result could not be sealed"))
}

fn open<T: DeserializeOwned>(master: &MasterKey, body: &str) -> Result<T, Error> {
    let sealed = BASE64.decode(body.as_bytes()).map_err(Error::internal)?;
    let opened = master.open(SEALED_FOR, &sealed);
    let opened = opened.ok_or_else(|| Error::internal("a result was sealed with another master key"))?;
    serde_json::from_str(&opened).map_err(Error::internal)
}
