//! The harness as a state machine: events go in, commands come out.
//!
//! It uses no sockets, threads, timers or clock: [`Core::handle`] is given the time. The same events at the
//! same times with the same seed produce the same commands. The shell (`worker`), or a simulation, executes
//! the commands in order and reports their results as events.
//!
//! Guarantees:
//! - A few threads are processed in parallel, the messages of one thread in order. A thread
//!   has at most one running turn and at most one request in flight, apart from the renewal of its claim.
//! - Messages that a person sends in pieces are merged (`line`). A running turn is cancelled for another piece
//!   as long as nothing was sent.
//! - An answer is in the journal before it is sent. A message counts as done only after its answer has arrived,
//!   so that a core created from the same [`Ledger`] continues after a crash.
//! - The number of waiting messages is bounded ([`Core::has_room`]).
//! - When the agent is told to stop, a running turn is cancelled and started again at the next start, unless a
//!   tool was called that may have changed something. An answer in flight gets a grace period; if that is not
//!   enough, it is sent at the next start.
//!
//! The core does not know how anything is sent, nor what produces the answers.

mod arrivals;
mod digests;
mod event;
mod line;
mod notice;
mod post;
mod renewal;
mod route;
mod sending;
mod task;

pub use event::{Command, Event, Outcome, Run};
pub use post::{Post, Posted, To};
pub use route::{AT_ONCE, Profile};

use super::activity::Activity;
use super::ledger::{End, Known, Ledger, Record};
use super::texts::without_nul;
use super::turn::{Back, Turn};
use chorus_environment::Environment;
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use chorus_protocol::relay::MAX_REPLY_DEPTH;
use line::{Batch, Line};
use notice::{Attend, attend, claim, disposed};
use route::stream_error;
use task::{Answer, Purpose, Request, Step, Task, Verdict};

/// The number of messages that may wait for the agent.
const QUEUE: usize = 512;

/// The time that an answer in flight, or the final report of a turn, may delay the agent's exit.
const GRACE_MS: i64 = 5000;

/// The time for which the final report of a turn is retried.
const LAST_PATIENCE_MS: i64 = 60_000;

/// The state machine; see the [module](self).
#[derive(Debug)]
pub struct Core {
    profile: Profile,
    environment: Environment,
    ledger: Ledger,
    line: Line,
    digests: digests::Digests,
    /// The tasks in progress, each for one message of its thread.
    tasks: Vec<Task>,
    stop: Stop,
    /// Set when no further messages will come.
    closed: bool,
    /// The number of requests made so far.
    posts: u64,
    /// The number of tasks created so far.
    numbers: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// The current tasks are being finished.
    Asked,
    Ended,
}

impl Core {
    /// Creates a core that continues from `ledger`. The time is not taken from `environment`.
    pub fn new(profile: Profile, ledger: Ledger, environment: Environment) -> Self {
        let mut line = Line::new(profile.quiet_ms);
        // Messages left over by an earlier process are due at once.
        let left_over = ledger.taken().iter().filter_map(|taken| taken.turn().ok());
        left_over.for_each(|turn| line.push(Batch::single(turn, i64::MIN)));
        let (tasks, stop, digests) = (vec![], Stop::No, digests::Digests::default());
        Self { profile, environment, ledger, line, digests, tasks, stop, closed: false, posts: 0, numbers: 0 }
    }

    /// Returns the ledger as it will be after all returned commands were executed.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns whether another message may be handed in now.
    pub fn has_room(&self) -> bool {
        self.line.len() < QUEUE && self.stop == Stop::No && !self.closed
    }

    /// Returns the time of the next [`Event::Time`], if no other event comes first. A time in the past means
    /// at once.
    pub fn wake_at_ms(&self) -> Option<i64> {
        let posts = self.tasks.iter().filter_map(|task| Some(task.request.as_ref()?.post.due_ms()));
        let next = match self.stop {
            Stop::No if !self.has_hands() => None,
            Stop::No if self.line.is_ready(|one| self.is_free(one)) => Some(i64::MIN),
            Stop::No => self.line.next_due_ms(),
            Stop::Asked | Stop::Ended => None,
        };
        posts.chain(self.tasks.iter().filter_map(Task::renewal_due_ms)).chain(next).min()
    }

