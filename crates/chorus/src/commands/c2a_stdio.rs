//! `chorus c2a-stdio`: a C2A session on standard input and output, for harnesses that speak there.
//!
//! One JSON-RPC message a line, both ways, exactly as the hub and the harness say them: nothing is read, kept or answered
//! here. When either end closes, it ends; the hub keeps what was not acknowledged for the next session.

use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use std::io::{BufRead as _, Read as _};
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

const EXAMPLES: &str = "\
Examples:
  chorus c2a-stdio --key ca_…              one message a line, in and out
  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2026-06-02\",
    \"clientInfo\":{\"name\":\"mine\",\"version\":\"1\"}}}' | tr -d '\\n' | chorus c2a-stdio

A harness that is started with this command as its host needs no WebSocket of its own. Everything
that is not a message of the protocol goes to standard error.";

/// How long the hub may take for its last answers.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The longest line, in bytes.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// Speak C2A on standard input and output: a session with the hub for a harness that has no WebSocket
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) async fn run(global: &Global, _: Args) -> anyhow::Result<ExitCode> {
    let mut socket = global.agent_client()?.open_c2a().await?;
    output::talk("the session is open");
    let mut lines = read_lines();
    loop {
        tokio::select! {
            message = socket.next() => {
                let Some(message) = message? else {
                    let hint = "another session of this agent took over, or the hub ends; start it again";
                    return Err(Explained::failed("the hub closed the session", hint).into());
                };
                tell(&message)?;
            }
            line = lines.recv() => match line {
                Some(line) => socket.send(line?).await?,
                None => break,
            },
        }
    }
    // Nothing more is asked; what was asked is answered.
    socket.finish().await?;
    let rest = async {
        while let Ok(Some(message)) = socket.next().await {
            tell(&message)?;
        }
        anyhow::Ok(())
    };
    timeout(LAST_WORDS, rest).await.unwrap_or(Ok(()))?;
    Ok(ExitCode::SUCCESS)
}

/// JSON has no line ends but between its parts.
fn tell(message: &str) -> std::io::Result<()> {
    output::data(message.replace(['\r', '\n'], " "))
}

/// The lines of standard input, read by a thread of their own: nobody can be kept from waiting for input.
fn read_lines() -> mpsc::Receiver<std::io::Result<String>> {
    let (out, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            let line = match (&mut input).take(MAX_LINE).read_line(&mut line) {
                Ok(0) => return,
                Ok(_) if line.ends_with('\n') || (line.len() as u64) < MAX_LINE => Ok(line.trim().to_owned()),
                Ok(_) => Err(std::io::Error::other("a line of standard input is longer than 4 MiB")),
                Err(error) => Err(error),
            };
            let (empty, last) = (line.as_ref().is_ok_and(String::is_empty), line.is_err());
            if !empty && out.blocking_send(line).is_err() || last {
                return;
            }
        }
    });
    lines
}
