//! `chorus c2a-stdio`: a C2A session on standard input and output, for harnesses without a WebSocket client.
//!
//! One JSON-RPC message for each line, both ways, exactly as the hub and the harness send them: nothing is
//! changed, stored or answered here. The command ends when the hub closes the session. At the end of input it
//! first waits for the responses to open requests, because a hub answers nothing after the close frame. The
//! hub keeps deliveries that were not acknowledged for the next session.

use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use chorus_agent::Socket;
use chorus_protocol::rpc::{Id, Message};
use std::io::{BufRead as _, Read as _};
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

const EXAMPLES: &str = "\
Examples:
  chorus c2a-stdio --key ca_…              one message a line, in and out
  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2026-06-02\",
    \"clientInfo\":{\"name\":\"mine\",\"version\":\"1\"}}}' | tr -d '\\n' | chorus c2a-stdio

A harness that is started with this command as its host needs no WebSocket of its own. Everything
that is not a message of the protocol goes to standard error.";

/// The time limit for the last responses, and then for the close of the session.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The limit of open requests. Beyond it, input is not read.
const MAX_OPEN: usize = 256;

/// The longest line, in bytes.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// Speak C2A on standard input and output: a session with the hub for a harness that has no WebSocket
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) async fn run(global: &Global, _: Args) -> anyhow::Result<ExitCode> {
    let mut socket = global.agent_client()?.open_c2a().await?;
    output::talk("the session is open");
    speak(&mut socket).await?;
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

/// Transfers messages both ways until the input has ended and all requests are answered.
async fn speak(socket: &mut Socket) -> anyhow::Result<()> {
    let (mut lines, mut open, mut ended_at) = (read_lines(), Open::default(), None::<Instant>);
    while ended_at.is_none() || !open.0.is_empty() {
        let late = ended_at.unwrap_or_else(Instant::now) + LAST_WORDS;
        tokio::select! {
            message = socket.next() => {
                let Some(message) = message? else {
                    let hint = "another session of this agent took over, or the hub ends; start it again";
                    return Err(Explained::failed("the hub closed the session", hint).into());
                };
                open.answered(&message);
                tell(&message)?;
            }
            line = lines.recv(), if ended_at.is_none() && open.0.len() < MAX_OPEN => match line {
                Some(line) => {
                    let line = line?;
                    open.asked(&line);
                    socket.send(line).await?;
                }
                None => ended_at = Some(Instant::now()),
            },
            () = sleep_until(late), if ended_at.is_some() => {
                let what = format!("{} calls were not answered in {} s", open.0.len(), LAST_WORDS.as_secs());
                let hint = "what they do may be done all the same; ask again with the same idempotencyKey";
                return Err(Explained::failed(what, hint).into());
            }
        }
    }
    Ok(())
}

/// The ids of the requests that the hub has not answered. `None` for an unreadable request.
#[derive(Default)]
struct Open(Vec<Option<Id>>);

impl Open {
    fn asked(&mut self, line: &str) {
        match Message::read(line.as_bytes()) {
            Ok(Message::Request(request)) => self.0.push(Some(request.id)),
            Ok(Message::Notification(_) | Message::Response(_)) => {}
            Err(unreadable) => self.0.push(unreadable.id),
        }
    }

    fn answered(&mut self, message: &str) {
        let Ok(Message::Response(response)) = Message::read(message.as_bytes()) else { return };
        if let Some(place) = self.0.iter().position(|id| *id == response.id) {
            self.0.swap_remove(place);
        }
    }
}

/// Prints a message on one line. Line breaks in JSON only separate its parts.
fn tell(message: &str) -> std::io::Result<()> {
    output::data(message.replace(['\r', '\n'], " "))
}

/// Reads the lines of standard input in a separate thread, because a blocking read cannot be cancelled.
pub(super) fn read_lines() -> mpsc::Receiver<std::io::Result<String>> {
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
