//! `chorus mcp`: the agent's MCP server on standard input and output, for programs that start their servers as
//! commands.
//!
//! One JSON-RPC message for each line. Each goes to the hub's `/mcp` as it is; requests are answered in any
//! order. While the hub is away, a request is tried again for a while and then answered with a JSON-RPC error;
//! the next one finds the hub again. The command ends at the end of input, after the open requests.
//!
//! In a session that can be woken (see `commands/join`), the command also rings for what waits in the inbox.

use super::c2a_stdio::read_lines;
use super::join::{agents, wake};
use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use chorus_agent::{ClientError, Environment, McpSession};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const EXAMPLES: &str = "\
Examples:
  chorus mcp --agent dev          the key that `chorus join` or `chorus mcp --agent` kept
  CHORUS_KEY=ca_… chorus mcp      the key in the environment

A program that takes MCP servers as commands starts this one. `chorus join` writes that into the
configuration of Claude Code, Codex, Gemini CLI, OpenCode and Cursor.";

/// The limit of open requests. Beyond it, input is not read.
const MAX_OPEN: usize = 32;
/// The time for which a request is tried while the hub is away, in milliseconds.
const PATIENCE_MS: u64 = 20_000;
/// The first pause between two tries. Each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The time for open requests after the end of input.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The JSON-RPC code for a hub that cannot be reached or refuses the key. It is in the range for servers.
const NO_HUB: i64 = -32001;

/// Tools whose calls get an idempotency key if they have none, so that a lost answer can be asked for again.
const KEYED: [(&str, &str); 5] = [
    ("chat_send_message", "idempotency_key"),
    ("artifact_create", "idempotency_key"),
    ("artifact_edit", "idempotency_key"),
    ("approval_ask", "idempotency_key"),
    ("market_hire", "job_id"),
];

/// Serve the tools of one agent as an MCP server on standard input and output
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent whose key `chorus join` keeps [default: the agent of the key in CHORUS_KEY]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The folder with the kept keys [default: chorus in the user's configuration folder]
    #[arg(long, value_name = "DIR", env = "CHORUS_CONFIG")]
    config: Option<PathBuf>,
    /// Ring for what waits in the inbox, by this program's own means
    #[arg(long, value_name = "PROGRAM", hide = true)]
    wake: Option<wake::Bell>,
    /// The time for which a call is tried while the hub is away, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = PATIENCE_MS)]
    patience: u64,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = match &args.agent {
        Some(name) => agents::client(&agents::folder(args.config.as_deref())?, name)?,
        None => global.agent_client()?,
    };
    let session = Arc::new(McpSession::new(client));
    let ringing = match (&args.agent, args.wake) {
        (Some(agent), Some(bell)) => {
            let watch = wake::Watch::new(&agents::folder(args.config.as_deref())?, agent);
            Some(tokio::spawn(wake::ring(Arc::clone(&session), watch, bell)))
        }
        _ => None,
    };
    let done = serve(&session, Duration::from_millis(args.patience)).await;
    if let Some(ringing) = ringing {
        ringing.abort();
    }
    done?;
    Ok(ExitCode::SUCCESS)
}

/// Passes messages on until the input has ended and the open requests are answered.
async fn serve(session: &Arc<McpSession>, patience: Duration) -> anyhow::Result<()> {
    let (mut lines, open) = (read_lines(), Arc::new(Semaphore::new(MAX_OPEN)));
    let (answers, mut told) = mpsc::channel::<Value>(MAX_OPEN);
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                let Ok(message) = serde_json::from_str::<Value>(&line?) else {
                    say(&failure(&Value::Null, -32700, "this line is no JSON"))?;
                    continue;
                };
                // The first message opens the session that all others need.
                if message["method"] == "initialize" {
                    if let Some(answer) = answer(session, message, patience).await {
                        say(&answer)?;
                    }
                    continue;
                }
                let (session, answers) = (Arc::clone(session), answers.clone());
                let turn = Arc::clone(&open).acquire_owned().await?;
                running.spawn(async move {
                    if let Some(answer) = answer(&session, message, patience).await {
                        // The reader is gone only when the command ends.
                        answers.send(answer).await.ok();
                    }
                    drop(turn);
                });
            }
            Some(answer) = told.recv() => say(&answer)?,
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
    drop(answers);
    let rest = async {
        while let Some(answer) = told.recv().await {
            say(&answer)?;
        }
        anyhow::Ok(())
    };
    // Waits that nobody reads any more end with the command.
    timeout(LAST_WORDS, rest).await.unwrap_or(Ok(()))
}

/// Prints a message on one line.
fn say(message: &Value) -> std::io::Result<()> {
    output::piece(format_args!("{message}\n"))
}

fn failure(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Sends a message, again while the hub is away, and returns its answer. A notification has none.
async fn answer(session: &McpSession, mut message: Value, patience: Duration) -> Option<Value> {
    let id = message.get("id").cloned().filter(|_| message.get("method").is_some());
    make_repeatable(&mut message);
    let (until, mut pause) = (Instant::now() + patience, FIRST_PAUSE);
    loop {
        let error = match session.send(&message).await {
            Ok(answer) => return answer.filter(|_| id.is_some()),
            Err(error) => error,
        };
        match error.transient() {
            Some(asked) if Instant::now() + asked.max(pause) < until => {
                sleep(asked.max(pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            again => {
                let said = explained(&error, again.is_some());
                output::talk(output::one_line(&said));
                return id.map(|id| failure(&id, NO_HUB, &said));
            }
        }
    }
}

fn explained(error: &ClientError, is_away: bool) -> String {
    if is_away {
        return format!("{error}; the next call tries again. Nothing was lost: messages wait in the inbox");
    }
    match error {
        ClientError::Refused { status: 401, .. } => {
            format!(
                "{error}. The agent's key is not valid any more: `chorus leave` and `chorus join` make a new one"
            )
        }
        _ => error.to_string(),
    }
}

/// Gives a call that adds something the key by which the hub recognises a repetition.
fn make_repeatable(message: &mut Value) {
    if message["method"] != "tools/call" {
        return;
    }
    let name = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
    let Some((_, key)) = KEYED.iter().find(|(tool, _)| *tool == name) else { return };
    if let Some(Value::Object(arguments)) = message.pointer_mut("/params/arguments") {
        arguments.entry(*key).or_insert_with(|| Environment::system().uuid_v4().to_string().into());
    }
}

/// The error for a name that `chorus join` could not read a key of.
pub(crate) fn no_such_agent(name: &str) -> Explained {
    Explained::usage(
        format!("there is no kept key of an agent {name:?}"),
        "`chorus join PROGRAM --agent NAME` makes one; or pass a key in CHORUS_KEY without --agent",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_adds_something_gets_a_key_once() {
        let call = |name: &str, arguments: Value| {
            let mut call = json!({"method": "tools/call", "params": {"name": name, "arguments": arguments}});
            make_repeatable(&mut call);
            call["params"]["arguments"].clone()
        };
        assert!(call("chat_send_message", json!({}))["idempotency_key"].is_string());
        assert_eq!(
            call("chat_send_message", json!({"idempotency_key": "k"})),
            json!({"idempotency_key": "k"})
        );
        assert!(call("market_hire", json!({}))["job_id"].is_string());
        assert_eq!(call("inbox", json!({})), json!({}));
    }
}
