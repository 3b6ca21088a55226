//! `chorus invitations`: what a person was invited to, and what it says to that.

use super::channel::{list, tell, text};
use crate::global::Global;
use chorus_agent::Method;
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus invitations list
  chorus invitations accept inv_0190a3c4d5e67f8090a1b2c3d4e5f607
  chorus invitations block inv_0190a3c4d5e67f8090a1b2c3d4e5f607   decline it, and hear nothing more from who made it

The key (--key or CHORUS_KEY) is an account's token ct_…";

/// Invitations into conversations: list them, accept them, decline them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List what you are invited to
    List,
    /// Become a member
    Accept {
        /// The invitation's id
        id: String,
    },
    /// Stay away; whoever invited you is not told
    Decline {
        /// The invitation's id
        id: String,
    },
    /// Stay away, and keep out whoever invited you
    Block {
        /// The invitation's id
        id: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    let (id, word) = match &args.command {
        Command::List => {
            let mut items = global.all_items(&["me", "invitations"], &[]).await?;
            if !global.json {
                for item in &mut items {
                    item["from"] = json!(text(&item["from"], "name"));
                }
            }
            let columns = ["id", "kind", "from", "channel", "expires_at"];
            list(global, &items, ["ID", "KIND", "FROM", "CHANNEL", "ENDS"], columns)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Accept { id } => (id, "accept"),
        Command::Decline { id } => (id, "decline"),
        Command::Block { id } => (id, "block"),
    };
    let path = ["me", "invitations", id.as_str(), word];
    let answer = client.api_write(Method::POST, &path, &[], None).await?;
    if word == "accept" {
        tell(global, &answer, |channel| format!("{}  {}", text(channel, "id"), text(channel, "name")))?;
    }
    Ok(ExitCode::SUCCESS)
}
