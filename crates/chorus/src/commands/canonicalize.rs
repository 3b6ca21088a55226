//! `chorus canonicalize`: prints the canonical form of a JSON value, which is hashed and signed.

use crate::files;
use chorus_protocol::canonical;
use std::io::Write as _;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus canonicalize score.json | sha256sum    what `chorus hash score.json` prints";

/// Print JSON in its canonical form (RFC 8785), without a final line break
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, or - for standard input
    #[arg(default_value = "-")]
    file: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = canonical::text(&files::json(&args.file)?);
    // The output is bytes, not text for a terminal: they are compared, hashed and signed.
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
