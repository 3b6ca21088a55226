//! `chorus bench`: how fast it is, against references that are measured in the same run.
//!
//! No number here means anything alone: machines differ, and so does one machine from hour to hour. So every goal is
//! a ratio of two things measured by turns (or a size). The servers run as processes of their own on fresh data, with
//! every fsync; nothing is left behind. bench/README.md says how to read what is printed.

mod c2a;
mod channel;
mod child;
mod choir;
mod delay;
mod disk;
mod echo;
mod histogram;
mod history;
mod http;
mod inboxes;
mod listener;
mod load;
mod market;
mod mcp;
mod options;
mod page;
mod progress;
mod relay;
mod report;
mod request;
mod served;
mod siege;
mod size;
mod spread;
mod start;
mod store;
mod target;
mod websocket;

use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use anyhow::Context;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use history::Filled;
use options::{Load, Pace};
use progress::Progress;
use report::{Document, Section};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long a hub is besieged among the others.
const SIEGE: Duration = Duration::from_mins(1);

/// Millions of bytes of a trace that is adapted.
const TRACE: u32 = 100;

/// What a server prints when it is ready, before its address.
const READY: &str = "chorus listening on ";

const EXAMPLES: &str = "\
Examples:
  chorus bench relay                              send → inbox, against echo, store and disk
  chorus bench relay --senders 1 --seconds 2      one sender at a time: latency
  chorus bench relay --url http://127.0.0.1:3000  another relay, with the same client
  chorus bench relay --database postgres://…      hubs on PostgreSQL, against one on SQLite
  chorus bench mcp --peer target/release/rmcp-peer    tool calls, against the official SDK
  chorus bench all --json > figures.json          every figure, for programs

Everything happens in a new subfolder of --dir, which is removed at the end. The machine should be
quiet.";

/// Measure how fast a hub is, against references of the same run
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    against: Against,
    /// A folder on the disk to be measured
    #[arg(long, global = true, default_value = ".", value_name = "FOLDER")]
    dir: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Messages per second and their latency, durable, from the sender to the open inbox
    Relay {
        /// postgres://…: hubs on this database instead, against one on SQLite. It should be an empty one, to be thrown away
        #[arg(long, value_name = "URL", conflicts_with = "before")]
        database: Option<String>,
        #[command(flatten)]
        earlier: Earlier,
        #[command(flatten)]
        load: Load,
    },
    /// The same with a long history against none
    History {
        #[command(flatten)]
        stored: Stored,
    },
    /// The time until a hub with a long history is ready, after a clean end and after kill -9
    Start {
        #[command(flatten)]
        stored: Stored,
    },
    /// The memory of an open inbox
    Inboxes {
        #[command(flatten)]
        opened: Opened,
    },
    /// One sender with 1000 open inboxes against 10
    Spread {
        #[command(flatten)]
        pace: Pace,
    },
    /// Talking in and opening a large channel against a small one
    Channel {
        #[command(flatten)]
        crowd: Crowd,
        #[command(flatten)]
        pace: Pace,
    },
    /// Deciding whom a message in a very large channel concerns, and deliveries by C2A against inboxes
    C2a {
        #[command(flatten)]
        throng: Throng,
        #[command(flatten)]
        load: Load,
    },
    /// Transfers, jobs, discovery and heartbeats, against the relay and the echo server
    Market {
        #[command(flatten)]
        offering: Offering,
        #[command(flatten)]
        load: Load,
    },
    /// Opening a long channel as a person does, and watching it, against a short one and inboxes
    Page {
        #[command(flatten)]
        shown: Shown,
        /// How many messages were said in the long one
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
        said: u64,
        #[command(flatten)]
        pace: Pace,
    },
    /// Tool calls per second over MCP, against a bare server of the official SDK
    #[command(after_help = mcp::HELP)]
    Mcp {
        #[command(flatten)]
        peer: Peer,
        #[command(flatten)]
        pace: Pace,
    },
    /// An honest agent's sends and sign-ins while a stranger floods the hub, against a quiet one
    Siege {
        /// How long the hub is besieged
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// Adapting large traces and verifying receipts, against reading the same JSON
    Choir {
        /// How large the traces are, in millions of bytes
        #[arg(long, default_value_t = TRACE, value_parser = clap::value_parser!(u32).range(1..=2000))]
        megabytes: u32,
    },
    /// The size of this program and the memory of an idle hub
    Size,
    /// All of these; `mcp` only if --peer is given
    All(Everything),
    /// The reference server; a process of its own, started by the others
    #[command(hide = true)]
    EchoServer,
}

#[derive(clap::Args)]
struct Earlier {
    /// An earlier version of this program, to compare the relay with
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Stored {
    /// How many messages are stored before
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    messages: u64,
    #[command(flatten)]
    load: Load,
}

#[derive(clap::Args)]
struct Crowd {
    /// How many are in the large channel
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    members: u32,
    /// How many messages were said in it before
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    said: u64,
}

#[derive(clap::Args)]
struct Throng {
    /// How many are in the very large channel
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    throng: u32,
}

#[derive(clap::Args)]
struct Offering {
    /// How many agents offer skills
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    agents: u32,
}

#[derive(clap::Args)]
struct Shown {
    /// How many watch a channel
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    viewers: u32,
}

#[derive(clap::Args)]
struct Everything {
    /// postgres://…: an empty database to measure hubs on as well
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    #[command(flatten)]
    earlier: Earlier,
    #[command(flatten)]
    stored: Stored,
    #[command(flatten)]
    opened: Opened,
    #[command(flatten)]
    crowd: Crowd,
    #[command(flatten)]
    throng: Throng,
    #[command(flatten)]
    offering: Offering,
    #[command(flatten)]
    shown: Shown,
    /// The server to compare MCP with: see `chorus bench mcp --help`
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Peer {
    /// The program of the server to compare with
    #[arg(long, value_name = "PROGRAM")]
    peer: PathBuf,
    /// Connections that call at the same time, each one tool after the other
    #[arg(long, default_value_t = mcp::CALLERS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: u32,
}

#[derive(clap::Args)]
struct Opened {
    /// How many inboxes are opened
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=500_000))]
    count: u32,
}

