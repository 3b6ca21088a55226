//! A person and two agents in a channel. The person names one or both; a named agent answers and names the
//! other, or echoes its input. The hub must end such exchanges. Meanwhile requests and responses are lost and
//! duplicated, connections break, and hub and agents crash. Then the faults stop, and everything comes to
//! rest.

use crate::agent::{Agent, Connection};
use crate::hub::Hub;
use crate::world::World;
use chorus_agent::harness::{Command, Event, Outcome, Post, Posted, To, Turn};
use chorus_node::Error;
use chorus_node::caller::Person;
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use chorus_protocol::code::Code;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::words::{Policy, Reason};

/// 2027-01-15.
const BEGINS_AT: i64 = 1_800_000_000_000;
/// The time when faults stop.
const PEACE_AT: i64 = 60_000;
/// The time when the hub's turns stop.
const TURNS_END_AT: i64 = 180_000;
/// The most steps. Every story comes to rest before.
const MAX_HAPPENINGS: u64 = 50_000;
const NAMES: [&str; 2] = ["alpha", "beta"];

/// One step of the simulation. Agents are named by number. A step for a process or connection that is gone has
/// no effect.
#[derive(Debug)]
pub(crate) enum Happening {
    /// The person posts the message of this number, unless it is known to be posted.
    Says(usize),
    Connects {
        agent: usize,
        life: u64,
    },
    /// The hub reads new entries for a connection.
    Reads {
        agent: usize,
        connection: u64,
    },
    /// Data reaches the agent, up to a position of its inbox.
    Arrives {
        agent: usize,
        connection: u64,
        frames: Vec<u8>,
        place: i64,
    },
    TurnEnds {
        agent: usize,
        life: u64,
    },
    /// A request reaches the hub.
    Requested {
        agent: usize,
        life: u64,
        post: Post,
    },
    /// Its response reaches the agent.
    Answered {
        agent: usize,
        life: u64,
        number: u64,
        posted: Posted,
    },
    Wakes {
        agent: usize,
        life: u64,
    },
    TakesTurn {
        life: u64,
    },
    HubCrashes,
    HubStarts,
    AgentCrashes(usize),
    AgentStarts(usize),
}

/// A message of the person, and the position the hub returned for it.
#[derive(Debug)]
pub(crate) struct Saying {
    pub(crate) text: String,
    pub(crate) place: Option<i64>,
}

pub(crate) struct Story {
    pub(crate) world: World<Happening>,
    pub(crate) hub: Hub,
    pub(crate) agents: Vec<Agent>,
    pub(crate) person: Person,
    pub(crate) channel: ConversationId,
    pub(crate) sayings: Vec<Saying>,
    connections: u64,
    /// True if the agents echo their input.
    echoes: bool,
}

