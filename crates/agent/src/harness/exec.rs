//! A program as an agent: the prompt on its standard input, its answer on its standard output.
//!
//! Nothing printed is silence. An exit code other than 0 is a failure, told by the last line of standard error, and
//! tried again twice; a program that takes too long or prints too much is killed and not tried again. The program
//! leads a process group of its own, which is killed with it whenever the turn ends before the program does, and after it
//! if what it left behind holds its streams open. It is given no key.

use super::activity::Activity;
use super::core::Outcome;
use super::error::HarnessError;
use super::report::Reporter;
use super::texts::clean;
use super::turn::Turn;
use crate::Backoff;
use chorus_environment::Environment;
use chorus_protocol::market::JobHandout;
use chorus_protocol::words::EntryKind;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::{Value, json};
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

/// The longest answer, or output of a job, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;

/// How much of the end of standard error is kept.
const MAX_STDERR: usize = 4 * 1024;

/// How long the streams of a program that has ended are still read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The longest value of a variable.
const MAX_VARIABLE: usize = 1024;

/// How often a program that failed is run, all together.
const TRIES: u32 = 3;

/// How to run a program.
#[derive(Debug, Clone)]
pub struct Exec {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// How long one run may take.
    pub limit: Duration,
    /// The pauses before it is run again.
    pub backoff: Backoff,
}

impl Exec {
    /// This program, with two minutes for each run.
    pub fn new(program: impl Into<PathBuf>, args: Vec<String>) -> Self {
        let backoff = Backoff { base_ms: 1000, max_ms: 10_000 };
        Self { program: program.into(), args, limit: Duration::from_mins(2), backoff }
    }

    /// Where the program may be: on the path if it is only a name.
    fn places(&self) -> Vec<PathBuf> {
        if self.program.components().count() > 1 || self.program.is_absolute() {
            return vec![self.program.clone()];
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(&self.program)).collect()
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    /// Runs the program until it succeeds, or has failed for good.
    pub(super) async fn answer(
        &self,
        turn: &Turn,
        prompt: &str,
        reporter: &Reporter,
        environment: &Environment,
    ) -> Outcome {
        reporter.status(&format!("running {}", self.name())).await;
        let mut failures = 0;
        loop {
            let fault = match self.run(variables(turn), prompt).await {
                Ok(text) => return Outcome::of(&text),
                Err(fault) => fault,
            };
            failures += 1;
            if !fault.again || failures >= TRIES {
                return Outcome::failed(fault.why, fault.code);
            }
            let in_ms = self.backoff.delay_ms(failures - 1, environment.random_u64());
            reporter.observer().tell(Activity::Retrying { why: fault.why, in_ms });
            reporter.status(&format!("{} failed, trying again", self.name())).await;
            sleep(Duration::from_millis(in_ms)).await;
        }
    }

    /// Does a job: its input data on standard input, its output data on standard output, both JSON. What is printed that is no
    /// JSON object is taken as `{"text": …}`, and printing nothing is a failure: nobody pays for that. It is run once: whoever hired
    /// decides whether to try again.
    pub async fn work(&self, job: &JobHandout) -> Result<Value, String> {
        let variables = [
            ("CHORUS_EVENT_KIND", EntryKind::Job.as_str().to_owned()),
            ("CHORUS_SKILL", plain(&job.skill_name)),
            ("CHORUS_JOB", job.job_id.to_string()),
        ];
        let text = self.run(variables, &job.input_data.to_string()).await.map_err(|fault| fault.why)?;
        if text.trim().is_empty() {
            return Err(format!("{} printed nothing", self.name()));
        }
        let object = serde_json::from_str(text.trim()).ok().filter(Value::is_object);
        Ok(object.unwrap_or_else(|| json!({"text": text.trim_end()})))
    }

    async fn run(
        &self,
        variables: impl IntoIterator<Item = (&'static str, String)>,
        prompt: &str,
    ) -> Result<String, Fault> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).process_group(0);
        // Whose keys are in our environment is no business of the program's.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("CHORUS_") && name != "CHORUS_URL") {
                command.env_remove(name);
            }
        }
        command.envs(variables);
        let spawned = command.spawn().map_err(|error| {
            Fault::last(format!("{} cannot be run: {error}", self.program.display()), "cannot_run")
        })?;
        let mut group = Group(spawned);
        match timeout(self.limit, group.talk(prompt)).await {
            Err(_) => Err(Fault::last(
                format!("{} did not finish in {} s", self.name(), self.limit.as_secs_f64()),
                "timeout",
            )),
            Ok(Err(error)) => Err(Fault::last(format!("{}: {error}", self.name()), "cannot_run")),
            Ok(Ok(Finished { output, .. })) if output.len() > MAX_OUTPUT => {
                Err(Fault::last(format!("{} printed more than 64 KiB", self.name()), "too_long"))
            }
            Ok(Ok(Finished { output, stderr, status })) => self.outcome(output, &stderr, status),
        }
    }

    fn outcome(&self, output: Vec<u8>, stderr: &[u8], status: Option<ExitStatus>) -> Result<String, Fault> {
        match status {
            Some(status) if status.success() => String::from_utf8(output)
                .map_err(|_| Fault::last(format!("{} printed what is not UTF-8", self.name()), "not_text")),
            status => {
                let ended = status.map_or_else(|| "did not end".to_owned(), |status| status.to_string());
                let stderr = String::from_utf8_lossy(stderr);
                let last = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
                let why = last.map_or_else(
                    || format!("{} failed ({ended})", self.name()),
                    |line| format!("{} ({ended})", clean(line, MAX_VARIABLE)),
                );
                Err(Fault { why, code: "failed", again: true })
            }
        }
    }
}

