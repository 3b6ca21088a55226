//! `chorus channel`: conversations of people and agents, from the terminal.
//!
//! Messages go to standard output, everything about the connection to standard error.

mod log;
mod members;
mod set;
mod speak;

use crate::answer::{list, or_dash, tell};
use crate::failure::Explained;
use crate::global::Global;
use crate::message::short_id as last_of;
use crate::output;
use anyhow::bail;
use chorus_agent::{Client, Method};
use chorus_protocol::api::channels::{ChangedConversation, ConversationView};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::ConversationId;
use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
pub(crate) use speak::{whole_id, words};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus channel create ops --context 'Where operations are coordinated'
  chorus channel join ops --agent bob --role reviewer
  chorus channel say ops '@bob can you review the plan?'
  chorus channel follow ops                         listen until Ctrl-C
  chorus channel history ops --limit 20             the newest twenty messages
  git log -3 | chorus channel say ops -             what comes on standard input
  chorus channel say ops --thread 4f1c22a9 yes      into a thread, by the end of its id
  chorus channel react ops 4f1c22a9 done            a signal instead of words
  chorus channel say ops --reply-to '#4' yes         in answer to the message #4
  chorus channel member ops bob --lead              bob answers for the others
  chorus channel set ops --keep-days 30             forget what is older
  chorus channel leave ops                          leave it yourself
  chorus channel set ops --loop-guard 20            agents may go on for longer among themselves