    /// Processes an event and returns the commands to execute.
    pub fn handle(&mut self, now_ms: i64, event: Event) -> Vec<Command> {
        let mut out = Vec::new();
        match event {
            // The cursor is stored at once, so that messages handed over from here on come again to a new
            // process.
            Event::Began { cursor } if self.ledger.cursor().is_none() => {
                self.write(Record::Cursor(cursor), &mut out);
            }
            Event::Began { .. } => {}
            Event::Arrived { turn, cursor } => self.arrived(*turn, cursor, now_ms, &mut out),
            Event::Nothing { cursor } => {
                self.line.nothing(cursor);
                self.move_cursor(&mut out);
            }
            Event::Offered(taken) => self.offered(taken, now_ms, &mut out),
            Event::Typing(source) => self.line.typing(source, now_ms),
            Event::Withdrawn { message } => self.withdraw(&message, now_ms, &mut out),
            Event::Stopped { message, why } => {
                let why = why.as_deref().unwrap_or("the work was stopped");
                self.stop_work(|turn| turn.stands_for(&message), why, now_ms, &mut out);
            }
            Event::Closed => self.closed = true,
            Event::Stop => {
                if self.stop == Stop::No {
                    self.stop = Stop::Asked;
                }
                self.each(now_ms, &Event::Stop, &mut out, |_| true);
            }
            Event::Time => self.each(now_ms, &Event::Time, &mut out, |_| true),
            Event::Shows { task, .. }
            | Event::Grows { task, .. }
            | Event::Acts { task, .. }
            | Event::Ended { task, .. } => {
                self.each(now_ms, &event, &mut out, |one| one.number == task);
            }
            Event::Posted { number, .. } => self.each(now_ms, &event, &mut out, |one| {
                one.renewal == Some(number) || one.request.as_ref().is_some_and(|request| request.is(number))
            }),
        }
        self.advance(now_ms, &mut out);
        out
    }

    /// Passes an event to the tasks that it concerns.
    fn each(&mut self, now_ms: i64, event: &Event, out: &mut Vec<Command>, concerns: impl Fn(&Task) -> bool) {
        let mut tasks = std::mem::take(&mut self.tasks);
        for task in tasks.iter_mut().filter(|task| concerns(task)) {
            self.go_on(task, now_ms, event.clone(), out);
        }
        self.tasks = tasks;
    }

    fn write(&mut self, record: Record, out: &mut Vec<Command>) {
        self.ledger.apply(record.clone());
        out.push(Command::Write(record));
    }

    /// Records the inbox position up to which everything was processed.
    fn move_cursor(&mut self, out: &mut Vec<Command>) {
        self.line.move_cursor().into_iter().for_each(|record| self.write(record, out));
    }

    fn intend(&mut self, task: &Task, text: &str, as_envelope: bool, out: &mut Vec<Command>) {
        let (id, merged) = (task.turn.id.clone(), task.merged());
        self.write(Record::Intent { id, text: text.to_owned(), as_envelope, merged }, out);
    }

    /// Returns whether no task runs in a thread.
    fn is_free(&self, thread: &str) -> bool {
        self.tasks.iter().flat_map(Task::turns).all(|turn| turn.thread_key() != thread)
    }

    fn has_hands(&self) -> bool {
        self.tasks.len() < self.profile.at_once.max(1)
    }

    fn works_on(&self, id: &str) -> bool {
        self.tasks.iter().filter(|task| !task.recorded).flat_map(Task::turns).any(|turn| turn.id == id)
    }

