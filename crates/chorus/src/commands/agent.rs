//! `chorus agent`: makes an agent out of any program, or out of a model.
//!
//! The work is the harness's, in `chorus-agent`. Here it gets its settings, from flags or from a file with several
//! agents (`plan`), is shown (`show`), and is stopped by Ctrl-C or SIGTERM.

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

A file of agents:
  [[agent]]
  name = \"echo\"
  exec = [\"./echo.sh\"]

  [[agent]]
  name = \"ada\"
  openai = \"http://127.0.0.1:11434/v1\"
  model = \"llama3.2\"
  system = \"@ada.md\"";

/// The exit code of agents that were not let end by themselves, as shells know it.
const INTERRUPTED: u8 = 130;

const CONFIG_HINT: &str = "`chorus agent --help` shows a file of agents";

/// Make an agent out of any program, or out of a model
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent's name
    #[arg(long, required_unless_present = "config")]
    name: Option<String>,
    /// A channel it should be in, by its id or its name; only says whether it is. May be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// The program that answers, and its arguments
    #[arg(long, value_name = "PROGRAM", num_args = 1.., conflicts_with = "openai")]
    exec: Vec<String>,
    /// An endpoint that speaks chat completions: the address before /chat/completions
    #[arg(long, value_name = "URL", requires = "model")]
    openai: Option<String>,
    /// Which model
    #[arg(long, value_name = "MODEL", requires = "openai")]
    model: Option<String>,
    /// The variable that holds the model's key
    #[arg(long, value_name = "NAME", requires = "openai")]
    openai_key_env: Option<String>,
    /// The most tokens of one answer [default: 2048]
    #[arg(long, value_name = "N", requires = "openai")]
    max_tokens: Option<u32>,
    /// An invitation of somebody on the hub; a new agent needs one where sign-up is by invitation
    #[arg(long, value_name = "CODE", env = "CHORUS_INVITATION", hide_env_values = true)]
    invitation: Option<String>,
    /// Where the key and the journal are kept [default: ./chorus-agent]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// The culture the agent's user lives in, as a BCP 47 tag [default: en]
    #[arg(long, value_name = "TAG")]
    culture: Option<String>,
    /// What stands before every prompt; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The most seconds a program (default 120) or a whole turn of a model (default 300) may take
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Be reached by a C2A session: the hub decides what it sees, claims prevent double answers, and the hub learns what became
    /// of each event
    #[arg(long, conflicts_with_all = ["connection", "direct"])]
    c2a: bool,
    /// Be reached by a connection string: serve it at this address, tell it to the hub and print it once
    #[arg(long, value_name = "ADDRESS", conflicts_with = "direct")]
    connection: Option<String>,
    /// This server as services reach it, such as https://agent.example
    #[arg(long, value_name = "URL", requires = "connection")]
    connection_url: Option<String>,
    /// With --connection or --direct: use no hub; only who is given the connection string, or a peer, reaches the agent
    #[arg(long)]
    no_hub: bool,
    /// With --connection or --direct: take only what is signed with this secret (whsec_…); better in the variable
    /// CHORUS_WEBHOOK_SECRET, or as @FILE in a file
    #[arg(long, value_name = "SECRET")]
    webhook_secret: Option<String>,
    /// With --connection or --direct: take messages only from this address or network, such as 192.0.2.0/24; may be repeated
    #[arg(long, value_name = "NETWORK")]
    allow_from: Vec<String>,
    /// Call callbacks and tool servers that messages name in this private address or network too, such as 10.0.0.0/8; the
    /// hub's own are always called. May be repeated, or given as CHORUS_AGENT_ALLOW_PRIVATE with commas between
    #[arg(long, value_name = "NETWORK", env = "CHORUS_AGENT_ALLOW_PRIVATE", value_delimiter = ',')]
    allow_private: Vec<String>,
    /// Use tool servers that messages of other services name; without it only the hub's own are used
    #[arg(long, env = "CHORUS_AGENT_FOREIGN_MCP")]
    foreign_mcp: bool,
    /// How many conversations it works on side by side [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(plan::AT_ONCE_RANGE))]
    at_once: Option<u64>,
    /// How long a person must have paused before it answers, so that what is typed in pieces is answered as one; 0 answers
    /// every message by itself [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(plan::QUIET_RANGE))]
    quiet: Option<u64>,
    /// Answer with the reaction 👀 (seen) what must be answered and gets no words; without it such a message stays open, and is
    /// asked again at its deadline
    #[arg(long)]
    seen: bool,
    /// What it offers on the market: NAME=PRICE, or @FILE with a skill as the document has it, schemas included. Jobs go to the
    /// program of --exec: input data in, output data out. May be repeated
    #[arg(long = "skill", value_name = "NAME=PRICE", conflicts_with_all = ["openai", "connection", "direct"])]
    skills: Vec<String>,
    /// With --skill: whose wallet is paid. An agent of an account earns for it; any other names an owner at its first start
    #[arg(long, value_name = "OWNER", requires = "skills")]
    owner: Option<String>,
    /// Receive envelopes straight from peers at this address
    #[arg(long, value_name = "ADDRESS")]
    direct: Option<String>,
    /// With --direct: where a peer is answered; may be repeated
    #[arg(long = "peer", value_name = "AGENT=URL", requires = "direct")]
    peers: Vec<String>,
    /// A file with several agents
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "channels", "exec", "openai", "culture", "system", "timeout", "c2a", "connection", "direct", "no_hub", "webhook_secret", "allow_from", "skills", "owner"])]
    config: Option<PathBuf>,
    /// More arguments of the program
    #[arg(last = true, value_name = "ARG", requires = "exec")]
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
            // Whoever asks twice does not want to wait.
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
        // The others go on; the first failure is what the exit code tells.
        if running.is_empty() && failed.is_none() {
            return Err(error);
        }
        let code = failure::report(&error, global.key_kind(), global.json);
        failed.get_or_insert(code);
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

/// The agents to run, from flags or from a file.
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

/// A failure of the harness with what to do about it.
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

/// Something that went wrong beside the agents, for people.
fn warn(what: impl std::fmt::Display) {
    output::talk(format_args!("{}: {what}", "warning".yellow()));
}
