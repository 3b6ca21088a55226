//! Doing something once, however often it is asked for under one key: the first result is given again.
//!
//! A failure is not remembered, so that the same can be tried again. Results are kept sealed: one may hold a key that is shown
//! this once, and the database must not tell it.

use crate::app::App;
use crate::error::Error;
use crate::secrets::MasterKey;
use chorus_protocol::code::Code;
use chorus_store::Tx;
use chorus_store::idempotency::{self, Answer, Key, Known};
use data_encoding::BASE64;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;

/// How long a key is remembered.
pub(crate) const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// Whose sealed results are: nobody's but this table's.
const SEALED_FOR: &[u8] = b"answer";

/// The key of a request that may come again, if it has one.
#[derive(Debug, Clone, Default)]
pub struct Once(Option<Key>);

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
            Key::new(door, &parts, words, Some(app.now() + KEY_LIFE_MS))
        }))
    }
}

/// What an act led to.
#[derive(Debug, Clone)]
pub struct Done<T> {
    /// Its result.
    pub result: T,
    /// Whether it was done before, and this is the result of then.
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
        let (now, master, nonce) = (self.now(), self.config.master_key.clone(), self.environment.bytes());
        let act = move |tx: &mut dyn Tx| {
            let Some(key) = &once.0 else { return work(tx).map(|result| Done { result, again: false }) };
            may(tx)?;
            match idempotency::reserve(tx, key, now, now)? {
                Known::New => {}
                Known::Answered(first) => {
                    return open(&master, &first.body).map(|result| Done { result, again: true });
                }
                Known::InProgress | Known::Conflict => {
                    return Err(Error::new(
                        Code::IdempotencyConflict,
                        "this idempotency key was used for something else; use a new one for new content",
                    ));
                }
            }
            let result = work(tx)?;
            idempotency::answer(tx, key, now, &Answer::new(200, seal(&master, nonce, &result)?))?;
            Ok(Done { result, again: false })
        };
        self.store.write(act).await
    }
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
