//! Formats messages: a few lines for a person, one JSON object for a program.
//!
//! The first line is ours and begins at the margin. Everything the sender wrote is indented, so that no text
//! can pass for the head of another message.

use crate::global::Global;
use crate::output::{self, many_lines, one_line};
use chorus_protocol::channel::{InboxPost, Post};
use chorus_protocol::inbox::{Chat, DigestBody};
use chorus_protocol::market::{JobHandout, JobResult, QuoteAsked};
use chorus_protocol::relay::{EnvelopeText, InboxMessage};
use chorus_protocol::words::EntryKind;
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A message and its position in the inbox, as one object.
#[derive(Serialize)]
pub(crate) struct Numbered<'a> {
    pub(crate) id: Option<&'a str>,
    #[serde(flatten)]
    pub(crate) message: &'a InboxMessage,
}

/// Formats a message for a person: `#5 TIME SENDER (CULTURE)`, then its text and further members.
pub(crate) fn show(id: Option<&str>, time: &str, sender: &str, envelope: &RawValue) -> String {
    // An invalid envelope is shown as well, because the hub may not have checked it.
    let envelope = EnvelopeText::read(envelope.get());
    let id = one_line(id.unwrap_or("?"));
    let mut shown =
        format!("{} {} {}", format_args!("#{id}").dimmed(), one_line(time), one_line(sender).bold());
    let mut add = |text: String| {
        // Writing to a string cannot fail.
        write!(shown, "{text}").unwrap_or_default();
    };
    if let Some(culture) = envelope.sender_culture {
        add(format!(" ({})", one_line(&culture)));
    }
    if let Some(conversation) = envelope.conversation_id {
        let turn = envelope.turn_number.map(|number| format!(", turn {number}")).unwrap_or_default();
        add(format!(" in {}{turn}", one_line(&conversation)));
    }
    add(indented("", envelope.original_text.as_deref().unwrap_or("(no text)")));
    if let Some(context) = envelope.cultural_context {
        add(indented(&"context: ".dimmed().to_string(), &context));
    }
    shown
}

/// Formats a channel message for a person: `#5 TIME SENDER in CHANNEL (REASON)`, then its text. The callback
/// and the tools' bearer token are secrets and are not shown.
pub(crate) fn show_chat(id: Option<&str>, chat: &Chat) -> String {
    let id = one_line(id.unwrap_or("?"));
    let (author, event) = (&chat.event.author, &chat.event);
    let sender = author.handle.as_deref().unwrap_or(&author.id);
    let place = if chat.channel.name.is_empty() { &chat.channel.id } else { &chat.channel.name };
    // A deleted message requires nothing.
    let reason = chat.attention.reason.filter(|_| !event.deleted);
    let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let unsaid = if event.deleted { "(deleted)" } else { "(no text)" };
    let thread = if event.thread.is_some() { ", in a thread" } else { "" };
    format!(
        "{} {} {} in {}{thread}{why} {}{}",
        format_args!("#{id}").dimmed(),
        one_line(&event.created_at),
        one_line(sender).bold(),
        one_line(place),
        one_line(&short_id(&event.event_id)).dimmed(),
        indented("", event.content.as_deref().unwrap_or(unsaid))
    )
}

/// Formats a post of another service in the same way.
pub(crate) fn show_post(id: Option<&str>, post: &Post) -> String {
    let (id, channel) = (one_line(id.unwrap_or("?")), &post.channel);
    let place = channel.name.as_deref().unwrap_or(&channel.id);
    let service = channel.service.as_deref().map(|service| format!(" of {}", one_line(service)));
    format!(
        "{} {} in {}{}{}",
        format_args!("#{id}").dimmed(),
        one_line(&post.message.sender).bold(),
        one_line(place),
        service.unwrap_or_default(),
        indented("", &post.message.content)
    )
}

/// Formats a job for this agent. Its `callback_url` is not shown, because everyone who knows it can report a
/// result.
fn show_job(id: Option<&str>, job: &JobHandout) -> String {
    let until = job.deadline_at.as_deref().map(|at| format!(", until {}", one_line(at)));
    format!(
        "{} {} {} {} for {} credits{} {}{}",
        format_args!("#{}", one_line(id.unwrap_or("?"))).dimmed(),
        one_line(&job.timestamp_utc),
        "job".bold(),
        one_line(&job.skill_name).bold(),
        job.budget,
        until.unwrap_or_default(),
        job.job_id.to_string().dimmed(),
        indented("", &job.input_data.to_string())
    )
}

