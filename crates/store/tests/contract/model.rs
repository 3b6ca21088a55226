//! Any sequence of sends, posts, reads and retention against a simple model.

use crate::support::{NODE, fresh, record};
use chorus_protocol::ids::{AgentId, EventId, TraceId};
use chorus_protocol::relay::Outcome;
use chorus_protocol::words::DeliveryState;
use chorus_store::deliveries::{self, Lease};
use chorus_store::directory::{self, Agent};
use chorus_store::inboxes::{self, Opened};
use chorus_store::relay::{self, Pending, Sent};
use chorus_store::{Store, StoreError, Tx, retention};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio::runtime::Runtime;
use uuid::Uuid;

const AGENTS: usize = 3;
/// The duration of a lease and of an open inbox.
const LEASE: i64 = 5;

#[derive(Debug, Clone)]
enum Step {
    /// Advances the time.
    Wait(i64),
    Send {
        from: usize,
        to: usize,
    },
    /// Ends the oldest POST in progress.
    Posted {
        taken: bool,
    },
    Open(usize),
    /// Closes by the current holder, or by a former one.
    Close {
        agent: usize,
        holder: bool,
    },
    /// Delivers this many more entries.
    Hand {
        agent: usize,
        count: i64,
    },
    /// Sets or removes the agent's endpoint.
    Endpoint {
        agent: usize,
        has: bool,
    },
    FailAbandoned,
    RemoveBefore {
        age: i64,
        limit: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let agent = 0..AGENTS;
    prop_oneof![
        3 => (1..4_i64).prop_map(Step::Wait),
        10 => (agent.clone(), agent.clone()).prop_map(|(from, to)| Step::Send { from, to }),
        3 => any::<bool>().prop_map(|taken| Step::Posted { taken }),
        3 => agent.clone().prop_map(Step::Open),
        2 => (agent.clone(), any::<bool>()).prop_map(|(agent, holder)| Step::Close { agent, holder }),
        4 => (agent.clone(), 0..4_i64).prop_map(|(agent, count)| Step::Hand { agent, count }),
        2 => (agent, any::<bool>()).prop_map(|(agent, has)| Step::Endpoint { agent, has }),
        1 => Just(Step::FailAbandoned),
        4 => (0..8_i64, 1..5_i64).prop_map(|(age, limit)| Step::RemoveBefore { age, limit }),
    ]
}

#[derive(Debug)]
struct Item {
    seq: i64,
    author: usize,
    body: String,
    streamed: bool,
    state: DeliveryState,
    lease_until: Option<i64>,
    created_at: i64,
}

#[derive(Debug, Default)]
struct Model {
    inbox: Vec<Item>,
    head: i64,
    handed: i64,
    /// The number of the oldest remaining entry.
    oldest: i64,
    session: Option<Uuid>,
    open_until: i64,
    endpoint: bool,
}

struct World {
    runtime: Runtime,
    store: Store,
    agents: Vec<Agent>,
    models: Vec<Model>,
    posts: Vec<(usize, Pending)>,
    now: i64,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let store = Store::in_memory().unwrap();
        let mut agents: Vec<Agent> = (0..AGENTS)
            .map(|n| runtime.block_on(crate::support::agent(&store, &format!("agent-{n}"))))
            .collect();
        // Retention visits inboxes in the order of ids.
        agents.sort_by_key(|agent| agent.id);
        let models = (0..AGENTS).map(|_| Model { oldest: 1, ..Model::default() }).collect();
        Self { runtime, store, agents, models, posts: vec![], now: 100 }
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.runtime.block_on(crate::support::write(&self.store, work))
    }

    fn id(&self, agent: usize) -> AgentId {
        self.agents[agent].id
    }

