//! One message after the other: prompt, driver, answer; and what is written to the journal in between.
//!
//! The order is what keeps promises: the answer is in the journal before it leaves, and the message counts as dealt
//! with only after it has arrived. When the agent is told to stop, a turn that runs is cancelled and begun anew at the
//! next start, unless a tool was called that may have changed something; an answer that is on its way is given a
//! moment, and else sent at the next start.

use super::activity::{Activity, Observer};
use super::deliver::{Sender, Unsent};
use super::intake::{Arrival, left_over};
use super::journal::{End, Known};
use super::openai::Asked;
use super::peers::Peers;
use super::prompt::{Own, prompt};
use super::report::{Reporter, clean};
use super::turn::{Back, Turn};
use super::{AgentOptions, Driver, HarnessError, Listen, Memory, Outcome, Stop, stopped};
use crate::random::random_hex;
use crate::{Callback, Client, ClientError};
use chorus_protocol::channel::Lifecycle;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// How long an answer on its way, or the last word about a turn, may hold up the end of the agent.
const GRACE: Duration = Duration::from_secs(5);

/// How long the channel is told that the agent is done.
const IDLE_PATIENCE: Duration = Duration::from_mins(1);

/// How many answers to answers two agents exchange before this one falls silent.
const MAX_DEPTH: u64 = 8;

/// See the [module](self).
pub(super) struct Worker {
    driver: Driver,
    system: Option<String>,
    sender: Sender,
    memory: Memory,
    observer: Observer,
    stop: Stop,
    state: PathBuf,
}

/// One message that is being dealt with.
struct Job<'a> {
    turn: &'a Turn,
    cursor: Option<&'a str>,
    callback: Option<Callback>,
    reporter: Reporter,
    begun: Instant,
}

