//! Bounds the memory that request bodies and WebSocket messages take together: by source and in all.
//!
//! A [`BodyLease`] is made for every request before its body is read. Bytes are taken before memory for them is, and they are
//! returned when the request is done. The first [`SMALL_BODY`] bytes of each body are not counted: connections are limited in
//! number, and each has a buffer of that size anyway. So large bodies of one source never keep small requests from being read.

use crate::config::Config;
use crate::error::Error;
use crate::limits::shares::{Share, Shares, Shortage};
use crate::source::Source;
use chorus_protocol::code::Code;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

/// The size up to which a body is not counted, in bytes.
pub const SMALL_BODY: usize = 16 * 1024;

/// The bytes that all bodies may take at a time.
pub struct BodyBudget(Arc<Shares<Source>>);

impl BodyBudget {
    pub fn new(config: &Config) -> Self {
        let quotas = &config.quotas;
        Self(match config.rate_limit {
            Some(_) => Shares::new(quotas.body_bytes_hub, quotas.body_bytes),
            None => Shares::undivided(quotas.body_bytes_hub),
        })
    }

    /// A lease of no bytes yet, for a request from this source.
    pub fn lease(&self, source: Source) -> BodyLease {
        BodyLease(Arc::new(Mutex::new(self.0.share(source))))
    }
}

/// The bytes that one body takes, until its last clone is dropped.
#[derive(Clone)]
pub struct BodyLease(Arc<Mutex<Share<Source>>>);

impl BodyLease {
    /// Sets the number of bytes that the body takes. More may be refused, less never.
    pub fn resize(&self, bytes: usize) -> Result<(), Error> {
        let counted = bytes.saturating_sub(SMALL_BODY) as u64;
        let mut share = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        share.resize(counted).map_err(|shortage| {
            let (code, quota, why) = match shortage {
                Shortage::OfOne => (
                    Code::RateLimited,
                    "body_bytes",
                    "Your address sends too many large bodies at once. Wait until some are done.",
                ),
                Shortage::OfAll => (
                    Code::Overloaded,
                    "body_bytes_hub",
                    "The hub receives too many large bodies at once. Try again in a moment.",
                ),
            };
            Error::new(code, why).details(json!({"quota": quota})).retry_after_ms(1000)
        })
    }

    /// Another lease of the same source, of no bytes yet.
    pub fn another(&self) -> Self {
        let share = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self(Arc::new(Mutex::new(share.pool().share(share.holder()))))
    }
}