    fn step(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Wait(time) => self.now += time,
            Step::Send { from, to } => self.send(from, to),
            Step::Posted { taken } => self.posted(taken),
            Step::Open(agent) => {
                let (id, session) = (self.id(agent), fresh());
                let opened = self.write(move |tx| inboxes::open(tx, id, session, NODE, now + LEASE)).unwrap();
                let model = &mut self.models[agent];
                (model.session, model.open_until) = (Some(session), now + LEASE);
                let (handed_through, oldest, head) = (model.handed, model.oldest, model.head);
                assert_eq!(opened, Opened { handed_through, oldest, head });
            }
            Step::Close { agent, holder } => {
                let id = self.id(agent);
                let session = self.models[agent].session.filter(|_| holder).unwrap_or_else(fresh);
                self.write(move |tx| inboxes::close(tx, id, session, now));
                let model = &mut self.models[agent];
                if model.session == Some(session) {
                    (model.session, model.open_until) = (None, 0);
                }
            }
            Step::Hand { agent, count } => {
                let id = self.id(agent);
                let model = &mut self.models[agent];
                model.handed = (model.handed + count).min(model.head);
                let seq = model.handed;
                self.write(move |tx| inboxes::hand_through(tx, id, seq, 0));
            }
            Step::Endpoint { agent, has } => {
                let (before, record) =
                    (self.agents[agent].clone(), record("", has.then_some("https://agent.example/")));
                self.write(move |tx| directory::update(tx, before.clone(), &record, None, now));
                self.models[agent].endpoint = has;
            }
            Step::FailAbandoned => {
                let expected = self.models.iter_mut().flat_map(|model| &mut model.inbox).filter_map(|item| {
                    item.lease_until.take_if(|until| *until < now)?;
                    item.state = DeliveryState::Failed;
                    Some(())
                });
                let expected = expected.count() as u64;
                assert_eq!(self.write(move |tx| deliveries::fail_abandoned(tx, now)), expected);
            }
            Step::RemoveBefore { age, limit } => self.remove_before(now - age, limit),
        }
    }

    fn send(&mut self, from: usize, to: usize) {
        let (event, now) = (EventId(fresh()), self.now);
        let send = relay::Send {
            sender: self.id(from),
            receiver: self.agents[to].name.clone(),
            envelope: event.to_string(),
            event,
            trace: TraceId(event.0),
            keys: vec![],
            turn: None,
            stream: false,
            lease: Lease { owner: NODE, until: now + LEASE },
            now,
        };
        let sending = self.store.write(move |tx: &mut dyn Tx| relay::send(tx, &send));
        let sent = self.runtime.block_on(sending).unwrap();
        let model = &mut self.models[to];
        model.head += 1;
        let open = model.open_until > now;
        let posting = model.endpoint && !open;
        let (place, state) = match sent {
            Sent::Stored { seq, outcome, .. } => {
                assert!(!posting);
                (seq, outcome.delivery)
            }
            Sent::Pending(post) => {
                assert!(posting);
                let place = post.seq;
                self.posts.push((to, post));
                (place, DeliveryState::Sending)
            }
            Sent::Again(answer) => panic!("sent before: {answer:?}"),
        };
        assert_eq!(place, model.head);
        let expected = match (open, posting) {
            (true, _) => DeliveryState::DeliveredSse,
            (false, true) => DeliveryState::Sending,
            (false, false) => DeliveryState::Queued,
        };
        assert_eq!(state, expected);
        model.inbox.push(Item {
            seq: place,
            author: from,
            body: event.to_string(),
            streamed: !posting,
            state,
            lease_until: posting.then_some(now + LEASE),
            created_at: now,
        });
    }

    fn posted(&mut self, taken: bool) {
        if self.posts.is_empty() {
            return;
        }
        let (agent, posting) = self.posts.remove(0);
        let (seq, now) = (posting.seq, self.now);
        let delivery = if taken { DeliveryState::Delivered } else { DeliveryState::Failed };
        let trace_id = posting.trace;
        let outcome = Outcome {
            delivery,
            receiver_response: None,
            error_code: None,
            detail: None,
            trace_id: Some(trace_id.into()),
        };
        self.write(move |tx| relay::record_outcome(tx, &posting, &outcome, now));
        let item = self.models[agent].inbox.iter_mut().find(|item| item.seq == seq);
        if let Some(item) = item.filter(|item| item.lease_until.is_some()) {
            (item.state, item.lease_until) = (delivery, None);
        }
    }

    fn remove_before(&mut self, cutoff: i64, limit: i64) {
        let mut left = limit;
        for model in &mut self.models {
            let (handed, mut last) = (model.handed, 0);
            model.inbox.retain(|item| {
                let done = item.lease_until.is_none() && (!item.streamed || item.seq <= handed);
                let remove = done && item.created_at < cutoff && left > 0;
                if remove {
                    left -= 1;
                    last = item.seq;
                }
                !remove
            });
            let oldest = model.inbox.first().map_or(last + 1, |item| item.seq);
            model.oldest = model.oldest.max(oldest);
        }
        let count = (limit - left) as u64;
        let removed = self.write(move |tx| retention::remove_before(tx, cutoff, limit));
        assert_eq!((removed.deliveries, removed.events), (count, count));
    }

    /// Asserts that every inbox equals the model, in one page and in small ones.
    fn check(&self) {
        for (agent, model) in self.models.iter().enumerate() {
            let id = self.id(agent);
            let entries = self.write(move |tx| {
                let (mut entries, mut after) = (vec![], 0);
                loop {
                    let page = deliveries::page(tx, id, after, 3, 80)?;
                    let Some(last) = page.last() else { return Ok(entries) };
                    after = last.seq;
                    entries.extend(page);
                }
            });
            assert_eq!(entries.len(), model.inbox.len());
            for (entry, item) in entries.iter().zip(&model.inbox) {
                assert_eq!(
                    (entry.seq, &entry.body, entry.is_streamed()),
                    (item.seq, &item.body, item.streamed)
                );
                assert_eq!((entry.state, entry.created_at), (item.state, item.created_at));
                assert_eq!(entry.author.as_ref(), Some(&self.agents[item.author].name));
            }
            assert_eq!(self.write(move |tx| inboxes::handed_through(tx, id)), model.handed);
            // A reader that starts at the store's position misses nothing.
            let begin = model.handed.max(model.oldest - 1);
            assert!(
                model.inbox.iter().all(|item| !item.streamed || item.seq <= model.handed || item.seq > begin)
            );
        }
    }
}

#[test]
fn any_order_of_steps_is_as_in_the_model() {
    let config = Config { cases: 150, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let steps = prop::collection::vec(step(), 1..60);
    let result = runner.run(&steps, |steps| {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.check();
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
