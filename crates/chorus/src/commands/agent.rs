//! `chorus agent`: makes an agent out of any program, a coding agent or a model.
//!
//! The harness in `chorus-agent` does the work. This command reads its settings from flags or from a file with
//! several agents (`plan`), prints its activity (`show`), and stops it on Ctrl-C or SIGTERM.

mod file;
mod plan;
mod show;

use crate::failure::{self, Explained};
use crate::global::Global;
use crate::output;
use anyhow::Context as _;
use chorus_agent::harness::{AgentOptions, HarnessError, Observer, run as run_agent};
use chorus_protocol::faults::Faults;
use owo_colors::OwoColorize;
use plan::Plan;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

const EXAMPLES: &str = "\
Examples:
  chorus agent --name echo --exec ./echo.sh                 prompt in, answer out
  chorus agent --name py --exec python3 -- -u agent.py      what begins with - goes after --
  chorus agent --name ada --openai http://127.0.0.1:11434/v1 --model llama3.2
  OPENAI_API_KEY=… chorus agent --name ada --openai https://api.openai.com/v1 --model gpt-4o-mini
  chorus agent --name dev --agent claude --folder ./project   a coding agent: claude, codex, …
  chorus agent --name dev --acp 'my-agent --acp' --mcp        any that speaks ACP, with our tools
  chorus agent --name echo --exec ./echo.sh --connection 0.0.0.0:8788 \\
    --connection-url https://echo.example
  chorus agent --name echo --exec ./echo.sh --c2a           by a C2A session instead of the inbox
  chorus agent --name ben --skill price=0.10 --owner ben --exec ./price.py   and is paid
  chorus agent --config agents.toml                         several agents in one process

It registers itself at its first start and keeps its key in the state folder; with an agent's key
in CHORUS_KEY it is that agent, with a person's token it belongs to that person. Then somebody
lets it in:
  chorus channel join ch_… --agent echo

A program is given CHORUS_EVENT_KIND, CHORUS_CHANNEL, CHORUS_SENDER, CHORUS_SENDER_ID (by which
the hub knows whoever has that name), CHORUS_MESSAGE_ID and CHORUS_TRACE_ID. Nothing printed is
silence; an exit code other than 0 is a failure, told by the last line of standard error.

A coding agent has a session for each thread, which goes on after a restart. A tool that needs
permission waits for a person of the conversation: on the page, or by
  chorus approvals list
  chorus approvals agree apr_…
Without an answer in --permission-timeout the tool is not run.

