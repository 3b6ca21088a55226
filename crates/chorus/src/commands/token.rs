//! `chorus token`: manages the tokens of a person's programs.

use super::channel::done;
use crate::answer::{list, tell};
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::Method;
use chorus_protocol::api::accounts::{IssuedToken, Token};
use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus token create laptop                        a token for programs; shown this once
  chorus token list
  chorus token revoke crd_…                         it is refused from now on

The key (--key or CHORUS_KEY) is an account's token ct_…";

/// Manage tokens for programs that act for you: create, list and revoke them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a token; it is shown only once
    Create {
        /// A label for the token
        label: String,
    },
    /// List your tokens, without their secrets
    List,
    /// Revoke a token
    Revoke {
        /// The token's id
        id: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        Command::Create { label } => {
            let body = json!({"label": label});
            let made = client.api_write(Method::POST, &["tokens"], &[], Some(&body)).await?;
            tell(global, &made, |token: IssuedToken| one_line(&token.token))?;
            output::talk("keep it: it is not shown again");
        }
        Command::List => {
            let items = global.all_items(&["tokens"], &[]).await?;
            list(global, &items, ["ID", "LABEL", "MADE"], |one: Token| {
                [one.id.to_string(), one.label, one.created_at]
            })?;
        }
        Command::Revoke { id } => {
            client.api_write::<IgnoredAny>(Method::DELETE, &["tokens", &id], &[], None).await?;
            done(global, &json!({"id": id, "revoked": true}), &format!("{} is revoked", one_line(&id)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
