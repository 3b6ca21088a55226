//! `chorus join` and `chorus leave`: connect the program that a person works in with the hub, and undo it.
//!
//! `join` writes an MCP server entry, hooks and instructions into the program's own files, and records every
//! change. `leave` removes exactly that.

pub(crate) mod agents;
mod changes;
mod json_text;
mod programs;
pub(crate) mod wake;

use super::channel;
use crate::failure::Explained;
use crate::global::Global;
use crate::output::{self, one_line};
use agents::KeptAgent;
use anyhow::Context as _;
use changes::{FileChange, JoinRecord, Prepared, Undone};
use chorus_agent::{Method, RegisterBody};
use chorus_protocol::api::agents::MadeAgent;
use chorus_protocol::credentials::SecretKind;
use owo_colors::OwoColorize as _;
use programs::{Homes, Program, Started};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const JOIN_EXAMPLES: &str = "\
Examples:
  chorus join claude-code                           an agent for Claude Code, named claude-code
  chorus join codex --agent dev --channel ops       as dev, in the channel ops
  chorus join gemini --dry-run                      show what would be written, and write nothing
  CHORUS_KEY=ct_… chorus join opencode              with a person's token: the agent is hers

The agent's key is kept in the user's configuration folder, readable by the user only. `chorus leave`
takes back what was written.";

const LEAVE_EXAMPLES: &str = "\
Examples:
  chorus leave claude-code

Files that were not changed meanwhile are as before, byte for byte. In others, only the entries of
`chorus join` are removed. The agent and its key stay: `chorus unregister` takes it off the hub.";

/// Connect Claude Code, Codex, Gemini CLI, OpenCode or Cursor with the hub
#[derive(clap::Args)]
#[command(after_help = JOIN_EXAMPLES)]
pub(crate) struct Args {
    /// The program that you work in
    program: Program,
    /// The agent's name [default: the program's name]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// A channel that the agent is to join: its id, or its name; needs a person's token
    #[arg(long)]
    channel: Option<String>,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// An invitation to the hub, required for a new agent where sign-up is by invitation
    #[arg(long, value_name = "CODE")]
    invitation: Option<String>,
    /// The folder with the kept keys [default: chorus in the user's configuration folder]
    #[arg(long, value_name = "DIR", env = "CHORUS_CONFIG")]
    config: Option<PathBuf>,
}

