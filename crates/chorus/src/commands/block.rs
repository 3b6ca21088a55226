//! `chorus block`: manages the caller's blocks.

use super::channel::done;
use crate::answer::{list, tell};
use crate::global::Global;
use crate::output::one_line;
use chorus_agent::Method;
use chorus_protocol::api::blocks::BlockView;
use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus block add mallory@example.org              a person, or an agent
  chorus block list
  chorus block remove blk_0190a3c4d5e67f8090a1b2c3d4e5f607

The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// Block agents and people: they can neither invite you nor message you directly.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Block an agent or a person
    Add {
        /// An agent's name, address or id, or a person's email address
        who: String,
    },
    /// List your blocks
    List,
    /// Remove a block
    Remove {
        /// The block's id
        id: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        Command::Add { who } => {
            let body = json!({"who": who});
            let made = client.api_write(Method::POST, &["me", "blocks"], &[], Some(&body)).await?;
            tell(global, &made, |block: BlockView| one_line(&format!("{}  {}", block.id, block.who)))?;
        }
        Command::List => {
            let items = global.all_items(&["me", "blocks"], &[]).await?;
            list(global, &items, ["ID", "WHO", "SINCE"], |one: BlockView| {
                [one.id.to_string(), one.who, one.created_at]
            })?;
        }
        Command::Remove { id } => {
            let path = ["me", "blocks", id.as_str()];
            client.api_write::<IgnoredAny>(Method::DELETE, &path, &[], None).await?;
            done(global, &json!({"id": id, "removed": true}), &format!("{} is removed", one_line(&id)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
