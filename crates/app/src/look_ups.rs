//! Secrets that the hub does not know yet: how many are looked up at a time.
//!
//! A right key cannot be told from a wrong one before it was looked up, so wrong ones must not use up what a right one
//! needs. Each source has a few look-ups under way and all together have some; whoever comes after waits for its turn,
//! first among those of its source and then among the sources. Nobody is refused for what others showed. How many wait is
//! bounded by the number of connections, how long by [`PATIENCE`].

use crate::error::Error;
use crate::rate::Source;
use chorus_protocol::code::Code;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// At a time of one source.
const OF_ONE: usize = 4;
/// At a time in all.
const OF_ALL: usize = 16;
/// How long anybody waits for a turn.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct LookUps {
    all: Semaphore,
    /// Those that look up or wait, and nobody else.
    by_source: Mutex<HashMap<Source, Arc<Semaphore>>>,
}

impl Default for LookUps {
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

impl LookUps {
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
    all: &'a LookUps,
    source: Source,
    turns: Arc<Semaphore>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut by_source = self.all.by_source();
        // The table's and this one: nobody else of this source is here.
        if Arc::strong_count(&self.turns) <= 2 {
            by_source.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::rate_key;
    use futures_util::FutureExt;

    fn source(last: u8) -> Source {
        rate_key([192, 0, 2, last].into())
    }

    #[tokio::test]
    async fn a_source_that_is_busy_holds_up_no_other() {
        let look_ups = LookUps::default();
        let mut held = vec![];
        for _ in 0..OF_ONE {
            held.push(look_ups.turn(source(1)).await.unwrap());
        }
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(look_ups.turn(source(1)))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let other = look_ups.turn(source(2)).now_or_never().expect("it waits for nobody").unwrap();
        held.pop();
        let first = waiting.remove(0).now_or_never().expect("it is its turn").unwrap();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        drop((held, waiting, first, other));
        assert!(look_ups.by_source().is_empty(), "nobody is remembered");
    }
}
