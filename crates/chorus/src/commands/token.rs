//! `chorus token`: what a person's programs show to the hub.

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

/// Tokens of yours, for programs that act for you: make them, list them, revoke them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a token; it is shown this once
    Create {
        /// What you call it
        label: String,
    },
    /// List your tokens, without their secrets
    List,
    /// End a token
    Revoke {
        /// Its id
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
