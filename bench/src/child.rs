//! The measured servers, as child processes: hubs, and this program as echo server.
//!
//! Dropping a child kills it.

use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time that a child may take to end.
const PATIENCE: Duration = Duration::from_mins(1);
/// The master key of all nodes on one database.
const MASTER_KEY: &str = "bebebebebebebebebebebebebebebebebebebebebebebebebebebebebebebebe";

/// The operator key of the measured hubs.
pub(crate) const OPERATOR_KEY: &str = "co_bench_bench_bench";

/// A running server.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    pub(crate) url: String,
    /// The time from its start to its ready line.
    pub(crate) ready_after: Duration,
}

impl Child {
    /// Starts `chorus serve` on a free port with its data in `folder`: durable as by default, but without limits.
    pub(crate) async fn hub(folder: &Path) -> anyhow::Result<Self> {
        Self::start(unlimited_hub(folder)?).await.context("the hub did not start")
    }

    /// Starts a hub of another version of `chorus`.
    pub(crate) async fn hub_of(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let told = || format!("the hub of {} did not start", program.display());
        Self::start(without_limits(without_settings(Command::new(program)), folder)).await.with_context(told)
    }

    /// Starts a hub on a PostgreSQL database, which other hubs may share.
    pub(crate) async fn node(folder: &Path, database: &str) -> anyhow::Result<Self> {
        let mut command = unlimited_hub(folder)?;
        command.env("CHORUS_DATABASE_URL", database).env("CHORUS_MASTER_KEY", MASTER_KEY);
        Self::start(command).await.context("the hub did not start on that database")
    }

    /// Starts a hub with the default limits and a mail server.
    pub(crate) async fn limited_hub(folder: &Path, mail_url: &str) -> anyhow::Result<Self> {
        let mut command = chorus()?;
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder)
            .env("CHORUS_ALLOW_PRIVATE_ENDPOINTS", "127.0.0.0/8")
            .env("CHORUS_MAIL", mail_url)
            .env("CHORUS_OPERATOR_KEY", OPERATOR_KEY)
            .env("CHORUS_LOG", "error");
        Self::start(command).await.context("the hub did not start")
    }

    /// Starts the reference: a bare server that parses a body and sends it back.
    pub(crate) async fn echo() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        command.arg("echo-server");
        Self::start(command).await.context("the echo server did not start")
    }

    /// Starts another program that prints the same ready line.
    pub(crate) async fn peer(program: &Path) -> anyhow::Result<Self> {
        let told = || format!("{} did not start", program.display());
        Self::start(Command::new(program)).await.with_context(told)
    }

    async fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let wait = move || {
            let begun = Instant::now();
            let mut child =
                Self { process: command.spawn()?, url: String::new(), ready_after: Duration::ZERO };
            let mut line = String::new();
            let output = child.process.stdout.take().context("no standard output")?;
            BufReader::new(output.take(1024)).read_line(&mut line)?;
            child.ready_after = begun.elapsed();
            let url = line.trim_end().strip_prefix(crate::READY).context("it ended before it was ready")?;
            url.clone_into(&mut child.url);
            anyhow::Ok(child)
        };
        tokio::task::spawn_blocking(wait).await?
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns its resident memory, in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        self.status("VmRSS:")
    }

    /// Returns the peak of its resident memory, in bytes.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        self.status("VmHWM:")
    }

    /// Returns the processor time it has used, in user and system mode.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        let path = format!("/proc/{}/stat", self.id());
        let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        // The second field is its name, in brackets, and may hold anything.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
        let [user, system] = ticks[..] else { bail!("the kernel does not tell how long a process has run") };
        // The kernel reports hundredths of a second, whatever it counts in internally.
        Ok(Duration::from_millis((user + system) * 10))
    }

    fn status(&self, name: &str) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kib.context("the kernel does not tell how much memory a process has")? * 1024)
    }

    /// Asks it to end, and waits until it has ended.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let asked = Command::new("kill").arg(self.id().to_string()).status().context("cannot run `kill`")?;
        ensure!(asked.success(), "cannot ask the hub to end");
        let begun = Instant::now();
        while self.process.try_wait()?.is_none() {
            ensure!(begun.elapsed() < PATIENCE, "the hub does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns the path of the measured `chorus`, which is in the folder of this program.
pub(crate) fn chorus_path() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find this program")?.with_file_name("chorus");
    ensure!(path.is_file(), "there is no {}. Build it with `cargo build -p chorus`", path.display());
    Ok(path)
}

/// Returns a command of `chorus` without settings from the environment.
fn chorus() -> anyhow::Result<Command> {
    Ok(without_settings(Command::new(chorus_path()?)))
}

fn without_settings(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"CHORUS_")) {
        command.env_remove(name);
    }
    command
}

/// Returns the command for `chorus serve` on a free port, durable as by default, but without limits.
fn unlimited_hub(folder: &Path) -> anyhow::Result<Command> {
    let mut command = without_limits(chorus()?, folder);
    command.env("CHORUS_QUOTA_OPEN_JOBS", "off");
    Ok(command)
}

/// Turns off the limits that earlier versions know as well. A version refuses settings that it does not know.
fn without_limits(mut command: Command, folder: &Path) -> Command {
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder)
        .env("CHORUS_RATE_LIMIT", "off")
        .env("CHORUS_MAX_CONNECTIONS", "1000000")
        .env("CHORUS_QUOTA_AGENT_BYTES", "off")
        .env("CHORUS_QUOTA_ACCOUNT_BYTES", "off")
        .env("CHORUS_QUOTA_CHANNELS", "off")
        .env("CHORUS_QUOTA_MEMBERS", "off")
        .env("CHORUS_OPERATOR_KEY", OPERATOR_KEY)
        .env("CHORUS_LOG", "warn");
    command
}
