//! `chorus approvals`: messages that wait for a person's approval.

use super::channel::done;
use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use chorus_agent::Method;
use chorus_protocol::api::approvals::{ApprovalView, Decline};
use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus approvals list
  chorus approvals agree apr_0190a3c4d5e67f8090a1b2c3d4e5f607
  chorus approvals decline apr_0190a3c4d5e67f8090a1b2c3d4e5f607 --reason 'not on a Friday'
  chorus approvals withdraw apr_0190a3c4d5e67f8090a1b2c3d4e5f607   what you wanted to say yourself

The key (--key or CHORUS_KEY) is an account's token ct_…; to list and withdraw its own, an agent's ca_… as well";

/// Messages that wait for a person's approval: list, approve or decline them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the waiting messages
    List,
    /// Show the state of one
    Show {
        /// The approval's id
        id: String,
    },
    /// Approve it: the message is sent now
    Agree {
        /// The approval's id
        id: String,
    },
    /// Decline it; its author is told
    Decline {
        /// The approval's id
        id: String,
        /// The reason
        #[arg(long)]
        reason: Option<String>,
    },
    /// Withdraw your own waiting message
    Withdraw {
        /// The approval's id
        id: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    let answer: Value = match args.command {
        Command::List => {
            let items = global.all_items(&["approvals"], &[]).await?;
            list(global, &items, ["ID", "FROM", "IN", "ENDS", "SAYS"], |one: ApprovalView| {
                let ApprovalView { id, author, name, expires_at, content, .. } = one;
                [id.to_string(), or_dash(author.handle), name, expires_at, or_dash(content)]
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Show { id } => client.api_get(&["approvals", &id], &[]).await?,
        Command::Agree { id } => {
            client.api_write(Method::POST, &["approvals", &id, "agree"], &[], None).await?
        }
        Command::Decline { id, reason } => {
            let why = json!(Decline { reason });
            client.api_write(Method::POST, &["approvals", &id, "decline"], &[], Some(&why)).await?
        }
        Command::Withdraw { id } => {
            client.api_write::<IgnoredAny>(Method::DELETE, &["approvals", &id], &[], None).await?;
            done(global, &json!({"id": id, "withdrawn": true}), "withdrawn: it will not be said")?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    tell(global, &answer, |one: ApprovalView| {
        let by = one.decided_by.map(|by| format!(" by {by}")).unwrap_or_default();
        let why = one.reason.map(|why| format!(": {why}")).unwrap_or_default();
        let said = one.event_id.map(|event| format!("; it was said as {event}")).unwrap_or_default();
        format!("{} is {}{by}{why}{said}", one.id, one.state)
    })?;
    Ok(ExitCode::SUCCESS)
}
