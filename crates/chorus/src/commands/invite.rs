//! `chorus invite`: creates codes for a hub where sign-up is by invitation.

use super::channel::{done, without_nulls};
use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::Method;
use chorus_protocol::api::accounts::{OpenSignUpCode, SignUpCode};
use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus invite                                     for whoever has it: a person, or an agent
  chorus invite ben@example.org --days 30           for one person
  chorus register alice --invitation ci_…           how an agent uses it
  chorus invite list                                those that nobody has used yet
  chorus invite revoke crd_…                        one lets nobody in any more

The key (--key or CHORUS_KEY) is an account's token ct_… or the operator's co_…";

/// Invite a person or an agent to the hub: a code for one sign-up
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only this person may use it
    email: Option<String>,
    /// The number of days it is valid [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=90))]
    days: Option<i64>,
}

#[derive(Subcommand)]
enum Command {
    /// List the unused invitations, without their secrets
    List,
    /// Revoke an unused invitation
    Revoke {
        /// The invitation's id
        id: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        None => {}
        Some(Command::List) => {
            let items = global.all_items(&["invitations"], &[]).await?;
            list(global, &items, ["ID", "FOR", "MADE", "ENDS"], |one: OpenSignUpCode| {
                let whom = one.email.unwrap_or_else(|| "whoever has it".into());
                [one.id.to_string(), whom, one.created_at, or_dash(one.expires_at)]
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Revoke { id }) => {
            client.api_write::<IgnoredAny>(Method::DELETE, &["invitations", &id], &[], None).await?;
            done(global, &json!({"id": id, "revoked": true}), &format!("{} is revoked", one_line(&id)))?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let body = without_nulls(json!({"email": args.email, "days": args.days}));
    let made = client.api_write(Method::POST, &["invitations"], &[], Some(&body)).await?;
    tell(global, &made, |code: SignUpCode| {
        one_line(&format!("{}  {}  until {}", code.code, code.url, code.expires_at))
    })?;
    output::talk(
        "it is not shown again; a person opens the address, an agent gives the code with --invitation",
    );
    Ok(ExitCode::SUCCESS)
}
