//! `chorus-bench`: measures a hub against references of the same run.
//!
//! Absolute numbers differ between machines, and on one machine from hour to hour. Every goal is therefore a ratio of two
//! things that are measured in turns, or a size. The servers run as processes of their own, on fresh data and with
//! every fsync; processes and data are removed at the end. bench/README.md explains the output.

#![expect(clippy::disallowed_methods, reason = "benchmarks measure time")]

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
mod names;
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

use anyhow::Context;
use clap::Parser;
use history::Filled;
use options::{Load, Pace};
use progress::Progress;
use report::{Document, Section};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The allocator of the product, so that the references that run in this program have the same.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The duration of `siege` as a part of `all`.
const SIEGE: Duration = Duration::from_mins(1);

/// The size of the traces that `choir` adapts, in megabytes.
const TRACE: u32 = 100;

/// The prefix of the line that a server prints when it is ready; its URL follows.
const READY: &str = "chorus listening on ";

const EXAMPLES: &str = "\
Examples:
  bench/run                                 every figure, with a table of goals
  bench/run relay                           send → inbox, against echo, store and disk
  bench/run relay --senders 1 --seconds 2   one sender at a time: latency
  bench/run relay --url http://127.0.0.1:3000    another relay, with the same client
  bench/run relay --database postgres://…   hubs on PostgreSQL, against one on SQLite
  bench/run siege --seconds 60              a hub under attack

The hub is the program `chorus` in the folder of this program. All data is in a new subfolder of
--dir, which is removed at the end. The machine should be quiet.";

/// Measures a hub against references of the same run
#[derive(clap::Parser)]
#[command(name = "chorus-bench", version, after_help = EXAMPLES)]
struct Cli {
    /// A folder on the disk to be measured
    #[arg(long, global = true, default_value = ".", value_name = "FOLDER")]
    dir: PathBuf,
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Durable messages per second and their latency, from the sender to the open inbox
    Relay {
        /// Measure hubs on this PostgreSQL database against one on SQLite. The database should be empty and disposable
        #[arg(long, value_name = "URL", conflicts_with = "before")]
        database: Option<String>,
        /// The relay to measure instead of a hub of this program
        #[arg(long, value_name = "URL", conflicts_with_all = ["before", "database"])]
        url: Option<String>,
        #[command(flatten)]
        earlier: Earlier,
        #[command(flatten)]
        load: Load,
    },
    /// The relay of a hub with a long history, against one without
    History {
        #[command(flatten)]
        stored: Stored,
    },
    /// The start time of a hub with a long history, after a clean end and after kill -9
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
    /// Dry runs and posts in a very large channel, and deliveries by C2A against inboxes
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
    /// Opening and watching the page of a long channel, against a short one and inboxes
    Page {
        #[command(flatten)]
        shown: Shown,
        /// The number of messages in the long channel
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
        /// The duration of the attack
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// Adapting large traces and verifying receipts, against reading the same JSON
    Choir {
        /// The size of the traces, in megabytes
        #[arg(long, default_value_t = TRACE, value_parser = clap::value_parser!(u32).range(1..=2000))]
        megabytes: u32,
    },
    /// The size of `chorus` and the memory of an idle hub
    Size,
    /// All of these; `mcp` only with --peer
    All(Everything),
    /// The reference server, which other benches start
    #[command(hide = true)]
    EchoServer,
}

#[derive(clap::Args)]
struct Earlier {
    /// An earlier version of `chorus`, to compare the relay with
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Stored {
    /// The number of messages that are stored before
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    messages: u64,
    #[command(flatten)]
    load: Load,
}

#[derive(clap::Args)]
struct Crowd {
    /// The number of members of the large channel
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    members: u32,
    /// The number of messages in the large channel
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    said: u64,
}

#[derive(clap::Args)]
struct Throng {
    /// The number of members of the very large channel
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    throng: u32,
}

#[derive(clap::Args)]
struct Offering {
    /// The number of agents that offer skills
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    agents: u32,
}

#[derive(clap::Args)]
struct Shown {
    /// The number of people who watch a channel
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    viewers: u32,
}

#[derive(clap::Args)]
struct Everything {
    /// An empty PostgreSQL database on which hubs are measured too
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
    /// The server to compare MCP with; see `bench/run mcp --help`
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
    /// The number of inboxes that are opened
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=500_000))]
    count: u32,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            write_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error with its causes.
fn write_error(error: &anyhow::Error) {
    // Without a reader of standard error nothing can be reported.
    writeln!(anstream::stderr(), "chorus-bench: {error:#}").ok();
}

#[tokio::main]
async fn run(Cli { dir, json, what }: Cli) -> anyhow::Result<ExitCode> {
    if matches!(what, What::EchoServer) {
        return echo::serve().await;
    }
    let mut document = Document::begin();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    document.benches = tokio::select! {
        measured = measure(&dir, what) => measured?,
        // Dropping the measurement ends its processes and removes its folder.
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    let text = if json { serde_json::to_string(&document)? } else { document.table() };
    writeln!(anstream::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(dir: &Path, what: What) -> anyhow::Result<Vec<Section>> {
    let folder = tempfile::Builder::new().prefix("chorus-bench-").tempdir_in(dir);
    let folder = folder.with_context(|| format!("cannot make a folder in {}", dir.display()))?;
    let (folder, progress) = (folder.path(), &Progress::new());
    if cfg!(debug_assertions) {
        progress.done("this is a debug build, whose figures are meaningless");
    }
    Ok(match what {
        What::Relay { database: Some(url), load, .. } => {
            vec![served::measure(folder, &url, &load, progress).await?]
        }
        What::Relay { database: None, url, earlier, load } => {
            vec![relay::measure(folder, &load, url.as_deref(), earlier.before.as_deref(), progress).await?]
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

/// Runs every bench.
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
        <super::Cli as clap::CommandFactory>::command().debug_assert();
    }
}