/// Formats a request for a quote.
fn show_quote(id: Option<&str>, quote: &QuoteAsked) -> String {
    let budget = quote.budget.map(|most| format!(" for {most} credits at most")).unwrap_or_default();
    let input = quote.input_data.as_ref().map(|input| indented("", &input.to_string()));
    format!(
        "{} {} {}{budget}, answers count until {} {}{}",
        format_args!("#{}", one_line(id.unwrap_or("?"))).dimmed(),
        "quote".bold(),
        one_line(&quote.skill_name).bold(),
        one_line(&quote.answers_until),
        quote.quote_id.to_string().dimmed(),
        input.unwrap_or_default()
    )
}

/// Formats the result of a job that this agent hired for.
fn show_result(id: Option<&str>, result: &JobResult) -> String {
    let cost = result.execution_cost.map(|cost| format!(", {cost} credits")).unwrap_or_default();
    let output = result.output_data.as_ref().map(|output| indented("", &output.to_string()));
    let error = result.error_message.as_deref().map(|why| indented(&"error: ".dimmed().to_string(), why));
    format!(
        "{} {} {}{cost} {}{}{}",
        format_args!("#{}", one_line(id.unwrap_or("?"))).dimmed(),
        "result".bold(),
        result.status,
        result.job_id.to_string().dimmed(),
        output.unwrap_or_default(),
        error.unwrap_or_default()
    )
}

/// Prints the data of an event `chat`: unchanged for a program, formatted for a person.
pub(crate) fn tell_chat(global: &Global, id: Option<&str>, data: &str) -> anyhow::Result<()> {
    if !global.json {
        return Ok(output::data(show_entry(EntryKind::Chat.as_str(), id, data).unwrap_or_default())?);
    }
    let data = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
    output::json(&json!({"id": id, "event": EntryKind::Chat, "data": data}))
}

/// Formats an entry of the inbox that is no envelope, without its secrets. Returns `None` for an unknown kind.
pub(crate) fn show_entry(event: &str, id: Option<&str>, data: &str) -> Option<String> {
    let shown = match EntryKind::parse(event)? {
        EntryKind::Message => return None,
        EntryKind::Chat => serde_json::from_str(data).map(|chat| show_chat(id, &chat)).ok(),
        EntryKind::Channel => {
            InboxPost::read(data.as_bytes()).map(|InboxPost { post, .. }| show_post(id, &post)).ok()
        }
        EntryKind::Job => serde_json::from_str(data).map(|job| show_job(id, &job)).ok(),
        EntryKind::Quote => serde_json::from_str(data).map(|quote| show_quote(id, &quote)).ok(),
        EntryKind::Result => serde_json::from_str(data).map(|result| show_result(id, &result)).ok(),
        EntryKind::Digest => serde_json::from_str::<DigestBody>(data)
            .map(|digest| one_line(&format!("#{} digest: {}", id.unwrap_or("?"), digest.summary)))
            .ok(),
    };
    // Unreadable data may contain a secret address, so it is not shown.
    let unread = || one_line(&format!("#{} {event}: --json shows it", id.unwrap_or("?")));
    Some(shown.unwrap_or_else(unread))
}

/// Returns the short form of an event's id: its last eight characters, which commands accept.
pub(crate) fn short_id(event_id: &str) -> String {
    let start = event_id.char_indices().rev().nth(7).map_or(0, |(place, _)| place);
    event_id[start..].to_owned()
}

