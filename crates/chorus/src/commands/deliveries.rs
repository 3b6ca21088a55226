//! `chorus deliveries`: lists deliveries to agents and their failures, and replays them.

use super::channel::find;
use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use chorus_agent::Method;
use chorus_protocol::api::deliveries::{AttemptView, DeliveryView, ReplayView, ReplayedView};
use clap::Subcommand;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus deliveries list --state dead               what was given up
  chorus deliveries tries dlv_…                     every try of one, and what came of it
  chorus deliveries replay dlv_…                    try one again
  chorus deliveries replay --state dead --agent bob  all of bob's again

The key (--key or CHORUS_KEY) is the owner's token ct_…, the agent's key ca_… or the operator's co_…";

/// List deliveries to agents, and replay those that were given up.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List deliveries, oldest first. TRIES counts those since the last replay
    List(Filter),
    /// List every try of one delivery, including those before a replay
    Tries {
        /// The delivery's id
        id: String,
    },
    /// Replay deliveries that were given up or refused
    Replay {
        /// One delivery's id
        #[arg(conflicts_with_all = ["state", "agent", "channel", "since"], required_unless_present_any = ["state", "agent", "channel", "since"])]
        id: Option<String>,
        #[command(flatten)]
        filter: Filter,
    },
}

#[derive(clap::Args)]
struct Filter {
    /// Only those in this state: failed or dead; in a list also waiting, queued, delivered or delivered_sse
    #[arg(long)]
    state: Option<String>,
    /// Only those to this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only those of this channel: its id, or its name if only one of yours has it; the operator gives the id
    #[arg(long)]
    channel: Option<String>,
    /// Only those since this time, such as 2026-11-15T08:00:00Z
    #[arg(long)]
    since: Option<String>,
}

impl Filter {
    /// Replaces the channel's name by its id.
    async fn resolved(mut self, global: &Global) -> anyhow::Result<Self> {
        if let Some(channel) = self.channel {
            self.channel = Some(find(global, channel).await?);
        }
        Ok(self)
    }

    fn given(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("state", &self.state),
            ("agent", &self.agent),
            ("channel", &self.channel),
            ("since", &self.since),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List(filter) => {
            let filter = filter.resolved(global).await?;
            let items = global.all_items(&["deliveries"], &filter.given()).await?;
            let head = ["ID", "SINCE", "AGENT", "STATE", "WAY", "TRIES", "NEXT TRY", "ERROR"];
            list(global, &items, head, |one: DeliveryView| {
                let DeliveryView {
                    id, agent, created_at, state, transport, attempts, next_try, error, ..
                } = one;
                let (state, transport, tries) =
                    (state.to_string(), transport.to_string(), attempts.to_string());
                [id, created_at, agent.address, state, transport, tries, or_dash(next_try), or_dash(error)]
            })?;
        }
        Command::Tries { id } => {
            let tries = global.all_items(&["deliveries", &id, "attempts"], &[]).await?;
            list(global, &tries, ["AT", "STATUS", "TOOK", "ERROR"], |one: AttemptView| {
                let status = or_dash(one.status.map(|status| status.to_string()));
                [one.at, status, format!("{} ms", one.latency_ms), or_dash(one.error)]
            })?;
        }
        Command::Replay { id: Some(id), .. } => {
            let path = ["deliveries", &id, "replay"];
            let answer = global.keyed_client()?.api_write(Method::POST, &path, &[], None).await?;
            tell(global, &answer, |replay: ReplayView| replay.state.to_string())?;
        }
        Command::Replay { id: None, filter } => {
            let (client, path) = (global.keyed_client()?, ["deliveries", "replay"]);
            let filter = filter.resolved(global).await?;
            let answer = client.api_write(Method::POST, &path, &filter.given(), None).await?;
            tell(global, &answer, |ReplayedView { replayed, more }| {
                format!("{replayed} replayed{}", if more { "; there are more" } else { "" })
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
