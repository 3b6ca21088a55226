//! Expensive work, one piece after the other: searches, which must never hold up other reads, and conversions of traces, which would
//! take all processors there are.
//!
//! On a node one of a kind runs at a time; and a caller has one at a time, so that those who wait are as many as there are
//! callers, and nobody waits for one of them again and again.

use crate::error::Error;
use chorus_protocol::code::Code;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// How long anybody waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who does one kind of work now, or waits for it.
pub struct ExclusiveWork {
    /// One piece of the work, for whoever is told to wait.
    what: &'static str,
    turn: Arc<Semaphore>,
    callers: Mutex<HashSet<Uuid>>,
}

/// The right to work now; it ends when it is dropped. It goes with the work, which goes on when its caller hangs up.
pub struct Permit {
    held: Option<OwnedSemaphorePermit>,
    work: Arc<ExclusiveWork>,
    who: Uuid,
}

impl Drop for Permit {
    fn drop(&mut self) {
        drop(self.held.take());
        self.work.callers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.who);
    }
}

impl ExclusiveWork {
    /// For work of which one piece is called so.
    pub fn of(what: &'static str) -> Arc<Self> {
        Arc::new(Self { what, turn: Arc::new(Semaphore::new(1)), callers: Mutex::default() })
    }

    /// Waits for the caller's turn.
    pub async fn begin(self: &Arc<Self>, who: Uuid) -> Result<Permit, Error> {
        let what = self.what;
        if !self.callers.lock().unwrap_or_else(PoisonError::into_inner).insert(who) {
            let what = format_args!("one {what} at a time: wait for the one that is under way");
            return Err(Error::new(Code::RateLimited, what).retry_after_ms(1000));
        }
        let mut permit = Permit { held: None, work: Arc::clone(self), who };
        let Ok(Ok(held)) = tokio::time::timeout(PATIENCE, Arc::clone(&self.turn).acquire_owned()).await
        else {
            let what = format_args!("too many others wait for a {what} already; try again in a moment");
            return Err(Error::new(Code::Overloaded, what).retry_after_ms(1000));
        };
        permit.held = Some(held);
        Ok(permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_one_of_each_caller() {
        let [ann, bob] = [1, 2].map(Uuid::from_u128);
        let searches = ExclusiveWork::of("search");
        let first = searches.begin(ann).await.unwrap();
        let told = searches.begin(ann).await.err().unwrap();
        assert_eq!((told.code, told.retry_after_ms), (Code::RateLimited, Some(1000)));
        assert_eq!(told.message, "one search at a time: wait for the one that is under way");
        let told = searches.begin(bob).await.err().unwrap();
        assert_eq!((told.code, told.retry_after_ms), (Code::Overloaded, Some(1000)), "after a while");
        drop(first);
        drop(searches.begin(bob).await.unwrap());
        searches.begin(ann).await.unwrap();
    }
}
