//! `chorus operator`: disables accounts, ends their sessions, and reads the audit log.

use crate::answer::{read, table, tell};
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::Method;
use chorus_protocol::api::Items;
use chorus_protocol::api::accounts::{AccountReview, EndedSessions, LastingAct};
use chorus_protocol::api::operator::{Account, AuditParty, RecordedAct};
use chorus_protocol::words::PrincipalKind;
use clap::Subcommand;
use serde_json::Value;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus operator disable eve@example.org           keep eve and her agents out
  chorus operator enable eve@example.org            let them in again
  chorus operator end-sessions ann@example.org      sign ann out of every browser
  chorus operator end-sessions ann@example.org --tokens    and revoke her tokens: one was stolen
  chorus operator audit --subject ann@example.org   who did what to this account
  chorus operator audit --action key.reset --since 2026-11-15T00:00:00Z

The key (--key or CHORUS_KEY) is the operator's co_…; for agents see `chorus agents --help`";

/// The default number of acts shown.
const SHOWN: u32 = 50;

const HEAD: [&str; 6] = ["AT", "ACTOR", "ACTION", "SUBJECT", "DETAIL", "FROM"];

/// Manage accounts as the operator: disable and enable them, end their sessions, read the audit log.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Disable an account and its agents: their credentials are refused, their open connections end
    Disable {
        /// The account's email address or id
        account: String,
    },
    /// Enable an account and its agents
    Enable {
        /// The account's email address or id
        account: String,
    },
    /// Sign an account out of every browser; its tokens stay valid without --tokens
    EndSessions {
        /// The account's email address or id
        account: String,
        /// Also revoke its tokens: one was stolen, and the thief may have created others with it
        #[arg(long)]
        tokens: bool,
    },
    /// Show the audit log, newest first
    Audit(Filter),
}

#[derive(clap::Args)]
struct Filter {
    /// Only acts of this agent (its id or name), this account (its id or email address), `operator` or
    /// `nobody`
    #[arg(long)]
    actor: Option<String>,
    /// Only these acts, such as key.reset or agent.disabled
    #[arg(long)]
    action: Option<String>,
    /// Only acts on this agent or account, a channel (ch_…), a credential (crd_…) or `hub`
    #[arg(long)]
    subject: Option<String>,
    /// Only acts since this time, such as 2026-11-15T08:00:00Z
    #[arg(long)]
    since: Option<String>,
    /// The maximum number of acts
    #[arg(long, default_value_t = SHOWN, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.operator_client()?;
    match args.command {
        Command::Disable { account } => {
            let path = ["operator", "accounts", &account, "disable"];
            let answer = client.api_write(Method::POST, &path, &[], None).await?;
            tell(global, &answer, |account: Account| {
                format!("{} is disabled, with all of its agents", named(account))
            })?;
        }
        Command::Enable { account } => {
            let path = ["operator", "accounts", &account, "enable"];
            let answer = client.api_write(Method::POST, &path, &[], None).await?;
            tell(global, &answer, |account: Account| format!("{} is enabled", named(account)))?;
        }
        Command::EndSessions { account, tokens } => {
            let path = ["operator", "accounts", &account, "sessions"];
            let query: &[_] = if tokens { &[("tokens", "true")] } else { &[] };
            let answer = client.api_write(Method::DELETE, &path, query, None).await?;
            tell(global, &answer, |EndedSessions { ended, tokens, .. }| match tokens {
                None => format!("{ended} ended"),
                Some(tokens) => format!("{ended} ended, {tokens} tokens revoked"),
            })?;
            if let Some(review) = read::<EndedSessions>(&answer)?.review {
                tell_review(&review);
            }
        }
        Command::Audit(Filter { actor, action, subject, since, limit }) => {
            let limit = limit.to_string();
            let asked = [("actor", actor), ("action", action), ("subject", subject), ("since", since)];
            let given = asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
            let query: Vec<_> = given.chain([("limit", &*limit)]).collect();
            let acts: Items<Value> = client.api_get(&["audit"], &query).await?;
            if global.json {
                output::json(&acts.items)?;
            } else {
                output::data(table(&acts.items, HEAD, row)?)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the traces that a thief of an ended credential may have left.
fn tell_review(AccountReview { allowances, owner_keys, acts }: &AccountReview) {
    if *allowances > 0 {
        output::talk(format_args!("{allowances} allowances removed: set those of your agents again"));
    }
    for owner in owner_keys {
        output::talk(format_args!("the owner key of {} is void", one_line(owner)));
    }
    if !acts.is_empty() {
        output::talk("these acts of the account stay; undo what a thief did:");
    }
    for LastingAct { at, action, subject, client, .. } in acts {
        let AuditParty { kind, id } = subject;
        output::talk(one_line(&format!("  {at} {action} {kind} {id} from {client}")));
    }
}

/// Returns the display name of an account.
fn named(account: Account) -> String {
    one_line(&account.email.unwrap_or(account.name))
}

fn row(act: RecordedAct) -> [String; 6] {
    // The prefix of an id tells its kind, except for an agent's.
    let party = |AuditParty { kind, id }| {
        if kind == PrincipalKind::Agent.as_str() { format!("agent {id}") } else { id }
    };
    [act.at, party(act.actor), act.action.to_string(), party(act.subject), act.detail.to_string(), act.client]
}
