//! Requests that agents answer when their job is done, which may take until the job's deadline.
//!
//! Such a request is little more than an idle connection, but descriptors are few, and anybody may register slow agents. So these
//! requests are counted apart from all others, and when there are too many, the address that holds the most gives up its oldest. One
//! server cannot keep the others from theirs, however many names it has.

use crate::source::Source;
use chorus_protocol::ids::DeliveryId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The most long requests of this node at a time.
pub const MOST_LONG: usize = 128;

#[derive(Debug)]
struct OpenRequest {
    delivery: DeliveryId,
    /// The addresses that its host has.
    sources: Vec<Source>,
    displaced: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By age, the oldest first.
    open: BTreeMap<u64, OpenRequest>,
}

impl State {
    /// Returns the oldest request to the address that has the most.
    fn most_dispensable(&self) -> Option<u64> {
        let mut counts: HashMap<Source, usize> = HashMap::new();
        for source in self.open.values().flat_map(|request| &request.sources) {
            *counts.entry(*source).or_default() += 1;
        }
        let weight = |request: &OpenRequest| {
            let held = request.sources.iter().map(|source| counts.get(source).copied().unwrap_or_default());
            held.max().unwrap_or_default()
        };
        let most = self.open.values().map(weight).max()?;
        self.open.iter().find(|(_, request)| weight(request) == most).map(|(id, _)| *id)
    }
}

/// The open long requests. See the [module](self).
#[derive(Debug, Default)]
pub struct LongRequests {
    state: Mutex<State>,
}

impl LongRequests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request as long, and displaces another if there are too many.
    pub fn begin(self: &Arc<Self>, delivery: DeliveryId, sources: Vec<Source>) -> LongRequest {
        let mut state = self.state();
        if state.open.len() >= MOST_LONG
            && let Some(id) = state.most_dispensable()
            && let Some(request) = state.open.remove(&id)
        {
            request.displaced.cancel();
        }
        let (id, displaced) = (state.next, CancellationToken::new());
        state.next += 1;
        state.open.insert(id, OpenRequest { delivery, sources, displaced: displaced.clone() });
        LongRequest { requests: Arc::clone(self), id, displaced }
    }

    /// Returns the deliveries whose requests are long.
    pub fn deliveries(&self) -> BTreeSet<DeliveryId> {
        self.state().open.values().map(|request| request.delivery).collect()
    }
}

/// A place among the long requests; given back when it is dropped.
#[derive(Debug)]
pub struct LongRequest {
    requests: Arc<LongRequests>,
    id: u64,
    displaced: CancellationToken,
}

impl LongRequest {
    /// Returns when another request took the place.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for LongRequest {
    fn drop(&mut self) {
        self.requests.state().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rate_key;
    use chorus_protocol::ids::AgentId;
    use uuid::Uuid;

    fn delivery(seq: usize) -> DeliveryId {
        DeliveryId { agent: AgentId(Uuid::from_u128(seq as u128)), seq: seq as i64 }
    }

    fn sources(ends: &[u8]) -> Vec<Source> {
        ends.iter().map(|end| rate_key([192, 0, 2, *end].into())).collect()
    }

    /// A server with many names, each of which has another address besides, is one server.
    #[test]
    fn the_address_with_the_most_gives_up_its_oldest() {
        let requests = Arc::new(LongRequests::default());
        let honest = [0, 1].map(|n| requests.begin(delivery(n), sources(&[1])));
        let mut hungry: Vec<_> =
            (2..MOST_LONG).map(|n| requests.begin(delivery(n), sources(&[n as u8 + 10, 2]))).collect();
        assert_eq!(requests.deliveries().len(), MOST_LONG);
        let other = requests.begin(delivery(MOST_LONG), sources(&[3]));
        hungry.push(requests.begin(delivery(MOST_LONG + 1), sources(&[2])));
        assert_eq!(requests.deliveries().len(), MOST_LONG);
        let displaced: Vec<_> = (0..hungry.len()).filter(|n| hungry[*n].displaced.is_cancelled()).collect();
        assert_eq!(displaced, [0, 1]);
        assert!(!honest.iter().chain([&other]).any(|request| request.displaced.is_cancelled()));
        drop((honest, other, hungry));
        assert_eq!(requests.deliveries(), BTreeSet::new());
    }
}
