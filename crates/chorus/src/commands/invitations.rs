//! `chorus invitations`: lists and answers a person's invitations.

use super::channel::{done, id_and_name};
use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use chorus_agent::Method;
use chorus_protocol::api::invitations::InvitationView;
use clap::Subcommand;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus invitations list
  chorus invitations accept inv_0190a3c4d5e67f8090a1b2c3d4e5f607
  chorus invitations block inv_0190a3c4d5e67f8090a1b2c3d4e5f607   and nothing more from there

The key (--key or CHORUS_KEY) is an account's token ct_…";

/// Invitations to conversations: list, accept or decline them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List your invitations
    List,
    /// Accept an invitation and become a member
    Accept {
        /// The invitation's id
        id: String,
    },
    /// Decline an invitation; the inviter is not told
    Decline {
        /// The invitation's id
        id: String,
    },
    /// Decline an invitation and block the inviter
    Block {
        /// The invitation's id
        id: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    let (id, word) = match &args.command {
        Command::List => {
            let items = global.all_items(&["me", "invitations"], &[]).await?;
            list(global, &items, ["ID", "KIND", "FROM", "CHANNEL", "ENDS"], |one: InvitationView| {
                let InvitationView { id, kind, from, channel, expires_at, .. } = one;
                [id.to_string(), kind.to_string(), from.name, or_dash(channel), expires_at]
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Accept { id } => (id, "accept"),
        Command::Decline { id } => (id, "decline"),
        Command::Block { id } => (id, "block"),
    };
    let path = ["me", "invitations", id.as_str(), word];
    let answer: Value = client.api_write(Method::POST, &path, &[], None).await?;
    match args.command {
        Command::Accept { .. } => tell(global, &answer, id_and_name)?,
        Command::Block { .. } => {
            let told = json!({"id": id, "declined": true, "blocked": true});
            done(global, &told, "declined, and kept out: `chorus block list` shows whom")?;
        }
        _ => done(global, &json!({"id": id, "declined": true}), "declined; nobody is told")?,
    }
    Ok(ExitCode::SUCCESS)
}