/// Take back what `chorus join` has written for a program
#[derive(clap::Args)]
#[command(after_help = LEAVE_EXAMPLES)]
pub(crate) struct LeaveArgs {
    /// The program that was joined
    program: Program,
    /// The folder with the kept keys [default: chorus in the user's configuration folder]
    #[arg(long, value_name = "DIR", env = "CHORUS_CONFIG")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let folder = agents::folder(args.config.as_deref())?;
    let word = args.program.word();
    if let Some(JoinRecord { agent, .. }) = JoinRecord::read(&folder, word)? {
        let what = format!("{word} is joined already, as {}", one_line(&agent));
        return Err(Explained::usage(what, "`chorus leave PROGRAM` takes that back first").into());
    }
    let agent = args.agent.clone().unwrap_or_else(|| word.to_owned());
    agents::check_name(&agent)?;
    let config = (folder != agents::folder(None)?).then(|| folder.clone());
    let started = Started { chorus: own_program(), agent: agent.clone(), config };
    let changes = args.program.changes(&Homes::from_environment()?, &started);
    let prepared: Vec<_> = changes.into_iter().map(FileChange::prepare).collect::<Result<_, _>>()?;
    if args.dry_run {
        show(&prepared)?;
        output::talk(format_args!("\nnothing was written; {}", args.program.waking()));
        return Ok(ExitCode::SUCCESS);
    }
    enter(global, &folder, &agent, &args).await?;
    // Written first, so that `leave` can undo an interrupted join.
    let files = prepared.iter().map(|one| one.record.clone()).collect();
    JoinRecord { agent: agent.clone(), files }.write(&folder, word)?;
    for one in &prepared {
        one.write()?;
    }
    if global.json {
        let files: Vec<_> = prepared.iter().map(|one| &one.record.path).collect();
        output::json(&json!({"program": word, "agent": agent, "files": files}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for one in &prepared {
        let what = if one.record.is_new() { "made   " } else { "changed" };
        output::data(format_args!("{what} {}", one.record.path.display()))?;
    }
    output::talk(format_args!("\n{} as {agent}; {}", "joined".green(), args.program.waking()));
    Ok(ExitCode::SUCCESS)
}

fn show(prepared: &[Prepared]) -> anyhow::Result<()> {
    for one in prepared {
        let what = if one.record.is_new() { "would make" } else { "would add to" };
        output::data(format_args!("{what} {}:", one.record.path.display()))?;
        for text in one.shown() {
            output::data(output::many_lines(text))?;
        }
        output::data("")?;
    }
    Ok(())
}

/// Returns the command by which other programs start this one: its name if the search path leads to it, else
/// its path.
fn own_program() -> String {
    let Ok(own) = std::env::current_exe() else { return "chorus".into() };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|folder| folder.join("chorus")).find(|path| path.is_file());
    let is_own = found.and_then(|found| found.canonicalize().ok()).zip(own.canonicalize().ok());
    match is_own {
        Some((found, own)) if found == own => "chorus".into(),
        _ => own.display().to_string(),
    }
}

/// Makes sure that the agent exists, its key is kept, and it is in the channel.
async fn enter(global: &Global, folder: &Path, agent: &str, args: &Args) -> anyhow::Result<()> {
    let url = global.url().to_owned();
    match agents::read(folder, agent)? {
        Some(kept) if kept.url.trim_end_matches('/') != url.trim_end_matches('/') => {
            let what = format!("the kept key of {agent} is for the hub {}", one_line(&kept.url));
            return Err(
                Explained::usage(what, "choose another name with --agent, or that hub with --url").into()
            );
        }
        Some(_) => {}
        None => {
            let key = register(global, agent, args.invitation.clone()).await?;
            agents::keep(folder, agent, &KeptAgent { url, key })?;
        }
    }
    let Some(named) = &args.channel else { return Ok(()) };
    if global.key_kind() != Some(SecretKind::ApiToken) {
        let hint = "set CHORUS_KEY to the token ct_… of a person who may add members, or add it later with `chorus channel join`";
        return Err(Explained::usage("--channel needs a person's token", hint).into());
    }
    let channel = channel::find(global, named.clone()).await?;
    let body = json!({"agent": agent});
    let path = ["channels", &channel, "members"];
    let added = global.client()?.api_write::<Value>(Method::POST, &path, &[], Some(&body)).await;
    match added {
        // It is a member already.
        Err(error) if error.code() == Some(chorus_protocol::code::Code::Conflict) => Ok(()),
        added => Ok(added.map(drop)?),
    }
}

/// Registers an agent, with the token as that person's, and returns its key. An agent's own key is used as it
/// is.
async fn register(global: &Global, agent: &str, invitation: Option<String>) -> anyhow::Result<String> {
    let client = global.client()?;
    match (global.key_kind(), global.key()) {
        (Some(SecretKind::AgentKey), Some(key)) => {
            let me: Value = client.api_get(&["me"], &[]).await?;
            if me["name"] != agent {
                let what = format!("the key in CHORUS_KEY is not that of {agent}");
                return Err(
                    Explained::usage(what, "pass --agent with the name that goes with the key").into()
                );
            }
            Ok(key.to_owned())
        }
        (Some(SecretKind::ApiToken), _) => {
            let body = json!({"name": agent});
            let made: MadeAgent = client.api_write(Method::POST, &["agents"], &[], Some(&body)).await?;
            Ok(made.api_key)
        }
        _ => {
            let body =
                RegisterBody { agent_id: agent.to_owned(), endpoint: None, agent_card: None, invitation };
            let (registered, _) = client.register(&body).await?;
            registered.api_key.context("the hub gave no key; pass the agent's own key in CHORUS_KEY")
        }
    }
}

pub(crate) fn leave(global: &Global, args: &LeaveArgs) -> anyhow::Result<ExitCode> {
    let folder = agents::folder(args.config.as_deref())?;
    let word = args.program.word();
    let Some(record) = JoinRecord::read(&folder, word)? else {
        let what = format!("{word} is not joined");
        return Err(Explained::usage(what, "`chorus join PROGRAM` does that").into());
    };
    let (mut told, mut failed) = (vec![], None);
    for file in record.files.iter().rev() {
        match file.undo() {
            Ok(undone) => told.push((&file.path, undone)),
            Err(error) => failed = Some(failed.unwrap_or(error)),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    JoinRecord::delete(&folder, word)?;
    if global.json {
        let files: Vec<_> = told.iter().map(|(path, _)| path).collect();
        output::json(&json!({"program": word, "agent": record.agent, "files": files}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (path, undone) in told {
        let what = match undone {
            Undone::Exactly => "as before           ",
            Undone::OurEntries => "without our entries ",
            Undone::Nothing => "had nothing of ours ",
        };
        output::data(format_args!("{what}{}", path.display()))?;
    }
    output::talk(format_args!("\n{word} has left; the agent {} and its key stay", one_line(&record.agent)));
    Ok(ExitCode::SUCCESS)
}
