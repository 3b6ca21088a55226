//! A coding agent as an agent: any program that speaks the Agent Client Protocol (ACP), version 1, on its
//! standard input and output.
//!
//! One program per agent is started when the first message comes, in a process group of its own, which is
//! killed at the end. Each thread or conversation of two has a session of its own, whose id is in the state
//! folder before its first prompt. After a crash the session is resumed and told to go on: the prompt is in
//! its history and is not sent again. A failure is tried twice more, like that of a program without ACP.
//!
//! A tool that needs permission waits for a person of the conversation (`permission`). Silence permits
//! nothing.

mod open;
mod permission;
mod presets;
mod process;
mod store;
mod turn;
mod updates;
mod wire;

pub use presets::{PRESETS, Preset, split_command};

use super::activity::Activity;
use super::core::{Outcome, Run};
use super::error::HarnessError;
use super::history;
use super::home::Home;
use super::prompt::{RULES, after_thread, go_on};
use super::report::Reporter;
use super::texts::clean;
use super::turn::{Back, Turn};
use crate::{Backoff, Client};
use chorus_environment::Environment;
use data_encoding::HEXLOWER;
use open::{Live, Opening};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::SessionStore;
use tokio::time::{sleep, timeout};
use wire::WireFault;

/// The error code by which a program says that it wants a login.
const LOGIN: i64 = -32000;

/// The total number of prompts for a message that fail.
const TRIES: u32 = 3;

/// The time that cancelled prompts may delay the end of the program.
const FAREWELL: Duration = Duration::from_secs(1);

/// The settings for a program that speaks ACP.
#[derive(Debug, Clone)]
pub struct Acp {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The known coding agent that the program is.
    pub preset: Option<&'static Preset>,
    /// The folder in which it works. It must be absolute.
    pub folder: PathBuf,
    /// The session mode. `None` chooses the preset's.
    pub mode: Option<String>,
    /// Gives sessions the hub's tools.
    pub mcp: bool,
    /// The time limit of a whole turn.
    pub limit: Duration,
    /// The time that people have to answer a permission request.
    pub permission_limit: Duration,
    /// The pauses between failures.
    pub backoff: Backoff,
}

impl Acp {
    /// Creates settings with a limit of one hour for a turn and of ten minutes for a permission.
    pub fn new(program: impl Into<PathBuf>, args: Vec<String>, folder: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args,
            preset: None,
            folder: folder.into(),
            mode: None,
            mcp: false,
            limit: Duration::from_hours(1),
            permission_limit: Duration::from_mins(10),
            backoff: Backoff { base_ms: 1000, max_ms: 10_000 },
        }
    }

    /// Creates settings for a known coding agent, with more arguments of its program.
    pub fn preset(preset: &'static Preset, args: Vec<String>, folder: impl Into<PathBuf>) -> Self {
        let (program, own) = preset.command.split_first().unwrap_or((&preset.name, &[]));
        let args = own.iter().map(|arg| (*arg).to_owned()).chain(args).collect();
        Self { preset: Some(preset), ..Self::new(*program, args, folder) }
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    /// Returns the environment variables of the preset that are not set.
    fn variables(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let variables = self.preset.map_or(&[][..], |preset| preset.variables);
        variables.iter().copied().filter(|(name, _)| std::env::var_os(name).is_none())
    }

    /// Checks at the start that the program exists and is executable.
    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        super::exec::check(&self.program).map_err(|error| match (error, self.preset) {
            (HarnessError::NoProgram(program), Some(preset)) => {
                HarnessError::NotInstalled { program, install: preset.install }
            }
            (error, _) => error,
        })
    }
}

/// The driver of a program that speaks ACP; see the [module](self).
pub(crate) struct Bridge {
    acp: Acp,
    home: Home,
    store: Arc<SessionStore>,
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
    /// One lock per session with a prompt in progress.
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// One turn, as presented to a program.
pub(super) struct AcpAsked<'a> {
    pub(super) run: &'a Run,
    /// The agent's name.
    pub(super) name: &'a str,
    /// The prompt without rules and history.
    pub(super) prompt: &'a str,
    /// A text before the first prompt of a session.
    pub(super) system: Option<&'a str>,
    pub(super) hub: Option<&'a Client>,
    pub(super) reporter: &'a Reporter,
    pub(super) environment: &'a Environment,
}

