//! Limits concurrent lookups of secrets that are not cached.
//!
//! A valid key cannot be told from an invalid one before the lookup, so invalid ones must not use up the
//! capacity. Each source has a few concurrent lookups, and all together have a total. Further requests wait,
//! first among those of their source and then among the sources. No source is refused because of another. The
//! number of waiting requests is bounded by the number of connections, and the wait by [`PATIENCE`].

use crate::error::Error;
use crate::source::Source;
use chorus_protocol::code::Code;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// At a time of one source.
const OF_ONE: usize = 4;
/// At a time in all.
const OF_ALL: usize = 16;
/// The longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct CredentialLookups {
    all: Semaphore,
    /// The sources with a running or waiting lookup.
    by_source: Mutex<HashMap<Source, Arc<Semaphore>>>,
}

impl Default for CredentialLookups {
    fn default() -> Self {
        Self { all: Semaphore::new(OF_ALL), by_source: Mutex::default() }
    }
}

/// The right to look something up, until it is dropped.
pub struct Permit<'a> {
    _all: SemaphorePermit<'a>,
    _own: OwnedSemaphorePermit,
    // Last, because it looks whether it was the last.
    _place: Place<'a>,
}

impl CredentialLookups {
    /// Waits for a turn.
    pub async fn turn(&self, source: Source) -> Result<Permit<'_>, Error> {
        let turns = {
            let mut by_source = self.by_source();
            let turns = by_source.entry(source).or_insert_with(|| Arc::new(Semaphore::new(OF_ONE)));
            Arc::clone(turns)
        };
        let place = Place { all: self, source, turns };
        let wait = async {
            let own = Arc::clone(&place.turns).acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>((own, self.all.acquire().await?))
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(Ok((own, all))) => Ok(Permit { _all: all, _own: own, _place: place }),
            _ => Err(Error::new(
                Code::Overloaded,
                "too many keys are being looked up, this one was not; try again in a moment",
            )
            .retry_after_ms(1000)),
        }
    }

    fn by_source(&self) -> MutexGuard<'_, HashMap<Source, Arc<Semaphore>>> {
        self.by_source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those of a source.
struct Place<'a> {
    all: &'a CredentialLookups,
    source: Source,
    turns: Arc<Semaphore>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut by_source = self.all.by_source();
        // Only the table and this guard hold it: the source has no other lookups.
        if Arc::strong_count(&self.turns) <= 2 {
            by_source.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rate_key;
    use futures_util::FutureExt;

    fn source(last: u8) -> Source {
        rate_key([192, 0, 2, last].into())
    }

    #[tokio::test]
    async fn a_source_that_is_busy_holds_up_no_other() {
        let lookups = CredentialLookups::default();
        let mut held = vec![];
        for _ in 0..OF_ONE {
            held.push(lookups.turn(source(1)).await.unwrap());
        }
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(lookups.turn(source(1)))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let other = lookups.turn(source(2)).now_or_never().expect("it waits for nobody").unwrap();
        held.pop();
        let first = waiting.remove(0).now_or_never().expect("it is its turn").unwrap();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        drop((held, waiting, first, other));
        assert!(lookups.by_source().is_empty(), "nobody is remembered");
    }
}
