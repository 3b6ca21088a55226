//! `chorus account`: accounts of people, managed by the operator, and one's own account.

use super::channel::{done, without_nulls};
use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::Method;
use chorus_protocol::api::accounts::{MadeAccount, Me};
use chorus_protocol::api::operator::Account;
use clap::{ArgGroup, Subcommand};
use serde::de::IgnoredAny;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus account create anna@example.org            prints anna's token, this once
  chorus account create anna@example.org --name Anna
  chorus account list                               everybody who has or had one
  chorus account list example.org                   with this in the address or the name
  chorus account show                               whose key this is
  chorus account edit --name Anna --mails off       your own, with your token
  chorus account delete --confirm anna@example.org  your own, for good

create and list are for the operator (a key co_…, which the hub prints at its first start), edit and
delete are for a person (a token ct_…). People can also sign in by themselves, on the hub's page.
`chorus operator --help` keeps them out and lets them in.";

const HEAD: [&str; 5] = ["ID", "EMAIL", "NAME", "SINCE", "STATE"];

/// Create and list accounts, as the operator; change or delete your own
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create an account, and a token for it
    Create {
        /// The person's email address
        email: String,
        /// The display name [default: the part before the @]
        #[arg(long)]
        name: Option<String>,
    },
    /// List the accounts, oldest first, including deleted ones
    List {
        /// Only accounts with this text in their email address or name
        text: Option<String>,
    },
    /// Show the account or agent that the key belongs to
    Show,
    /// Change your account; options that are not given leave it unchanged
    #[command(group = ArgGroup::new("what").required(true).multiple(true).args(["name", "mails"]))]
    Edit {
        /// Your new display name
        #[arg(long)]
        name: Option<String>,
        /// Mail you about waiting messages while you are away
        #[arg(long, value_parser = ["on", "off"])]
        mails: Option<String>,
    },
    /// Delete your account with its agents, tokens and sessions; your messages stay
    Delete {
        /// Your email address, as a confirmation
        #[arg(long, value_name = "EMAIL")]
        confirm: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Create { email, name } => {
            let body = without_nulls(json!({"email": email, "name": name}));
            let client = global.operator_client()?;
            let made = client.api_write(Method::POST, &["accounts"], &[], Some(&body)).await?;
            tell(global, &made, |made: MadeAccount| {
                one_line(&format!("{}  {}  {}", made.account_id, made.email, made.api_token))
            })?;
            output::talk("keep the token: it is not shown again");
        }
        Command::List { text } => {
            global.operator_client()?;
            let filter: Vec<_> = text.as_deref().map(|text| ("q", text)).into_iter().collect();
            list(global, &global.all_items(&["accounts"], &filter).await?, HEAD, row)?;
        }
        Command::Show => tell(global, &global.keyed_client()?.api_get(&["me"], &[]).await?, shown)?,
        Command::Edit { name, mails } => {
            let body = without_nulls(json!({"name": name, "mails": mails.map(|mails| mails == "on")}));
            let client = global.keyed_client()?;
            tell(global, &client.api_write(Method::PATCH, &["me"], &[], Some(&body)).await?, shown)?;
        }
        Command::Delete { confirm } => {
            let client = global.keyed_client()?;
            let query = [("confirm", confirm.as_str())];
            client.api_write::<IgnoredAny>(Method::DELETE, &["me"], &query, None).await?;
            let line = format!("{} is deleted", one_line(&confirm));
            done(global, &json!({"account": confirm, "deleted": true}), &line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the key's owner as one line.
fn shown(me: Me) -> String {
    let mails = match me.mails {
        Some(true) => "  told by mail of what waits",
        Some(false) => "  not told by mail of what waits",
        None => "",
    };
    let address = me.email.or(me.address).unwrap_or_default();
    one_line(&format!("{}  {}  {}  {address}{mails}", me.id, me.kind, me.name))
}

fn row(account: Account) -> [String; 5] {
    let state = match (&account.deleted_at, &account.disabled_since) {
        (Some(at), _) => format!("deleted {at}"),
        (None, Some(since)) => format!("disabled since {since}"),
        (None, None) => "-".to_owned(),
    };
    [account.account_id.to_string(), or_dash(account.email), account.name, account.created_at, state]
}
