//! Caches pages of the market until the next commit.
//!
//! So a page is never older than the last commit. Presence depends on time, so no page is kept for long. The
//! cache is bounded in number and by the size of a page, and is unused if other nodes may write.

use chorus_protocol::market::{Credits, Discovered, Reputation};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest time for which a page is cached.
const REMEMBERED_MS: i64 = 1000;
/// Cached pages. When there are more, the cache is cleared.
const MOST: usize = 500;
/// Bytes of the largest page that is cached, approximately.
const LARGEST: usize = 16 * 1024;

/// The key of a search: the skill, the least reputation, the highest cost, the words, and whether offline
/// agents count.
pub type Asked = (Option<String>, Reputation, Credits, Vec<String>, bool);

/// A page that was asked for: the search, how many, after which.
pub(super) type Page = (Asked, i64, Option<String>);

/// The commit and the time at which a page was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub changes: u64,
    pub at: i64,
}

/// Cached pages by their query.
pub struct Pages<K = Page>(Mutex<HashMap<K, (Moment, Arc<Discovered>)>>);

impl<K> Default for Pages<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Pages<K> {
    fn known(&self) -> MutexGuard<'_, HashMap<K, (Moment, Arc<Discovered>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, asked: &K, now: Moment) -> Option<Arc<Discovered>> {
        let known = self.known();
        let (found, page) = known.get(asked)?;
        let stands = found.changes == now.changes && now.at - found.at < REMEMBERED_MS;
        stands.then(|| Arc::clone(page))
    }

    /// Caches a page of about this many bytes whose read started at `begun`.
    pub fn remember(&self, asked: K, begun: Moment, page: &Arc<Discovered>, bytes: usize) {
        let mut known = self.known();
        if bytes > LARGEST {
            known.remove(&asked);
            return;
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(asked, (begun, Arc::clone(page)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_until_something_is_written_or_a_second_is_over() {
        let (pages, begun) = (Pages::<u32>::default(), Moment { changes: 7, at: 100 });
        let page = Arc::new(Discovered { agents: vec![], total: 1, next: None });
        pages.remember(1, begun, &page, 0);
        assert!(pages.find(&1, Moment { at: 1099, ..begun }).is_some_and(|found| found.total == 1));
        assert!(pages.find(&1, Moment { at: 1100, ..begun }).is_none());
        assert!(pages.find(&1, Moment { changes: 8, ..begun }).is_none());
        assert!(pages.find(&2, begun).is_none());
        pages.remember(1, begun, &page, LARGEST + 1);
        assert!(pages.find(&1, begun).is_none(), "what is large is not kept, nor what it replaces");
        for n in 0..2 * MOST as u32 {
            pages.remember(n, begun, &page, 0);
            assert!(pages.known().len() <= MOST);
        }
    }
}
