//! `chorus c2a-stdio`: a C2A session on standard input and output, for harnesses that speak there.
//!
//! One JSON-RPC message a line, both ways, exactly as the hub and the harness say them: nothing is changed, kept or answered
//! here. When the hub closes, it ends. At the end of input it ends once the hub has answered what it was asked, for a hub that is
//! told goodbye answers nothing more; what was not acknowledged the hub keeps for the next session.

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

/// How long the hub may take for its last answers, and then for its goodbye.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// So many calls may be open; whoever has more waits with what it says next.
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

/// Passes on what both say, until nothing more is said here and all that was asked is answered.
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

/// The ids of the calls that the hub has not answered; none, of what it cannot read.
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