/// The reason why a prompt failed.
struct Fault {
    why: String,
    code: &'static str,
    /// `true` if another prompt may succeed.
    again: bool,
}

impl Fault {
    fn last(why: String, code: &'static str) -> Self {
        Self { why, code, again: false }
    }

    fn again(why: String, code: &'static str) -> Self {
        Self { why, code, again: true }
    }

    fn state(error: &HarnessError) -> Self {
        Self::last(super::error::sentence(error), "cannot_run")
    }
}

impl Bridge {
    /// Creates a driver that continues with the sessions of the state folder.
    pub(super) fn open(acp: Acp, home: &Home) -> Result<Self, HarnessError> {
        let store = Arc::new(SessionStore::open(home)?);
        process::end_left_over(home);
        let (live, locks) = (tokio::sync::Mutex::default(), Mutex::default());
        Ok(Self { acp, home: home.clone(), store, live, locks })
    }

    /// Withdraws the questions that an earlier process left at the hub.
    pub(super) async fn withdraw_left_over(&self, hub: &Client) -> Result<(), HarnessError> {
        for id in self.store.take_approvals()? {
            permission::withdraw(hub, &id).await;
        }
        Ok(())
    }

    /// Has the program answer a turn.
    pub(super) async fn answer(&self, asked: AcpAsked<'_>) -> Outcome {
        asked.reporter.status(&format!("asking {}", self.acp.name())).await;
        let key = session_key(&asked.run.turn);
        let answered = timeout(self.acp.limit, self.try_to_answer(&key, &asked)).await;
        let outcome = answered.unwrap_or_else(|_| {
            let seconds = self.acp.limit.as_secs_f64();
            Outcome::failed(format!("{} did not finish in {seconds} s", self.acp.name()), "timeout")
        });
        if let Outcome::Failed { .. } = outcome {
            // If the message comes again, it is a new prompt.
            let forget = |record: &mut store::SessionRecord| (record.asked, record.acted) = (None, None);
            self.store.change(&key, forget).ok();
        }
        outcome
    }

    async fn try_to_answer(&self, key: &str, asked: &AcpAsked<'_>) -> Outcome {
        let mut failures = 0;
        loop {
            let fault = match self.turn(key, asked).await {
                Ok(outcome) => return outcome,
                Err(fault) => fault,
            };
            failures += 1;
            if !fault.again || failures >= TRIES {
                return Outcome::failed(fault.why, fault.code);
            }
            let in_ms = self.acp.backoff.delay_ms(failures - 1, asked.environment.random_u64());
            asked.reporter.observer().tell(Activity::Retrying { why: fault.why, in_ms });
            asked.reporter.status(&format!("{} failed, trying again", self.acp.name())).await;
            sleep(Duration::from_millis(in_ms)).await;
        }
    }

    async fn turn(&self, key: &str, asked: &AcpAsked<'_>) -> Result<Outcome, Fault> {
        let lock = self.lock(key).lock_owned().await;
        let live = self.live().await?;
        let digest = digest(asked.run);
        let before = self.store.find(key);
        let (session, opening) = self.open_session(&live, key, &digest, asked).await?;
        let was_asked = before.as_ref().is_some_and(|record| record.asked.as_ref() == Some(&digest));
        let text = if opening == Opening::Resumed && was_asked {
            if self.was_answered(asked).await {
                return Ok(Outcome::Answered);
            }
            go_on(&asked.run.turn)
        } else {
            let known = match before.filter(|_| opening != Opening::New) {
                None => KnownThread::New,
                Some(record) => record.shown.map_or(KnownThread::Unclear, KnownThread::Through),
            };
            self.words(known, asked).await
        };
        let place = asked.run.turn.place.as_ref();
        let prompted = self.store.change(key, |record| {
            if record.asked.as_ref() != Some(&digest) {
                (record.asked, record.acted) = (Some(digest), None);
            }
            record.shown = place.and_then(|place| place.sequence).or(record.shown);
        });
        prompted.map_err(|error| Fault::state(&error))?;
        self.prompt(&live, (&session, key), text, lock, asked).await
    }

