//! The shell around the core: carries out its commands and tells it what happened.
//!
//! One loop, and at most one request and one turn at a time, which end with it. A line of the journal and its sync hold up
//! one thread of the runtime for the moment that a disk takes: messages are few, and one after the other, so that nobody
//! is sent to another thread for it.

use super::activity::Observer;
use super::core::{Command, Core, Event, Outcome, Posted, Run};
use super::deliver::Sender;
use super::intake::{Incoming, Intake, Offer};
use super::journal::Journal;
use super::openai::Asked;
use super::prompt::Own;
use super::report::{Ask, Reporter};
use super::turn::Back;
use super::{AgentOptions, Driver, HarnessError, Stop, stopped};
use crate::{Client, Reach};
use chorus_environment::Environment;
use std::future::pending;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use url::Url;

type Doing<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// See the [module](self).
pub(super) struct Worker {
    core: Core,
    journal: Journal,
    environment: Environment,
    observer: Observer,
    /// Where the journal is, for people.
    state: PathBuf,
    sender: Arc<Sender>,
    driving: Arc<Driving>,
    turn: Doing<Outcome>,
    post: Doing<(u64, Posted)>,
    asks: (mpsc::Sender<Ask>, mpsc::Receiver<Ask>),
    /// The turn waits for it.
    resume: Option<oneshot::Sender<()>>,
    ended: bool,
}

impl Worker {
    pub(super) fn new(
        options: AgentOptions,
        hub: Option<Client>,
        core: Core,
        journal: Journal,
        observer: Observer,
    ) -> Self {
        let (reach, environment) = (options.reach(), options.environment.clone());
        let driving = Driving {
            driver: options.driver,
            name: options.name,
            culture: options.culture,
            system: options.system,
            hub: hub.clone(),
            reach: reach.clone(),
            environment: environment.clone(),
        };
        Self {
            core,
            journal,
            sender: Arc::new(Sender::new(hub, reach, environment.clone())),
            driving: Arc::new(driving),
            environment,
            observer,
            state: options.state,
            turn: None,
            post: None,
            asks: mpsc::channel(1),
            resume: None,
            ended: false,
        }
    }

    /// Deals with what was left over and with everything that comes, until it is told to stop.
    pub(super) async fn work(mut self, intake: &mut Intake, mut stop: Stop) -> Result<(), HarnessError> {
        let (mut stopping, mut closed) = (false, None);
        while !self.ended {
            let room = self.core.has_room() && closed.is_none();
            let pause = self.core.wake_at_ms().map(|at_ms| {
                let pause = at_ms.saturating_sub(self.environment.elapsed());
                Duration::from_millis(u64::try_from(pause).unwrap_or(0))
            });
            let event = tokio::select! {
                biased;
                () = stopped(&mut stop), if !stopping => {
                    stopping = true;
                    Event::Stop
                }
                (number, posted) = finished(&mut self.post) => Event::Posted { number, posted },
                Some(ask) = self.asks.1.recv() => {
                    self.resume = Some(ask.resume);
                    ask.event
                }
                outcome = finished(&mut self.turn) => Event::Ended(outcome),
                () = sleep(pause) => Event::Time,
                incoming = intake.next(), if room => match incoming {
                    Incoming::Event(event) => event,
                    Incoming::Offered(offer) => {
                        self.offered(offer)?;
                        continue;
                    }
                    Incoming::Closed(why) => {
                        closed = Some(why);
                        Event::Closed
                    }
                },
            };
            self.handle(event, &mut None)?;
        }
        match closed {
            Some(why) if !stopping => why,
            _ => Ok(()),
        }
    }

    fn offered(&mut self, offer: Offer) -> Result<(), HarnessError> {
        let event = Event::Offered(offer.taken(&self.environment));
        let mut offer = Some(offer);
        let handled = self.handle(event, &mut offer);
        if let Some(offer) = offer {
            offer.refuse("it cannot be kept");
        }
        handled
    }

    fn handle(&mut self, event: Event, offer: &mut Option<Offer>) -> Result<(), HarnessError> {
        for command in self.core.handle(self.environment.elapsed(), event) {
            match command {
                Command::Write(record) => {
                    let written = self.journal.write(record);
                    written.map_err(|source| HarnessError::state(&self.state, source))?;
                }
                Command::Accept => offer.take().into_iter().for_each(Offer::accept),
                Command::Refuse { why } => offer.take().into_iter().for_each(|offer| offer.refuse(&why)),
                Command::Run(run) => {
                    let reporter = Reporter::new(self.asks.0.clone(), self.observer.clone());
                    let driving = Arc::clone(&self.driving);
                    self.turn = Some(Box::pin(async move { driving.drive(&run, &reporter).await }));
                }
                Command::Resume => {
                    // A turn that ended meanwhile does not wait.
                    self.resume.take().map(|resume| resume.send(()).ok());
                }
                Command::CancelTurn => (self.turn, self.resume) = (None, None),
                Command::Post(post) => {
                    let sender = Arc::clone(&self.sender);
                    let (number, to) = (post.number, post.to);
                    self.post = Some(Box::pin(async move { (number, sender.post(to).await) }));
                }
                Command::CancelPost => self.post = None,
                Command::Tell(activity) => self.observer.tell(activity),
                Command::End => self.ended = true,
            }
        }
        Ok(())
    }
}

/// What comes of something that is being done, and nothing while nothing is.
async fn finished<T>(doing: &mut Doing<T>) -> T {
    let done = match doing {
        Some(doing) => doing.await,
        None => pending().await,
    };
    *doing = None;
    done
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => pending().await,
    }
}

/// What makes the answers, and what it needs.
struct Driving {
    driver: Driver,
    name: String,
    culture: String,
    system: Option<String>,
    hub: Option<Client>,
    reach: Reach,
    environment: Environment,
}

impl Driving {
    async fn drive(&self, run: &Run, reporter: &Reporter) -> Outcome {
        let Run { turn, prompt, delimiter } = run;
        if let Back::Callback(url) = &turn.back
            && let Ok(url) = Url::parse(url)
            && let Err(blocked) = self.reach.check(&url).await
        {
            // An answer that nobody would get is not made.
            return Outcome::failed(format!("callback: {blocked}"), "blocked");
        }
        match &self.driver {
            Driver::Exec(exec) => {
                let prompt = match &self.system {
                    Some(system) => format!("{}\n\n{prompt}", system.trim_end()),
                    None => prompt.clone(),
                };
                exec.answer(turn, &prompt, reporter, &self.environment).await
            }
            Driver::OpenAi(model) => {
                let asked = Asked {
                    turn,
                    own: Own { name: &self.name, culture: &self.culture },
                    prompt,
                    delimiter,
                    hub: self.hub.as_ref(),
                    reach: &self.reach,
                    reporter,
                    environment: &self.environment,
                };
                model.answer(asked).await
            }
        }
    }
}
