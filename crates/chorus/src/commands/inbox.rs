//! `chorus inbox`: follows the inbox, or reads its history.
//!
//! Following survives lost connections. A hub that was never reached is a failure, because the address is most
//! likely wrong. Messages go to standard output, everything about the connection to standard error.

use crate::failure::{self, Explained, FAILED};
use crate::global::Global;
use crate::{message, output};
use chorus_agent::{Client, ClientError, ExitClass, Inbox, InboxItem};
use chorus_protocol::relay::{InboxMessage, Notice};
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const EXAMPLES: &str = "\
Examples:
  chorus inbox                                      listen until Ctrl-C
  chorus inbox --count 1 --timeout 60               wait a minute for one message
  chorus inbox --after 41                           begin after the message 41
  chorus inbox --after 0                            begin with the oldest that is kept
  chorus inbox --history --limit 20                 read the first twenty messages
  chorus inbox --count 1 --json | jq -r '.data.event.content // empty'   said in a channel
  chorus inbox --json | jq -r '.envelope.original_text // empty'";

/// The number of messages in one request of the history.
const PAGE: u32 = 100;

/// Follow an agent's inbox: print envelopes and channel messages as they come.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Begin after the message with this id, 0 for all [default: the first that no listener has received]
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Read the history, oldest first, and end
    #[arg(long, conflicts_with_all = ["count", "timeout"])]
    history: bool,
    /// With --history: the maximum number of messages
    #[arg(long, value_name = "N", requires = "history")]
    limit: Option<u64>,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this many seconds; a failure if --count messages did not come
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    timeout: Option<u64>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.agent_client()?;
    if args.history {
        return history(global, &args, &client).await;
    }
    let mut inbox = client.inbox(args.after.as_deref())?;
    if let Some(count) = args.count {
        inbox = inbox.with_limit(count);
    }
    let code = follow(global, &args, &mut inbox).await?;
    if let Some(id) = inbox.last_id().filter(|id| Some(*id) != args.after.as_deref()) {
        output::talk(format_args!("\nto go on from here: chorus inbox --after {}", output::one_line(id)));
    }
    Ok(code)
}

async fn follow(global: &Global, args: &Args, inbox: &mut Inbox) -> anyhow::Result<ExitCode> {
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let end = args.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut reached = false;
    let mut count = 0;
    while args.count != Some(count) {
        let item = tokio::select! {
            item = inbox.next() => item,
            listening = &mut interrupt => {
                listening?;
                return Ok(ExitCode::SUCCESS);
            }
            () = expiry(end) => {
                let Some(wanted) = args.count else { return Ok(ExitCode::SUCCESS) };
                output::talk(format_args!("time is up: {count} of {wanted} came"));
                return Ok(ExitCode::from(FAILED));
            }
        };
        let Some(item) = item.transpose()? else { break };
        match item {
            InboxItem::Connected { agent_id } => {
                reached = true;
                let whose = agent_id.map_or_else(|| "the inbox".into(), |id| output::one_line(&id));
                output::talk(format_args!("listening to {whose}; Ctrl-C ends").dimmed());
            }
            InboxItem::Message { id, message } => {
                count += 1;
                let id = id.as_deref();
                if global.json {
                    output::json(&message::Numbered { id, message: &message })?;
                } else {
                    let InboxMessage { created_at, sender_id, envelope, reply_stream, .. } = &message;
                    output::data(message::show(id, created_at, sender_id, envelope))?;
                    if let Some(listens) = reply_stream {
                        // This is printed because it is the credential for one answer.
                        output::data(format_args!(
                            "  {} {}",
                            "reply to:".dimmed(),
                            output::one_line(listens)
                        ))?;
                    }
                }
            }
            InboxItem::Other { event, data, .. } if Notice::parse(&event) == Some(Notice::Revoked) => {
                return Err(revoked(&data).into());
            }
            InboxItem::Other { event, id, data } => {
                // Every entry with a position in the inbox counts as a message.
                count += u64::from(id.is_some());
                other(global, &event, id.as_deref(), &data)?;
            }
            InboxItem::Gap(gap) => other(global, Notice::Gap.as_str(), None, &json!(gap).to_string())?,
            InboxItem::Malformed { id, what } => {
                let (id, what) = (output::one_line(id.as_deref().unwrap_or("?")), output::one_line(&what));
                output::talk(format_args!("{}: event {id} is skipped: {what}", "warning".yellow()));
            }
            InboxItem::Reconnecting { why, .. } if !reached && why.exit_class() == ExitClass::Unreachable => {
                return Err(why.into());
            }
            InboxItem::Reconnecting { in_ms, why } => {
                let why = failure::sentence(&why);
                output::talk(format_args!("{why}; trying again in {:.1} s", in_ms as f64 / 1000.0).dimmed());
            }
            InboxItem::Takeover => {
                let what = "another listener opened this inbox and took it over";
                let hint = "an inbox has one listener: give each program an agent of its own";
                return Err(Explained::failed(what, hint).into());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the hub's reason for ending the stream.
fn revoked(data: &str) -> Explained {
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let why = data["reason"].as_str().unwrap_or("the key is not valid any more");
    let hint = "the newest key of the agent opens it: each `chorus register NAME` makes the old one useless";
    Explained::refused(format!("the hub ended this inbox: {}", output::one_line(why)), hint)
}

async fn expiry(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

fn place(id: Option<&str>) -> String {
    id.map(|id| format!("#{id} ")).unwrap_or_default()
}

/// Prints an event that is no envelope: unchanged for programs, in short for people.
fn other(global: &Global, event: &str, id: Option<&str>, data: &str) -> anyhow::Result<()> {
    if !global.json {
        let id_first = || output::one_line(&format!("{}{event} {data}", place(id)));
        output::data(message::show_entry(event, id, data).unwrap_or_else(id_first))?;
        return Ok(());
    }
    // Data that is not JSON is printed as a text.
    let data = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
    output::json(&json!({"id": id, "event": event, "data": data}))
}

async fn history(global: &Global, args: &Args, client: &Client) -> anyhow::Result<ExitCode> {
    let mut after = args.after.clone();
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = client.messages(after.as_deref(), limit).await?;
        for stored in page.messages.iter().take(limit as usize) {
            if global.json {
                output::json(stored)?;
            } else {
                let (id, time) = (Some(stored.id.as_str()), &stored.created_at);
                match (&stored.envelope, &stored.data) {
                    (Some(envelope), _) => {
                        let sender = stored.sender_id.as_deref().unwrap_or("?");
                        output::data(message::show(id, time, sender, envelope))?;
                    }
                    (None, data) => {
                        let data = data.as_ref().map_or("", |data| data.get());
                        other(global, &stored.kind.to_string(), id, data)?;
                    }
                }
            }
        }
        left = left.saturating_sub(page.messages.len() as u64);
        // A cursor that does not move would make an endless list.
        if page.next.is_some() && (page.next == after || page.messages.is_empty()) {
            return Err(ClientError::Protocol("the hub's history does not come to an end".into()).into());
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}
