//! A simulated agent: the real core of the harness, with a disk that survives crashes, a connection and a
//! driver.

use chorus_agent::harness::{Core, Event, Ledger, Post, Profile, Record, Run, Turn};
use chorus_environment::{Environment, ManualClock};
use chorus_protocol::ids::AgentId;
use chorus_protocol::sse::{Item, Parser};
use std::collections::BTreeSet;

pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) id: AgentId,
    seed: u64,
    clock: ManualClock,
    /// The number of processes so far.
    pub(crate) life: u64,
    /// The contents of its journal.
    pub(crate) disk: Ledger,
    pub(crate) process: Option<Process>,
    /// The messages it answered and the hub confirmed.
    pub(crate) acknowledged: Vec<(String, String)>,
    /// Events that it recorded as done just before a crash, without reporting them.
    pub(crate) unsaid: BTreeSet<String>,
}

/// The state that a crash destroys.
pub(crate) struct Process {
    pub(crate) core: Core,
    pub(crate) running: Option<Box<Run>>,
    pub(crate) flying: Option<Post>,
    pub(crate) connection: Option<Connection>,
    /// The last inbox position it received.
    pub(crate) received: Option<i64>,
    /// The time of its next wake-up.
    pub(crate) wakes_at: Option<i64>,
    /// The message it has given up, until it has reported that.
    pub(crate) last_word: Option<String>,
}

pub(crate) struct Connection {
    pub(crate) number: u64,
    parser: Parser,
    /// The earliest arrival of the next data, so that data arrives in order.
    pub(crate) arrives_at: i64,
    /// True if a read by the hub is scheduled.
    pub(crate) reads: bool,
}

impl Connection {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, parser: Parser::new(), arrives_at: 0, reads: false }
    }
}

impl Agent {
    pub(crate) fn new(name: &'static str, id: AgentId, seed: u64, clock: &ManualClock) -> Self {
        Self {
            name,
            id,
            seed,
            clock: clock.clone(),
            life: 0,
            disk: Ledger::default(),
            process: None,
            acknowledged: vec![],
            unsaid: BTreeSet::new(),
        }
    }

    /// Starts a new process at the end of the journal, with its own randomness.
    pub(crate) fn start(&mut self) {
        self.life += 1;
        let profile = Profile {
            name: self.name.into(),
            culture: "en".into(),
            hub: Some("http://hub.example".into()),
            // There is one channel, and every message counts.
            at_once: 1,
            quiet_ms: 0,
            ..Profile::default()
        };
        let environment = Environment::seeded(self.seed.wrapping_add(self.life << 32), &self.clock);
        self.process = Some(Process {
            core: Core::new(profile, self.disk.clone(), environment),
            running: None,
            flying: None,
            connection: None,
            received: None,
            wakes_at: None,
            last_word: None,
        });
    }

    pub(crate) fn crash(&mut self) {
        self.unsaid.extend(self.process.take().and_then(|process| process.last_word));
    }

    pub(crate) fn write(&mut self, record: &Record) {
        self.disk.apply(record.clone());
        if let (Record::Done { id, .. }, Some(process)) = (record, &mut self.process) {
            process.last_word = Some(id.clone());
        }
    }

    /// Returns the position from which it resumes reading.
    pub(crate) fn cursor(&self) -> Option<i64> {
        self.disk.cursor().map(|cursor| cursor.parse().unwrap())
    }

    /// Parses a piece of its inbox stream.
    pub(crate) fn receive(&mut self, frames: &[u8]) -> Vec<Event> {
        let process = self.process.as_mut().expect("it runs");
        let connection = process.connection.as_mut().expect("it is connected");
        let mut events = vec![];
        for item in connection.parser.push(frames).unwrap() {
            let Item::Event(event) = item else { continue };
            assert_eq!(event.event, "chat");
            let id = event.id.unwrap();
            process.received = Some(id.parse().unwrap());
            let turn = Box::new(Turn::chat(&event.data).unwrap());
            events.push(Event::Arrived { turn, cursor: Some(id) });
        }
        events
    }
}
