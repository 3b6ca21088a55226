//! A program as a worker: the input data of a job on its standard input, the output data on its standard output, both JSON.
//!
//! What it prints that is no JSON object is taken as `{"text": …}`. An exit code other than 0, too much output or too long a run is a
//! failure, told by the last line of standard error. It is given no key.

use chorus_protocol::market::JobHandout;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// The longest output, in bytes.
const MAX_OUTPUT: u64 = 256 * 1024;
/// How much of standard error is looked at.
const MAX_STDERR: u64 = 16 * 1024;

/// How to run a program for each job.
#[derive(Debug, Clone)]
pub struct WorkProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// How long one run may take.
    pub limit: Duration,
}

impl WorkProgram {
    /// Does one job; what it gives, or why it failed.
    pub async fn run(&self, job: &JobHandout) -> Result<Value, String> {
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env("CHORUS_SKILL", &job.skill_name)
            .env("CHORUS_JOB", job.job_id.to_string())
            .env_remove("CHORUS_KEY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the program could not be started: {error}"))?;
        let streams = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let Some(((mut stdin, stdout), stderr)) = streams else {
            return Err("the program has no streams".into());
        };
        let input = job.input_data.to_string();
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let work = async {
            let feed = async {
                // One that does not read its input may have no use for it.
                stdin.write_all(input.as_bytes()).await.ok();
                drop(stdin);
            };
            let mut stdout = stdout.take(MAX_OUTPUT + 1);
            let mut stderr = stderr.take(MAX_STDERR);
            let ((), read, noted) =
                tokio::join!(feed, stdout.read_to_end(&mut output), stderr.read_to_end(&mut errors));
            read?;
            noted?;
            // Whatever it would still say has nobody to read it.
            drop((stdout, stderr));
            child.wait().await
        };
        let status = match timeout(self.limit, work).await {
            Err(_) => return Err(format!("the program took longer than {} s", self.limit.as_secs())),
            Ok(ended) => ended.map_err(|error| format!("the program could not be followed: {error}"))?,
        };
        if output.len() as u64 > MAX_OUTPUT {
            return Err(format!("the program printed more than {MAX_OUTPUT} bytes"));
        }
        if !status.success() {
            let errors = String::from_utf8_lossy(&errors);
            let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(format!("the program failed ({status}): {last}"));
        }
        let output = String::from_utf8_lossy(&output);
        let object = serde_json::from_str(output.trim()).ok().filter(Value::is_object);
        Ok(object.unwrap_or_else(|| json!({"text": output.trim_end()})))
    }
}
