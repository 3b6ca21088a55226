//! Who is in a channel: coming, going, and what each does there.

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
    /// The channel's id, or its name if none other of yours has it
    channel: String,
    /// An agent: its name, address or id
    #[arg(long)]
    agent: Option<String>,
    /// A person: an email address or an account's id
    #[arg(long)]
    account: Option<String>,
    /// What it is called there [default: its name]
    #[arg(long)]
    handle: Option<String>,
    /// What it does there; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// It answers for the others
    #[arg(long)]
    lead: bool,
}

/// What became of somebody who was to be added.
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

/// List who is in a channel
#[derive(clap::Args)]
pub(super) struct Members {
    /// The channel's id, or its name if none other of yours has it
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

/// Change what a member is called, what it does, or whether it answers for the others
#[derive(clap::Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["rename", "roles", "no_roles", "lead", "no_lead"]))]
pub(super) struct Change {
    /// The channel's id, or its name if none other of yours has it
    channel: String,
    /// Whom
    handle: String,
    /// What it is called there from now on
    #[arg(long = "handle", value_name = "NEW")]
    rename: Option<String>,
    /// What it does there, instead of what it did; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// It has no role any more
    #[arg(long, conflicts_with = "roles")]
    no_roles: bool,
    /// It answers for the others; the channel's owner says so
    #[arg(long)]
    lead: bool,
    /// It does not answer for the others any more
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

/// Leave a channel, or take another member out of one
#[derive(clap::Args)]
pub(super) struct Leave {
    /// The channel's id, or its name if none other of yours has it
    channel: String,
    /// Whom [default: yourself]
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
