//! The course of the week: people post (`people`); woken agents answer, stay silent, fail or take too long;
//! requests, responses and acknowledgements are lost, duplicated and reordered; hub and agents crash. Then the
//! faults stop, and everything comes to rest.

use super::cast::{self, Channel};
use super::harness::{Agent, Arrival};
use super::host::Host;
use super::money::Deal;
use super::people::Saying;
use crate::story::is_report;
use crate::world::World;
use chorus_agent::harness::{Command, Event, Outcome, Post, Posted};
use chorus_app::delivery::reader::Holds;
use chorus_node::caller::Person;
use chorus_protocol::ids::EventId;
use chorus_protocol::market::JobHandout;
use std::collections::BTreeMap;

/// 2027-01-15.
const BEGINS_AT: i64 = 1_800_000_000_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
pub(crate) const WEEK: i64 = 7 * 24 * HOUR;
/// Deliveries are given up after a day, and their escalations take further time.
const ENDS_AT: i64 = WEEK + 3 * 24 * HOUR;
/// The interval of the hub's turns during activity. Otherwise a turn runs only when something is due.
const TURN_MS: i64 = 2000;
const RESTLESS_MS: i64 = 6000;
const MAX_HAPPENINGS: u64 = 50_000;

/// One step of the simulation. People, agents and channels are named by number. A step for a process or
/// connection that is gone has no effect.
#[derive(Debug)]
pub(crate) enum Happening {
    Says(usize),
    Connects { agent: usize, life: u64 },
    Arrives { agent: usize, connection: u64, bytes: Vec<u8>, place: i64 },
    Acknowledges { agent: usize, connection: u64, place: i64 },
    TurnEnds { agent: usize, life: u64, task: u64 },
    Requested { agent: usize, life: u64, post: Post },
    Answered { agent: usize, life: u64, number: u64, posted: Posted },
    Wakes { agent: usize, life: u64 },
    TakesTurn { number: u64 },
    HubCrashes,
    HubStarts,
    AgentCrashes(usize),
    AgentStarts(usize),
    Deals(usize),
    Reports { agent: usize, job: Box<JobHandout>, tries: u32 },
}

pub(crate) struct Story {
    pub(crate) world: World<Happening>,
    pub(crate) host: Host,
    pub(crate) people: Vec<Person>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) sayings: Vec<Saying>,
    pub(crate) deals: Vec<Deal>,
    /// The last seen holder of each event, and until when.
    pub(crate) holders: BTreeMap<EventId, (chorus_protocol::ids::Principal, i64)>,
    connections: u64,
    answers: u64,
    turn: (u64, i64),
    last_at: i64,
}

