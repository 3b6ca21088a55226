//! A program as an agent: it reads the prompt on standard input and prints its answer on standard output.
//!
//! An empty output means no answer. An exit code other than 0 is a failure, described by the last line of
//! standard error, and retried twice. A program that takes too long or prints too much is killed and not
//! retried. The program leads its own process group. The group is killed when the turn ends before the program
//! does, and also if processes that the program left behind hold its streams open. When another takes the claim
//! on the message, the group gets SIGTERM and has ten seconds to clean up. The program receives no key.

use super::activity::Activity;
use super::core::Outcome;
use super::error::HarnessError;
use super::report::Reporter;
use super::stop_signal::{Stop, stopped};
use super::texts::clean;
use super::turn::Turn;
use crate::Backoff;
use chorus_environment::Environment;
use chorus_protocol::market::JobHandout;
use chorus_protocol::words::EntryKind;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::{Value, json};
use std::fs::Metadata;
use std::future::pending;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

/// The longest answer, or output of a job, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;

/// The number of bytes kept from the end of standard error.
const MAX_STDERR: usize = 4 * 1024;

/// The time for which the streams of a program are read after it has exited.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The time that a program has to end after it was told by SIGTERM that its claim is lost.
const LOSS_GRACE: Duration = Duration::from_secs(10);

/// The reason of a turn that was given up because another has the claim.
pub(super) const CLAIM_LOST: &str = "another has the claim";

/// The longest value of an environment variable, in characters.
const MAX_VARIABLE: usize = 1024;

/// The total number of runs of a failing program.
const TRIES: u32 = 3;

/// The settings for running a program.
#[derive(Debug, Clone)]
pub struct Exec {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The time limit of one run.
    pub limit: Duration,
    /// The pauses between runs.
    pub backoff: Backoff,
}