/// The relay to be measured instead of one of our own: `--url` on the command line. A `CHORUS_URL` in the environment
/// is not enough, it may well be a hub that people work with.
struct Against(Option<String>);

impl FromArgMatches for Against {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let said = matches.value_source("url") == Some(ValueSource::CommandLine);
        Ok(Self(matches.get_one("url").filter(|_| said).cloned()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// It adds no argument: `--url` is a global one.
impl clap::Args for Against {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let Args { against: Against(against), dir, what } = args;
    if matches!(what, What::EchoServer) {
        return echo::serve().await;
    }
    if against.is_some() && !matches!(what, What::Relay { database: None, .. }) {
        return Err(Explained::usage(
            "only `chorus bench relay` without --database can measure another server",
            "leave --url out: the others start hubs of their own",
        )
        .into());
    }
    let mut document = Document::begin();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    document.benches = tokio::select! {
        measured = measure(&dir, what, against.as_deref()) => measured?,
        // What was going on is dropped, and with it every process and folder.
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    if global.json {
        output::json(&document)?;
    } else {
        output::data(document.table())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(dir: &Path, what: What, against: Option<&str>) -> anyhow::Result<Vec<Section>> {
    let folder = tempfile::Builder::new().prefix("chorus-bench-").tempdir_in(dir);
    let folder = folder.with_context(|| format!("cannot make a folder in {}", dir.display()))?;
    let (folder, progress) = (folder.path(), &Progress::new());
    if cfg!(debug_assertions) {
        progress.done("this is a debug build: its figures say nothing about a release");
    }
    Ok(match what {
        What::Relay { database: Some(url), load, .. } => {
            vec![served::measure(folder, &url, &load, progress).await?]
        }
        What::Relay { database: None, earlier, load } => {
            vec![relay::measure(folder, &load, against, earlier.before.as_deref(), progress).await?]
        }
        What::History { stored: Stored { messages, load } } => {
            let filled = Filled::make(folder, &load, messages, progress).await?;
            vec![history::measure(folder, &filled, &load, progress).await?]
        }
        What::Start { stored: Stored { messages, load } } => {
            let filled = Filled::make(folder, &load, messages, progress).await?;
            vec![start::measure(&filled, &load, progress).await?]
        }
        What::Inboxes { opened } => vec![inboxes::measure(folder, opened.count as usize, progress).await?],
        What::Spread { pace } => vec![spread::measure(folder, &pace, progress).await?],
        What::Channel { crowd, pace } => {
            vec![channel::measure(folder, crowd.members as usize, crowd.said, &pace, progress).await?]
        }
        What::C2a { throng, load } => {
            vec![c2a::measure(folder, throng.throng as usize, &load, progress).await?]
        }
        What::Market { offering, load } => {
            vec![market::measure(folder, offering.agents as usize, &load, progress).await?]
        }
        What::Page { shown, said, pace } => {
            vec![page::measure(folder, said, shown.viewers as usize, &pace, progress).await?]
        }
        What::Mcp { peer: Peer { peer, callers }, pace } => {
            vec![mcp::measure(folder, &peer, callers as usize, &pace, progress).await?]
        }
        What::Siege { seconds } => {
            vec![siege::measure(folder, Duration::from_secs(seconds), progress).await?]
        }
        What::Choir { megabytes } => vec![choir::measure(folder, megabytes as usize, progress).await?],
        What::Size => vec![size::measure(folder, progress).await?],
        What::All(everything) => all(folder, everything, progress).await?,
        What::EchoServer => vec![],
    })
}

/// One after the other.
async fn all(folder: &Path, everything: Everything, progress: &Progress) -> anyhow::Result<Vec<Section>> {
    let Everything { database, earlier, stored, opened, crowd, throng, offering, shown, peer } = everything;
    let Stored { messages, load } = stored;
    let before = earlier.before.as_deref();
    let mut sections = vec![relay::measure(folder, &load, None, before, progress).await?];
    if let Some(url) = database {
        sections.push(served::measure(folder, &url, &load, progress).await?);
    }
    let filled = Filled::make(folder, &load, messages, progress).await?;
    sections.push(history::measure(folder, &filled, &load, progress).await?);
    sections.push(start::measure(&filled, &load, progress).await?);
    sections.push(inboxes::measure(folder, opened.count as usize, progress).await?);
    sections.push(spread::measure(folder, &load.pace, progress).await?);
    let members = crowd.members as usize;
    sections.push(channel::measure(folder, members, crowd.said, &load.pace, progress).await?);
    sections.push(c2a::measure(folder, throng.throng as usize, &load, progress).await?);
    sections.push(market::measure(folder, offering.agents as usize, &load, progress).await?);
    let viewers = shown.viewers as usize;
    sections.push(page::measure(folder, crowd.said, viewers, &load.pace, progress).await?);
    if let Some(peer) = peer {
        sections.push(mcp::measure(folder, &peer, mcp::CALLERS as usize, &load.pace, progress).await?);
    }
    sections.push(siege::measure(folder, SIEGE, progress).await?);
    sections.push(choir::measure(folder, TRACE as usize, progress).await?);
    sections.push(size::measure(folder, progress).await?);
    Ok(sections)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_sound() {
        <super::Args as clap::Args>::augment_args(clap::Command::new("bench")).debug_assert();
    }
}
