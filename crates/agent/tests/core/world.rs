//! The world around a core: a disk, an inbox, a driver and the receivers of answers. All of them can fail, and
//! the core can be killed between any two of its commands.

use chorus_agent::Environment;
use chorus_agent::harness::{
    Activity, Back, Command, Core, Event, Known, Ledger, Outcome, Post, Posted, Profile, Record, Run, Taken,
    To, Turn,
};
use chorus_protocol::channel::{self, CallbackEvent};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) const HUB: &str = "http://hub";
pub(crate) const SERVICE: &str = "http://service";

/// The way a message comes, which determines the way of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A message on the hub, whose callbacks support idempotency keys.
    Chat,
    /// A message of another service, without idempotency keys.
    Foreign,
    /// An envelope whose sender listens.
    Streamed,
    /// An envelope whose sender does not listen.
    Envelope,
    /// A message typed by a person on the hub, in one of three channels.
    Typed,
}

pub(crate) fn turn(kind: Kind, n: usize) -> Turn {
    let name = format!("{kind:?}{n}");
    match kind {
        Kind::Chat => {
            let data = json!({"channel": {"id": "ch_1"}, "callback": format!("{HUB}/{name}"),
                "event": {"event_id": name, "content": "hello", "author": {"id": "anna"}}});
            Turn::chat(&data.to_string()).unwrap()
        }
        Kind::Typed => typed(&name, ["ch_1", "ch_2", "ch_3"][n % 3], "anna"),
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

/// A message typed by a person.
pub(crate) fn typed(name: &str, channel: &str, author: &str) -> Turn {
    let data = json!({"channel": {"id": channel}, "callback": format!("{HUB}/{name}"),
        "attention": {"reason": "direct_mention", "policy": "must_respond", "mode": "buffered"},
        "event": {"event_id": name, "content": format!("text of {name}"),
            "author": {"id": author, "kind": "account", "handle": author}}});
    Turn::chat(&data.to_string()).unwrap()
}

pub(crate) fn post(name: &str) -> channel::Post {
    let post = json!({"channel": {"id": "c"}, "message": {"id": name, "sender": "alice", "content": "hello"},
        "callback": format!("{SERVICE}/{name}")});
    channel::Post::read(post.to_string().as_bytes()).unwrap()
}

pub(crate) fn profile() -> Profile {
    let (name, culture, hub) = ("echo".into(), "en".into(), Some(HUB.into()));
    Profile { name, culture, hub, at_once: 1, ..Profile::default() }
}

pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) now_ms: i64,
    pub(crate) disk: Ledger,
    /// All executed commands.
    pub(crate) log: Vec<Command>,
    /// The core is killed after this many more commands.
    pub(crate) killed_after: Option<usize>,
    /// The inbox. The position of a message is its index + 1.
    pub(crate) inbox: Vec<Turn>,
    /// The number of messages handed over.
    handed: usize,
    pub(crate) running: BTreeMap<u64, Run>,
    pub(crate) waits: BTreeSet<u64>,
    pub(crate) flying: Vec<Post>,
    profile: Profile,
    pub(crate) ended: bool,
    /// The messages that were accepted from services.
    pub(crate) accepted: BTreeSet<String>,
    pub(crate) refused: usize,
    offered: Option<String>,
    /// All messages that were ever offered.
    offers: BTreeSet<String>,
    /// The processed messages.
    pub(crate) done: BTreeSet<String>,
    /// The messages that this process has started.
    took: BTreeSet<String>,
    keys: HashMap<String, String>,
    streams: BTreeSet<String>,
    /// The arrived answers to each message, by the other side's name for it.
    pub(crate) answers: BTreeMap<String, Vec<String>>,
    pub(crate) runs: usize,
    seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of(seed, profile())
    }

    /// Creates a world with this profile.
    pub(crate) fn of(seed: u64, profile: Profile) -> Self {
        let disk = Ledger::default();
        Self {
            core: Core::new(profile.clone(), disk.clone(), environment(seed)),
            profile,
            now_ms: 0,
            disk,
            log: vec![],
            killed_after: None,
            inbox: vec![],
            handed: 0,
            running: BTreeMap::new(),
            waits: BTreeSet::new(),
            flying: vec![],
            ended: false,
            accepted: BTreeSet::new(),
            refused: 0,
            offered: None,
            offers: BTreeSet::new(),
            done: BTreeSet::new(),
            took: BTreeSet::new(),
            keys: HashMap::new(),
            streams: BTreeSet::new(),
            answers: BTreeMap::new(),
            runs: 0,
            seed,
        }
    }

    /// Sends an event to the core and executes its commands.
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
                match record {
                    Record::Done { id, merged, .. } => self.done.extend(merged.iter().chain([id]).cloned()),
                    // Merged messages end with the last of them.
                    Record::Acted { merged, .. } | Record::Intent { merged, .. } => {
                        self.done.extend(merged.iter().cloned());
                    }
                    Record::Cursor(_)
                    | Record::Took(_)
                    | Record::Digest { .. }
                    | Record::Knock { .. }
                    | Record::Told { .. } => {}
                }
            }
            Command::Accept => self.accepted.extend(self.offered.take()),
            Command::Refuse { .. } => self.refused += 1,
            Command::Run(run) => {
                let thread = run.turn.thread_key();
                let mut others = self.running.values().map(|run| run.turn.thread_key());
                assert!(others.all(|one| one != thread), "one turn of a thread at a time");
                assert!(self.running.len() < self.profile.at_once, "no more than asked for");
                for turn in run.earlier.iter().chain([&run.turn]) {
                    assert_eq!(self.disk.known(&turn.id), Known::New, "it was begun before: {run:?}");
                    assert!(run.prompt("echo", "en").contains(&turn.text));
                }
                self.check_order(run);
                assert!(run.prompt("echo", "en").contains(&run.delimiter));
                self.running.insert(run.task, (**run).clone());
                self.runs += 1;
            }
            Command::Resume { task } => {
                assert!(self.running.contains_key(task) && self.waits.remove(task));
            }
            Command::GiveUp { task } => assert!(self.running.contains_key(task)),
            Command::CancelTurn { task } => {
                assert!(self.running.remove(task).is_some());
                self.waits.remove(task);
            }
            Command::Post(post) => {
                assert!(
                    self.flying.len() < 2 * self.profile.at_once,
                    "one request of a turn, and one renewal"
                );
                self.check_written(&post.to);
                self.flying.push(post.clone());
            }
            Command::CancelPost { number } => {
                let place = self.flying.iter().position(|post| post.number == *number);
                self.flying.remove(place.expect("it was on its way"));
            }
            Command::Tell(Activity::Took { message, .. }) => {
                self.took.insert(message.clone());
            }
            Command::Tell(_) => {}
            Command::End => {
                assert!(self.running.is_empty() && self.flying.is_empty());
                self.ended = true;
            }
        }
    }

    /// Checks that earlier messages of the author in the same thread were processed before.
    fn check_order(&self, run: &Run) {
        let turn = run.earlier.first().unwrap_or(&run.turn);
        let same = |one: &&Turn| one.thread_key() == turn.thread_key() && one.source() == turn.source();
        let earlier = self.inbox.iter().take_while(|one| one.id != turn.id).filter(same);
        if self.inbox.iter().any(|one| one.id == turn.id) {
            let dealt_with = |one: &Turn| {
                let together = run.earlier.iter().chain([&run.turn]).any(|member| member.id == one.id);
                together || self.done.contains(&one.id) || self.took.contains(&one.message_id)
            };
            earlier.for_each(|one| assert!(dealt_with(one), "{one:?} comes before {turn:?}"));
        }
    }

    /// Checks that an answer is in the journal before it is sent.
    fn check_written(&self, to: &To) {
        if let To::Callback { event: CallbackEvent::Message { content: text }, .. }
        | To::Stream { text, .. } = to
        {
            let mut ids = self.inbox.iter().map(|turn| &turn.id).chain(&self.offers);
            let written = Known::Intended { text: text.clone(), as_envelope: false };
            assert!(ids.any(|id| self.disk.known(id) == written), "{to:?} is not written");
        }
    }

    /// Kills the process and starts another one from the disk.
    pub(crate) fn kill(&mut self) {
        self.seed += 1;
        self.core = Core::new(self.profile.clone(), self.disk.clone(), environment(self.seed));
        (self.killed_after, self.ended, self.offered) = (None, false, None);
        self.waits.clear();
        self.took.clear();
        self.running.clear();
        self.flying.clear();
        self.handed = self.disk.cursor().map_or(0, |cursor| cursor.parse().unwrap());
        self.tell(Event::Began { cursor: self.handed.to_string() });
    }

    /// Hands over the next message of the inbox, if the agent has room.
    pub(crate) fn hand_over(&mut self) -> bool {
        let Some(turn) = self.inbox.get(self.handed).filter(|_| self.core.has_room()).cloned() else {
            return false;
        };
        self.handed += 1;
        self.tell(Event::Arrived { turn: Box::new(turn), cursor: Some(self.handed.to_string()) });
        true
    }

    /// Offers a message, as a service does.
    pub(crate) fn offer(&mut self, n: usize) {
        let post = post(&format!("Foreign{n}"));
        let id = Turn::post(post.clone()).id;
        self.offers.insert(id.clone());
        self.offered = Some(id);
        self.tell(Event::Offered(Taken::post(&post)));
    }

    /// Returns the oldest running turn.
    pub(crate) fn task(&self) -> Option<u64> {
        self.running.keys().next().copied()
    }

    /// Sends an event of the newest running turn, unless it waits.
    pub(crate) fn ask(&mut self, event: impl FnOnce(u64) -> Event) {
        if let Some(task) = self.running.keys().next_back().copied()
            && self.waits.insert(task)
        {
            self.tell(event(task));
        }
    }

    pub(crate) fn end_turn(&mut self, outcome: u8) {
        if let Some(task) = self.task() {
            self.end_task(task, outcome);
        }
    }

    pub(crate) fn end_task(&mut self, task: u64, outcome: u8) {
        let Some(run) = self.running.remove(&task) else { return };
        self.waits.remove(&task);
        let text = format!("answer {}", run.turn.message_id);
        let outcome = match outcome {
            0 => Outcome::Silence,
            1 => Outcome::Failed { why: "no".into(), code: "failed" },
            _ => Outcome::Say { text, cut: false },
        };
        self.tell(Event::Ended { task, outcome });
    }

    /// Ends the request in flight: it arrives or not, and the agent gets this result or another.
    pub(crate) fn end_post(&mut self, arrives: bool, told: Option<(bool, bool)>) {
        if self.flying.is_empty() {
            return;
        }
        let Post { number, to } = self.flying.remove(0);
        let arrived = arrives.then(|| self.receive(&to));
        let posted = match (arrived, told) {
            (Some(posted), None) => posted,
            (None, None) if matches!(to, To::Stream { .. }) => Posted::Gone { refused: false },
            // Only a request that certainly did not arrive is reported as such.
            (arrived, told) => {
                let (again, unsure) = told.unwrap_or((true, false));
                let perhaps_arrived = arrived.is_some() || unsure;
                let retry_after_ms = again.then_some(0);
                Posted::Failed { why: "no".into(), retry_after_ms, perhaps_arrived }
            }
        };
        self.tell(Event::Posted { number, posted });
    }

    /// Handles a request as the other side does.
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
        // A repeated key is the same answer again.
        if key.is_none_or(|key| self.keys.insert(key.clone(), text.clone()).is_none()) {
            self.answers.entry(name).or_default().push(text);
        }
        Posted::Arrived
    }

    pub(crate) fn pass(&mut self, by_ms: i64) {
        self.now_ms += by_ms;
        self.tell(Event::Time);
    }

    /// Lets everything succeed from now on, until there is nothing left to do.
    pub(crate) fn finish(&mut self) {
        self.killed_after = None;
        for _ in 0..10_000 {
            if self.ended {
                self.kill();
            } else if !self.flying.is_empty() {
                self.end_post(true, None);
            } else if !self.running.is_empty() {
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
