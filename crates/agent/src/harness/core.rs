//! The harness as a state machine: what happened goes in, what is to be done comes out.
//!
//! No sockets, no threads, no timers, no clock: [`Core::handle`] is told the time. Given the same events at the same
//! times and the same seed it gives the same commands. The shell (`worker`), or a simulation, carries these out in their order
//! and tells what came of them.
//!
//! What always holds: messages are dealt with one after the other, in the order in which they came, so at most one turn
//! runs and at most one request is on its way. The answer is in the journal before it leaves, and a message counts as dealt
//! with only after its answer has arrived, so that a core made from the same [`Ledger`] goes on where another one died. At
//! most [`Core::has_room`]'s number wait. When the agent is told to stop, a turn that runs is cancelled and begun anew at
//! the next start, unless a tool was called that may have changed something; an answer that is on its way is given a
//! moment, and else sent at the next start.
//!
//! It deliberately does not know how anything is sent, nor what makes the answers.

mod event;
mod post;
mod route;
mod task;

pub use event::{Command, Event, Outcome, Run};
pub use post::{Post, Posted, To};
pub use route::Profile;

use super::activity::Activity;
use super::ledger::{End, Known, Ledger, Record, Taken};
use super::prompt::{Own, prompt};
use super::turn::{Back, Turn};
use chorus_environment::Environment;
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use post::{Conclusion, Outgoing};
use route::{Route, stream_error};
use std::collections::VecDeque;
use task::{Answer, Purpose, Step, Task, Verdict};

/// How many arrivals wait for the agent.
const QUEUE: usize = 64;

/// How long an answer on its way, or the last word about a turn, may hold up the end of the agent.
const GRACE_MS: i64 = 5000;

/// How long the last word about a turn is tried.
const LAST_PATIENCE_MS: i64 = 60_000;

/// How many answers to answers two agents exchange before this one falls silent.
const MAX_DEPTH: u64 = 8;

/// See the [module](self).
#[derive(Debug)]
pub struct Core {
    profile: Profile,
    environment: Environment,
    ledger: Ledger,
    queue: VecDeque<Waiting>,
    current: Option<Task>,
    stop: Stop,
    /// How many requests were made.
    posts: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// What is at hand is brought to an end.
    Asked,
    Ended,
}

#[derive(Debug)]
enum Waiting {
    Turn(Box<Turn>, Option<String>),
    /// A place of the inbox with nothing to answer.
    Nothing(String),
    /// Nothing comes after this.
    End,
}

impl Core {
    /// A core that goes on where `ledger` ends. Time is not taken from `environment`.
    pub fn new(profile: Profile, ledger: Ledger, environment: Environment) -> Self {
        let left_over = ledger.taken().iter().filter_map(|taken| taken.turn().ok());
        let queue = left_over.map(|turn| Waiting::Turn(Box::new(turn), None)).collect();
        Self { profile, environment, ledger, queue, current: None, stop: Stop::No, posts: 0 }
    }

    /// What is written, and what will be once all commands were carried out.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether another message may come now.
    pub fn has_room(&self) -> bool {
        self.queue.len() < QUEUE && self.stop == Stop::No
    }

    /// When [`Event::Time`] is to come, if nothing else does before; a moment that has passed means at once.
    pub fn wake_at_ms(&self) -> Option<i64> {
        match &self.current {
            Some(task) => task.outgoing.as_ref().map(|(_, outgoing)| outgoing.due_ms()),
            // What was left over by another process.
            None => (!self.queue.is_empty() && self.stop == Stop::No).then_some(i64::MIN),
        }
    }

    /// Takes note of an event; what is to be done now.
    pub fn handle(&mut self, now_ms: i64, event: Event) -> Vec<Command> {
        let mut out = Vec::new();
        match event {
            // What is handed over from here on must come again, also to a process that knows nothing.
            Event::Began { cursor } if self.ledger.cursor().is_none() => {
                self.write(Record::Cursor(cursor), &mut out);
            }
            Event::Began { .. } => {}
            Event::Arrived { turn, cursor } => self.queue.push_back(Waiting::Turn(turn, cursor)),
            Event::Nothing { cursor } => self.queue.push_back(Waiting::Nothing(cursor)),
            Event::Offered(taken) => self.offered(taken, &mut out),
            Event::Closed => self.queue.push_back(Waiting::End),
            event => {
                if event == Event::Stop && self.stop == Stop::No {
                    self.stop = Stop::Asked;
                }
                if let Some(mut task) = self.current.take() {
                    self.go_on(&mut task, now_ms, event, &mut out);
                    self.current = Some(task);
                }
            }
        }
        self.advance(now_ms, &mut out);
        out
    }

