//! `chorus doctor`: not built yet; this file only holds its place.

use crate::global::Global;
use std::process::ExitCode;

/// Look for what keeps a hub from working.
#[derive(clap::Args)]
pub(crate) struct Args {}

#[expect(clippy::unused_async, reason = "a placeholder with the signature of the real one")]
pub(crate) async fn run(_global: &Global, _args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