A file of agents:
  [[agent]]
  name = \"echo\"
  exec = [\"./echo.sh\"]

  [[agent]]
  name = \"ada\"
  openai = \"http://127.0.0.1:11434/v1\"
  model = \"llama3.2\"
  system = \"@ada.md\"";

/// The exit code after a second interrupt, by shell convention.
const INTERRUPTED: u8 = 130;

const CONFIG_HINT: &str = "`chorus agent --help` shows a file of agents";

/// Make an agent out of any program, a coding agent or a model
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent's name
    #[arg(long, required_unless_present = "config")]
    name: Option<String>,
    /// A channel it should be a member of, by id or name; only reports whether it is. May be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// The program that answers, and its arguments
    #[arg(long, value_name = "PROGRAM", num_args = 1.., conflicts_with = "openai", group = "program")]
    exec: Vec<String>,
    /// A known coding agent that answers: claude, codex, gemini, opencode, copilot, goose, qwen, kimi or cline
    #[arg(long, value_name = "PRESET", conflicts_with = "openai", group = "program")]
    agent: Option<String>,
    /// The command of any program that speaks the Agent Client Protocol, such as 'gemini --acp'
    #[arg(long, value_name = "COMMAND", conflicts_with = "openai", group = "program")]
    acp: Option<String>,
    /// With --agent or --acp: the folder in which it works [default: the current one]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["exec", "openai"])]
    folder: Option<PathBuf>,
    /// With --agent or --acp: the session mode, one of the program's own words [default: one that asks for
    /// permission]
    #[arg(long, value_name = "MODE", conflicts_with_all = ["exec", "openai"])]
    mode: Option<String>,
    /// With --agent or --acp: give sessions the hub's tools, with the token that comes with each message
    #[arg(long, conflicts_with_all = ["exec", "openai"])]
    mcp: bool,
    /// With --agent or --acp: the time in seconds that people have to answer a permission request
    /// [default: 600]
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["exec", "openai"])]
    permission_timeout: Option<u64>,
    /// An endpoint with the chat completions API: the address before /chat/completions
    #[arg(long, value_name = "URL", requires = "model")]
    openai: Option<String>,
    /// The name of the model
    #[arg(long, value_name = "MODEL", requires = "openai")]
    model: Option<String>,
    /// The environment variable with the model's key
    #[arg(long, value_name = "NAME", requires = "openai")]
    openai_key_env: Option<String>,
    /// The limit of tokens in one answer [default: 2048]
    #[arg(long, value_name = "N", requires = "openai")]
    max_tokens: Option<u32>,
    /// An invitation to the hub, required for a new agent where sign-up is by invitation
    #[arg(long, value_name = "CODE", env = "CHORUS_INVITATION", hide_env_values = true)]
    invitation: Option<String>,
    /// The folder for the key and the journal [default: ./chorus-agent]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// The culture of the agent's user, as a BCP 47 tag [default: en]
    #[arg(long, value_name = "TAG")]
    culture: Option<String>,
    /// A text before every prompt; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The time limit in seconds of a program [default: 120], of a whole turn of a model [default: 300] or of a
    /// coding agent [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Receive messages by a C2A session: the hub decides what the agent sees, claims prevent double answers,
    /// and the hub learns the outcome of each event
    #[arg(long, conflicts_with_all = ["connection", "direct"])]
    c2a: bool,
    /// Receive messages by a connection string: serve it at this address, announce it to the hub and print it
    /// once
    #[arg(long, value_name = "ADDRESS", conflicts_with = "direct")]
    connection: Option<String>,
    /// This server's URL as services reach it, such as https://agent.example
    #[arg(long, value_name = "URL", requires = "connection")]
    connection_url: Option<String>,
    /// With --connection or --direct: use no hub; the agent is reached by its connection string or by peers
    /// only
    #[arg(long)]
    no_hub: bool,
    /// With --connection or --direct: accept only requests signed with this secret (whsec_…). Better set the
    /// variable CHORUS_WEBHOOK_SECRET, or give a file as @FILE
    #[arg(long, value_name = "SECRET")]
    webhook_secret: Option<String>,
    /// With --connection or --direct: accept messages only from this address or network, such as 192.0.2.0/24;
    /// may be repeated
    #[arg(long, value_name = "NETWORK")]
    allow_from: Vec<String>,
    /// Also call callbacks and tool servers named by messages in this private address or network, such as
    /// 10.0.0.0/8. The hub's own are always called. May be repeated, or given as CHORUS_AGENT_ALLOW_PRIVATE,
    /// separated by commas
    #[arg(long, value_name = "NETWORK", env = "CHORUS_AGENT_ALLOW_PRIVATE", value_delimiter = ',')]
    allow_private: Vec<String>,
    /// Use tool servers named by messages of other services; by default only the hub's own are used
    #[arg(long, env = "CHORUS_AGENT_FOREIGN_MCP")]
    foreign_mcp: bool,
    /// The number of threads processed in parallel, each in its own order [default: 3]
    #[arg(long = "parallel", alias = "at-once", value_name = "N", value_parser = clap::value_parser!(u64).range(plan::AT_ONCE_RANGE))]
    at_once: Option<u64>,
    /// The pause in seconds after a person's last message before the agent answers, so that messages typed in
    /// pieces are answered together; 0 answers every message separately [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(plan::QUIET_RANGE))]
    quiet: Option<u64>,
    /// React with 👀 (seen) to a message that requires an answer if the agent gives none. Without it the
    /// message stays open, and comes again at its deadline
    #[arg(long)]
    seen: bool,
    /// A skill to offer on the market: NAME=PRICE, or @FILE with a skill in the document's format, including
    /// schemas. The program of --exec does the jobs: it reads input data and prints output data. May be
    /// repeated
    #[arg(long = "skill", value_name = "NAME=PRICE", conflicts_with_all = ["openai", "acp", "agent", "connection", "direct"])]
    skills: Vec<String>,
    /// With --skill: the owner whose wallet is paid. An agent of an account earns for it; any other names an
    /// owner at its first start
    #[arg(long, value_name = "OWNER", requires = "skills")]
    owner: Option<String>,
    /// Receive envelopes directly from peers at this address
    #[arg(long, value_name = "ADDRESS")]
    direct: Option<String>,
    /// With --direct: the URL for replies to a peer; may be repeated
    #[arg(long = "peer", value_name = "AGENT=URL", requires = "direct")]
    peers: Vec<String>,
    /// A file with several agents
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "channels", "exec", "agent", "acp", "folder", "mode", "mcp", "permission_timeout", "openai", "culture", "system", "timeout", "c2a", "connection", "direct", "no_hub", "webhook_secret", "allow_from", "skills", "owner"])]
    config: Option<PathBuf>,
    /// More arguments of the program
    #[arg(last = true, value_name = "ARG", requires = "program")]
    rest: Vec<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let agents = read(global, args)?;
    let (stop, stopping) = watch::channel(false);
    let mut running = JoinSet::new();
    for options in agents {
        let observer = Observer::new(show::teller(&options.name, global.json));
        running.spawn(run_agent(options, observer, stopping.clone()));
    }
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut failed = None;
    loop {
        let ended = tokio::select! {
            ended = running.join_next() => Some(ended),
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
        };
        let Some(ended) = ended else {
            // A second interrupt ends the process without waiting.
            if stop.send_replace(true) {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            continue;
        };
        let Some(ended) = ended else { break };
        let Err(error) =
            ended.context("an agent came to an unexpected end").and_then(|ended| ended.map_err(explain))
        else {
            continue;
        };
        // The other agents go on. The exit code is that of the first failure.
        if running.is_empty() && failed.is_none() {
            return Err(error);
        }
        let code = failure::report(&error, global.key_kind(), global.json);
        failed.get_or_insert(code);
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

/// Reads the agents to run, from flags or from a file.
fn read(global: &Global, args: Args) -> anyhow::Result<Vec<AgentOptions>> {
    let mut faults = Faults::new();
    let (agents, hint) = if let Some(path) = &args.config {
        let told = || format!("cannot read the file of agents {}", path.display());
        let text = std::fs::read_to_string(path).with_context(told)?;
        let agents = file::read(&text, &mut faults, &Plan::of(args, &mut Faults::new()));
        (agents.options(global, &mut faults), CONFIG_HINT)
    } else {
        let plan = Plan::of(args, &mut faults);
        (
            plan::Plans(vec![(String::new(), plan)]).options(global, &mut faults),
            "`chorus agent --help` has examples",
        )
    };
    if !faults.is_empty() {
        return Err(Explained::usage(output::one_line(&faults.to_string()), hint).into());
    }
    Ok(agents)
}

/// Adds advice to an error of the harness.
fn explain(error: HarnessError) -> anyhow::Error {
    let what = failure::sentence(&error);
    match error {
        HarnessError::Client(error) => error.into(),
        HarnessError::Taken { .. } => Explained::refused(
            what,
            "choose another name, or put the key that `chorus register` printed (ca_…) into that file",
        )
        .into(),
        HarnessError::OtherHub { .. } => Explained::refused(
            what,
            "give this agent a --state folder of its own; if it is the same hub at another address, remove that file",
        )
        .into(),
        HarnessError::OtherAgent { .. } => Explained::usage(
            what,
            "give its own key, or --name the agent whose key it is; `unset CHORUS_KEY` if you meant a new agent",
        )
        .into(),
        HarnessError::OtherOwner { .. } => Explained::refused(
            what,
            "leave --owner out, or name the owner it has; to earn for another owner, start an agent of another --name",
        )
        .into(),
        HarnessError::KeyRefused { .. } => Explained::refused(
            what,
            "was the key replaced by `chorus register`, or the agent unregistered? Put its newest key (ca_…) into that \
             file, or remove the file to register anew",
        )
        .into(),
        HarnessError::Busy(_) => {
            Explained::failed(what, "end the other one, or give this one a --state folder of its own").into()
        }
        HarnessError::Takeover(_) => {
            Explained::failed(what, "an inbox has one listener: give each program an agent of its own").into()
        }
        HarnessError::NoProgram(_) => {
            Explained::usage(what, "a path begins with ./ or /; anything else is looked for on the PATH")
                .into()
        }
        HarnessError::NotInstalled { .. } => {
            Explained::usage(what, "or give its command: --acp 'PROGRAM ARGUMENTS…'").into()
        }
        HarnessError::NotExecutable(_) => {
            Explained::usage(what, "chmod +x makes it so; or name its interpreter: --exec sh FILE").into()
        }
        HarnessError::Bind(_) => {
            Explained::failed(what, "choose another address, or port 0 for any free one").into()
        }
        HarnessError::Invalid(_) => Explained::usage(what, "`chorus agent --help` has examples").into(),
        HarnessError::State { .. } => {
            Explained::failed(what, "--state names another folder; what is in it must not be lost").into()
        }
    }
}

/// Prints a warning to standard error.
fn warn(what: impl std::fmt::Display) {
    output::talk(format_args!("{}: {what}", "warning".yellow()));
}