impl Exec {
    /// Creates settings with a time limit of two minutes for each run.
    pub fn new(program: impl Into<PathBuf>, args: Vec<String>) -> Self {
        let backoff = Backoff { base_ms: 1000, max_ms: 10_000 };
        Self { program: program.into(), args, limit: Duration::from_mins(2), backoff }
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    /// Runs the program until it succeeds or fails for good.
    pub(super) async fn answer(
        &self,
        turn: &Turn,
        prompt: &str,
        reporter: &Reporter,
        environment: &Environment,
        mut lost: Stop,
    ) -> Outcome {
        reporter.status(&format!("running {}", self.name())).await;
        let mut failures = 0;
        loop {
            let fault = match self.run(variables(turn), prompt, stopped(&mut lost)).await {
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
            tokio::select! {
                () = sleep(Duration::from_millis(in_ms)) => {}
                () = stopped(&mut lost) => return Outcome::failed(CLAIM_LOST, "claim_lost"),
            }
        }
    }

    /// Does a job: JSON input data on standard input, JSON output data on standard output. Output that is no
    /// JSON object becomes `{"text": …}`. An empty output is a failure, so that it is not paid. The program
    /// runs once; the hiring side decides whether to retry.
    pub async fn work(&self, job: &JobHandout) -> Result<Value, String> {
        let variables = [
            ("CHORUS_EVENT_KIND", EntryKind::Job.as_str().to_owned()),
            ("CHORUS_SKILL", plain(&job.skill_name)),
            ("CHORUS_JOB", job.job_id.to_string()),
        ];
        let text =
            self.run(variables, &job.input_data.to_string(), pending()).await.map_err(|fault| fault.why)?;
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
        lost: impl Future<Output = ()>,
    ) -> Result<String, Fault> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).process_group(0);
        hide_keys(&mut command);
        command.envs(variables);
        let spawned = command.spawn().map_err(|error| {
            Fault::last(format!("{} cannot be run: {error}", self.program.display()), "cannot_run")
        })?;
        let mut group = Group(spawned);
        let leader = group.leader();
        let mut talk = pin!(group.talk(prompt));
        let talked = tokio::select! {
            biased;
            talked = timeout(self.limit, &mut talk) => talked,
            () = lost => {
                if let Some(leader) = leader {
                    // The program may have exited just now.
                    kill_process_group(leader, Signal::TERM).ok();
                }
                // Whatever it prints now is dropped; what still runs afterwards is killed.
                timeout(LOSS_GRACE, &mut talk).await.ok();
                return Err(Fault::last(CLAIM_LOST.to_owned(), "claim_lost"));
            }
        };
        match talked {
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

/// The reason why a run failed.
struct Fault {
    why: String,
    code: &'static str,
    /// `true` if another run may succeed.
    again: bool,
}

impl Fault {
    fn last(why: String, code: &'static str) -> Self {
        Self { why, code, again: false }
    }
}

/// The result of a program that exited or printed too much.
struct Finished {
    output: Vec<u8>,
    stderr: Vec<u8>,
    status: Option<ExitStatus>,
}

/// A program and all processes it started. Dropping it before the program has exited kills all of them.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Group {
    /// Returns the process id. `None` once the child was reaped, because the id may then belong to another
    /// process.
    fn leader(&self) -> Option<Pid> {
        self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    fn kill(&self) {
        if let Some(leader) = self.leader() {
            // The group may have exited already.
            kill_process_group(leader, Signal::KILL).ok();
        }
    }

    /// Waits until the program has exited. It is not reaped, so that its id stays reserved for the group.
    async fn ended(&self) -> std::io::Result<()> {
        let mut children = signal(SignalKind::child())?;
        let Some(leader) = self.leader() else { return Ok(()) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while waitid(WaitId::Pid(leader), look)?.is_none() {
            children.recv().await;
        }
        Ok(())
    }

    /// Writes the prompt and reads the output until the program has exited. Too much output ends the run.
    /// Child processes left behind may hold the streams open; they get a short grace period.
    async fn talk(&mut self, prompt: &str) -> std::io::Result<Finished> {
        let (stdin, stdout, stderr) = (self.0.stdin.take(), self.0.stdout.take(), self.0.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(std::io::Error::other("its standard streams are not there"));
        };
        let write = async {
            // A program may exit without reading all of its input.
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

/// Reads up to one byte more than the limit, then closes the pipe, so that a program that prints forever
/// notices.
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

/// Reads everything and keeps the end.
pub(super) async fn tail(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        if kept.len() > 2 * MAX_STDERR {
            kept.drain(..kept.len() - MAX_STDERR);
        }
    }
}

/// Returns the environment variables that describe a turn.
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

/// Makes a text fit for an environment variable, which cannot contain a NUL.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_VARIABLE).collect()
}

/// Removes the keys in our environment from a program's.
pub(super) fn hide_keys(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CHORUS_") && name != "CHORUS_URL") {
            command.env_remove(name);
        }
    }
}

/// Returns the paths where a program may be. A bare name is looked up on `PATH`.
fn places(program: &Path) -> Vec<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return vec![program.to_owned()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
}

/// Checks at the start that a program exists and is executable.
pub(crate) fn check(program: &Path) -> Result<(), HarnessError> {
    let files =
        places(program).into_iter().filter_map(|place| place.metadata().ok().filter(Metadata::is_file));
    let executable: Vec<_> = files.map(|file| file.permissions().mode() & 0o111 != 0).collect();
    match executable.iter().any(|executable| *executable) {
        true => Ok(()),
        false if executable.is_empty() => Err(HarnessError::NoProgram(program.to_owned())),
        false => Err(HarnessError::NotExecutable(program.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program is told by SIGTERM that its claim is lost, and what it prints is dropped.
    #[tokio::test]
    async fn a_lost_claim_is_told_to_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let script =
            format!("trap 'echo stopped > {}; exit 143' TERM; echo half; sleep 60 & wait", told.display());
        let exec = Exec::new("sh", vec!["-c".into(), script]);
        let lost = sleep(Duration::from_millis(500));
        let run = exec.run(std::iter::empty(), "restart node 7", lost);
        let fault = timeout(Duration::from_secs(9), run).await.unwrap().err().unwrap();
        assert_eq!((fault.why.as_str(), fault.code, fault.again), (CLAIM_LOST, "claim_lost", false));
        assert_eq!(std::fs::read_to_string(told).unwrap(), "stopped\n");
    }
}