    /// Executes steps until every task waits for something.
    fn advance(&mut self, now_ms: i64, out: &mut Vec<Command>) {
        loop {
            for mut task in std::mem::take(&mut self.tasks) {
                while !task.running && task.request.is_none() {
                    let Some(step) = task.steps.pop_front() else { break };
                    self.step(&mut task, step, now_ms, out);
                }
                if task.running || task.request.is_some() {
                    self.tasks.push(task);
                }
            }
            if self.stop != Stop::No {
                if self.stop == Stop::Asked && self.tasks.is_empty() {
                    self.stop = Stop::Ended;
                    out.push(Command::End);
                }
                return;
            }
            let next = if self.has_hands() {
                let turns = self.tasks.iter().flat_map(Task::turns);
                let busy: Vec<_> = turns.map(Turn::thread_key).collect();
                self.line.next(now_ms, |thread| !busy.iter().any(|one| one == thread))
            } else {
                None
            };
            match next {
                Some(batch) => self.begin(batch, now_ms, out),
                None if self.closed && self.tasks.is_empty() && self.line.len() == 0 => {
                    self.stop = Stop::Asked;
                }
                None => return,
            }
        }
    }

    fn begin(&mut self, batch: Batch, now_ms: i64, out: &mut Vec<Command>) {
        self.numbers += 1;
        let mut task = Task::of(self.numbers, batch, now_ms);
        let turn = &task.turn;
        self.keep_digest(turn, out);
        out.push(Command::Tell(Activity::Took {
            message: turn.message_id.clone(),
            from: turn.sender.clone(),
            channel: turn.whereabouts().map(str::to_owned),
            pieces: task.earlier.len() + 1,
        }));
        let too_deep = match &turn.back {
            Back::Envelope(back) => back.depth >= MAX_REPLY_DEPTH,
            Back::Session(back) => back.depth >= MAX_REPLY_DEPTH,
            Back::Callback(_) => false,
        };
        match self.ledger.known(&turn.id) {
            Known::Intended { text, as_envelope } => {
                // An earlier version wrote answers that a hub does not accept.
                let text = without_nul(text);
                task.committed = true;
                task.steps.push_back(Step::Answer(Answer { text, cut: false, again: true }, !as_envelope));
            }
            Known::Acted(tool) => {
                let why = format!("interrupted after calling {tool}; it is not called again");
                task.fail(&why, "interrupted", End::Failed);
            }
            Known::New | Known::Done if too_deep => {
                let why = format!("it is the answer to {MAX_REPLY_DEPTH} answers");
                task.be_silent(&why, "loop", Some(why.clone()));
            }
            Known::New | Known::Done => match attend(turn) {
                Attend::Work => task.work(),
                Attend::Claim => task.steps.push_back(Step::Claim),
                Attend::Leave(disposition, why) => task.leave(disposition, Some(why.to_owned())),
            },
        }
        self.tasks.push(task);
    }

