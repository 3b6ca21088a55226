//! `chorus channel`: conversations of people and agents, from the terminal.
//!
//! What is said is data and goes to standard output, everything about the connection to standard error.

mod speak;

use crate::answer::{joined, list, or_dash, read, tell};
use crate::failure::{self, Explained, FAILED};
use crate::global::Global;
use crate::message::short_id as last_of;
use crate::output;
use anyhow::bail;
use chorus_agent::{ExitClass, InboxItem, Method};
use chorus_protocol::api::Items;
use chorus_protocol::api::channels::ConversationView;
use chorus_protocol::api::events::EventView;
use chorus_protocol::api::members::{Invited, MemberView};
use chorus_protocol::ids::ConversationId;
use chorus_protocol::relay::Notice;
use chorus_protocol::words::EventKind;
use clap::Subcommand;
use owo_colors::OwoColorize;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
pub(crate) use speak::words;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const EXAMPLES: &str = "\
Examples:
  chorus channel create ops --context 'Where operations are coordinated'
  chorus channel join ops --agent bob --role reviewer
  chorus channel say ops '@bob can you review the plan?'
  chorus channel follow ops                         listen until Ctrl-C
  chorus channel history ops --limit 20             the newest twenty messages
  git log -3 | chorus channel say ops -             what comes on standard input
  chorus channel say ops --thread 4f1c22a9 yes      into the thread of a message, by the end of its id
  chorus channel react ops 4f1c22a9 done            a signal instead of words

The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// The largest page the hub gives.
const PAGE: usize = 200;

