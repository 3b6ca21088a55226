//! The shell around the core: executes its commands and reports their results.
//!
//! One loop with the few turns and requests in progress, which end with it. Writing and syncing a line of the
//! journal blocks one thread of the runtime for the time of a disk write. Messages are few, so this is not
//! moved to another thread.

use super::acp::{AcpAsked, Bridge};
use super::activity::Observer;
use super::core::{Command, Core, Event, Outcome, Posted, Run};
use super::deliver::Sender;
use super::error::HarnessError;
use super::exec::{CLAIM_LOST, Exec};
use super::history;
use super::home::Home;
use super::incoming::{Incoming, Offer};
use super::intake::Intake;
use super::journal::Journal;
use super::openai::{Asked, OpenAi};
use super::options::{AgentOptions, Driver};
use super::prompt::{Own, RULES, after_thread};
use super::refresh::{Gone, is_gone, refresh};
use super::report::{Ask, Reporter};
use super::session::Session;
use super::stop_signal::{Stop, stopped};
use super::turn::Back;
use crate::{Client, Reach};
use chorus_environment::Environment;
use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use url::Url;

/// Futures in progress, each with its number. There are only a few, polled in turn. A cancelled one is dropped
/// at once.
struct Doing<T>(Vec<(u64, Boxed<T>)>);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Doing<T> {
    fn begin(&mut self, number: u64, future: impl Future<Output = T> + Send + 'static) {
        self.0.push((number, Box::pin(future)));
    }

    fn cancel(&mut self, number: u64) {
        self.0.retain(|(one, _)| *one != number);
    }