    /// Applies an event to one task.
    fn go_on(&mut self, task: &mut Task, now_ms: i64, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Stop => self.hurry(task, now_ms, out),
            Event::Shows { event, .. } if task.running && task.request.is_none() => {
                match self.report(task, event, now_ms, None) {
                    Some(outgoing) => self.send(task, Purpose::Shown, outgoing, out),
                    None => out.push(Command::Resume { task: task.number }),
                }
            }
            Event::Grows { text, .. } if task.running && task.request.is_none() => {
                match self.profile.piece(&task.turn, text, self.environment.random_hex(), now_ms) {
                    Some(outgoing) => {
                        // A piece that was streamed to a sender cannot be withdrawn. In a channel, the final
                        // message replaces the partial one.
                        task.committed |= matches!(outgoing.to, To::Piece { .. });
                        self.send(task, Purpose::Shown, outgoing, out);
                    }
                    None => out.push(Command::Resume { task: task.number }),
                }
            }
            Event::Acts { tool, .. } if task.running => {
                task.committed = true;
                let (id, merged) = (task.turn.id.clone(), task.merged());
                self.write(Record::Acted { id, tool, merged }, out);
                out.push(Command::Resume { task: task.number });
            }
            Event::Ended { outcome, .. } if task.running => {
                task.running = false;
                // A progress report still in flight when the turn ended is dropped.
                task.cancel_post(out);
                // In these cases nobody has seen the output of the turn.
                let failed = matches!(outcome, Outcome::Failed { .. } | Outcome::Withdrawn { .. });
                if let Some(why) = task.lost.take() {
                    task.committed = true;
                    task.not_ours(why);
                    self.end_digests(task.number, true, out);
                } else {
                    self.ended(task, outcome, out);
                    self.end_digests(task.number, failed, out);
                }
            }
            Event::Posted { number, posted } if task.renewal == Some(number) => {
                task.renewed(posted, now_ms, out);
            }
            Event::Posted { number, posted: Posted::Given(result) } => {
                let own = task.request.take_if(|request| request.is(number));
                if own.is_some_and(|request| request.purpose == Purpose::Claim) {
                    self.claimed(task, *result, now_ms);
                }
            }
            Event::Posted { number, posted } => {
                let own = task.request.take_if(|request| request.is(number));
                let Some(mut request) = own else { return };
                let posted = if request.purpose.is_again() { posted.unless_gone() } else { posted };
                match request.post.judge(posted, now_ms, self.environment.random_u64()) {
                    None => task.request = Some(request),
                    Some(sent) => self.sent(task, request, sent, now_ms, out),
                }
            }
            Event::Time => {
                self.renew(task, now_ms, out);
                let due = task.request.take_if(|request| request.post.due_ms() <= now_ms);
                let Some(request) = due else { return };
                if request.post.deadline_ms > now_ms {
                    return self.send(task, request.purpose, request.post, out);
                }
                out.extend(request.post.flies().map(|number| Command::CancelPost { number }));
                let late = request.post.late();
                self.sent(task, request, late, now_ms, out);
            }
            // Events of a cancelled turn are ignored. The other events concern no task.
            Event::Shows { .. }
            | Event::Grows { .. }
            | Event::Acts { .. }
            | Event::Ended { .. }
            | Event::Began { .. }
            | Event::Arrived { .. }
            | Event::Nothing { .. }
            | Event::Offered(_)
            | Event::Typing(_)
            | Event::Withdrawn { .. }
            | Event::Stopped { .. }
            | Event::Closed => {}
        }
    }

    /// Hurries a task because the agent is to stop: work that was not started is put off, and a request in
    /// flight gets a grace period.
    fn hurry(&mut self, task: &mut Task, now_ms: i64, out: &mut Vec<Command>) {
        if !task.running && !task.steps.iter().any(|step| matches!(step, Step::Run)) {
            if let Some(Request { post, .. }) = &mut task.request {
                post.deadline_ms = post.deadline_ms.min(now_ms + GRACE_MS);
            }
            return;
        }
        out.extend(task.running.then_some(Command::CancelTurn { task: task.number }));
        task.cancel_post(out);
        task.running = false;
        task.steps.clear();
        // Nothing is written, so that the next start begins the turn again. Only a tool call that may have
        // changed something is not repeated.
        if let Known::Acted(tool) = self.ledger.known(&task.turn.id) {
            let why = format!("stopped after calling {tool}; it is not called again");
            return task.fail(&why, "stopped", End::Failed);
        }
        let status = "stopped; the answer comes at the next start".to_owned();
        task.steps.extend([Step::Report(CallbackEvent::Status { status }), Step::PutOff, Step::Idle]);
    }

    fn ended(&mut self, task: &mut Task, outcome: Outcome, out: &mut Vec<Command>) {
        task.committed = true;
        match outcome {
            Outcome::Say { text, cut } => {
                let (text, shorter) = self.profile.fit(&task.turn, &without_nul(text));
                self.intend(task, &text, false, out);
                task.steps.push_back(Step::Answer(Answer { text, cut: cut || shorter, again: false }, true));
            }
            Outcome::Silence if self.profile.seen && notice::is_to_be_answered(&task.turn) => task.see(),
            Outcome::Silence if notice::is_to_be_answered(&task.turn) => task.have_no_answer(End::Failed),
            Outcome::Silence => task.have_no_answer(End::Silent),
            Outcome::Answered => {
                let verdict = Verdict::Answered { characters: 0, cut: false };
                task.steps.extend([Step::Done(verdict), Step::Idle]);
            }
            Outcome::Failed { why, code } => task.fail(&why, code, End::Failed),
            Outcome::Withdrawn { messages } => self.leave_out(task, &messages, out),
        }
    }

    fn step(&mut self, task: &mut Task, step: Step, now_ms: i64, out: &mut Vec<Command>) {
        let last_ms = if self.stop == Stop::No { LAST_PATIENCE_MS } else { GRACE_MS };
        let outgoing = match step {
            Step::Run => {
                let delimiter = self.environment.random_hex();
                let digests = self.digests.of(&self.ledger, task.number);
                task.running = true;
                task.keep_claim(now_ms);
                let (task, turn, earlier) = (task.number, task.turn.clone(), task.earlier.clone());
                return out.push(Command::Run(Box::new(Run { task, turn, earlier, digests, delimiter })));
            }
            Step::Answer(answer, stream) => return self.answer(task, answer, stream, now_ms, out),
            Step::PutOff => {
                return out.push(Command::Tell(Activity::PutOff { message: task.turn.message_id.clone() }));
            }
            Step::Done(verdict) => return self.done(task, verdict, now_ms, out),
            Step::Report(event) => self.report(task, event, now_ms, None),
            Step::Claim => return self.send(task, Purpose::Claim, claim(&task.turn, now_ms), out),
            Step::Release => notice::released(&task.turn, now_ms + last_ms),
            Step::See => Some(notice::seen(&task.turn, now_ms + last_ms)),
            Step::Dispose(turn, disposition, why) => {
                disposed(&turn, disposition, why.as_deref(), now_ms + last_ms)
            }
            Step::Idle => {
                self.report(task, CallbackEvent::Lifecycle { status: Lifecycle::Idle }, now_ms, Some(last_ms))
            }
            Step::TellSender { why, code } => stream_error(&task.turn, &why, code, now_ms + last_ms),
        };
        if let Some(outgoing) = outgoing {
            self.send(task, Purpose::Report, outgoing, out);
        }
    }

    fn done(&mut self, task: &mut Task, verdict: Verdict, now_ms: i64, out: &mut Vec<Command>) {
        let elapsed_ms = u64::try_from(now_ms - task.begun_ms).unwrap_or(0);
        let (end, activity) = match verdict {
            Verdict::Answered { characters, cut } => {
                (End::Answered, Activity::Answered { characters, cut, elapsed_ms })
            }
            Verdict::Silent { why, end } => (end, Activity::Silent { why, elapsed_ms }),
            Verdict::Failed { why, end } => (end, Activity::Failed { why, elapsed_ms }),
            Verdict::Superseded => {
                (End::Superseded, Activity::Superseded { message: task.turn.message_id.clone() })
            }
        };
        if end != End::Superseded {
            self.keep_knock(&task.turn, out);
        }
        let done = |id: &str, merged| Record::Done { id: id.to_owned(), end, cursor: None, merged };
        let mut records = vec![];
        task.recorded = true;
        for turn in &task.earlier {
            // After a failure each piece may come again on its own.
            if end == End::Failed {
                records.extend(self.line.done(&turn.id, done(&turn.id, vec![])));
            }
            self.line.passed(&turn.id);
        }
        let merged = if end == End::Failed { vec![] } else { task.merged() };
        records.extend(self.line.done(&task.turn.id, done(&task.turn.id, merged)));
        for record in records {
            self.write(record, out);
        }
        self.digests.release(task.number);
        out.push(Command::Tell(activity));
    }
}
