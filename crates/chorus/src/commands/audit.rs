//! `chorus audit`: acts, decisions for agents, and their outcomes.

use super::channel::find;
use crate::answer::list;
use crate::failure::Explained;
use crate::global::Global;
use chorus_protocol::api::audit::TrailEntry;
use chorus_protocol::credentials::SecretKind;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus audit --since 2026-11-15T00:00:00Z             who did what to whose rights
  chorus audit --kind decision --channel ops            what messages meant for agents
  chorus audit --kind claim --event evt_…               who took it on
  chorus audit --kind tool_call --actor bob             which tools bob called

Kinds: act, decision, claim, tool_call, send, disposition. All but acts need an actor, a channel
or an event.
The key (--key or CHORUS_KEY) is the operator's co_…, or that of the channel's owner, who names it";

/// Show acts, decisions for agents, and their outcomes
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The kind of entries [default: act]
    #[arg(long)]
    kind: Option<String>,
    /// Only entries of this agent or account
    #[arg(long)]
    actor: Option<String>,
    /// Only entries about this event
    #[arg(long)]
    event: Option<String>,
    /// Only entries of this channel: its id, or its name if only one of yours has it; the operator gives the
    /// id
    #[arg(long)]
    channel: Option<String>,
    /// Only entries since this time, such as 2026-11-15T08:00:00Z
    #[arg(long)]
    since: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let Args { kind, actor, event, channel, since } = args;
    let channel = match channel {
        Some(name) => Some(find(global, name).await?),
        None if global.has_key() && global.key_kind() != Some(SecretKind::OperatorKey) => {
            let hint = "--channel names one of yours; everything else is the operator's to read";
            return Err(
                Explained::usage("whose audit? This key reads that of a channel that it owns", hint).into()
            );
        }
        None => None,
    };
    let asked = [("kind", kind), ("actor", actor), ("event", event), ("channel", channel), ("since", since)];
    let given: Vec<_> = asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let entries = global.all_items(&["audit"], &given).await?;
    let head = ["AT", "WHO", "KIND", "WHAT", "TO OR ABOUT", "DETAIL"];
    list(global, &entries, head, |one: TrailEntry| {
        let TrailEntry { at, actor, kind, action, subject, detail, .. } = one;
        [at, actor.id, kind.to_string(), action, subject.id, detail.to_string()]
    })?;
    Ok(ExitCode::SUCCESS)
}
