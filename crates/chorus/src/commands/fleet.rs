//! `chorus fleet`: agents at work, those that require attention first; once, or at each change.

use crate::answer::{list, or_dash};
use crate::global::Global;
use crate::output;
use chorus_protocol::api::fleet::{Doing, FleetAgent};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  chorus fleet               how everybody is, and what it is doing
  chorus fleet --watch       the same, whenever something changes, until you stop it
  chorus fleet --json        the same for programs

The key (--key or CHORUS_KEY) is an account's token ct_…, an agent's key ca_… or the operator's co_…";

/// The interval between polls.
const LOOK: Duration = Duration::from_secs(2);

/// Show agents at work: their state and activity, the place and the time
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Show it again at each change
    #[arg(long)]
    watch: bool,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let mut shown: Option<Vec<Value>> = None;
    loop {
        let agents = global.all_items(&["fleet"], &[]).await?;
        if shown.as_ref() != Some(&agents) {
            if shown.is_some() && !global.json {
                output::data(String::new())?;
            }
            show(global, &agents)?;
        }
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        shown = Some(agents);
        tokio::time::sleep(LOOK).await;
    }
}

fn show(global: &Global, agents: &[Value]) -> anyhow::Result<()> {
    let head = ["AGENT", "STATE", "DOING", "WHERE", "SINCE", "TODAY", "REACHED BY"];
    let row = |agent: FleetAgent| {
        let place = agent.doing.as_ref().and_then(|doing| doing.channel.as_ref());
        [
            agent.address.clone(),
            agent.state.to_string(),
            or_dash(agent.why.clone().or_else(|| agent.doing.as_ref().map(words))),
            or_dash(place.map(|place| place.name.clone())),
            or_dash(agent.since.clone()),
            format!("{} spent, {} saved", agent.turns_today.spent, agent.turns_today.saved),
            agent.reached_by.to_string(),
        ]
    };
    list(global, agents, head, row)
}

fn words(doing: &Doing) -> String {
    match &doing.text {
        Some(text) => format!("{}: {text}", doing.what),
        None => doing.what.to_string(),
    }
}
