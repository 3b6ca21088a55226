//! `chorus stream`: work streams, which group the messages of channels by task and owner.

use super::channel::{done, find, without_nulls};
use crate::answer::{joined, list, read};
use crate::global::Global;
use crate::output::one_line;
use anyhow::bail;
use chorus_agent::Method;
use chorus_protocol::api::streams::{StreamMemberView, StreamView};
use chorus_protocol::ids::StreamId;
use clap::Subcommand;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus stream create migration --channel ops --owner ada --participant bob
  chorus stream list
  chorus stream show migration
  chorus stream join migration
  chorus stream close migration                     nothing that is said later belongs to it

What is said in a channel belongs to the only work stream there; where there are several, to that
of its thread, or to the one that it names.
The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// Work streams: the tasks in channels, with their owners and participants
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the open work streams of your channels
    List,
    /// Create a work stream in channels that you own or lead
    Create {
        /// The work stream's name
        name: String,
        /// A channel of the work stream: its id, or its name if only one of yours has it; may be repeated
        #[arg(long = "channel", value_name = "CHANNEL", required = true)]
        channels: Vec<String>,
        /// The handle of an owner [default: yours]; may be repeated
        #[arg(long = "owner", value_name = "HANDLE")]
        owners: Vec<String>,
        /// The handle of a participant; may be repeated
        #[arg(long = "participant", value_name = "HANDLE")]
        participants: Vec<String>,
        /// The handle of the lead, who answers for the others
        #[arg(long, value_name = "HANDLE")]
        lead: Option<String>,
    },
    /// Show a work stream
    Show {
        /// Its id, or its name if it is unique
        stream: String,
    },
    /// Close a work stream; for its owners and the owners of its channels
    Close {
        /// Its id, or its name if it is unique
        stream: String,
    },
    /// Join a work stream as a participant
    Join {
        /// Its id, or its name if it is unique
        stream: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        Command::List => {
            let items = global.all_items(&["streams"], &[]).await?;
            list(global, &items, ["ID", "NAME", "OWNERS", "PARTICIPANTS"], |one: StreamView| {
                [one.id, one.name, joined(&handles(&one.owners)), joined(&handles(&one.participants))]
            })?;
        }
        Command::Create { name, channels, owners, participants, lead } => {
            let mut conversations = vec![];
            for channel in channels {
                conversations.push(find(global, channel).await?);
            }
            let body = without_nulls(json!({"name": name, "conversations": conversations, "owners": owners,
                "participants": participants, "lead": lead}));
            show(global, &client.api_write(Method::POST, &["streams"], &[], Some(&body)).await?)?;
        }
        Command::Show { stream } => {
            let id = find_stream(global, stream).await?;
            show(global, &client.api_get::<Value>(&["streams", &id], &[]).await?)?;
        }
        Command::Close { stream } => {
            let id = find_stream(global, stream).await?;
            show(global, &client.api_write(Method::DELETE, &["streams", &id], &[], None).await?)?;
        }
        Command::Join { stream } => {
            let id = find_stream(global, stream).await?;
            show(global, &client.api_write(Method::POST, &["streams", &id, "join"], &[], None).await?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn handles(members: &[StreamMemberView]) -> Vec<String> {
    members.iter().map(|member| member.handle.clone()).collect()
}

fn show(global: &Global, answer: &Value) -> anyhow::Result<()> {
    let StreamView { id, name, owners, participants, lead, conversations, closed_at, .. } = read(answer)?;
    let lead: Vec<_> = lead.into_iter().map(|lead| lead.handle).collect();
    let state = closed_at.map_or_else(|| "open".to_owned(), |at| format!("closed at {at}"));
    let lines = [
        ("id", id),
        ("name", name),
        ("state", state),
        ("owners", joined(&handles(&owners))),
        ("participants", joined(&handles(&participants))),
        ("lead", joined(&lead)),
        ("channels", joined(&conversations)),
    ];
    let lines: Vec<_> = lines.iter().map(|(what, value)| format!("{what:<13} {}", one_line(value))).collect();
    done(global, answer, &lines.join("\n"))
}

/// Returns the id of an open work stream given by its id or its name.
async fn find_stream(global: &Global, named: String) -> anyhow::Result<String> {
    if StreamId::parse(&named).is_some() {
        return Ok(named);
    }
    let all = global.all_items::<StreamView>(&["streams"], &[]).await?;
    let mut ids = all.into_iter().filter(|one| one.name == named).map(|one| one.id);
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => bail!("no open work stream is called {named:?}; `chorus stream list` tells them"),
        (Some(_), Some(_)) => {
            bail!("several work streams are called {named:?}; use the id: `chorus stream list`")
        }
    }
}