    /// Builds a prompt with the rules and the part of the thread that the session does not know.
    async fn words(&self, known: KnownThread, asked: &AcpAsked<'_>) -> String {
        let run = asked.run;
        let begins = run.earlier.first().unwrap_or(&run.turn);
        let said = match known {
            KnownThread::Unclear => vec![],
            _ if !history::goes_on(begins) => vec![],
            _ => history::read(asked.hub, begins).await,
        };
        let is_new = |one: &&history::Earlier| match known {
            KnownThread::New => true,
            KnownThread::Unclear => false,
            KnownThread::Through(shown) => !one.own && one.sequence > shown,
        };
        let said = said.iter().filter(is_new).map(|one| (one.author.as_str(), one.text.as_str()));
        let prompt = after_thread(said, asked.prompt, &run.delimiter);
        let system = asked.system.filter(|_| matches!(known, KnownThread::New));
        let system = system.map_or_else(String::new, |system| format!("{}\n\n", system.trim_end()));
        format!("{system}{RULES}\n\n{prompt}")
    }

    /// Checks whether the program has answered the message by a tool of the hub.
    async fn was_answered(&self, asked: &AcpAsked<'_>) -> bool {
        self.acp.mcp && history::has_replied(asked.hub, &asked.run.turn).await
    }

    fn lock(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(key.to_owned()).or_default())
    }

    /// Ends the program, after cancelled prompts had a moment to stop.
    pub(super) async fn close(&self) {
        let locks: Vec<_> =
            self.locks.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let stopped = async {
            for lock in locks {
                drop(lock.lock().await);
            }
        };
        timeout(FAREWELL, stopped).await.ok();
        if let Some(live) = self.live.lock().await.take() {
            live.process.close(&self.home).await;
        }
    }

    fn fault(&self, fault: WireFault) -> Fault {
        let name = self.acp.name();
        match fault {
            WireFault::Ended(why) => Fault::again(why, "failed"),
            WireFault::Slow(limit) => {
                Fault::again(format!("{name} did not answer in {} s", limit.as_secs()), "timeout")
            }
            WireFault::Refused(error) if error.code == LOGIN => {
                let login = match self.acp.preset {
                    Some(preset) => format!("run `{}` as the same user", preset.login),
                    None => format!("log in as its documentation says ({})", clean(&error.message, 200)),
                };
                Fault::last(format!("{name} wants a login: {login}, then ask again"), "login")
            }
            WireFault::Refused(error) => {
                let details = error.data.as_ref().and_then(|data| data["details"].as_str());
                let details = details.map(|details| format!(": {details}")).unwrap_or_default();
                Fault::again(clean(&format!("{name}: {}{details}", error.message), 600), "failed")
            }
        }
    }
}

/// Returns the thread or conversation that a turn belongs to, which has one session.
fn session_key(turn: &Turn) -> String {
    if turn.place.is_some() {
        return turn.thread_key();
    }
    let conversation = match &turn.back {
        Back::Envelope(back) => back.conversation.as_deref(),
        _ => None,
    };
    format!("from {} {}", turn.sender, conversation.unwrap_or_default())
}

/// Returns the digest of the messages of a turn, which tells the same prompt from another one.
fn digest(run: &Run) -> String {
    let mut digest = Sha256::new();
    for turn in run.turns() {
        for part in [&turn.message_id, &turn.text] {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
    }
    HEXLOWER.encode(&digest.finalize())
}

/// The part of a thread that a session knows.
#[derive(Debug, Clone, Copy)]
enum KnownThread {
    /// The session is new.
    New,
    /// The session goes on, and no record says how far it was shown the thread.
    Unclear,
    /// The sequence number of the last message that it was shown.
    Through(i64),
}