impl Story {
    /// Creates the participants and schedules the first steps.
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = World::new(seed, BEGINS_AT);
        let rerun_every = world.below(4) as u32;
        let mut host = Host::new(seed, &world.clock, rerun_every);
        let people = cast::make_people(&mut host);
        let agents = cast::make_agents(&mut host, &people, seed, &world.clock);
        let channels = cast::make_channels(&mut host, &people, &agents);
        cast::make_streams(&mut host, &people, &agents, &channels);
        let mut story = Self {
            world,
            host,
            people,
            agents,
            channels,
            sayings: vec![],
            deals: vec![],
            holders: BTreeMap::new(),
            connections: 0,
            answers: 0,
            turn: (0, i64::MAX),
            last_at: BEGINS_AT,
        };
        story.set_out();
        story
    }

    fn set_out(&mut self) {
        for n in 0..self.agents.len() {
            let begins = self.world.below(MINUTE);
            self.world.after(begins, Happening::AgentStarts(n));
        }
        for _ in 0..6 + self.world.below(4) {
            let time = 2 * MINUTE + self.world.below(WEEK - HOUR);
            self.set_scene(time);
        }
        for _ in 0..3 + self.world.below(4) {
            let time = 2 * MINUTE + self.world.below(WEEK - HOUR);
            self.set_deal(time);
        }
        self.look_at(0);
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
    pub(crate) fn goes_wrong(&mut self, percent: i64) -> bool {
        self.world.age() < WEEK && self.world.chance(percent)
    }

    pub(crate) fn soon(&mut self, least: i64, most: i64, happening: Happening) {
        let delay = least + self.world.below(most - least);
        self.world.after(delay, happening);
    }

    fn happen(&mut self, happening: Happening) {
        if !matches!(happening, Happening::TakesTurn { .. }) {
            self.last_at = self.world.now();
            self.look_at(TURN_MS);
        }
        match happening {
            Happening::Says(n) => self.say(n),
            Happening::Connects { agent, life } => self.connect(agent, life),
            Happening::Arrives { agent, connection, bytes, place } => {
                self.arrive(agent, connection, &bytes, place);
            }
            Happening::Acknowledges { agent, connection, place } => {
                if self.is_connected(agent, connection) {
                    self.host.acknowledge(self.agents[agent].key.identity.id, place);
                }
            }
            Happening::TurnEnds { agent, life, task } => self.end_turn(agent, life, task),
            Happening::Requested { agent, life, post } => self.request(agent, life, post),
            Happening::Answered { agent, life, number, posted } => self.answer(agent, life, number, posted),
            Happening::Wakes { agent, life } => {
                if let Some(process) = self.process(agent, life) {
                    process.wakes_at = None;
                    self.tell(agent, Event::Time);
                }
            }
            Happening::TakesTurn { number } => self.take_turn(number),
            Happening::HubCrashes => self.crash_hub(),
            Happening::HubStarts => {
                self.host.start();
                self.world.note(format_args!("the hub starts, {}", self.host.life));
            }
            Happening::AgentCrashes(n) => self.crash(n),
            Happening::AgentStarts(n) => {
                self.agents[n].start();
                let life = self.agents[n].life;
                self.soon(0, 200, Happening::Connects { agent: n, life });
                self.set_alarm(n);
            }
            Happening::Deals(n) => self.deal(n),
            Happening::Reports { agent, job, tries } => self.report(agent, job, tries),
        }
    }

    /// Schedules a turn of the hub after this time at the latest.
    pub(crate) fn look_at(&mut self, after: i64) {
        let at = self.world.now() + after;
        if at < self.turn.1 {
            self.turn = (self.turn.0 + 1, at);
            self.world.at(at, Happening::TakesTurn { number: self.turn.0 });
        }
    }

    fn take_turn(&mut self, number: u64) {
        if self.turn.0 != number {
            return;
        }
        self.turn.1 = i64::MAX;
        let now = self.world.now();
        let mut due = None;
        if self.host.is_up() {
            self.host.take_turn();
            for n in 0..self.agents.len() {
                self.send_again(n);
            }
            self.look_at_claims();
            self.add_up();
            due = self.host.next_due();
        }
        let restless = (now - self.last_at < RESTLESS_MS).then_some(now + TURN_MS);
        let next = due.into_iter().chain(restless).min().unwrap_or(i64::MAX);
        if self.world.age() < ENDS_AT && next < i64::MAX {
            self.look_at((next - now).max(500));
        }
    }

    /// Returns the process of an agent, if it is still this one.
    pub(crate) fn process(&mut self, n: usize, life: u64) -> Option<&mut super::harness::Process> {
        let agent = &mut self.agents[n];
        agent.process.as_mut().filter(|_| agent.life == life)
    }

    fn is_connected(&self, n: usize, number: u64) -> bool {
        let connection = self.agents[n].process.as_ref().and_then(|process| process.connection.as_ref());
        connection.is_some_and(|connection| connection.number == number)
    }

    fn crash_hub(&mut self) {
        if !self.host.is_up() {
            return;
        }
        self.world.note("the hub crashes");
        self.host.crash();
        for n in 0..self.agents.len() {
            self.lose_connection(n);
        }
        self.soon(200, 20_000, Happening::HubStarts);
    }

    fn crash(&mut self, n: usize) {
        if self.agents[n].process.take().is_none() {
            return;
        }
        self.world.note(format_args!("{} crashes", self.agents[n].name));
        // Sometimes the hub does not notice before another connection takes over.
        if self.host.is_up() && self.world.chance(50) {
            self.host.disconnect(self.agents[n].key.identity.id);
        }
        // Sometimes nobody restarts it for hours.
        let most = if self.world.chance(20) { 5 * HOUR } else { 20_000 };
        self.soon(100, most, Happening::AgentStarts(n));
    }

    pub(crate) fn lose_connection(&mut self, n: usize) {
        let agent = &mut self.agents[n];
        let life = agent.life;
        if agent.process.as_mut().and_then(|process| process.connection.take()).is_some() {
            self.soon(50, 5000, Happening::Connects { agent: n, life });
        }
    }

    fn connect(&mut self, n: usize, life: u64) {
        if self.process(n, life).is_none_or(|process| process.connection.is_some()) {
            return;
        }
        if !self.host.is_up() {
            return self.soon(200, 4000, Happening::Connects { agent: n, life });
        }
        // Sometimes it resumes at its journal and gets unfinished entries again.
        let again = self.goes_wrong(30);
        let agent = &self.agents[n];
        let after = self.host.connect(&agent.key, agent.dialect, agent.place(again));
        self.connections += 1;
        self.agents[n].connected(self.connections, after);
        if self.agents[n].dialect == chorus_node::transport::dialect::Dialect::Sse {
            self.tell(n, Event::Began { cursor: after.to_string() });
        }
    }

    /// Schedules new data for connected agents.
    fn read_what_is_new(&mut self) {
        if !self.host.is_up() {
            return;
        }
        for n in 0..self.agents.len() {
            if self.agents[n].process.as_ref().is_none_or(|process| process.connection.is_none()) {
                continue;
            }
            let pieces = self.host.read(self.agents[n].key.identity.id);
            self.carry(n, pieces);
        }
    }

    fn send_again(&mut self, n: usize) {
        let pieces = self.host.read_again(self.agents[n].key.identity.id);
        self.carry(n, pieces);
    }

    fn carry(&mut self, n: usize, pieces: Vec<chorus_app::delivery::reader::Piece>) {
        for piece in pieces {
            if matches!(piece.holds, Holds::Ping) {
                continue;
            }
            if matches!(piece.holds, Holds::Farewell(_)) || self.goes_wrong(4) {
                self.world.note(format_args!("the connection of {} breaks", self.agents[n].name));
                self.host.disconnect(self.agents[n].key.identity.id);
                return self.lose_connection(n);
            }
            let earliest = self.world.now() + self.world.below(200);
            let process = self.agents[n].process.as_mut();
            let Some(connection) = process.and_then(|process| process.connection.as_mut()) else { return };
            connection.arrives_at = connection.arrives_at.max(earliest);
            let (time, connection) = (connection.arrives_at, connection.number);
            let bytes = piece.bytes.to_vec();
            self.world.at(time, Happening::Arrives { agent: n, connection, bytes, place: piece.through });
        }
    }

    fn arrive(&mut self, n: usize, number: u64, bytes: &[u8], place: i64) {
        if !self.is_connected(n, number) {
            return;
        }
        let life = self.agents[n].life;
        if self.agents[n].dialect == chorus_node::transport::dialect::Dialect::Sse {
            self.host.hand(self.agents[n].key.identity.id, place);
        }
        for arrival in self.agents[n].receive(bytes) {
            if self.process(n, life).is_none() {
                return;
            }
            match arrival {
                Arrival::Tell(event) => self.tell(n, event),
                Arrival::Job(job) => self.take_job(n, job),
                Arrival::Offered(taken, place) => {
                    if !self.offer(n, Event::Offered(taken)) || self.goes_wrong(8) {
                        continue;
                    }
                    let happening = Happening::Acknowledges { agent: n, connection: number, place };
                    self.soon(5, 2000, happening);
                }
            }
        }
    }

    /// Offers an event to an agent. Returns whether it accepted.
    fn offer(&mut self, n: usize, event: Event) -> bool {
        let now = self.world.now();
        let Some(process) = &mut self.agents[n].process else { return false };
        let commands = process.core.handle(now, event);
        let taken = commands.contains(&Command::Accept);
        self.carry_out(n, commands) && taken
    }

    /// Passes an event to an agent and performs its actions, unless it crashes in between.
    pub(crate) fn tell(&mut self, n: usize, event: Event) {
        let now = self.world.now();
        let Some(process) = &mut self.agents[n].process else { return };
        let commands = process.core.handle(now, event);
        self.carry_out(n, commands);
    }

    fn carry_out(&mut self, n: usize, commands: Vec<Command>) -> bool {
        for command in commands {
            if self.goes_wrong(1) {
                self.crash(n);
                return false;
            }
            self.obey(n, command);
        }
        self.set_alarm(n);
        true
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
        let (life, is_slow) = (agent.life, agent.is_slow);
        if let Command::Write(record) = &command {
            agent.disk.apply(record.clone());
            return self.world.note(format_args!("{} writes {record:?}", agent.name));
        }
        let Some(process) = &mut agent.process else { return };
        match command {
            Command::Run(run) => {
                let task = run.task;
                assert!(process.running.insert(task, run).is_none(), "a task runs once");
                let most = if is_slow { 15 * MINUTE } else { 20_000 };
                self.soon(200, most, Happening::TurnEnds { agent: n, life, task });
            }
            Command::Post(post) => {
                process.flying.insert(post.number, post.clone());
                self.world.note(format_args!("agent{n} posts {:?}", post.to));
                self.send(n, life, post);
            }
            Command::CancelTurn { task } => drop(process.running.remove(&task)),
            Command::GiveUp { task } => self.soon(5, 10_000, Happening::TurnEnds { agent: n, life, task }),
            Command::CancelPost { number } => drop(process.flying.remove(&number)),
            Command::Tell(activity) => self.world.note(format_args!("agent{n}: {activity:?}")),
            Command::Write(_) | Command::Resume { .. } | Command::Accept | Command::Refuse { .. } => {}
            Command::End => panic!("nobody ends it"),
        }
    }

    fn end_turn(&mut self, n: usize, life: u64, task: u64) {
        let Some(run) = self.process(n, life).and_then(|process| process.running.remove(&task)) else {
            return;
        };
        self.answers += 1;
        let number = self.answers;
        let other = self.world.below(cast::AGENTS as i64);
        let outcome = match self.world.below(20) {
            0 => Outcome::Silence,
            _ if is_report(&run.turn) => Outcome::Silence,
            1 => Outcome::Failed { why: "the driver failed".into(), code: "failed" },
            2..=4 => Outcome::Say { text: format!("@agent{other}, answer {number}?"), cut: false },
            5 => Outcome::Say { text: format!("thanks, answer {number}"), cut: false },
            _ => Outcome::Say { text: format!("answer {number} to {}", run.turn.message_id), cut: false },
        };
        self.tell(n, Event::Ended { task, outcome });
    }
}
