//! Everything around a core: a disk, an inbox, a driver and those who are answered. All of it can fail, and the core can be
//! killed between any two of its commands.

use chorus_agent::Environment;
use chorus_agent::harness::{
    Back, Command, Core, Event, Known, Ledger, Outcome, Post, Posted, Profile, Record, Taken, To, Turn,
};
use chorus_protocol::channel::{self, CallbackEvent};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) const HUB: &str = "http://hub";
pub(crate) const SERVICE: &str = "http://service";

/// How a message comes, and so how it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Said on the hub, whose callbacks know keys.
    Chat,
    /// Said elsewhere, where nobody knows keys.
    Foreign,
    /// An envelope whose sender listens.
    Streamed,
    /// An envelope whose sender does not.
    Envelope,
}

pub(crate) fn turn(kind: Kind, n: usize) -> Turn {
    let name = format!("{kind:?}{n}");
    match kind {
        Kind::Chat => {
            let data = json!({"channel": {"id": "ch_1"}, "callback": format!("{HUB}/{name}"),
                "event": {"event_id": name, "content": "hello", "author": {"id": "anna"}}});
            Turn::chat(&data.to_string()).unwrap()
        }
        Kind::Foreign => Turn::post(post(&name)),
        Kind::Streamed | Kind::Envelope => {
            let envelope = json!({"chorus_version": "0.4", "sender_id": "alice@x", "original_text": "hi",
                "sender_culture": "en"});
            let mut turn = Turn::envelope(&name, &envelope.to_string(), "alice@x").unwrap();
            if let Back::Envelope(back) = &mut turn.back {
                back.reply_stream = (kind == Kind::Streamed).then(|| format!("{HUB}/streams/{name}"));
            }
            turn
        }
    }
}

pub(crate) fn post(name: &str) -> channel::Post {
    let post = json!({"channel": {"id": "c"}, "message": {"id": name, "sender": "alice", "content": "hello"},
        "callback": format!("{SERVICE}/{name}")});
    channel::Post::read(post.to_string().as_bytes()).unwrap()
}

pub(crate) fn profile() -> Profile {
    Profile { name: "echo".into(), culture: "en".into(), hub: Some(HUB.into()), ..Profile::default() }
}

pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) now_ms: i64,
    pub(crate) disk: Ledger,
    /// Every command that was carried out.
    pub(crate) log: Vec<Command>,
    /// The core is killed after so many more commands.
    pub(crate) killed_after: Option<usize>,
    /// What the inbox holds: the place is the index + 1.
    pub(crate) inbox: Vec<Turn>,
    /// How much of it was handed over.
    handed: usize,
    pub(crate) running: Option<Turn>,
    pub(crate) waits: bool,
    pub(crate) flying: Option<Post>,
    pub(crate) ended: bool,
    /// What services were told is taken.
    pub(crate) accepted: BTreeSet<String>,
    pub(crate) refused: usize,
    offered: Option<String>,
    /// Everything that was ever offered.
    offers: BTreeSet<String>,
    /// What was dealt with.
    pub(crate) done: BTreeSet<String>,
    keys: HashMap<String, String>,
    streams: BTreeSet<String>,
    /// The answers to each message that arrived, by the name the other side gave it.
    pub(crate) answers: BTreeMap<String, Vec<String>>,
    runs: usize,
    seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let disk = Ledger::default();
        Self {
            core: Core::new(profile(), disk.clone(), environment(seed)),
            now_ms: 0,
            disk,
            log: vec![],
            killed_after: None,
            inbox: vec![],
            handed: 0,
            running: None,
            waits: false,
            flying: None,
            ended: false,
            accepted: BTreeSet::new(),
            refused: 0,
            offered: None,
            offers: BTreeSet::new(),
            done: BTreeSet::new(),
            keys: HashMap::new(),
            streams: BTreeSet::new(),
            answers: BTreeMap::new(),
            runs: 0,
            seed,
        }
    }

    /// Tells the core something and does what it says.
    pub(crate) fn tell(&mut self, event: Event) {
        let commands = self.core.handle(self.now_ms, event);
        for command in commands {
            if self.killed_after == Some(0) {
                return self.kill();
            }
            self.killed_after = self.killed_after.map(|left| left - 1);
            self.obey(&command);
            self.log.push(command);
        }
    }

    fn obey(&mut self, command: &Command) {
        match command {
            Command::Write(record) => {
                self.disk.apply(record.clone());
                if let Record::Done { id, .. } = record {
                    self.done.insert(id.clone());
                }
            }
            Command::Accept => self.accepted.extend(self.offered.take()),
            Command::Refuse { .. } => self.refused += 1,
            Command::Run(run) => {
                assert!(self.running.is_none(), "one turn at a time");
                assert_eq!(self.disk.known(&run.turn.id), Known::New, "it was begun before: {run:?}");
                self.check_order(&run.turn);
                assert!(run.prompt.contains(&run.delimiter));
                (self.running, self.runs) = (Some(run.turn.clone()), self.runs + 1);
            }
            Command::Resume => {
                assert!(self.running.is_some() && self.waits);
                self.waits = false;
            }
            Command::CancelTurn => {
                assert!(self.running.take().is_some());
                self.waits = false;
            }
            Command::Post(post) => {
                assert!(self.flying.is_none(), "one request at a time");
                self.check_written(&post.to);
                self.flying = Some(post.clone());
            }
            Command::CancelPost => assert!(self.flying.take().is_some()),
            Command::Tell(_) => {}
            Command::End => {
                assert!(self.running.is_none() && self.flying.is_none());
                self.ended = true;
            }
        }
    }

    /// What came before a message in the inbox was dealt with before it.
    fn check_order(&self, turn: &Turn) {
        let earlier = self.inbox.iter().take_while(|one| one.id != turn.id);
        if self.inbox.iter().any(|one| one.id == turn.id) {
            earlier.for_each(|one| assert!(self.done.contains(&one.id), "{one:?} comes before {turn:?}"));
        }
    }

    /// An answer is in the journal before it leaves.
    fn check_written(&self, to: &To) {
        if let To::Callback { event: CallbackEvent::Message { content: text }, .. }
        | To::Stream { text, .. } = to
        {
            let mut ids = self.inbox.iter().map(|turn| &turn.id).chain(&self.offers);
            let written = Known::Intended { text: text.clone(), as_envelope: false };
            assert!(ids.any(|id| self.disk.known(id) == written), "{to:?} is not written");
        }
    }

    /// The process dies, and another one starts from what is on disk.
    pub(crate) fn kill(&mut self) {
        self.seed += 1;
        self.core = Core::new(profile(), self.disk.clone(), environment(self.seed));
        (self.killed_after, self.ended, self.waits) = (None, false, false);
        (self.running, self.flying, self.offered) = (None, None, None);
        self.handed = self.disk.cursor().map_or(0, |cursor| cursor.parse().unwrap());
        self.tell(Event::Began { cursor: self.handed.to_string() });
    }

    /// The inbox hands over what is next, if the agent has room for it.
    pub(crate) fn hand_over(&mut self) -> bool {
        let Some(turn) = self.inbox.get(self.handed).filter(|_| self.core.has_room()).cloned() else {
            return false;
        };
        self.handed += 1;
        self.tell(Event::Arrived { turn: Box::new(turn), cursor: Some(self.handed.to_string()) });
        true
    }

    /// A service offers a message.
    pub(crate) fn offer(&mut self, n: usize) {
        let post = post(&format!("Foreign{n}"));
        let id = Turn::post(post.clone()).id;
        self.offers.insert(id.clone());
        self.offered = Some(id);
        self.tell(Event::Offered(Taken::post(&post)));
    }

    pub(crate) fn end_turn(&mut self, outcome: u8) {
        if self.running.take().is_some() {
            self.waits = false;
            let text = format!("answer {}", self.runs);
            self.tell(Event::Ended(match outcome {
                0 => Outcome::Silence,
                1 => Outcome::Failed { why: "no".into(), code: "failed" },
                _ => Outcome::Say { text, cut: false },
            }));
        }
    }

    /// The request arrives, or does not; and the agent is told so, or something else.
    pub(crate) fn end_post(&mut self, arrives: bool, told: Option<(bool, bool)>) {
        let Some(Post { number, to }) = self.flying.take() else { return };
        let arrived = arrives.then(|| self.receive(&to));
        let posted = match (arrived, told) {
            (Some(posted), None) => posted,
            (None, None) if matches!(to, To::Stream { .. }) => Posted::Gone { refused: false },
            // Whoever knows that it cannot have arrived says so; nobody else can.
            (arrived, told) => {
                let (again, unsure) = told.unwrap_or((true, false));
                let perhaps_arrived = arrived.is_some() || unsure;
                let retry_after_ms = again.then_some(0);
                Posted::Failed { why: "no".into(), retry_after_ms, perhaps_arrived }
            }
        };
        self.tell(Event::Posted { number, posted });
    }

    /// What the other side makes of a request.
    fn receive(&mut self, to: &To) -> Posted {
        let (name, key, text) = match to {
            To::Callback { url, key, event: CallbackEvent::Message { content } } => {
                let name = url.rsplit('/').next().unwrap().to_owned();
                (name, url.starts_with(HUB).then_some(key), content.clone())
            }
            To::Stream { url, text } => {
                if !self.streams.insert(url.clone()) {
                    return Posted::Gone { refused: true };
                }
                (url.rsplit('/').next().unwrap().to_owned(), None, text.clone())
            }
            To::Hub { key, body } => {
                let body = format!("{body:?}");
                let name =
                    body.split("\"in_reply_to\": String(\"").nth(1).unwrap().split('"').next().unwrap();
                (name.to_owned(), Some(key), body)
            }
            _ => return Posted::Arrived,
        };
        // The same key again is the same answer again, or one that was given before.
        if key.is_none_or(|key| self.keys.insert(key.clone(), text.clone()).is_none()) {
            self.answers.entry(name).or_default().push(text);
        }
        Posted::Arrived
    }

    pub(crate) fn pass(&mut self, by_ms: i64) {
        self.now_ms += by_ms;
        self.tell(Event::Time);
    }

    /// From now on everything goes well, until there is nothing left to do.
    pub(crate) fn finish(&mut self) {
        self.killed_after = None;
        for _ in 0..10_000 {
            if self.ended {
                self.kill();
            } else if self.flying.is_some() {
                self.end_post(true, None);
            } else if self.running.is_some() {
                self.end_turn(2);
            } else if !self.hand_over() {
                let Some(at_ms) = self.core.wake_at_ms() else { return };
                self.now_ms = self.now_ms.max(at_ms);
                self.tell(Event::Time);
            }
        }
        panic!("it does not come to rest");
    }
}

pub(crate) fn environment(seed: u64) -> Environment {
    Environment::seeded(seed, &chorus_environment::ManualClock::new(0))
}
