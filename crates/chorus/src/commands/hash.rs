//! `chorus hash`: the hash of a JSON value, however it is spelled.

use crate::{files, output};
use chorus_protocol::canonical;
use std::process::ExitCode;

/// Print the SHA-256 of the canonical form of a JSON file
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file, or - for standard input
    #[arg(default_value = "-")]
    file: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    output::data(canonical::hash(&files::json(&args.file)?))?;
    Ok(ExitCode::SUCCESS)
}
