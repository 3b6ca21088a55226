//! Prints the events of a conversation: its history, and new events as they come.

use super::short_id;
use crate::answer::{or_dash, read};
use crate::failure::{self, Explained, FAILED};
use crate::global::Global;
use crate::output;
use chorus_agent::{ExitClass, InboxItem};
use chorus_protocol::api::Items;
use chorus_protocol::api::events::EventView;
use chorus_protocol::relay::Notice;
use chorus_protocol::words::EventKind;
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The number of characters shown of an answer in progress.
const GROWING: usize = 50;

/// The largest page that the hub returns.
const PAGE: usize = 200;

/// Returns the newest events, newest last.
pub(super) async fn history(
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
            // A cursor that does not move would make an endless list.
            Some(next) if next != before => before = next,
            _ => break,
        }
    }
    Ok(events)
}

pub(super) fn show(global: &Global, event: &Value) -> anyhow::Result<()> {
    if global.json {
        return output::json(event);
    }
    let event: EventView = read(event)?;
    let details = event.details();
    let shown = |text: Option<String>| or_dash(text.as_deref().map(output::one_line));
    let target = or_dash(event.target.as_deref().map(short_id));
    let what = match event.kind.known() {
        Some(EventKind::Message) if event.deleted => "(deleted)".dimmed().to_string(),
        Some(EventKind::Message) => {
            let edited = event.edited_at.as_ref().map(|_| format!(" {}", "(edited)".dimmed()));
            let text = output::many_lines(event.content.as_deref().unwrap_or_default());
            format!("{text}{}", edited.unwrap_or_default())
        }
        Some(EventKind::Edit) => match event.content.as_deref() {
            Some(now) => format!("{} {}", format_args!("edits {target}:").dimmed(), output::many_lines(now)),
            // The message was deleted since.
            None => format!("edits {target}").dimmed().to_string(),
        },
        Some(EventKind::Delete) => format!("takes back {target}").dimmed().to_string(),
        Some(EventKind::Artifact) => {
            let slug = event.more.get("slug").and_then(Value::as_str).map(output::one_line);
            let does =
                if event.more.get("removed") == Some(&Value::Bool(true)) { "removes" } else { "writes" };
            format!("{does} the document {}", or_dash(slug)).dimmed().to_string()
        }
        Some(EventKind::Reaction) => {
            format!("reacts: {}", shown(details.signal.map(|signal| signal.to_string()))).dimmed().to_string()
        }
        Some(EventKind::Lifecycle | EventKind::Status) => {
            format!("is {}", shown(details.status)).dimmed().to_string()
        }
        Some(EventKind::ToolCall) => format!("uses {}", shown(details.name)).dimmed().to_string(),
        Some(EventKind::ToolResult) => {
            let content = event.more.get("content").or_else(|| event.more.get("result"));
            let text =
                content.map(|content| content.as_str().map_or_else(|| content.to_string(), str::to_owned));
            let text = event.content.clone().or(text).unwrap_or_default();
            format!("{} {}", "got:".dimmed(), output::many_lines(&text))
        }
        Some(EventKind::Error) => format!("failed: {}", shown(details.message)).red().to_string(),
        Some(EventKind::Join) => coming(&event, "joined", "added").dimmed().to_string(),
        Some(EventKind::Leave) => coming(&event, "left", "removed").dimmed().to_string(),
        Some(EventKind::Change) => changed(&event).dimmed().to_string(),
        _ => output::one_line(&event.kind.to_string()).dimmed().to_string(),
    };
    let who = or_dash(event.author.handle.as_deref().map(output::one_line));
    let thread = event.thread.as_deref().map(|thread| format!(" (thread {})", short_id(thread)));
    let (time, id) = (output::one_line(&event.created_at), short_id(&event.event_id));
    let head =
        format!("#{} {time} {}{} {}", event.sequence, who.bold(), thread.unwrap_or_default(), id.dimmed());
    // The text is indented, so that it cannot pass for the head of another message.
    Ok(output::data(format_args!("{head}\n  {}\n", what.replace('\n', "\n  ")))?)
}