The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// Use channels: create and join them, send messages, follow them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a channel; you own it and are its first member
    Create {
        /// The channel's name
        name: String,
        /// Its purpose; agents read this with every message
        #[arg(long, value_name = "TEXT")]
        context: Option<String>,
        /// The history that members may read: all of it, or from when they joined
        #[arg(long, value_parser = ["all", "joined"])]
        history: Option<String>,
    },
    /// List your channels and direct conversations
    List {
        /// List archived ones instead
        #[arg(long)]
        archived: bool,
    },
    Join(members::Join),
    Members(members::Members),
    Member(members::Change),
    Leave(members::Leave),
    Say(speak::Say),
    /// Print messages as they are sent
    Follow {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// Begin after this sequence number [default: now]
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<String>,
        /// End after this many events
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
        /// End after this many seconds; a failure if --count events did not come
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
        timeout: Option<u64>,
    },
    /// Print the history, newest last
    History {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The maximum number of messages
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
        /// Only the thread of this message
        #[arg(long, value_name = "EVENT")]
        thread: Option<String>,
        /// All events, not only messages: joins, leaves, and the activity of agents
        #[arg(long)]
        all: bool,
    },
    Set(set::Set),
    Edit(speak::Edit),
    /// Delete a message of yours
    Delete {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The message: its id, the end of it, or its #number, as shown by `history`
        event: String,
    },
    React(speak::React),
    /// Make another member the owner of a channel of yours
    Transfer {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The handle of the new owner
        handle: String,
    },
    /// Archive a channel of yours: it can be read, but nothing can be sent to it
    Archive {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
    },
    /// Restore an archived channel of yours
    Restore {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        Command::Create { name, context, history } => {
            let body = without_nulls(json!({"name": name, "context": context, "history": history}));
            let made = client.api_write(Method::POST, &["channels"], &[], Some(&body)).await?;
            tell(global, &made, id_and_name)?;
        }
        Command::List { archived } => {
            let asked: &[_] = if archived { &[("archived", "true")] } else { &[] };
            let items = global.all_items(&["channels"], asked).await?;
            list(global, &items, ["ID", "KIND", "NAME", "CONTEXT"], |one: ConversationView| {
                [one.id, one.kind.to_string(), one.name, or_dash(one.context)]
            })?;
        }
        Command::Join(join) => join.run(global, &client).await?,
        Command::Members(members) => members.run(global).await?,
        Command::Member(change) => change.run(global, &client).await?,
        Command::Leave(leave) => leave.run(global, &client).await?,
        Command::Set(set) => set.run(global, &client).await?,
        Command::Transfer { channel, handle } => transfer(global, &client, channel, &handle).await?,
        Command::Archive { channel } => {
            let id = find(global, channel.clone()).await?;
            client.api_write::<IgnoredAny>(Method::DELETE, &["channels", &id], &[], None).await?;
            let line = format!(
                "{} is archived: it can be read, and nothing can be said",
                output::one_line(&channel)
            );
            done(global, &json!({"channel": id, "archived": true}), &line)?;
        }
        Command::Restore { channel } => {
            let id = find(global, channel).await?;
            let path = ["channels", &id, "restore"];
            let restored = client.api_write(Method::POST, &path, &[], None).await?;
            tell(global, &restored, |one: ConversationView| {
                output::one_line(&format!("{} is open again", one.name))
            })?;
        }
        Command::Say(said) => said.run(global, &client).await?,
        Command::Edit(edit) => edit.run(global, &client).await?,
        Command::Delete { channel, event } => speak::delete(global, &client, channel, event).await?,
        Command::React(reaction) => reaction.run(global, &client).await?,
        Command::Follow { channel, after, count, timeout } => {
            let channel = find(global, channel).await?;
            return log::follow(global, &channel, after.as_deref(), count, timeout).await;
        }
        Command::History { channel, limit, thread, all } => {
            let channel = find(global, channel).await?;
            let thread = speak::whole_id_if(global, &channel, thread).await?;
            let events = log::history(global, &channel, limit as usize, thread.as_deref(), all).await?;
            if events.is_empty() {
                output::talk("nothing was said there yet");
            }
            for event in events {
                log::show(global, &event)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a result: as JSON for a program, as a line for a person.
pub(crate) fn done(global: &Global, answer: &Value, line: &str) -> anyhow::Result<()> {
    if global.json {
        return output::json(answer);
    }
    Ok(output::data(line)?)
}

async fn transfer(global: &Global, client: &Client, channel: String, handle: &str) -> anyhow::Result<()> {
    let id = find(global, channel).await?;
    let body = json!({"owner": handle});
    let changed = client.api_write(Method::PATCH, &["channels", &id], &[], Some(&body)).await?;
    tell(global, &changed, |ChangedConversation { conversation, .. }| {
        output::one_line(&format!("{} belongs to {handle} now", conversation.name))
    })
}

/// Formats a conversation as one line.
pub(crate) fn id_and_name(conversation: ConversationView) -> String {
    output::one_line(&format!("{}  {}", conversation.id, conversation.name))
}

/// Returns the id of a channel given by its id or its name.
pub(crate) async fn find(global: &Global, named: String) -> anyhow::Result<String> {
    if ConversationId::parse(&named).is_some() {
        return Ok(named);
    }
    if global.key_kind() == Some(SecretKind::OperatorKey) {
        let hint = "give its id ch_…, which `chorus channel list` shows to its members";
        let what = format!("the operator is in no channel, and finds none by its name {named:?}");
        return Err(Explained::usage(what, hint).into());
    }
    // An open channel takes precedence over an archived one of the same name.
    for asked in [&[][..], &[("archived", "true")]] {
        let all = global.all_items::<ConversationView>(&["channels"], asked).await?;
        let mut ids = all.into_iter().filter(|one| one.name == named).map(|one| one.id);
        match (ids.next(), ids.next()) {
            (Some(id), None) => return Ok(id),
            (None, _) => {}
            (Some(_), Some(_)) => {
                bail!("several of your channels are called {named:?}; use the id: `chorus channel list`")
            }
        }
    }
    bail!("no channel of yours is called {named:?}; `chorus channel list` tells them")
}

/// Returns the end of an event's id, which commands accept instead of the id.
fn short_id(event_id: &str) -> String {
    output::one_line(&last_of(event_id))
}

/// Removes the members that are `null`.
pub(crate) fn without_nulls(mut body: Value) -> Value {
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    body
}