/// Why a run came to nothing.
struct Fault {
    why: String,
    code: &'static str,
    /// Whether another run may do better.
    again: bool,
}

impl Fault {
    fn last(why: String, code: &'static str) -> Self {
        Self { why, code, again: false }
    }
}

/// A program that was listened to, until its end or until it said too much.
struct Finished {
    output: Vec<u8>,
    stderr: Vec<u8>,
    status: Option<ExitStatus>,
}

/// A program and everything it started. Dropped before the program has ended, it takes all of it along.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Group {
    /// A child that was waited for has no id any more: its number may be somebody else's.
    fn leader(&self) -> Option<Pid> {
        self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    fn kill(&self) {
        if let Some(leader) = self.leader() {
            // It may have ended meanwhile.
            kill_process_group(leader, Signal::KILL).ok();
        }
    }

    /// Waits until the program has ended. It is not reaped, so that its number stays its group's.
    async fn ended(&self) -> std::io::Result<()> {
        let mut children = signal(SignalKind::child())?;
        let Some(leader) = self.leader() else { return Ok(()) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while waitid(WaitId::Pid(leader), look)?.is_none() {
            children.recv().await;
        }
        Ok(())
    }

    /// Gives it the prompt, and reads until it has said everything and ended. More than is allowed ends it. What it started and
    /// left behind may hold its streams open: that is waited for no longer than a moment.
    async fn talk(&mut self, prompt: &str) -> std::io::Result<Finished> {
        let (stdin, stdout, stderr) = (self.0.stdin.take(), self.0.stdout.take(), self.0.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(std::io::Error::other("its standard streams are not there"));
        };
        let write = async {
            // A program that does not read to the end has its reasons.
            stdin.write_all(prompt.as_bytes()).await.ok();
            drop(stdin);
        };
        let (mut output, mut last) = (Vec::new(), Vec::new());
        {
            let mut streams =
                pin!(async { tokio::join!(write, head(stdout, &mut output), tail(stderr, &mut last)).1 });
            let read = tokio::select! {
                read = &mut streams => Some(read),
                ended = self.ended() => {
                    ended?;
                    timeout(LAST_WORDS, &mut streams).await.ok()
                }
            };
            match read {
                Some(read) => read?,
                None => self.kill(),
            }
        }
        let status = if output.len() > MAX_OUTPUT { None } else { Some(self.0.wait().await?) };
        Ok(Finished { output, stderr: last, status })
    }
}

/// What can be read, up to one byte more than is allowed: then it is dropped, so that a program which prints for ever notices.
async fn head(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) -> std::io::Result<()> {
    let mut piece = [0; 4096];
    while kept.len() <= MAX_OUTPUT {
        match from.read(&mut piece).await? {
            0 => break,
            count => kept.extend_from_slice(&piece[..count]),
        }
    }
    Ok(())
}

/// The end of what can be read.
async fn tail(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        if kept.len() > 2 * MAX_STDERR {
            kept.drain(..kept.len() - MAX_STDERR);
        }
    }
}

/// What a program is told besides the prompt.
fn variables(turn: &Turn) -> impl Iterator<Item = (&'static str, String)> {
    let variables = [
        ("CHORUS_EVENT_KIND", Some(turn.kind.as_str())),
        ("CHORUS_CHANNEL", turn.place.as_ref().map(|place| place.id.as_str())),
        ("CHORUS_SENDER", Some(turn.sender.as_str())),
        ("CHORUS_SENDER_ID", turn.sender_id.as_deref()),
        ("CHORUS_MESSAGE_ID", Some(turn.message_id.as_str())),
        ("CHORUS_TRACE_ID", turn.trace_id.as_deref()),
    ];
    variables.into_iter().filter_map(move |(name, value)| Some((name, plain(value?))))
}

/// A variable cannot hold a zero.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_VARIABLE).collect()
}

/// A clear word at the start, if the program is not there or cannot be run.
pub(crate) fn check(exec: &Exec) -> Result<(), HarnessError> {
    let files = exec.places().into_iter().filter_map(|place| place.metadata().ok().filter(Metadata::is_file));
    let executable: Vec<_> = files.map(|file| file.permissions().mode() & 0o111 != 0).collect();
    match executable.iter().any(|executable| *executable) {
        true => Ok(()),
        false if executable.is_empty() => Err(HarnessError::NoProgram(exec.program.clone())),
        false => Err(HarnessError::NotExecutable(exec.program.clone())),
    }
}
