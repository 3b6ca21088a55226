//! What a channel is: its name, what it is for, who reads what, and for how long it is kept.

use super::{find, without_nulls};
use crate::answer::{or_dash, tell};
use crate::global::Global;
use crate::output::one_line;
use chorus_agent::{Client, Method};
use chorus_protocol::api::channels::ChangedConversation;
use clap::ArgGroup;
use serde_json::json;

/// Change a channel of yours; what is not named stays
#[derive(clap::Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["name", "context", "history", "keep_days"]))]
pub(super) struct Set {
    /// The channel's id, or its name if none other of yours has it
    channel: String,
    /// What people call it from now on
    #[arg(long)]
    name: Option<String>,
    /// What it is for; agents read this with every message, and '' takes it away
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// What members may read: everything, or what was said since they joined
    #[arg(long, value_parser = ["all", "joined"])]
    history: Option<String>,
    /// How many days what was said is kept; 0 for as long as the hub keeps it
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u32>,
}

impl Set {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let Self { channel, name, context, history, keep_days } = self;
        let id = find(global, channel).await?;
        let body = without_nulls(
            json!({"name": name, "context": context, "history": history, "keep_days": keep_days}),
        );
        let changed = client.api_write(Method::PATCH, &["channels", &id], &[], Some(&body)).await?;
        tell(global, &changed, |ChangedConversation { conversation: now, .. }| {
            let kept =
                now.keep_days.map_or_else(|| "as long as the hub does".into(), |days| format!("{days} days"));
            one_line(&format!(
                "{}: for {}; members read {}; kept {kept}",
                now.name,
                or_dash(now.context.filter(|text| !text.is_empty())),
                now.history
            ))
        })
    }
}
