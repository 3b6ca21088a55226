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

pub use event::{Command, Event, Outcome, Run};
pub use post::{Post, Posted, To};
pub use route::Profile;

use super::activity::Activity;
use super::ledger::{End, Known, Ledger, Record, Taken};
use super::prompt::{Own, prompt};
use super::report::{clean, error_event};
use super::turn::{Back, Turn};
use chorus_environment::Environment;
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use post::{Outgoing, Sent};
use route::{Route, stream_error};
use std::collections::VecDeque;

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
    current: Option<Job>,
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

/// The message that is being dealt with.
#[derive(Debug)]
struct Job {
    turn: Turn,
    cursor: Option<String>,
    begun_ms: i64,
    /// It was said already that reports do not arrive.
    complained: bool,
    running: bool,
    outgoing: Option<(Purpose, Outgoing)>,
    /// What is to be done after that, in order.
    steps: VecDeque<Step>,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    /// To be seen; nothing depends on it.
    Report,
    /// The same, of a turn that runs and waits for it.
    Shown,
    Answer(Answer),
}

impl Purpose {
    /// Whether this may have been done before, by a process that died.
    fn is_again(&self) -> bool {
        matches!(self, Self::Answer(answer) if answer.again)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    text: String,
    /// Whether it ends before its end.
    cut: bool,
    /// Whether it may have been sent before, by a process that died.
    again: bool,
}

#[derive(Debug)]
enum Step {
    Report(CallbackEvent),
    /// Tells a sender that listens why there is no answer.
    TellSender {
        why: String,
        code: &'static str,
    },
    Run,
    /// Sends an answer that is in the journal. Whether the sender may still listen.
    Answer(Answer, bool),
    PutOff,
    Done(Verdict),
    /// The last word: the agent is done with the message.
    Idle,
}

#[derive(Debug)]
enum Verdict {
    Answered { characters: usize, cut: bool },
    Silent { why: Option<String> },
    Failed { why: String, end: End },
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
            Some(job) => job.outgoing.as_ref().map(|(_, outgoing)| outgoing.due_ms()),
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
                if let Some(mut job) = self.current.take() {
                    self.go_on(&mut job, now_ms, event, &mut out);
                    self.current = Some(job);
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

    fn intend(&mut self, job: &Job, text: &str, as_envelope: bool, out: &mut Vec<Command>) {
        self.write(Record::Intent { id: job.turn.id.clone(), text: text.to_owned(), as_envelope }, out);
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
        if waits || self.ledger.known(&taken.id) == Known::Settled {
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
            if let Some(mut job) = self.current.take() {
                while !job.running && job.outgoing.is_none() {
                    let Some(step) = job.steps.pop_front() else { break };
                    self.step(&mut job, step, now_ms, out);
                }
                if job.running || job.outgoing.is_some() {
                    self.current = Some(job);
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
        if known == Known::Settled {
            out.push(Command::Tell(Activity::Repeated { message: turn.message_id }));
            return cursor.into_iter().for_each(|cursor| self.write(Record::Cursor(cursor), out));
        }
        out.push(Command::Tell(Activity::Took {
            message: turn.message_id.clone(),
            from: turn.sender.clone(),
            channel: turn.whereabouts().map(str::to_owned),
        }));
        let too_deep = matches!(&turn.back, Back::Envelope(back) if back.depth >= MAX_DEPTH);
        let mut job = Job {
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
                job.steps.push_back(Step::Answer(Answer { text, cut: false, again: true }, !as_envelope));
            }
            Known::Acted(tool) => {
                let why = format!("interrupted after calling {tool}; it is not called again");
                job.fail(&why, "interrupted", End::Failed);
            }
            Known::New | Known::Settled if too_deep => {
                let why = format!("it is the answer to {MAX_DEPTH} answers");
                job.be_silent(&why, "loop", Some(why.clone()));
            }
            Known::New | Known::Settled => {
                let processing = CallbackEvent::Lifecycle { status: Lifecycle::Processing };
                job.steps.extend([Step::Report(processing), Step::Run]);
            }
        }
        self.current = Some(job);
    }

    /// What an event means for the message at hand.
    fn go_on(&mut self, job: &mut Job, now_ms: i64, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Stop => self.hurry(job, now_ms, out),
            Event::Shows(event) if job.running && job.outgoing.is_none() => {
                match self.report(job, event, now_ms, None) {
                    Some(outgoing) => self.send(job, Purpose::Shown, outgoing, out),
                    None => out.push(Command::Resume),
                }
            }
            Event::Acts { tool } if job.running => {
                self.write(Record::Acted { id: job.turn.id.clone(), tool }, out);
                out.push(Command::Resume);
            }
            Event::Ended(outcome) if job.running => {
                job.running = false;
                // What it was showing when it ended is not waited for.
                job.cancel_post(out);
                self.ended(job, outcome, out);
            }
            Event::Posted { number, posted } => {
                let own = job.outgoing.take_if(|(_, outgoing)| outgoing.flies() == Some(number));
                let Some((purpose, mut outgoing)) = own else { return };
                let posted = if purpose.is_again() { posted.unless_gone() } else { posted };
                match outgoing.judge(posted, now_ms, self.environment.random_u64()) {
                    None => job.outgoing = Some((purpose, outgoing)),
                    Some(sent) => self.sent(job, purpose, &outgoing, sent, now_ms, out),
                }
            }
            Event::Time => {
                let Some((purpose, outgoing)) = job.outgoing.take_if(|(_, one)| one.due_ms() <= now_ms)
                else {
                    return;
                };
                if outgoing.deadline_ms > now_ms {
                    return self.send(job, purpose, outgoing, out);
                }
                out.extend(outgoing.flies().map(|_| Command::CancelPost));
                self.sent(job, purpose, &outgoing, outgoing.late(), now_ms, out);
            }
            _ => {}
        }
    }

    /// The agent is to end: what was not begun is put off, and what is on its way is given a moment.
    fn hurry(&mut self, job: &mut Job, now_ms: i64, out: &mut Vec<Command>) {
        if !job.running && !job.steps.iter().any(|step| matches!(step, Step::Run)) {
            if let Some((_, outgoing)) = &mut job.outgoing {
                outgoing.deadline_ms = outgoing.deadline_ms.min(now_ms + GRACE_MS);
            }
            return;
        }
        out.extend(job.running.then_some(Command::CancelTurn));
        job.cancel_post(out);
        job.running = false;
        job.steps.clear();
        // Nothing is written, so that the next start begins it anew; only what may have changed something is not done twice.
        if let Known::Acted(tool) = self.ledger.known(&job.turn.id) {
            let why = format!("stopped after calling {tool}; it is not called again");
            return job.fail(&why, "stopped", End::Failed);
        }
        let status = "stopped; the answer comes at the next start".to_owned();
        job.steps.extend([Step::Report(CallbackEvent::Status { status }), Step::PutOff, Step::Idle]);
    }

    fn ended(&mut self, job: &mut Job, outcome: Outcome, out: &mut Vec<Command>) {
        match outcome {
            Outcome::Say { text, cut } => {
                let (text, shorter) = self.profile.fit(&job.turn, &text);
                self.intend(job, &text, false, out);
                job.steps.push_back(Step::Answer(Answer { text, cut: cut || shorter, again: false }, true));
            }
            Outcome::Silence => job.be_silent("there is no answer", "silent", None),
            Outcome::Failed { why, code } => job.fail(&why, code, End::Failed),
        }
    }

    fn step(&mut self, job: &mut Job, step: Step, now_ms: i64, out: &mut Vec<Command>) {
        let last_ms = if self.stop == Stop::No { LAST_PATIENCE_MS } else { GRACE_MS };
        let outgoing = match step {
            Step::Run => {
                let delimiter = self.environment.random_hex();
                let own = Own { name: &self.profile.name, culture: &self.profile.culture };
                let prompt = prompt(&job.turn, own, &delimiter);
                job.running = true;
                return out.push(Command::Run(Box::new(Run { turn: job.turn.clone(), prompt, delimiter })));
            }
            Step::Answer(answer, stream) => return self.answer(job, answer, stream, now_ms, out),
            Step::PutOff => {
                return out.push(Command::Tell(Activity::PutOff { message: job.turn.message_id.clone() }));
            }
            Step::Done(verdict) => return self.done(job, verdict, now_ms, out),
            Step::Report(event) => self.report(job, event, now_ms, None),
            Step::Idle => {
                self.report(job, CallbackEvent::Lifecycle { status: Lifecycle::Idle }, now_ms, Some(last_ms))
            }
            Step::TellSender { why, code } => stream_error(&job.turn, &why, code, now_ms + last_ms),
        };
        if let Some(outgoing) = outgoing {
            self.send(job, Purpose::Report, outgoing, out);
        }
    }

    fn report(&self, job: &Job, event: CallbackEvent, now_ms: i64, last_ms: Option<i64>) -> Option<Outgoing> {
        self.profile.report(&job.turn, event, self.environment.random_hex(), now_ms, last_ms)
    }

    fn send(&mut self, job: &mut Job, purpose: Purpose, mut outgoing: Outgoing, out: &mut Vec<Command>) {
        self.posts += 1;
        out.push(Command::Post(outgoing.fly(self.posts)));
        job.outgoing = Some((purpose, outgoing));
    }

    fn answer(&mut self, job: &mut Job, answer: Answer, stream: bool, now_ms: i64, out: &mut Vec<Command>) {
        match self.profile.answer(&job.turn, &answer.text, answer.again, stream, now_ms) {
            Route::Send(mut outgoing) => {
                if self.stop != Stop::No {
                    outgoing.deadline_ms = outgoing.deadline_ms.min(now_ms + GRACE_MS);
                }
                self.send(job, Purpose::Answer(answer), outgoing, out);
            }
            Route::PerhapsSent => job.answered(&answer),
            Route::Nowhere(why) => job.unsent(&why, false),
        }
    }

    /// What all tries of a request came to.
    fn sent(
        &mut self,
        job: &mut Job,
        purpose: Purpose,
        outgoing: &Outgoing,
        sent: Sent,
        now_ms: i64,
        out: &mut Vec<Command>,
    ) {
        match (purpose, sent) {
            (Purpose::Answer(answer), Sent::Arrived) => job.answered(&answer),
            (Purpose::Answer(answer), Sent::Gone { refused: true }) if answer.again => job.answered(&answer),
            // The sender no longer listens: it gets an envelope.
            (Purpose::Answer(answer), Sent::Gone { .. }) => {
                self.intend(job, &answer.text, true, out);
                job.steps.push_front(Step::Answer(answer, false));
            }
            // It is sent at the next start. An answer that is still to be sent is no rest.
            (Purpose::Answer(_), Sent::Unsent { .. })
                if self.stop != Stop::No && outgoing.deadline_ms <= now_ms => {}
            (Purpose::Answer(_), Sent::Unsent { why, perhaps_sent }) => job.unsent(&why, perhaps_sent),
            (purpose, sent) => {
                if let (Sent::Unsent { why, .. }, To::Callback { event, .. }) = (sent, &outgoing.to)
                    && !std::mem::replace(&mut job.complained, true)
                {
                    let why = format!("{} was not taken: {why}", event.kind());
                    out.push(Command::Tell(Activity::Unseen { why }));
                }
                out.extend((purpose == Purpose::Shown).then_some(Command::Resume));
            }
        }
    }

    fn done(&mut self, job: &mut Job, verdict: Verdict, now_ms: i64, out: &mut Vec<Command>) {
        let elapsed_ms = u64::try_from(now_ms - job.begun_ms).unwrap_or(0);
        let (end, activity) = match verdict {
            Verdict::Answered { characters, cut } => {
                (End::Answered, Activity::Answered { characters, cut, elapsed_ms })
            }
            Verdict::Silent { why } => (End::Silent, Activity::Silent { why, elapsed_ms }),
            Verdict::Failed { why, end } => (end, Activity::Failed { why, elapsed_ms }),
        };
        self.write(Record::Done { id: job.turn.id.clone(), end, cursor: job.cursor.take() }, out);
        out.push(Command::Tell(activity));
    }
}

impl Job {
    fn cancel_post(&mut self, out: &mut Vec<Command>) {
        let outgoing = self.outgoing.take();
        out.extend(outgoing.and_then(|(_, outgoing)| outgoing.flies()).map(|_| Command::CancelPost));
    }

    fn answered(&mut self, answer: &Answer) {
        let characters = answer.text.chars().count();
        self.steps.extend([Step::Done(Verdict::Answered { characters, cut: answer.cut }), Step::Idle]);
    }

    fn unsent(&mut self, why: &str, perhaps_sent: bool) {
        // What may have arrived must not be said again, even if the message comes again.
        let end = if perhaps_sent { End::Answered } else { End::Failed };
        self.fail(&format!("the answer could not be sent: {why}"), "unsent", end);
    }

    fn be_silent(&mut self, told: &str, code: &'static str, why: Option<String>) {
        let told = Step::TellSender { why: told.to_owned(), code };
        self.steps.extend([told, Step::Done(Verdict::Silent { why }), Step::Idle]);
    }

    fn fail(&mut self, why: &str, code: &'static str, end: End) {
        let why = clean(why, 2000);
        self.steps.extend([
            Step::Report(error_event(&why, code)),
            Step::TellSender { why: why.clone(), code },
            Step::Done(Verdict::Failed { why, end }),
            Step::Idle,
        ]);
    }
}
