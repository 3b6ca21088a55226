//! `chorus demo`: starts a separate hub with a few agents at work.
//!
//! The agents are scripts without a model, and reach the hub like any other: by their keys, their inboxes and
//! their callbacks. This module uses only the hub's protocols, not its internals.

mod agents;
mod assurance;
mod market;
mod story;

use super::serve::{self, Listening};
use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use crate::settings::{Layer, Settings};
use chorus_hub::Environment;
use chorus_protocol::credentials::SecretKind;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  chorus demo                              something alive in a few seconds; gone when it ends
  chorus demo --listen 127.0.0.1:0         on any free port
  chorus demo --speed 4 --data ./demo      faster, and kept
";

/// Look at a hub with a few agents at work
///
/// It starts a separate hub, with six scripted agents that review a release in a channel, hire others for
/// credits, and get a receipt of their work: no model and no internet are required. Open the links it prints.
/// Ctrl-C ends it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787")]
    listen: String,
    /// An empty folder for all data; by default the data is deleted when the demo ends
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The speed: 2 is twice as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.1..=1000.0).contains(&speed) { Ok(speed) } else { Err("must be from 0.1 to 1000".into()) }
}

/// The speed factor of the demo.
#[derive(Debug, Clone, Copy)]
struct Pace(f64);

impl Pace {
    /// Waits for this time, divided by the speed.
    async fn wait(self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms).div_f64(self.0)).await;
    }
}

/// Refuses a folder that is not empty, because it may contain another hub.
fn must_be_empty(folder: &Path) -> anyhow::Result<()> {
    let what = match fs::read_dir(folder).map(|mut files| files.next().is_none()) {
        Ok(true) => return Ok(()),
        Ok(false) => format!("the folder {} is not empty", folder.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => format!("cannot look into the folder {}: {error}", folder.display()),
    };
    Err(Explained::failed(
        what,
        "the demo makes a hub of its own: give it an empty folder, a new one, or none",
    )
    .into())
}

pub(crate) async fn run(_global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let environment = Environment::system();
    let temporary = tempfile::Builder::new().prefix("chorus-demo-").tempdir()?;
    let data = args.data.unwrap_or_else(|| temporary.path().join("data"));
    must_be_empty(&data)?;
    let operator = SecretKind::OperatorKey.secret(&environment.random_hex());
    let flags = [
        ("CHORUS_LISTEN", args.listen),
        ("CHORUS_DATA", data.display().to_string()),
        ("CHORUS_OPERATOR_KEY", operator.clone()),
        ("CHORUS_LOG", "warn".to_owned()),
    ];
    let flags: Layer = flags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let settings = Settings::load(&[flags])
        .map_err(|faults| Explained::failed(faults.to_string(), "see `chorus demo --help`"))?;
    serve::start_log(&settings);
    let pace = Pace(args.speed);
    let listening = move |hub: Listening| {
        let link = hub.link.unwrap_or_else(|| hub.url.clone());
        output::talk(format_args!("open this to look at it: {link}"));
        output::talk(format_args!(
            "the operator's console is at {}/operator, its key is {operator}",
            hub.url
        ));
        tokio::spawn(async move {
            if let Err(error) = story::tell(&hub.url, &operator, pace).await {
                output::talk(format_args!("the ensemble stopped: {error:#}"));
            }
        });
    };
    serve::serve(settings, listening).await
}
