//! Members of a channel: adding, changing and removing them.

use super::{done, find, without_nulls};
use crate::answer::{joined, list, tell};
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::{Client, Method};
use chorus_protocol::api::channels::ConversationDetail;
use chorus_protocol::api::members::{Invited, MemberView};
use clap::ArgGroup;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

/// Add an agent or a person to a channel; its owner and its leads may
#[derive(clap::Args)]
#[command(group = ArgGroup::new("whom").required(true).args(["agent", "account"]))]
pub(super) struct Join {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
    /// An agent: its name, address or id
    #[arg(long)]
    agent: Option<String>,
    /// A person: an email address or an account's id
    #[arg(long)]
    account: Option<String>,
    /// Its handle in the channel [default: its name]
    #[arg(long)]
    handle: Option<String>,
    /// Its role in the channel; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Make it a lead, which answers for the others
    #[arg(long)]
    lead: bool,
}

/// The result of adding a member.
#[derive(Deserialize)]
#[serde(untagged)]
enum Added {
    Joined(MemberView),
    Asked(Invited),
}

impl Join {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let Self { channel, agent, account, handle, roles, lead } = self;
        let channel = find(global, channel).await?;
        let body = without_nulls(
            json!({"agent": agent, "account": account, "handle": handle, "roles": roles, "lead": lead}),
        );
        let path = ["channels", &channel, "members"];
        let member = client.api_write(Method::POST, &path, &[], Some(&body)).await?;
        tell(global, &member, |added| match added {
            Added::Joined(MemberView { handle, .. }) => format!("joined as {}", one_line(&handle)),
            Added::Asked(Invited { .. }) => {
                let whom = account.as_deref().map_or_else(|| "whoever it is".into(), one_line);
                format!("asked: {whom} is a member once it accepts (`chorus invitations`)")
            }
        })
    }
}

/// List the members of a channel
#[derive(clap::Args)]
pub(super) struct Members {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
}

impl Members {
    pub(super) async fn run(self, global: &Global) -> anyhow::Result<()> {
        let channel = find(global, self.channel).await?;
        let items = global.all_items(&["channels", &channel, "members"], &[]).await?;
        list(global, &items, ["HANDLE", "KIND", "LEAD", "ROLES", "JOINED"], |member: MemberView| {
            let lead = if member.lead { "yes" } else { "no" };
            let roles = joined(&member.roles);
            [member.handle, member.kind.to_string(), lead.to_owned(), roles, member.joined_at]
        })
    }
}

/// Change a member's handle, roles or lead
#[derive(clap::Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["rename", "roles", "no_roles", "lead", "no_lead"]))]
pub(super) struct Change {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
    /// The member's handle
    handle: String,
    /// Its new handle
    #[arg(long = "handle", value_name = "NEW")]
    rename: Option<String>,
    /// Its roles, which replace the old ones; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Remove its roles
    #[arg(long, conflicts_with = "roles")]
    no_roles: bool,
    /// Make it a lead, which answers for the others; for the channel's owner
    #[arg(long)]
    lead: bool,
    /// Make it a lead no longer
    #[arg(long, conflicts_with = "lead")]
    no_lead: bool,
}

impl Change {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let Self { channel, handle, rename, roles, no_roles, lead, no_lead } = self;
        let channel = find(global, channel).await?;
        let roles = (no_roles || !roles.is_empty()).then_some(roles);
        let lead = (lead || no_lead).then_some(lead);
        let body = without_nulls(json!({"handle": rename, "roles": roles, "lead": lead}));
        let path = ["channels", &channel, "members", &handle];
        let changed = client.api_write(Method::PATCH, &path, &[], Some(&body)).await?;
        tell(global, &changed, |member: MemberView| {
            let lead = if member.lead { "; answers for the others" } else { "" };
            one_line(&format!("{}: roles {}{lead}", member.handle, joined(&member.roles)))
        })
    }
}

/// Leave a channel, or remove another member from it
#[derive(clap::Args)]
pub(super) struct Leave {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
    /// The member's handle [default: yourself]
    handle: Option<String>,
}

impl Leave {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let Self { channel, handle } = self;
        let id = find(global, channel.clone()).await?;
        let handle = match handle {
            Some(handle) => handle,
            None => client.api_get::<ConversationDetail>(&["channels", &id], &[]).await?.me.handle,
        };
        let path = ["channels", &id, "members", &handle];
        client.api_write::<IgnoredAny>(Method::DELETE, &path, &[], None).await?;
        let line = format!("{} is not in {} any more", one_line(&handle), output::one_line(&channel));
        done(global, &json!({"channel": id, "handle": handle, "left": true}), &line)
    }
}
