//! Searches, one after the other: they are the dearest reads there are, and must never hold up the others.
//!
//! On a node one search runs at a time, so that other reads always find a reader free; and a caller has one at a time, so
//! that those who wait are as many as there are callers, and nobody waits for one of them again and again.

use crate::error::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::Principal;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a search waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who searches now, or waits for it.
pub struct Searches {
    turn: Arc<Semaphore>,
    callers: Mutex<HashSet<Principal>>,
}

impl Default for Searches {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), callers: Mutex::default() }
    }
}

/// The right to search now; it ends when it is dropped. It goes with the work, which goes on when its caller hangs up.
pub struct Searching {
    turn: Option<OwnedSemaphorePermit>,
    searches: Arc<Searches>,
    who: Principal,
}

impl Drop for Searching {
    fn drop(&mut self) {
        drop(self.turn.take());
        self.searches.callers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.who);
    }
}

impl Searches {
    /// Waits for the caller's turn.
    pub async fn begin(self: &Arc<Self>, who: Principal) -> Result<Searching, Error> {
        if !self.callers.lock().unwrap_or_else(PoisonError::into_inner).insert(who) {
            let what = "one search at a time: wait for the one that is under way";
            return Err(Error::new(Code::RateLimited, what).retry_after_ms(1000));
        }
        let mut searching = Searching { turn: None, searches: Arc::clone(self), who };
        let Ok(Ok(turn)) = tokio::time::timeout(PATIENCE, Arc::clone(&self.turn).acquire_owned()).await
        else {
            let what = "too many search at the same time; try again in a moment";
            return Err(Error::new(Code::Overloaded, what).retry_after_ms(1000));
        };
        searching.turn = Some(turn);
        Ok(searching)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;
    use uuid::Uuid;

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_one_of_each_caller() {
        let [ann, bob] = [1, 2].map(|n| Principal::from(AgentId(Uuid::from_u128(n))));
        let searches = Arc::new(Searches::default());
        let first = searches.begin(ann).await.unwrap();
        assert_eq!(searches.begin(ann).await.err().unwrap().code, Code::RateLimited);
        assert_eq!(searches.begin(bob).await.err().unwrap().code, Code::Overloaded, "after a while");
        drop(first);
        drop(searches.begin(bob).await.unwrap());
        searches.begin(ann).await.unwrap();
    }
}