/// Talk in channels: make them, join them, say something, follow what is said.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a channel; you own it and are its first member
    Create {
        /// What people call it
        name: String,
        /// What it is for; agents read this with every message
        #[arg(long, value_name = "TEXT")]
        context: Option<String>,
        /// What members may read: everything, or what was said since they joined
        #[arg(long, value_parser = ["all", "joined"])]
        history: Option<String>,
    },
    /// List the channels and direct conversations you are in
    List,
    /// Add an agent or a person to a channel
    Join {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// An agent: its name, address or id
        #[arg(long, required_unless_present = "account", conflicts_with = "account")]
        agent: Option<String>,
        /// A person: an email address or an account's id
        #[arg(long)]
        account: Option<String>,
        /// What it is called there [default: its name]
        #[arg(long)]
        handle: Option<String>,
        /// What it does there; may be repeated
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
        /// It answers for the others
        #[arg(long)]
        lead: bool,
    },
    /// List who is in a channel
    Members {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
    },
    /// Take a member out of a channel, yourself for instance
    Leave {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// Whom
        handle: String,
    },
    Say(speak::Say),
    /// Print what is said as it is said
    Follow {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// Begin after this place [default: now]
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<String>,
        /// End after this many events
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
        /// End after this many seconds; a failure if --count events did not come
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
        timeout: Option<u64>,
    },
    /// Print what was said, the newest last
    History {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// At most this many messages
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
        /// Only one thread
        #[arg(long, value_name = "EVENT")]
        thread: Option<String>,
        /// Every event, not only messages: who came and went, what agents were doing
        #[arg(long)]
        all: bool,
    },
    Edit(speak::Edit),
    /// Take back something that you said
    Delete {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// The message: its id, or the end of it as `history` shows it
        event: String,
    },
    React(speak::React),
    /// Close a channel of yours: it can be read, and nothing can be said any more
    Archive {
        /// The channel's id, or its name if none other of yours has it
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
        Command::List => {
            let items = global.all_items(&["channels"], &[]).await?;
            list(global, &items, ["ID", "KIND", "NAME", "CONTEXT"], |one: ConversationView| {
                [one.id, one.kind.to_string(), one.name, or_dash(one.context)]
            })?;
        }
        Command::Join { channel, agent, account, handle, roles, lead } => {
            let channel = find(global, channel).await?;
            let body = without_nulls(
                json!({"agent": agent, "account": account, "handle": handle, "roles": roles, "lead": lead}),
            );
            let path = ["channels", &channel, "members"];
            let member = client.api_write(Method::POST, &path, &[], Some(&body)).await?;
            tell(global, &member, |added| match added {
                Added::Joined(MemberView { handle, .. }) => {
                    format!("joined as {}", output::one_line(&handle))
                }
                // A person who does not know us is asked first, if there is one.
                Added::Asked(Invited { status }) => output::one_line(&status),
            })?;
        }
        Command::Members { channel } => {
            let channel = find(global, channel).await?;
            let items = global.all_items(&["channels", &channel, "members"], &[]).await?;
            list(global, &items, ["HANDLE", "KIND", "ROLES", "JOINED"], |member: MemberView| {
                [member.handle, member.kind.to_string(), joined(&member.roles), member.joined_at]
            })?;
        }
        Command::Leave { channel, handle } => {
            let id = find(global, channel.clone()).await?;
            let path = ["channels", &id, "members", &handle];
            client.api_write::<IgnoredAny>(Method::DELETE, &path, &[], None).await?;
            let line =
                format!("{} is not in {} any more", output::one_line(&handle), output::one_line(&channel));
            done(global, &json!({"channel": id, "handle": handle, "left": true}), &line)?;
        }
        Command::Archive { channel } => {
            let id = find(global, channel.clone()).await?;
            client.api_write::<IgnoredAny>(Method::DELETE, &["channels", &id], &[], None).await?;
            let line = format!(
                "{} is archived: it can be read, and nothing can be said",
                output::one_line(&channel)
            );
            done(global, &json!({"channel": id, "archived": true}), &line)?;
        }
        Command::Say(said) => said.run(global, &client).await?,
        Command::Edit(edit) => edit.run(global, &client).await?,
        Command::Delete { channel, event } => speak::delete(global, &client, channel, event).await?,
        Command::React(reaction) => reaction.run(global, &client).await?,
        Command::Follow { channel, after, count, timeout } => {
            let channel = find(global, channel).await?;
            return follow(global, &channel, after.as_deref(), count, timeout).await;
        }
        Command::History { channel, limit, thread, all } => {
            let channel = find(global, channel).await?;
            let thread = speak::whole_id_if(global, &channel, thread).await?;
            for event in history(global, &channel, limit as usize, thread.as_deref(), all).await? {
                show(global, &event)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what was done: to a program as JSON, to a person in a line.
pub(crate) fn done(global: &Global, answer: &Value, line: &str) -> anyhow::Result<()> {
    if global.json {
        return output::json(answer);
    }
    Ok(output::data(line)?)
}

/// What became of somebody who was to be added.
#[derive(Deserialize)]
#[serde(untagged)]
enum Added {
    Joined(MemberView),
    Asked(Invited),
}

/// A conversation in a line.
pub(crate) fn id_and_name(conversation: ConversationView) -> String {
    output::one_line(&format!("{}  {}", conversation.id, conversation.name))
}

/// The id of a channel that was named by its id or by its name.
pub(crate) async fn find(global: &Global, named: String) -> anyhow::Result<String> {
    if ConversationId::parse(&named).is_some() {
        return Ok(named);
    }
    let all = global.all_items::<ConversationView>(&["channels"], &[]).await?;
    let mut ids = all.into_iter().filter(|one| one.name == named).map(|one| one.id);
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => bail!("no channel of yours is called {named:?}; `chorus channel list` tells them"),
        (Some(_), Some(_)) => {
            bail!("several of your channels are called {named:?}; use the id: `chorus channel list`")
        }
    }
}

/// The end of an event's id, which commands take for it.
fn short_id(event_id: &str) -> String {
    output::one_line(&last_of(event_id))
}

/// An object without what was not said.
pub(crate) fn without_nulls(mut body: Value) -> Value {
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    body
}

/// The newest events, the newest last.
async fn history(
    global: &Global,
    channel: &str,
    limit: usize,
    thread: Option<&str>,
    all: bool,
) -> anyhow::Result<Vec<Value>> {
    let client = global.keyed_client()?;
    let (mut events, mut before) = (Vec::new(), "end".to_owned());
    while events.len() < limit {
        let page = (limit - events.len()).min(PAGE).to_string();
        let mut query = vec![("before", before.as_str()), ("limit", &page)];
        query.extend(thread.map(|thread| ("thread", thread)));
        query.extend((!all).then_some(("kind", EventKind::Message.as_str())));
        let Items { mut items, next } = client.api_get(&["channels", channel, "events"], &query).await?;
        items.append(&mut events);
        events = items;
        match next {
            // A cursor that stands still would be an endless list.
            Some(next) if next != before => before = next,
            _ => break,
        }
    }
    Ok(events)
}

/// Prints one event.
fn show(global: &Global, event: &Value) -> anyhow::Result<()> {
    if global.json {
        return output::json(event);
    }
    let event: EventView = read(event)?;
    let details = event.details();
    let shown = |text: Option<String>| or_dash(text.as_deref().map(output::one_line));
    let target = or_dash(event.target.as_deref().map(short_id));
    let what = match EventKind::parse(&event.kind) {
        Some(EventKind::Message) if event.deleted => "(deleted)".dimmed().to_string(),
        Some(EventKind::Message) => output::many_lines(event.content.as_deref().unwrap_or_default()),
        Some(EventKind::Edit) => {
            let now = output::many_lines(event.content.as_deref().unwrap_or_default());
            format!("{} {now}", format_args!("edits {target}:").dimmed())
        }
        Some(EventKind::Delete) => format!("takes back {target}").dimmed().to_string(),
        Some(EventKind::Artifact) => {
            let slug = event.more.get("slug").and_then(Value::as_str).map(output::one_line);
            format!("writes the document {}", or_dash(slug)).dimmed().to_string()
        }
        Some(EventKind::Reaction) => {
            format!("reacts: {}", shown(details.signal.map(|signal| signal.to_string()))).dimmed().to_string()
        }
        Some(EventKind::Lifecycle | EventKind::Status) => {
            format!("is {}", shown(details.status)).dimmed().to_string()
        }
        Some(EventKind::ToolCall) => format!("uses {}", shown(details.name)).dimmed().to_string(),
        Some(EventKind::Error) => format!("failed: {}", shown(details.message)).red().to_string(),
        _ => output::one_line(&event.kind).dimmed().to_string(),
    };
    let who = or_dash(event.author.handle.as_deref().map(output::one_line));
    let thread = event.thread.as_deref().map(|thread| format!(" (thread {})", short_id(thread)));
    let (time, id) = (output::one_line(&event.created_at), short_id(&event.event_id));
    let head =
        format!("#{} {time} {}{} {}", event.sequence, who.bold(), thread.unwrap_or_default(), id.dimmed());
    // Indented, so that no text can pass for the head of another message.
    Ok(output::data(format_args!("{head}\n  {}\n", what.replace('\n', "\n  ")))?)
}

async fn follow(
    global: &Global,
    channel: &str,
    after: Option<&str>,
    wanted: Option<u64>,
    timeout: Option<u64>,
) -> anyhow::Result<ExitCode> {
    let mut stream = global.keyed_client()?.follow(channel, after)?;
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let end = timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut count, mut reached) = (0, false);
    let mut growing = None;
    while wanted != Some(count) {
        let item = tokio::select! {
            item = stream.next() => item,
            listening = &mut interrupt => {
                listening?;
                return Ok(ExitCode::SUCCESS);
            }
            () = expiry(end) => {
                let Some(wanted) = wanted else { return Ok(ExitCode::SUCCESS) };
                output::talk(format_args!("time is up: {count} of {wanted} came"));
                return Ok(ExitCode::from(FAILED));
            }
        };
        let Some(item) = item.transpose()? else { break };
        match item {
            InboxItem::Other { id: Some(_), data, .. } => {
                (count, reached) = (count + 1, true);
                show(global, &serde_json::from_str(&data)?)?;
            }
            InboxItem::Other { id: None, event, data } if Notice::parse(&event) == Some(Notice::Growing) => {
                show_growing(global, &mut growing, &serde_json::from_str(&data)?)?;
            }
            InboxItem::Reconnecting { why, .. } if !reached && why.exit_class() == ExitClass::Unreachable => {
                return Err(why.into());
            }
            InboxItem::Reconnecting { in_ms, why } => {
                let why = failure::sentence(&why);
                output::talk(format_args!("{why}; trying again in {:.1} s", in_ms as f64 / 1000.0).dimmed());
            }
            InboxItem::Takeover => {
                return Err(Explained::failed("the hub ended the stream", "are you still a member?").into());
            }
            _ => reached = true,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An answer that is being made: to a program as it is; to a person what is new of it, beside what was said.
fn show_growing(global: &Global, known: &mut Option<(String, usize)>, growing: &Value) -> anyhow::Result<()> {
    if global.json {
        return output::json(&json!({"event": Notice::Growing.as_str(), "data": growing}));
    }
    let text = |name: &str| growing[name].as_str().unwrap_or_default();
    let (event, content) = (text("event_id"), text("content"));
    let shown = known.take().filter(|(known, _)| known == event).map_or(0, |(_, shown)| shown);
    let new = content.get(shown..).unwrap_or(content).trim();
    if !new.is_empty() {
        let line = format!("{} is writing: {new}", text("handle"));
        output::talk(output::one_line(&line).dimmed());
    }
    *known = Some((event.to_owned(), content.len()));
    Ok(())
}

async fn expiry(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}
