//! The process of an ACP program: its own process group, its streams, and the end of both.
//!
//! A bridge that is killed leaves its program running if that does not notice the end of its input. So the
//! process is recorded in the state folder, and the next start kills it first.

use super::Acp;
use super::wire::Wire;
use crate::harness::error::HarnessError;
use crate::harness::exec::{hide_keys, tail};
use crate::harness::home::Home;
use crate::harness::texts::clean;
use rustix::process::{Pid, Signal, kill_process_group};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// The name of the state file with the running process.
const FILE: &str = "acp-process";

/// The number of lines of standard error that an error report has.
const LAST_LINES: usize = 3;

/// The longest report of an end, in characters.
const MAX_REPORT: usize = 600;

/// The time for which standard error is read after standard output has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The time that a program has to end after its input was closed.
const FAREWELL: Duration = Duration::from_secs(2);

/// A running program. Dropping it kills the program with everything it started.
pub(super) struct Process {
    pub(super) wire: Wire,
    writer: AbortHandle,
    _tasks: JoinSet<()>,
    _child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.wire.kill("it was ended");
    }
}

impl Process {
    /// Starts the program. Fails with a description if it cannot be run.
    pub(super) fn start(acp: &Acp, home: &Home) -> Result<Self, String> {
        end_left_over(home);
        let mut command = Command::new(&acp.program);
        command.args(&acp.args).current_dir(&acp.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).process_group(0);
        hide_keys(&mut command);
        command.envs(acp.variables());
        let cannot = |why: &dyn std::fmt::Display| format!("{} cannot be run: {why}", acp.program.display());
        let mut child = command.spawn().map_err(|error| cannot(&error))?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(cannot(&"its standard streams are not there"));
        };
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (wire, outs) = Wire::new(leader);
        let mut tasks = JoinSet::new();
        let writer = tasks.spawn(write(stdin, outs));
        let (reader, name) = (wire.clone(), acp.name());
        tasks.spawn(async move {
            let mut last = Vec::new();
            {
                let mut errors = pin!(tail(stderr, &mut last));
                let mut read = pin!(reader.read(BufReader::with_capacity(64 * 1024, stdout)));
                // Standard error may be closed early.
                let mut is_closed = false;
                loop {
                    tokio::select! {
                        () = &mut read => break,
                        () = &mut errors, if !is_closed => is_closed = true,
                    }
                }
                if !is_closed {
                    timeout(LAST_WORDS, errors).await.ok();
                }
            }
            reader.kill(&report(&name, &last));
        });
        if let Some(leader) = leader {
            remember(home, leader).map_err(|error| cannot(&error))?;
        }
        Ok(Self { wire, writer, _tasks: tasks, _child: child })
    }

    /// Closes the program's input, so that it can store its sessions, and kills it if it does not end.
    pub(super) async fn close(&self, home: &Home) {
        self.writer.abort();
        timeout(FAREWELL, self.wire.wait()).await.ok();
        self.wire.kill("it was ended");
        // The file matters only after a crash.
        home.remove(FILE).ok();
    }
}

async fn write(mut to: ChildStdin, mut outs: mpsc::Receiver<String>) {
    while let Some(mut line) = outs.recv().await {
        line.push('\n');
        // The end of the program is noticed by its output.
        if to.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Describes the end of a program by the last lines of its standard error.
fn report(name: &str, stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(stderr);
    let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ");
    let last: String = last.chars().filter(|c| !c.is_control()).collect();
    if last.is_empty() {
        format!("{name} ended")
    } else {
        clean(&format!("{name} ended: {last}"), MAX_REPORT)
    }
}

/// Records the running process, with the time of its start.
fn remember(home: &Home, leader: Pid) -> Result<(), HarnessError> {
    let id = leader.as_raw_nonzero();
    match started(&id.to_string()) {
        Some(start) => home.write(FILE, &format!("{id} {start}")),
        None => Ok(()),
    }
}

/// Kills the program of an earlier process of this agent, if it still runs.
pub(super) fn end_left_over(home: &Home) {
    let Ok(Some(text)) = home.read(FILE) else { return };
    if let Some((id, start)) = text.split_once(' ')
        && started(id).as_deref() == Some(start)
        && let Some(leader) = id.parse().ok().and_then(Pid::from_raw)
    {
        kill_process_group(leader, Signal::KILL).ok();
    }
    home.remove(FILE).ok();
}

/// Returns the start time of a process, which tells it from a later one with the same id. `None` where the
/// system has no `/proc`.
fn started(id: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_told_without_secrets_and_controls() {
        let stderr = "one\ntwo\n\n\u{1b}[31mthree\nfour ca_0123456789abcdef0123456789abcdef\n";
        assert_eq!(
            report("gemini", stderr.as_bytes()),
            "gemini ended: two / [31mthree / four [redacted: agent key]"
        );
        assert_eq!(report("gemini", b"\n"), "gemini ended");
    }
}