impl Story {
    /// Creates the participants and schedules the first steps.
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = World::new(seed, BEGINS_AT);
        let rerun_every = world.below(4) as u32;
        let hub = Hub::new(seed, &world.clock, rerun_every);
        let person = hub.make_person("anna@example.com");
        let agents: Vec<_> = (1..)
            .zip(NAMES)
            .map(|(n, name)| {
                let id = hub.make_agent(&person, name).unwrap();
                Agent::new(name, id, seed.wrapping_mul(31).wrapping_add(n), &world.clock)
            })
            .collect();
        let ids: Vec<_> = agents.iter().map(|agent| agent.id).collect();
        let channel = hub.make_channel(&person, "room", &ids);
        let mut story =
            Self { world, hub, agents, person, channel, sayings: vec![], connections: 0, echoes: false };
        story.set_out();
        story
    }

    /// Creates a story with agents that echo their input.
    pub(crate) fn of_echoes(seed: u64) -> Self {
        Self { echoes: true, ..Self::new(seed) }
    }

    fn set_out(&mut self) {
        let world = &mut self.world;
        for n in 0..NAMES.len() {
            world.after(0, Happening::AgentStarts(n));
            for _ in 0..world.below(3) {
                let time = world.below(PEACE_AT);
                world.after(time, Happening::AgentCrashes(n));
            }
        }
        world.after(0, Happening::TakesTurn { life: 1 });
        for _ in 0..world.below(3) {
            let time = world.below(PEACE_AT);
            world.after(time, Happening::HubCrashes);
        }
        for n in 0..3 + world.below(8) as usize {
            let whom = ["@alpha", "@beta", "@alpha @beta", "nobody"][world.below(4) as usize];
            let text = format!("{whom} message {n}");
            self.sayings.push(Saying { text, place: None });
            let time = world.below(PEACE_AT * 2 / 3);
            world.after(time, Happening::Says(n));
        }
    }

    /// Runs until nothing is scheduled.
    pub(crate) fn play(&mut self) {
        for _ in 0..MAX_HAPPENINGS {
            let Some(happening) = self.world.next() else { return };
            self.happen(happening);
            self.read_what_is_new();
        }
        panic!("it does not come to rest");
    }

    /// Returns `true` in `percent` of a hundred cases, while faults happen.
    fn goes_wrong(&mut self, percent: i64) -> bool {
        self.world.age() < PEACE_AT && self.world.chance(percent)
    }

    fn soon(&mut self, least: i64, most: i64, happening: Happening) {
        let delay = least + self.world.below(most - least);
        self.world.after(delay, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Says(n) => self.say(n),
            Happening::Connects { agent, life } => self.connect(agent, life),
            Happening::Reads { agent, connection } => self.read(agent, connection),
            Happening::Arrives { agent, connection, frames, place } => {
                self.arrive(agent, connection, &frames, place);
            }
            Happening::TurnEnds { agent, life } => self.end_turn(agent, life),
            Happening::Requested { agent, life, post } => self.request(agent, life, post),
            Happening::Answered { agent, life, number, posted } => self.answer(agent, life, number, posted),
            Happening::Wakes { agent, life } => {
                let Some(process) = self.process(agent, life) else { return };
                process.wakes_at = None;
                self.tell(agent, Event::Time);
            }
            Happening::TakesTurn { life } => {
                if self.hub.is_up() && self.hub.life == life && self.world.age() < TURNS_END_AT {
                    self.hub.take_turn();
                    self.world.after(500, Happening::TakesTurn { life });
                }
            }
            Happening::HubCrashes if self.hub.is_up() => {
                self.world.note("the hub crashes");
                self.hub.crash();
                for n in 0..self.agents.len() {
                    self.lose_connection(n);
                }
                self.soon(200, 5000, Happening::HubStarts);
            }
            Happening::HubCrashes => {}
            Happening::HubStarts => {
                self.hub.start();
                let life = self.hub.life;
                self.world.note(format_args!("the hub starts, {life}"));
                self.world.after(500, Happening::TakesTurn { life });
            }
            Happening::AgentCrashes(n) => self.crash(n),
            Happening::AgentStarts(n) => {
                self.agents[n].start();
                let life = self.agents[n].life;
                self.world.note(format_args!("{} starts, {life}", NAMES[n]));
                self.soon(0, 200, Happening::Connects { agent: n, life });
                self.set_alarm(n);
            }
        }
    }

    /// Returns the process of an agent, if it is still this one.
    fn process(&mut self, n: usize, life: u64) -> Option<&mut crate::agent::Process> {
        let agent = &mut self.agents[n];
        agent.process.as_mut().filter(|_| agent.life == life)
    }

    fn connection(&mut self, n: usize, number: u64) -> Option<&mut Connection> {
        let process = self.agents[n].process.as_mut()?;
        process.connection.as_mut().filter(|connection| connection.number == number)
    }

    fn crash(&mut self, n: usize) {
        if self.agents[n].process.is_none() {
            return;
        }
        self.world.note(format_args!("{} crashes", NAMES[n]));
        self.agents[n].crash();
        // Sometimes the hub does not notice before another connection takes over.
        if self.hub.is_up() && self.world.chance(50) {
            self.hub.disconnect(self.agents[n].id);
        }
        self.soon(100, 5000, Happening::AgentStarts(n));
    }

    fn lose_connection(&mut self, n: usize) {
        let agent = &mut self.agents[n];
        let life = agent.life;
        if agent.process.as_mut().and_then(|process| process.connection.take()).is_some() {
            self.soon(50, 1000, Happening::Connects { agent: n, life });
        }
    }

    fn say(&mut self, n: usize) {
        if self.sayings[n].place.is_some() {
            return;
        }
        if !self.hub.is_up() || self.goes_wrong(10) {
            return self.soon(500, 2000, Happening::Says(n));
        }
        let (key, text) = (format!("saying-{n}"), self.sayings[n].text.clone());
        let place = self.hub.say(self.person.id, self.channel, &key, &text).unwrap();
        self.world.note(format_args!("anna says at {place}: {text}"));
        if self.goes_wrong(15) {
            // She did not get the response.
            return self.soon(500, 2000, Happening::Says(n));
        }
        self.sayings[n].place = Some(place);
    }

    fn connect(&mut self, n: usize, life: u64) {
        if self.process(n, life).is_none_or(|process| process.connection.is_some()) {
            return;
        }
        if !self.hub.is_up() {
            return self.soon(200, 2000, Happening::Connects { agent: n, life });
        }
        // Sometimes it resumes at its journal and gets unfinished entries again.
        let again = self.goes_wrong(30);
        let (id, written) = (self.agents[n].id, self.agents[n].cursor());
        let received = self.process(n, life).and_then(|process| process.received);
        let after = self.hub.connect(id, received.filter(|_| !again).or(written));
        self.world.note(format_args!("{} connects after {after}", NAMES[n]));
        self.connections += 1;
        let connection = Connection::new(self.connections);
        if let Some(process) = self.process(n, life) {
            (process.connection, process.received) = (Some(connection), Some(after));
        }
        self.tell(n, Event::Began { cursor: after.to_string() });
    }

    /// Schedules reads for woken connections.
    fn read_what_is_new(&mut self) {
        for id in self.hub.waiting() {
            let Some(n) = self.agents.iter().position(|agent| agent.id == id) else { continue };
            let connection = self.agents[n].process.as_mut().and_then(|process| process.connection.as_mut());
            let Some(connection) = connection.filter(|connection| !connection.reads) else { continue };
            connection.reads = true;
            let connection = connection.number;
            self.soon(0, 50, Happening::Reads { agent: n, connection });
        }
    }

    fn read(&mut self, n: usize, number: u64) {
        if self.connection(n, number).is_none() || !self.hub.is_up() {
            return;
        }
        let id = self.agents[n].id;
        if self.goes_wrong(5) {
            self.world.note(format_args!("the connection of {} breaks", NAMES[n]));
            self.hub.disconnect(id);
            return self.lose_connection(n);
        }
        let ((frames, place), earliest) = (self.hub.read(id), self.world.now() + self.world.below(100));
        let Some(connection) = self.connection(n, number) else { return };
        connection.reads = false;
        connection.arrives_at = connection.arrives_at.max(earliest);
        let time = connection.arrives_at;
        self.world.at(time, Happening::Arrives { agent: n, connection: number, frames, place });
    }

    fn arrive(&mut self, n: usize, number: u64, frames: &[u8], place: i64) {
        if self.connection(n, number).is_none() {
            return;
        }
        let (id, life) = (self.agents[n].id, self.agents[n].life);
        self.hub.hand(id, place);
        for event in self.agents[n].receive(frames) {
            let Some(process) = self.process(n, life) else { return };
            assert!(process.core.has_room(), "so much is never said");
            if let Event::Arrived { turn, cursor } = &event {
                let (id, cursor) = (turn.message_id.clone(), cursor.clone().unwrap_or_default());
                self.world.note(format_args!("{} gets {cursor}: {id}", NAMES[n]));
            }
            self.tell(n, event);
        }
    }

    /// Passes an event to an agent and performs its actions, unless it crashes in between.
    fn tell(&mut self, n: usize, event: Event) {
        let now = self.world.now();
        let Some(process) = &mut self.agents[n].process else { return };
        for command in process.core.handle(now, event) {
            if self.goes_wrong(1) {
                return self.crash(n);
            }
            self.obey(n, command);
        }
        self.set_alarm(n);
    }

    fn set_alarm(&mut self, n: usize) {
        let agent = &mut self.agents[n];
        let (life, Some(process)) = (agent.life, &mut agent.process) else { return };
        let Some(time) = process.core.wake_at_ms() else { return };
        if process.wakes_at.is_none_or(|set| time < set) {
            process.wakes_at = Some(time);
            self.world.at(time, Happening::Wakes { agent: n, life });
        }
    }

    fn obey(&mut self, n: usize, command: Command) {
        let agent = &mut self.agents[n];
        let life = agent.life;
        if let Command::Write(record) = &command {
            agent.write(record);
            return self.world.note(format_args!("{} writes {record:?}", NAMES[n]));
        }
        let Some(process) = &mut agent.process else { return };
        match command {
            Command::Run(run) => {
                assert!(process.running.is_none(), "one turn at a time");
                process.running = Some(run);
                self.soon(50, 3000, Happening::TurnEnds { agent: n, life });
            }
            Command::Post(post) => {
                assert!(process.flying.is_none(), "one request at a time");
                process.flying = Some(post.clone());
                self.world.note(format_args!("{} posts {:?}", NAMES[n], post.to));
                self.send(n, life, post);
            }
            Command::CancelTurn { .. } => process.running = None,
            Command::GiveUp { .. } => panic!("there are no claims to lose"),
            Command::CancelPost { .. } => process.flying = None,
            Command::Tell(activity) => self.world.note(format_args!("{}: {activity:?}", NAMES[n])),
            Command::Write(_) | Command::Resume { .. } => {}
            Command::Accept | Command::Refuse { .. } | Command::End => {
                panic!("nothing was offered, and nobody ends it: {command:?}")
            }
        }
    }

    fn send(&mut self, n: usize, life: u64, post: Post) {
        if self.goes_wrong(10) {
            let perhaps_arrived = self.world.chance(50);
            let posted = failed("it was lost", Some(0), perhaps_arrived);
            return self.soon(5, 500, Happening::Answered { agent: n, life, number: post.number, posted });
        }
        if self.goes_wrong(5) {
            self.soon(5, 500, Happening::Requested { agent: n, life, post: post.clone() });
        }
        self.soon(5, 200, Happening::Requested { agent: n, life, post });
    }

    /// Handles a request at the hub, whether or not its sender still runs.
    fn request(&mut self, n: usize, life: u64, Post { number, to }: Post) {
        let To::Callback { url, key, event } = to else { panic!("everything is answered at a callback") };
        let mut posted = if self.hub.is_up() {
            match self.hub.take_callback(&url, &key, &event) {
                Ok(()) => Posted::Arrived,
                Err(error) => refused(error),
            }
        } else {
            failed("nobody is there", Some(0), false)
        };
        self.world.note(format_args!("{} {number} of {}: {posted:?}", NAMES[n], event.word()));
        if posted == Posted::Arrived && self.goes_wrong(10) {
            posted = failed("its answer was lost", Some(0), true);
        }
        self.soon(5, 200, Happening::Answered { agent: n, life, number, posted });
    }

    fn answer(&mut self, n: usize, life: u64, number: u64, posted: Posted) {
        let Some(process) = self.process(n, life) else { return };
        let Some(post) = process.flying.take_if(|post| post.number == number) else { return };
        if let (Posted::Arrived, To::Callback { key, event, .. }) = (&posted, post.to) {
            match event {
                CallbackEvent::Message { content } => self.agents[n].acknowledged.push((key, content)),
                CallbackEvent::Lifecycle { status: Lifecycle::Idle } => process.last_word = None,
                _ => {}
            }
        }
        self.tell(n, Event::Posted { number, posted });
    }

    fn end_turn(&mut self, n: usize, life: u64) {
        let Some(run) = self.process(n, life).and_then(|process| process.running.take()) else { return };
        let (task, turn) = (run.task, run.turn);
        let outcome = match self.world.below(20) {
            0 => Outcome::Silence,
            _ if is_report(&turn) => Outcome::Silence,
            1 => Outcome::Failed { why: "the driver failed".into(), code: "failed" },
            _ if self.echoes => {
                Outcome::Say { text: format!("From: {}\n{}", turn.sender, turn.text), cut: false }
            }
            _ => Outcome::Say { text: reply(n, &turn), cut: false },
        };
        self.tell(n, Event::Ended { task, outcome });
    }
}

/// Returns `true` for the hub's report on a request of the agent, which it need not answer. Its answer would count as one to
/// its own request.
pub(crate) fn is_report(turn: &Turn) -> bool {
    turn.reason == Some(Reason::Escalation) && turn.policy == Some(Policy::MayRespond)
}

/// Returns a reply that names the other agent.
fn reply(n: usize, turn: &Turn) -> String {
    format!("@{} of {}", NAMES[1 - n], turn.message_id)
}

fn failed(why: &str, retry_after_ms: Option<u64>, perhaps_arrived: bool) -> Posted {
    Posted::Failed { why: why.into(), retry_after_ms, perhaps_arrived }
}

/// Converts an error as the client does.
fn refused(error: Error) -> Posted {
    if error.code == Code::IdempotencyConflict {
        return Posted::Arrived;
    }
    let again = error.code.retryable();
    failed(&error.message, again.then(|| error.retry_after_ms.unwrap_or(0).max(0) as u64), false)
}