    fn write(&mut self, record: Record, out: &mut Vec<Command>) {
        self.ledger.apply(record.clone());
        out.push(Command::Write(record));
    }

    fn intend(&mut self, task: &Task, text: &str, as_envelope: bool, out: &mut Vec<Command>) {
        self.write(Record::Intent { id: task.turn.id.clone(), text: text.to_owned(), as_envelope }, out);
    }

    fn offered(&mut self, taken: Taken, out: &mut Vec<Command>) {
        let turn = match taken.turn() {
            Ok(turn) if self.has_room() => turn,
            Ok(_) => {
                return out.push(Command::Refuse { why: "too many messages wait for this agent".into() });
            }
            Err(faults) => return out.push(Command::Refuse { why: faults.to_string() }),
        };
        let waits = self.ledger.taken().iter().any(|one| one.id == taken.id);
        if waits || self.ledger.known(&taken.id) == Known::Done {
            // Whether it may come again is the journal's to say: one that failed may.
            out.push(Command::Accept);
            return out.push(Command::Tell(Activity::Repeated { message: turn.message_id }));
        }
        self.write(Record::Took(taken), out);
        out.push(Command::Accept);
        self.queue.push_back(Waiting::Turn(Box::new(turn), None));
    }

    /// Does what can be done until something has to be waited for.
    fn advance(&mut self, now_ms: i64, out: &mut Vec<Command>) {
        loop {
            if let Some(mut task) = self.current.take() {
                while !task.running && task.outgoing.is_none() {
                    let Some(step) = task.steps.pop_front() else { break };
                    self.step(&mut task, step, now_ms, out);
                }
                if task.running || task.outgoing.is_some() {
                    self.current = Some(task);
                    return;
                }
            }
            if self.stop != Stop::No {
                if self.stop == Stop::Asked {
                    self.stop = Stop::Ended;
                    out.push(Command::End);
                }
                return;
            }
            match self.queue.pop_front() {
                None => return,
                Some(Waiting::End) => self.stop = Stop::Asked,
                Some(Waiting::Nothing(cursor)) => self.write(Record::Cursor(cursor), out),
                Some(Waiting::Turn(turn, cursor)) => self.begin(*turn, cursor, now_ms, out),
            }
        }
    }

    fn begin(&mut self, turn: Turn, cursor: Option<String>, now_ms: i64, out: &mut Vec<Command>) {
        let known = self.ledger.known(&turn.id);
        if known == Known::Done {
            out.push(Command::Tell(Activity::Repeated { message: turn.message_id }));
            return cursor.into_iter().for_each(|cursor| self.write(Record::Cursor(cursor), out));
        }
        out.push(Command::Tell(Activity::Took {
            message: turn.message_id.clone(),
            from: turn.sender.clone(),
            channel: turn.whereabouts().map(str::to_owned),
        }));
        let too_deep = matches!(&turn.back, Back::Envelope(back) if back.depth >= MAX_DEPTH);
        let mut task = Task {
            turn,
            cursor,
            begun_ms: now_ms,
            complained: false,
            running: false,
            outgoing: None,
            steps: VecDeque::new(),
        };
        match known {
            Known::Intended { text, as_envelope } => {
                task.steps.push_back(Step::Answer(Answer { text, cut: false, again: true }, !as_envelope));
            }
            Known::Acted(tool) => {
                let why = format!("interrupted after calling {tool}; it is not called again");
                task.fail(&why, "interrupted", End::Failed);
            }
            Known::New | Known::Done if too_deep => {
                let why = format!("it is the answer to {MAX_DEPTH} answers");
                task.be_silent(&why, "loop", Some(why.clone()));
            }
            Known::New | Known::Done => {
                let processing = CallbackEvent::Lifecycle { status: Lifecycle::Processing };
                task.steps.extend([Step::Report(processing), Step::Run]);
            }
        }
        self.current = Some(task);
    }