    /// Waits for the next result. Stays pending while there is none.
    async fn next(&mut self) -> (u64, T) {
        poll_fn(|context| {
            for (place, (number, future)) in self.0.iter_mut().enumerate() {
                if let Poll::Ready(done) = future.as_mut().poll(context) {
                    let number = *number;
                    drop(self.0.swap_remove(place));
                    return Poll::Ready((number, done));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The worker; see the [module](self).
pub(super) struct Worker {
    core: Core,
    journal: Journal,
    environment: Environment,
    observer: Observer,
    /// The state folder, for error messages.
    state: PathBuf,
    sender: Arc<Sender>,
    driving: Arc<Driving>,
    turns: Doing<Outcome>,
    posts: Doing<Posted>,
    asks: (mpsc::Sender<Ask>, mpsc::Receiver<Ask>),
    /// The turns that wait for the core.
    resumes: HashMap<u64, oneshot::Sender<()>>,
    /// Tells each running turn when its answer is no longer wanted.
    losses: HashMap<u64, watch::Sender<bool>>,
    ended: bool,
}

impl Worker {
    pub(super) fn new(
        options: AgentOptions,
        engine: Engine,
        (hub, session): (Option<Client>, Option<Session>),
        core: Core,
        journal: Journal,
        observer: Observer,
    ) -> Self {
        let (reach, environment) = (options.reach(), options.environment.clone());
        let driving = Driving {
            engine,
            name: options.name,
            culture: options.culture,
            system: options.system,
            quiet: options.quiet,
            hub: hub.clone(),
            session: session.clone(),
            reach: reach.clone(),
            environment: environment.clone(),
        };
        Self {
            core,
            journal,
            sender: Arc::new(Sender::new(hub, session, reach, environment.clone())),
            driving: Arc::new(driving),
            environment,
            observer,
            state: options.state,
            turns: Doing(vec![]),
            posts: Doing(vec![]),
            asks: mpsc::channel(1),
            resumes: HashMap::new(),
            losses: HashMap::new(),
            ended: false,
        }
    }

    /// Processes messages left over from an earlier start and all new ones, until it is told to stop.
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
                (number, posted) = self.posts.next() => Event::Posted { number, posted },
                Some(ask) = self.asks.1.recv() => {
                    self.resumes.insert(ask.task, ask.resume);
                    ask.event
                }
                (task, outcome) = self.turns.next() => {
                    self.losses.remove(&task);
                    Event::Ended { task, outcome }
                }
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
        if let Engine::Acp(bridge) = &self.driving.engine {
            bridge.close().await;
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
                    let reporter = Reporter::new(run.task, self.asks.0.clone(), self.observer.clone());
                    let driving = Arc::clone(&self.driving);
                    let (loss, lost) = watch::channel(false);
                    self.losses.insert(run.task, loss);
                    self.turns.begin(run.task, async move { driving.drive(&run, &reporter, lost).await });
                }
                Command::Resume { task } => {
                    // A turn that has ended meanwhile no longer waits.
                    self.resumes.remove(&task).map(|resume| resume.send(()).ok());
                }
                Command::CancelTurn { task } => {
                    self.turns.cancel(task);
                    self.resumes.remove(&task);
                    self.losses.remove(&task);
                }
                Command::GiveUp { task } => {
                    self.losses.get(&task).map(|loss| loss.send_replace(true));
                }
                Command::Post(post) => {
                    let sender = Arc::clone(&self.sender);
                    self.posts.begin(post.number, async move { sender.post(post.to).await });
                }
                Command::CancelPost { number } => self.posts.cancel(number),
                Command::Tell(activity) => self.observer.tell(activity),
                Command::End => self.ended = true,
            }
        }
        Ok(())
    }
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => pending().await,
    }
}

/// A driver that is ready for turns.
pub(super) enum Engine {
    Exec(Exec),
    OpenAi(Box<OpenAi>),
    Acp(Box<Bridge>),
}

impl Engine {
    /// Prepares the driver of an agent.
    pub(super) async fn start(
        options: &AgentOptions,
        home: &Home,
        hub: Option<&Client>,
    ) -> Result<Self, HarnessError> {
        Ok(match options.driver.clone() {
            Driver::Exec(exec) => Self::Exec(exec),
            Driver::OpenAi(model) => Self::OpenAi(model),
            Driver::Acp(acp) => {
                let bridge = Bridge::open(*acp, home)?;
                if let Some(hub) = hub {
                    bridge.withdraw_left_over(hub).await?;
                }
                Self::Acp(Box::new(bridge))
            }
        })
    }
}

/// The driver with its dependencies.
struct Driving {
    engine: Engine,
    name: String,
    culture: String,
    system: Option<String>,
    quiet: Duration,
    hub: Option<Client>,
    session: Option<Session>,
    reach: Reach,
    environment: Environment,
}

impl Driving {
    /// Produces the answer of a turn. A program is told when its claim is lost; other drivers are stopped.
    async fn drive(&self, run: &Run, reporter: &Reporter, lost: Stop) -> Outcome {
        if let Engine::Exec(_) = &self.engine {
            return self.answer(run, reporter, lost).await;
        }
        let mut loss = lost.clone();
        tokio::select! {
            outcome = self.answer(run, reporter, lost) => outcome,
            () = stopped(&mut loss) => Outcome::failed(CLAIM_LOST, "claim_lost"),
        }
    }

    async fn answer(&self, run: &Run, reporter: &Reporter, lost: Stop) -> Outcome {
        let turn = &run.turn;
        if let Back::Callback(url) = &turn.back
            && let Ok(url) = Url::parse(url)
            && let Err(blocked) = self.reach.check(&url).await
        {
            // No answer is produced if it could not be delivered.
            return Outcome::failed(format!("callback: {blocked}"), "blocked");
        }
        let run = match refresh(self.hub.as_ref(), self.quiet, &self.environment, run).await {
            Ok(run) => run,
            Err(Gone(messages)) => return Outcome::Withdrawn { messages },
        };
        let prompt = run.prompt(&self.name, &self.culture);
        let Run { turn, earlier, delimiter, .. } = &run;
        let outcome = match &self.engine {
            Engine::Exec(exec) => {
                let system = self
                    .system
                    .as_ref()
                    .map_or_else(String::new, |system| format!("{}\n\n", system.trim_end()));
                let begins = earlier.first().unwrap_or(turn);
                // The history is added only for a thread or a direct conversation. A program can read the rest
                // itself.
                let said = if history::goes_on(begins) {
                    history::read(self.hub.as_ref(), begins).await
                } else {
                    vec![]
                };
                let said = said.iter().map(|one| (one.author.as_str(), one.text.as_str()));
                let prompt = after_thread(said, &prompt, delimiter);
                let prompt = format!("{system}{RULES}\n\n{prompt}");
                exec.answer(turn, &prompt, reporter, &self.environment, lost).await
            }
            Engine::OpenAi(model) => {
                let asked = Asked {
                    turn,
                    begins: earlier.first().unwrap_or(turn),
                    own: Own { name: &self.name, culture: &self.culture },
                    prompt: &prompt,
                    delimiter,
                    hub: self.hub.as_ref(),
                    session: self.session.as_ref(),
                    reach: &self.reach,
                    reporter,
                    environment: &self.environment,
                };
                model.answer(asked).await
            }
            Engine::Acp(bridge) => {
                let asked = AcpAsked {
                    run: &run,
                    name: &self.name,
                    prompt: &prompt,
                    system: self.system.as_deref(),
                    hub: self.hub.as_ref(),
                    reporter,
                    environment: &self.environment,
                };
                bridge.answer(asked).await
            }
        };
        // An inbox does not report deletions, and the hub refuses the answer to a deleted message.
        let is_told = matches!(turn.back, Back::Session(_));
        if matches!(outcome, Outcome::Say { .. }) && !is_told && is_gone(self.hub.as_ref(), &run).await {
            return Outcome::Withdrawn {
                messages: run.turns().map(|turn| turn.message_id.clone()).collect(),
            };
        }
        outcome
    }
}
