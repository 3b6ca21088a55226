//! An agent of the week: the real core of the harness, with a disk that survives crashes and its pending work.

use super::host::Key;
use chorus_agent::harness::{Core, Event, Ledger, Post, Profile, Run, Taken, Turn};
use chorus_environment::{Environment, ManualClock};
use chorus_node::transport::dialect::{Dialect, delivered};
use chorus_protocol::c2a::Cancelled;
use chorus_protocol::market::JobHandout;
use chorus_protocol::rpc::{Id, Message};
use chorus_protocol::sse::{Item, Parser};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) key: Key,
    pub(crate) dialect: Dialect,
    /// True if it takes long, sometimes longer than the deadline.
    pub(crate) is_slow: bool,
    seed: u64,
    clock: ManualClock,
    pub(crate) life: u64,
    /// The contents of its journal.
    pub(crate) disk: Ledger,
    pub(crate) process: Option<Process>,
}

/// The state that a crash destroys.
pub(crate) struct Process {
    pub(crate) core: Core,
    /// The running turns, by task.
    pub(crate) running: BTreeMap<u64, Box<Run>>,
    /// The requests in flight, by number.
    pub(crate) flying: BTreeMap<u64, Post>,
    pub(crate) connection: Option<Connection>,
    /// The last inbox position it received.
    pub(crate) received: Option<i64>,
    pub(crate) wakes_at: Option<i64>,
}

pub(crate) struct Connection {
    pub(crate) number: u64,
    parser: Parser,
    /// The earliest arrival of the next data, so that data arrives in order.
    pub(crate) arrives_at: i64,
}

/// An agent's interpretation of arriving data.
pub(crate) enum Arrival {
    Tell(Event),
    /// A delivery, which is acknowledged once it is in the journal.
    Offered(Taken, i64),
    Job(Box<JobHandout>),
}

impl Agent {
    pub(crate) fn new(
        name: String,
        key: Key,
        dialect: Dialect,
        is_slow: bool,
        seed: u64,
        clock: &ManualClock,
    ) -> Self {
        let (clock, disk) = (clock.clone(), Ledger::default());
        Self { name, key, dialect, is_slow, seed, clock, life: 0, disk, process: None }
    }

    /// Starts a new process at the end of the journal, with its own randomness.
    pub(crate) fn start(&mut self) {
        self.life += 1;
        let profile = Profile {
            name: self.name.clone(),
            culture: "en".into(),
            hub: Some("http://hub.example".into()),
            ..Profile::default()
        };
        let environment = Environment::seeded(self.seed.wrapping_add(self.life << 32), &self.clock);
        self.process = Some(Process {
            core: Core::new(profile, self.disk.clone(), environment),
            running: BTreeMap::new(),
            flying: BTreeMap::new(),
            connection: None,
            received: None,
            wakes_at: None,
        });
    }

    pub(crate) fn connected(&mut self, number: u64, after: i64) {
        let Some(process) = &mut self.process else { return };
        process.connection = Some(Connection { number, parser: Parser::new(), arrives_at: 0 });
        process.received = Some(after);
    }

    /// Returns the position from which it resumes; a C2A harness gets it from the host.
    pub(crate) fn place(&self, again: bool) -> Option<i64> {
        let written = self.disk.cursor().map(|cursor| cursor.parse().unwrap());
        let received = self.process.as_ref().and_then(|process| process.received);
        received.filter(|_| !again).or(written).filter(|_| self.dialect == Dialect::Sse)
    }

    /// Parses a piece of its session.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Vec<Arrival> {
        if self.dialect != Dialect::Sse {
            return delivery(bytes).into_iter().collect();
        }
        let Some(process) = &mut self.process else { return vec![] };
        let Some(connection) = &mut process.connection else { return vec![] };
        let mut arrivals = vec![];
        for item in connection.parser.push(bytes).unwrap() {
            let Item::Event(event) = item else { continue };
            let Some(id) = event.id else { continue };
            process.received = Some(id.parse().unwrap());
            if event.event == "job" {
                let job = serde_json::from_str(&event.data).unwrap();
                arrivals.push(Arrival::Job(Box::new(job)));
                arrivals.push(Arrival::Tell(Event::Nothing { cursor: id }));
                continue;
            }
            assert_eq!(event.event, "chat");
            // A deleted message has no text.
            arrivals.push(Arrival::Tell(match Turn::chat(&event.data) {
                Ok(turn) => Event::Arrived { turn: Box::new(turn), cursor: Some(id) },
                Err(_) => Event::Nothing { cursor: id },
            }));
        }
        arrivals
    }
}

fn delivery(bytes: &[u8]) -> Option<Arrival> {
    match Message::read(bytes).unwrap() {
        Message::Request(request) => {
            let Id::Text(id) = request.id else { panic!("deliveries have names") };
            let place = delivered(&id).unwrap();
            Some(Arrival::Offered(Taken::delivery(Value::Object(request.params)), place))
        }
        Message::Notification(told) => {
            let told: Cancelled = serde_json::from_value(Value::Object(told.params)).ok()?;
            Some(Arrival::Tell(Event::Withdrawn { message: told.event_id?.0 }))
        }
        Message::Response(_) => None,
    }
}