    /// What an event means for the message at hand.
    fn go_on(&mut self, task: &mut Task, now_ms: i64, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Stop => self.hurry(task, now_ms, out),
            Event::Shows(event) if task.running && task.outgoing.is_none() => {
                match self.report(task, event, now_ms, None) {
                    Some(outgoing) => self.send(task, Purpose::Shown, outgoing, out),
                    None => out.push(Command::Resume),
                }
            }
            Event::Acts { tool } if task.running => {
                self.write(Record::Acted { id: task.turn.id.clone(), tool }, out);
                out.push(Command::Resume);
            }
            Event::Ended(outcome) if task.running => {
                task.running = false;
                // What it was showing when it ended is not waited for.
                task.cancel_post(out);
                self.ended(task, outcome, out);
            }
            Event::Posted { number, posted } => {
                let own = task.outgoing.take_if(|(_, outgoing)| outgoing.flies() == Some(number));
                let Some((purpose, mut outgoing)) = own else { return };
                let posted = if purpose.is_again() { posted.unless_gone() } else { posted };
                match outgoing.judge(posted, now_ms, self.environment.random_u64()) {
                    None => task.outgoing = Some((purpose, outgoing)),
                    Some(sent) => self.sent(task, purpose, &outgoing, sent, now_ms, out),
                }
            }
            Event::Time => {
                let Some((purpose, outgoing)) = task.outgoing.take_if(|(_, one)| one.due_ms() <= now_ms)
                else {
                    return;
                };
                if outgoing.deadline_ms > now_ms {
                    return self.send(task, purpose, outgoing, out);
                }
                out.extend(outgoing.flies().map(|_| Command::CancelPost));
                self.sent(task, purpose, &outgoing, outgoing.late(), now_ms, out);
            }
            _ => {}
        }
    }

    /// The agent is to end: what was not begun is put off, and what is on its way is given a moment.
    fn hurry(&mut self, task: &mut Task, now_ms: i64, out: &mut Vec<Command>) {
        if !task.running && !task.steps.iter().any(|step| matches!(step, Step::Run)) {
            if let Some((_, outgoing)) = &mut task.outgoing {
                outgoing.deadline_ms = outgoing.deadline_ms.min(now_ms + GRACE_MS);
            }
            return;
        }
        out.extend(task.running.then_some(Command::CancelTurn));
        task.cancel_post(out);
        task.running = false;
        task.steps.clear();
        // Nothing is written, so that the next start begins it anew; only what may have changed something is not done twice.
        if let Known::Acted(tool) = self.ledger.known(&task.turn.id) {
            let why = format!("stopped after calling {tool}; it is not called again");
            return task.fail(&why, "stopped", End::Failed);
        }
        let status = "stopped; the answer comes at the next start".to_owned();
        task.steps.extend([Step::Report(CallbackEvent::Status { status }), Step::PutOff, Step::Idle]);
    }

    fn ended(&mut self, task: &mut Task, outcome: Outcome, out: &mut Vec<Command>) {
        match outcome {
            Outcome::Say { text, cut } => {
                let (text, shorter) = self.profile.fit(&task.turn, &text);
                self.intend(task, &text, false, out);
                task.steps.push_back(Step::Answer(Answer { text, cut: cut || shorter, again: false }, true));
            }
            Outcome::Silence => task.be_silent("there is no answer", "silent", None),
            Outcome::Failed { why, code } => task.fail(&why, code, End::Failed),
        }
    }

    fn step(&mut self, task: &mut Task, step: Step, now_ms: i64, out: &mut Vec<Command>) {
        let last_ms = if self.stop == Stop::No { LAST_PATIENCE_MS } else { GRACE_MS };
        let outgoing = match step {
            Step::Run => {
                let delimiter = self.environment.random_hex();
                let own = Own { name: &self.profile.name, culture: &self.profile.culture };
                let prompt = prompt(&task.turn, own, &delimiter);
                task.running = true;
                return out.push(Command::Run(Box::new(Run { turn: task.turn.clone(), prompt, delimiter })));
            }
            Step::Answer(answer, stream) => return self.answer(task, answer, stream, now_ms, out),
            Step::PutOff => {
                return out.push(Command::Tell(Activity::PutOff { message: task.turn.message_id.clone() }));
            }
            Step::Done(verdict) => return self.done(task, verdict, now_ms, out),
            Step::Report(event) => self.report(task, event, now_ms, None),
            Step::Idle => {
                self.report(task, CallbackEvent::Lifecycle { status: Lifecycle::Idle }, now_ms, Some(last_ms))
            }
            Step::TellSender { why, code } => stream_error(&task.turn, &why, code, now_ms + last_ms),
        };
        if let Some(outgoing) = outgoing {
            self.send(task, Purpose::Report, outgoing, out);
        }
    }

    fn report(
        &self,
        task: &Task,
        event: CallbackEvent,
        now_ms: i64,
        last_ms: Option<i64>,
    ) -> Option<Outgoing> {
        self.profile.report(&task.turn, event, self.environment.random_hex(), now_ms, last_ms)
    }

    fn send(&mut self, task: &mut Task, purpose: Purpose, mut outgoing: Outgoing, out: &mut Vec<Command>) {
        self.posts += 1;
        out.push(Command::Post(outgoing.fly(self.posts)));
        task.outgoing = Some((purpose, outgoing));
    }

    fn answer(&mut self, task: &mut Task, answer: Answer, stream: bool, now_ms: i64, out: &mut Vec<Command>) {
        match self.profile.answer(&task.turn, &answer.text, answer.again, stream, now_ms) {
            Route::Send(mut outgoing) => {
                if self.stop != Stop::No {
                    outgoing.deadline_ms = outgoing.deadline_ms.min(now_ms + GRACE_MS);
                }
                self.send(task, Purpose::Answer(answer), outgoing, out);
            }
            Route::PerhapsSent => task.answered(&answer),
            Route::Nowhere(why) => task.unsent(&why, false),
        }
    }

    /// What all tries of a request came to.
    fn sent(
        &mut self,
        task: &mut Task,
        purpose: Purpose,
        outgoing: &Outgoing,
        sent: Conclusion,
        now_ms: i64,
        out: &mut Vec<Command>,
    ) {
        match (purpose, sent) {
            (Purpose::Answer(answer), Conclusion::Arrived) => task.answered(&answer),
            (Purpose::Answer(answer), Conclusion::Gone { refused: true }) if answer.again => {
                task.answered(&answer);
            }
            // The sender no longer listens: it gets an envelope.
            (Purpose::Answer(answer), Conclusion::Gone { .. }) => {
                self.intend(task, &answer.text, true, out);
                task.steps.push_front(Step::Answer(answer, false));
            }
            // It is sent at the next start. An answer that is still to be sent is no rest.
            (Purpose::Answer(_), Conclusion::Unsent { .. })
                if self.stop != Stop::No && outgoing.deadline_ms <= now_ms => {}
            (Purpose::Answer(_), Conclusion::Unsent { why, perhaps_sent }) => task.unsent(&why, perhaps_sent),
            (purpose, sent) => {
                if let (Conclusion::Unsent { why, .. }, To::Callback { event, .. }) = (sent, &outgoing.to)
                    && !std::mem::replace(&mut task.complained, true)
                {
                    let why = format!("{} was not taken: {why}", event.kind());
                    out.push(Command::Tell(Activity::Unseen { why }));
                }
                out.extend((purpose == Purpose::Shown).then_some(Command::Resume));
            }
        }
    }

    fn done(&mut self, task: &mut Task, verdict: Verdict, now_ms: i64, out: &mut Vec<Command>) {
        let elapsed_ms = u64::try_from(now_ms - task.begun_ms).unwrap_or(0);
        let (end, activity) = match verdict {
            Verdict::Answered { characters, cut } => {
                (End::Answered, Activity::Answered { characters, cut, elapsed_ms })
            }
            Verdict::Silent { why } => (End::Silent, Activity::Silent { why, elapsed_ms }),
            Verdict::Failed { why, end } => (end, Activity::Failed { why, elapsed_ms }),
        };
        self.write(Record::Done { id: task.turn.id.clone(), end, cursor: task.cursor.take() }, out);
        out.push(Command::Tell(activity));
    }
}
