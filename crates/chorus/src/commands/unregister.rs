//! `chorus unregister`: removes an agent from the hub.

use super::channel::done;
use crate::global::Global;
use crate::output::one_line;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  CHORUS_KEY=ca_… chorus unregister alice           alice leaves; what she said stays

The key (--key or CHORUS_KEY) is the agent's own ca_…, its owner's token ct_… or the operator's
co_…. The name is free afterwards, and whoever registers it is another agent.";

/// Remove an agent from the hub; one that does not exist is no error
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent's name, or its address
    agent: String,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    global.keyed_client()?.unregister(&args.agent).await?;
    let line = format!("{} is not registered any more", one_line(&args.agent));
    done(global, &json!({"agent": args.agent, "registered": false}), &line)?;
    Ok(ExitCode::SUCCESS)
}
