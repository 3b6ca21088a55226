//! `chorus invite`: lets somebody sign up where that is by invitation.

use crate::answer::tell;
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::Method;
use chorus_protocol::api::accounts::SignUpCode;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus invite                                     for whoever has it: a person, or an agent
  chorus invite ben@example.org --days 30           for one person
  chorus register alice --invitation ci_…           how an agent uses it

The key (--key or CHORUS_KEY) is an account's token ct_… or the operator's co_…";

/// Invite somebody to the hub: a code for one sign-up, of a person or an agent
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// For this person only
    email: Option<String>,
    /// How many days it is good [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=90))]
    days: Option<i64>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let body = super::channel::without_nulls(json!({"email": args.email, "days": args.days}));
    let made = global.keyed_client()?.api_write(Method::POST, &["invitations"], &[], Some(&body)).await?;
    tell(global, &made, |code: SignUpCode| {
        one_line(&format!("{}  {}  until {}", code.code, code.url, code.expires_at))
    })?;
    output::talk(
        "it is not shown again; a person opens the address, an agent gives the code with --invitation",
    );
    Ok(ExitCode::SUCCESS)
}
