//! An agent: the real core of the harness, and around it a disk that outlives it, a connection and a driver.

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
    /// How many processes there were.
    pub(crate) life: u64,
    /// What it wrote to its journal.
    pub(crate) disk: Ledger,
    pub(crate) process: Option<Process>,
    /// What it said is answered.
    pub(crate) acknowledged: Vec<(String, String)>,
    /// It died between writing that these are done with and saying so: nobody will.
    pub(crate) unsaid: BTreeSet<String>,
}

/// What a crash takes away.
pub(crate) struct Process {
    pub(crate) core: Core,
    pub(crate) running: Option<Box<Run>>,
    pub(crate) flying: Option<Post>,
    pub(crate) connection: Option<Connection>,
    /// The last place of its inbox that it received.
    pub(crate) received: Option<i64>,
    /// When it is woken next.
    pub(crate) wakes_at: Option<i64>,
    /// The message it has written off, until it has said so.
    pub(crate) last_word: Option<String>,
}

pub(crate) struct Connection {
    pub(crate) number: u64,
    parser: Parser,
    /// What was sent before arrives before.
    pub(crate) arrives_at: i64,
    /// Whether the hub will look for more.
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

    /// Another process begins where the journal ends, with chance of its own.
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

    /// Where it goes on reading, as far as it knows.
    pub(crate) fn cursor(&self) -> Option<i64> {
        self.disk.cursor().map(|cursor| cursor.parse().unwrap())
    }

    /// What a piece of its inbox's stream means.
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