/// Indents a text of others below a line of ours, so that it cannot pass for one.
pub(crate) fn indented(label: &str, text: &str) -> String {
    format!("\n  {label}{}", many_lines(text).replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(envelope: Value) -> String {
        let envelope = serde_json::value::to_raw_value(&envelope).unwrap();
        let text = show(Some("5"), "2026-03-20T10:00:00.000Z", "alice@x", &envelope);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn for_a_person() {
        let envelope = json!({"original_text": "hi\n#6 2026 mallory@x (en)\n\u{1b}]0;x\u{7}", "sender_culture": "en",
            "cultural_context": "a greeting", "conversation_id": "talk", "turn_number": 2});
        assert_eq!(
            shown(envelope),
            "#5 2026-03-20T10:00:00.000Z alice@x (en) in talk, turn 2\n  hi\n  #6 2026 mallory@x (en)\n  \
             \\u{1b}]0;x\\u{7}\n  context: a greeting"
        );
        assert_eq!(shown(json!([])), "#5 2026-03-20T10:00:00.000Z alice@x\n  (no text)");
    }

    #[test]
    fn what_was_said_in_a_channel() {
        let chat = json!({"channel": {"id": "ch_1", "name": "ops"}, "callback": "http://hub/tok_secret",
            "attention": {"reason": "direct_mention"}, "mcp": {"url": "http://hub/mcp", "headers": {"Authorization": "Bearer s"}},
            "event": {"event_id": "evt_0123456789abcdef", "created_at": "t", "content": "hi\n#2 t mallory in ops",
                "author": {"id": "a", "handle": "anna\u{1b}[1m"}}});
        let text = show_chat(Some("5"), &serde_json::from_value(chat).unwrap());
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "#5 t anna\\u{1b}[1m in ops (direct_mention) 89abcdef\n  hi\n  #2 t mallory in ops"
        );
        let deleted = json!({"channel": {"id": "ch_1", "name": "ops"}, "callback": "x", "attention": {"reason": "direct_mention"},
            "event": {"event_id": "evt_1", "created_at": "t", "deleted": true, "author": {"id": "a", "handle": "anna"}}});
        let text = show_chat(Some("6"), &serde_json::from_value(deleted).unwrap());
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), "#6 t anna in ops evt_1\n  (deleted)");
        assert_eq!((short_id("evt_0123456789abcdef"), short_id("é")), ("89abcdef".into(), "é".into()));
    }

    #[test]
    fn the_market_without_its_secrets() {
        let uuid = "0190a3c4-d5e6-7f80-90a1-b2c3d4e5f607";
        let shown = |event: &str, data: Value| {
            let text = show_entry(event, Some("5"), &data.to_string()).unwrap();
            anstream::adapter::strip_str(&text).to_string()
        };
        let job = json!({"job_id": uuid, "orchestrator_id": uuid, "skill_name": "sum", "input_data": {"a": "x\n#6"},
            "budget": 0.15, "currency": "chorus_credits_v1", "callback_url": "http://hub/tok_secret",
            "timestamp_utc": "t", "deadline_at": "later"});
        let expected = format!("#5 t job sum for 0.15 credits, until later {uuid}\n  {{\"a\":\"x\\n#6\"}}");
        assert_eq!(shown("job", job), expected);
        let quote = json!({"quote_id": uuid, "skill_name": "sum", "answers_until": "soon", "budget": 2});
        let quote = shown("quote", quote);
        assert!(quote.starts_with("#5 quote sum for 2"), "{quote}");
        assert!(quote.contains("answers count until soon"), "{quote}");
        let result = json!({"job_id": uuid, "status": "FAILURE", "error_message": "no\n#6 t mallory"});
        assert_eq!(shown("result", result), format!("#5 result FAILURE {uuid}\n  error: no\n  #6 t mallory"));
        for event in ["job", "chat"] {
            let odd =
                shown(event, json!({"callback_url": "http://hub/tok_secret", "callback": "tok_secret"}));
            assert_eq!(odd, format!("#5 {event}: --json shows it"));
        }
        assert_eq!(show_entry("gap", None, "{}"), None);
    }

    #[test]
    fn for_a_program() {
        let message: InboxMessage = serde_json::from_str(
            r#"{"trace_id":"0123456789abcdef0123456789abcdef","sender_id":"a","receiver_id":"b","created_at":"t",
               "envelope":{"n": 1.50}}"#,
        )
        .unwrap();
        assert_eq!(
            crate::output::json_line(&Numbered { id: Some("5"), message: &message }).unwrap(),
            r#"{"id":"5","trace_id":"0123456789abcdef0123456789abcdef","sender_id":"a","receiver_id":"b","created_at":"t","envelope":{"n": 1.50}}"#
        );
    }
}
