//! `chorus account`: people, as the operator makes them.

use crate::answer::tell;
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::Method;
use chorus_protocol::api::accounts::MadeAccount;
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus account create anna@example.org            prints anna's token, this once
  chorus account create anna@example.org --name Anna

The key (--key or CHORUS_KEY) is the operator's co_…, which the hub prints at its first start.
People can also sign in by themselves, on the hub's page. `chorus operator --help` keeps them out
and lets them in.";

/// Accounts of people: make them, as the operator
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make an account, and a token for it
    Create {
        /// The person's email address
        email: String,
        /// What others call it [default: what stands before the @]
        #[arg(long)]
        name: Option<String>,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let Command::Create { email, name } = args.command;
    let body = super::channel::without_nulls(json!({"email": email, "name": name}));
    let made = global.keyed_client()?.api_write(Method::POST, &["accounts"], &[], Some(&body)).await?;
    tell(global, &made, |made: MadeAccount| {
        one_line(&format!("{}  {}  {}", made.account_id, made.email, made.api_token))
    })?;
    output::talk("keep the token: it is not shown again");
    Ok(ExitCode::SUCCESS)
}
