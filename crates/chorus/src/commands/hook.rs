//! `chorus hook`: what the hooks and plugins that `chorus join` writes run. Each speaks its program's own
//! protocol of hooks. A hook that fails says so on standard error and never blocks the program.

use super::join::{agents, wake::Watch};
use crate::output;
use chorus_agent::McpSession;
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// The largest input of a hook, in bytes.
const MAX_INPUT: u64 = 4 * 1024 * 1024;
/// The time limit of a hook that must return at once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The exit code by which a hook of Claude Code starts a turn with the text on standard error.
const START_A_TURN: u8 = 2;

/// A program with a hook of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hook {
    /// Waits, then starts a turn by exit code 2 (for versions without a messaging socket)
    ClaudeCode,
    /// Notes the session that `codex queue` is to wake
    Codex,
    /// Returns at once with what waits, as the next prompt
    Gemini,
    /// Waits, then prints the text for the plugin
    Opencode,
    /// Returns at once with what waits, as the next prompt
    Cursor,
}

/// Run a hook that `chorus join` has written
#[derive(clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    program: Hook,
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// The folder with the kept keys [default: chorus in the user's configuration folder]
    #[arg(long, value_name = "DIR", env = "CHORUS_CONFIG")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    Ok(hook(args).await.unwrap_or_else(|error| {
        output::talk(output::one_line(&format!("chorus: {error:#}")));
        ExitCode::SUCCESS
    }))
}

async fn hook(Args { program, agent, config }: Args) -> anyhow::Result<ExitCode> {
    let folder = agents::folder(config.as_deref())?;
    let (watch, session) = (Watch::new(&folder, &agent), McpSession::new(agents::client(&folder, &agent)?));
    match program {
        Hook::Codex => {
            let named = input()?;
            let id = named["session_id"].as_str().or(named["thread_id"].as_str()).unwrap_or_default();
            let is_id = !id.is_empty()
                && id.len() <= 64
                && id.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
            anyhow::ensure!(is_id, "Codex's hook names no session");
            agents::write_private(&watch.thread, id.as_bytes())?;
        }
        Hook::ClaudeCode => {
            input()?;
            // The MCP server of the same session rings by this socket.
            if std::env::var_os("CLAUDE_CODE_MESSAGING_SOCKET").is_some() {
                return Ok(ExitCode::SUCCESS);
            }
            let Some(_lock) = watch.try_lock()? else { return Ok(ExitCode::SUCCESS) };
            output::talk(watch.next(&session).await?);
            return Ok(ExitCode::from(START_A_TURN));
        }
        Hook::Opencode => {
            // The plugin starts another one after a while.
            let Some(_lock) = watch.try_lock()? else { return Ok(ExitCode::SUCCESS) };
            output::data(watch.next(&session).await?)?;
        }
        Hook::Gemini | Hook::Cursor => {
            input()?;
            let Some(_lock) = watch.try_lock()? else { return Ok(ExitCode::SUCCESS) };
            let waits = timeout(AT_ONCE, watch.look(&session, 0)).await??;
            let answer = waits.map(|text| match program {
                Hook::Cursor => json!({"followup_message": text}),
                _ => json!({"decision": "deny", "reason": text}),
            });
            output::data(answer.unwrap_or_else(|| json!({})))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the JSON on standard input.
fn input() -> anyhow::Result<Value> {
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_INPUT).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
