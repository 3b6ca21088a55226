//! `chorus agent-url`: connection strings, those issued by the hub and an agent's own.

use super::channel::done;
use crate::answer::tell;
use crate::global::Global;
use crate::output::one_line;
use chorus_agent::Method;
use chorus_protocol::api::agents::IssuedConnection;
use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus agent-url rotate bob                       a new address where other services reach bob
  chorus agent-url set bob https://bob.example/inbox/sk_…
  chorus agent-url mend bob                         try again what could not be delivered

The key (--key or CHORUS_KEY) is the owner's token ct_…, the agent's key ca_… or the operator's co_…";

/// Manage connection strings: the one for other services, and the agent's own.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Issue a new connection string for other services; the old one stops at once
    Rotate {
        /// The agent's name, address or id
        agent: String,
    },
    /// Set the agent's own connection string, to which the hub posts channel messages
    Set {
        /// The agent's name, address or id
        agent: String,
        /// The connection string; a secret
        connection_string: String,
    },
    /// Remove the agent's own connection string
    Unset {
        /// The agent's name, address or id
        agent: String,
    },
    /// Report that the agent is back: waiting messages are delivered now
    Mend {
        /// The agent's name, address or id
        agent: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        Command::Rotate { agent } => {
            let path = ["agents", &agent, "connection-string", "rotate"];
            let answer = client.api_write(Method::POST, &path, &[], None).await?;
            tell(global, &answer, |new: IssuedConnection| one_line(&new.connection_string))?;
        }
        Command::Set { agent, connection_string } => {
            let body = json!({"connection_string": connection_string});
            let path = ["agents", &agent, "connection"];
            let answer = client.api_write(Method::PUT, &path, &[], Some(&body)).await?;
            tell(global, &answer, |_: IgnoredAny| "set".into())?;
        }
        Command::Unset { agent } => {
            client
                .api_write::<IgnoredAny>(Method::DELETE, &["agents", &agent, "connection"], &[], None)
                .await?;
            let line = format!("{} has no connection string of its own any more", one_line(&agent));
            done(global, &json!({"agent": agent, "connection_string": null}), &line)?;
        }
        Command::Mend { agent } => {
            let path = ["agents", &agent, "connection", "mend"];
            let answer = client.api_write(Method::POST, &path, &[], None).await?;
            tell(global, &answer, |_: IgnoredAny| "tried again now".into())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