/// Describes a join or a leave, naming the member if another person did it.
fn coming(event: &EventView, own: &str, other: &str) -> String {
    match member(event) {
        Some(member) if Some(member) != event.author.handle.as_deref() => {
            format!("{other} {}", output::one_line(member))
        }
        _ => own.to_owned(),
    }
}

/// Describes a change of a member or of the conversation.
fn changed(event: &EventView) -> String {
    if let Some(member) = member(event) {
        return format!("changed what {} is here", output::one_line(member));
    }
    match (event.more.get("archived").and_then(Value::as_bool), event.more.contains_key("name")) {
        (Some(true), _) => "archived the channel".to_owned(),
        (Some(false), false) => "opened the channel again".to_owned(),
        _ => "changed the channel".to_owned(),
    }
}

/// Returns the member that a join, a leave or a change is about.
fn member(event: &EventView) -> Option<&str> {
    event.more.get("member")?.get("handle")?.as_str()
}

pub(super) async fn follow(
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
    let mut growing = Growing::default();
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
                growing.clear();
                show(global, &serde_json::from_str(&data)?)?;
            }
            InboxItem::Other { id: None, event, data } if Notice::parse(&event) == Some(Notice::Growing) => {
                growing.show(global, &serde_json::from_str(&data)?)?;
            }
            InboxItem::Other { id: None, event, data }
                if Notice::parse(&event) == Some(Notice::Ephemeral) =>
            {
                growing.clear();
                show_passing(global, &serde_json::from_str(&data)?)?;
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

/// The terminal line that shows an answer in progress. It is overwritten, and cleared before the next output.
#[derive(Default)]
struct Growing {
    shown: bool,
}

impl Growing {
    /// Shows an answer in progress: unchanged to a program; the end of it, on one line, to a person at a
    /// terminal. Without a terminal only the whole message is printed.
    fn show(&mut self, global: &Global, growing: &Value) -> anyhow::Result<()> {
        if global.json {
            return output::json(&json!({"event": Notice::Growing.as_str(), "data": growing}));
        }
        if std::io::stderr().is_terminal() {
            let text = |name: &str| growing[name].as_str().unwrap_or_default();
            self.clear();
            output::unended(growing_line(text("handle"), text("content")).dimmed());
            self.shown = true;
        }
        Ok(())
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            output::unended("\r\u{1b}[K");
        }
    }
}

/// Formats an answer in progress to fit a line of most terminals.
fn growing_line(who: &str, content: &str) -> String {
    let line = output::one_line(&content.split_whitespace().collect::<Vec<_>>().join(" "));
    let cut = line.char_indices().rev().nth(GROWING - 1).map_or(0, |(place, _)| place);
    let dots = if cut > 0 { "…" } else { "" };
    format!("{} is writing: {dots}{}", output::one_line(who), &line[cut..])
}

/// Shows an ephemeral message: unchanged to a program; to a person on standard error.
fn show_passing(global: &Global, passing: &Value) -> anyhow::Result<()> {
    if global.json {
        return output::json(&json!({"event": Notice::Ephemeral.as_str(), "data": passing}));
    }
    let who = passing["author"]["handle"].as_str().unwrap_or_default();
    let line = format!("{who}, only now: {}", passing["content"].as_str().unwrap_or_default());
    output::talk(output::one_line(&line).dimmed());
    Ok(())
}

async fn expiry(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_grows_is_one_line() {
        assert_eq!(growing_line("bob", "The\n  weather"), "bob is writing: The weather");
        let long = growing_line("bob\u{1b}", &format!("{}end", "字".repeat(60)));
        assert_eq!(long, format!("bob\\u{{1b}} is writing: …{}end", "字".repeat(47)));
    }
}
