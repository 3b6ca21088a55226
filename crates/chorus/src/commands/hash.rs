//! `chorus hash`: prints the hash of a JSON value, which is independent of its formatting.

use super::channel::done;
use crate::files;
use crate::global::Global;
use chorus_protocol::canonical;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus hash score.json                        the same for every spelling of the same value
  curl -s https://hub.example/receipt.json | chorus hash";

/// Print the SHA-256 of the canonical form of a JSON file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, or - for standard input
    #[arg(default_value = "-")]
    file: String,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<ExitCode> {
    let hash = canonical::hash(&files::json(&args.file)?);
    done(global, &json!({"sha256": hash}), &hash)?;
    Ok(ExitCode::SUCCESS)
}