impl Job<'_> {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Worker {
    pub(super) fn new(
        options: AgentOptions,
        hub: Option<Client>,
        memory: Memory,
        observer: Observer,
        stop: Stop,
    ) -> Self {
        let reach = options.reach();
        let peers = match options.listen {
            Listen::Direct { peers, .. } => peers,
            Listen::Inbox | Listen::Connection { .. } => Peers::default(),
        };
        Self {
            driver: options.driver,
            system: options.system,
            // The address as it was given: without a hub nobody else knows the host.
            sender: Sender { name: options.name, culture: options.culture, hub, peers, reach },
            memory,
            observer,
            stop,
            state: options.state,
        }
    }

    /// Deals with what was left over and with everything that comes, until it is told to stop.
    pub(super) async fn work(mut self, mut arrivals: mpsc::Receiver<Arrival>) -> Result<(), HarnessError> {
        for turn in left_over(&self.memory) {
            if *self.stop.borrow() {
                return Ok(());
            }
            self.deal(&turn, None).await?;
        }
        loop {
            let arrival = tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return Ok(()),
                arrival = arrivals.recv() => arrival,
            };
            match arrival {
                None => return Ok(()),
                Some(Arrival::Ended(error)) => return Err(error),
                Some(Arrival::Nothing(cursor)) => self.kept(self.memory.set_cursor(&cursor))?,
                Some(Arrival::Turn(turn, cursor)) => self.deal(&turn, cursor.as_deref()).await?,
            }
        }
    }

    fn kept<T>(&self, result: io::Result<T>) -> Result<T, HarnessError> {
        result.map_err(|source| HarnessError::state(&self.state, source))
    }

    async fn deal(&mut self, turn: &Turn, cursor: Option<&str>) -> Result<(), HarnessError> {
        let known = self.memory.known(&turn.id);
        if known == Known::Settled {
            self.observer.tell(Activity::Repeated { message: turn.message_id.clone() });
            return match cursor {
                Some(cursor) => self.kept(self.memory.set_cursor(cursor)),
                None => Ok(()),
            };
        }
        self.observer.tell(Activity::Took {
            message: turn.message_id.clone(),
            from: turn.sender.clone(),
            channel: turn.whereabouts().map(str::to_owned),
        });
        let callback = self.sender.callback(turn);
        let reporter = Reporter::new(callback.clone(), self.observer.clone());
        let job = Job { turn, cursor, callback, reporter, begun: Instant::now() };
        let sent = match known {
            Known::Intended(text) => self.send(&job, &text, true, false).await?,
            Known::Acted(tool) => {
                let why = format!("interrupted after calling {tool}; it is not called again");
                self.fail(&job, &why, "interrupted", End::Failed).await?;
                true
            }
            Known::New | Known::Settled => self.answer(&job).await?,
        };
        // An answer that is still to be sent is no rest.
        if sent {
            let patience = if *self.stop.borrow() { GRACE } else { IDLE_PATIENCE };
            job.reporter.idle(patience).await;
        }
        Ok(())
    }

    /// Has the message answered; whether it is dealt with.
    async fn answer(&mut self, job: &Job<'_>) -> Result<bool, HarnessError> {
        if let Back::Envelope(back) = &job.turn.back
            && back.depth >= MAX_DEPTH
        {
            let why = format!("it is the answer to {MAX_DEPTH} answers");
            self.sender.fail(job.turn, &why, "loop").await;
            return self.silent(job, Some(why)).map(|()| true);
        }
        if let Some(callback) = &job.callback
            && let Err(blocked) = self.sender.reach.check(callback.url()).await
        {
            // An answer that nobody would get is not made.
            self.fail(job, &format!("callback: {blocked}"), "blocked", End::Failed).await?;
            return Ok(true);
        }
        let mut stop = self.stop.clone();
        let outcome = tokio::select! {
            biased;
            () = stopped(&mut stop) => None,
            outcome = self.drive(job) => Some(outcome?),
        };
        match outcome {
            Some(Outcome::Say { text, cut }) => {
                let (text, shorter) = self.sender.fit(job.turn, job.callback.as_ref(), &text);
                self.kept(self.memory.intend(&job.turn.id, &text))?;
                return self.send(job, &text, false, cut || shorter).await;
            }
            Some(Outcome::Silence) => {
                self.sender.fail(job.turn, "there is no answer", "silent").await;
                self.silent(job, None)?;
            }
            Some(Outcome::Failed { why, code }) => self.fail(job, &why, code, End::Failed).await?,
            None => self.put_off(job).await?,
        }
        Ok(true)
    }

    /// The agent ends in the middle of a message. Nothing is written, so that the next start begins it anew; only what
    /// may have changed something is not done twice.
    async fn put_off(&self, job: &Job<'_>) -> Result<(), HarnessError> {
        if let Known::Acted(tool) = self.memory.known(&job.turn.id) {
            let why = format!("stopped after calling {tool}; it is not called again");
            return self.fail(job, &why, "stopped", End::Failed).await;
        }
        job.reporter.status("stopped; the answer comes at the next start").await;
        self.observer.tell(Activity::PutOff { message: job.turn.message_id.clone() });
        Ok(())
    }

    async fn drive(&self, job: &Job<'_>) -> Result<Outcome, HarnessError> {
        let delimiter = random_hex().map_err(ClientError::Random)?;
        let own = Own { name: &self.sender.name, culture: &self.sender.culture };
        let prompt = prompt(job.turn, own, &delimiter);
        job.reporter.lifecycle(Lifecycle::Processing).await;
        Ok(match &self.driver {
            Driver::Exec(exec) => {
                let prompt = match &self.system {
                    Some(system) => format!("{}\n\n{prompt}", system.trim_end()),
                    None => prompt,
                };
                exec.answer(job.turn, &prompt, &job.reporter).await
            }
            Driver::OpenAi(model) => {
                let asked = Asked {
                    turn: job.turn,
                    own,
                    prompt: &prompt,
                    delimiter: &delimiter,
                    hub: self.sender.hub.as_ref(),
                    reach: &self.sender.reach,
                    reporter: &job.reporter,
                    memory: &self.memory,
                };
                model.answer(asked).await
            }
        })
    }

    /// Sends an answer that is in the journal; whether it is dealt with.
    async fn send(
        &mut self,
        job: &Job<'_>,
        text: &str,
        again: bool,
        cut: bool,
    ) -> Result<bool, HarnessError> {
        let mut stop = self.stop.clone();
        let sending = self.sender.answer(job.turn, job.callback.as_ref(), text, again);
        let sent = tokio::select! {
            sent = sending => sent,
            () = async { stopped(&mut stop).await; tokio::time::sleep(GRACE).await } => return Ok(false),
        };
        match sent {
            Ok(()) => {
                self.kept(self.memory.done(&job.turn.id, End::Answered, job.cursor))?;
                let (characters, elapsed_ms) = (text.chars().count(), job.elapsed_ms());
                self.observer.tell(Activity::Answered { characters, cut, elapsed_ms });
            }
            Err(Unsent { why, perhaps_sent }) => {
                // What may have arrived must not be said again, even if the message comes again.
                let end = if perhaps_sent { End::Answered } else { End::Failed };
                self.fail(job, &format!("the answer could not be sent: {why}"), "unsent", end).await?;
            }
        }
        Ok(true)
    }

    fn silent(&self, job: &Job<'_>, why: Option<String>) -> Result<(), HarnessError> {
        self.kept(self.memory.done(&job.turn.id, End::Silent, job.cursor))?;
        self.observer.tell(Activity::Silent { why, elapsed_ms: job.elapsed_ms() });
        Ok(())
    }

    async fn fail(&self, job: &Job<'_>, why: &str, code: &str, end: End) -> Result<(), HarnessError> {
        let why = clean(why, 2000);
        // The last word of an agent that ends must not hold up its end.
        let told = async {
            job.reporter.error(&why, code).await;
            self.sender.fail(job.turn, &why, code).await;
        };
        timeout(if *self.stop.borrow() { GRACE } else { IDLE_PATIENCE }, told).await.ok();
        self.kept(self.memory.done(&job.turn.id, end, job.cursor))?;
        self.observer.tell(Activity::Failed { why, elapsed_ms: job.elapsed_ms() });
        Ok(())
    }
}
