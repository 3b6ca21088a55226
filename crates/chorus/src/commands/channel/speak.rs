//! Messages in a channel, from the terminal: sending, editing, deleting and reacting.
//!
//! A message is given by its id, by the end of it, or by its number `#4`, as shown by `history`.

use super::log::history;
use super::{done, find, short_id, without_nulls};
use crate::answer::{joined, tell};
use crate::commands::send::read_text;
use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use anyhow::bail;
use chorus_agent::{Client, Method};
use chorus_protocol::api::Items;
use chorus_protocol::api::events::EventView;
use chorus_protocol::api::messages::{Decision, Held, Preview, Said, Shown};
use chorus_protocol::attention::Classification;
use chorus_protocol::ids::EventId;
use chorus_protocol::words::Mode;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// The number of events that are searched for a short id.
const RECENT: usize = 1000;

/// The labels for mentions without effect.
const NOBODY: &str = "nobody here is called";
const TOO_MANY: &str = "left out, being mentioned after the first 50";

/// Send a message; @handle wakes an agent
#[derive(clap::Args)]
pub(super) struct Say {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
    /// The message, in Markdown; several words need no quotes, and - reads standard input
    #[arg(required = true)]
    text: Vec<String>,
    /// Send it to the thread of this message
    #[arg(long, value_name = "EVENT")]
    thread: Option<String>,
    /// Send it as a reply to this message
    #[arg(long, value_name = "EVENT")]
    reply_to: Option<String>,
    /// Address it to this member; may be repeated
    #[arg(long = "to", value_name = "HANDLE")]
    to: Vec<String>,
    /// Hold it until a person of the channel approves it (`chorus approvals`)
    #[arg(long)]
    requires_approval: bool,
    /// Show it only to those who are watching now, and store it nowhere
    #[arg(long, conflicts_with = "requires_approval")]
    ephemeral: bool,
    /// Send nothing; show who would be woken
    #[arg(long)]
    dry_run: bool,
}

impl Say {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let channel = find(global, self.channel).await?;
        let content = words(&self.text)?;
        let thread = whole_id_if(global, &channel, self.thread).await?;
        let reply_to = whole_id_if(global, &channel, self.reply_to).await?;
        let mut body =
            without_nulls(json!({"content": content, "thread": thread, "reply_to": reply_to, "to": self.to}));
        for (name, wanted) in [("requires_approval", self.requires_approval), ("ephemeral", self.ephemeral)] {
            if wanted {
                body[name] = json!(true);
            }
        }
        let query: &[_] = if self.dry_run { &[("dry_run", "true")] } else { &[] };
        let path = ["channels", &channel, "messages"];
        let said = client.api_write(Method::POST, &path, query, Some(&body)).await?;
        match self.dry_run {
            true => tell(global, &said, preview_lines),
            false if self.requires_approval => tell(global, &said, |held: Held| {
                format!("held until a person agrees, until {}: {}", held.expires_at, held.approval)
            }),
            false if self.ephemeral => tell(global, &said, |_: Shown| "shown to who looks now".to_owned()),
            false => tell(global, &said, said_line),
        }
    }
}

/// Edit a message of yours
#[derive(clap::Args)]
pub(super) struct Edit {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
    /// The message: its id, the end of it, or its #number, as shown by `history`
    event: String,
    /// The new text; several words need no quotes, and - reads standard input
    #[arg(required = true)]
    text: Vec<String>,
}

impl Edit {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let channel = find(global, self.channel).await?;
        let event = whole_id(global, &channel, self.event).await?;
        let body = json!({"content": words(&self.text)?});
        let path = ["channels", &channel, "messages", &event];
        let edited: Value = client.api_write(Method::PATCH, &path, &[], Some(&body)).await?;
        if edited["status"] == "held" {
            return tell(global, &edited, |held: Held| {
                format!("held until a person agrees, until {}: {}", held.expires_at, held.approval)
            });
        }
        done(global, &edited, &format!("edited {}", short_id(&event)))
    }
}

/// Deletes a message.
pub(super) async fn delete(
    global: &Global,
    client: &Client,
    channel: String,
    event: String,
) -> anyhow::Result<()> {
    let channel = find(global, channel).await?;
    let event = whole_id(global, &channel, event).await?;
    let path = ["channels", &channel, "messages", &event];
    client.api_write::<IgnoredAny>(Method::DELETE, &path, &[], None).await?;
    done(global, &json!({"event_id": event, "deleted": true}), &format!("deleted {}", short_id(&event)))
}

/// React to a message with a signal, which wakes nobody
#[derive(clap::Args)]
pub(super) struct React {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
    /// The message: its id, the end of it, or its #number, as shown by `history`
    event: String,
    /// The signal
    #[arg(value_parser = ["seen", "agree", "working", "queued", "claimed", "done", "declined", "blocked", "unclear", "stop"])]
    signal: String,
    /// The time of the next update, in words
    #[arg(long, value_name = "TEXT")]
    eta: Option<String>,
}

impl React {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let channel = find(global, self.channel).await?;
        let event = whole_id(global, &channel, self.event).await?;
        let body = without_nulls(json!({"signal": self.signal, "eta": self.eta}));
        let path = ["channels", &channel, "messages", &event, "reactions"];
        let reacted: Value = client.api_write(Method::POST, &path, &[], Some(&body)).await?;
        done(global, &reacted, &format!("{} on {}", self.signal, short_id(&event)))
    }
}

/// Returns the text to send: the words, or standard input.
pub(crate) fn words(text: &[String]) -> anyhow::Result<String> {
    let said = if text == ["-"] { read_text(std::io::stdin().lock())? } else { text.join(" ") };
    if said.trim().is_empty() {
        return Err(Explained::usage(
            "there is nothing to say",
            "say it in words, or on standard input after -",
        )
        .into());
    }
    Ok(said)
}

/// Returns the whole id of an event given by its end.
pub(crate) async fn whole_id(global: &Global, channel: &str, named: String) -> anyhow::Result<String> {
    if EventId::parse(&named).is_some() {
        return Ok(named);
    }
    if let Some(number) = named.strip_prefix('#') {
        return at_place(global, channel, number).await;
    }
    let recent = history(global, channel, RECENT, None, true).await?;
    let ids = recent.iter().rev().filter_map(|event| event["event_id"].as_str());
    let fits = |id: &&str| named.len() >= 4 && id.ends_with(&named);
    match (ids.clone().find(fits), ids.filter(fits).nth(1)) {
        (Some(id), None) => Ok(id.to_owned()),
        (None, _) => {
            bail!("none of the last {RECENT} events ends with {named:?}; `chorus channel history` shows ids")
        }
        (Some(_), Some(_)) => bail!("several events end with {named:?}; give more of the id"),
    }
}

/// Returns the id of the event with this sequence number.
async fn at_place(global: &Global, channel: &str, number: &str) -> anyhow::Result<String> {
    let Some(before) = number.parse::<u32>().ok().and_then(|number| number.checked_sub(1)) else {
        bail!("#{number} is no place in a conversation; `chorus channel history` shows them");
    };
    let query = [("after", &*before.to_string()), ("limit", "1")];
    let page: Items<EventView> =
        global.keyed_client()?.api_get(&["channels", channel, "events"], &query).await?;
    match page.items.into_iter().find(|event| event.sequence == i64::from(before) + 1) {
        Some(event) => Ok(event.event_id),
        None => bail!(
            "there is no #{number} in this channel that you may read; `chorus channel history` shows them"
        ),
    }
}

pub(super) async fn whole_id_if(
    global: &Global,
    channel: &str,
    named: Option<String>,
) -> anyhow::Result<Option<String>> {
    match named {
        Some(named) => whole_id(global, channel, named).await.map(Some),
        None => Ok(None),
    }
}

/// Describes a sent message: the members it reaches, and those it does not.
fn said_line(said: Said) -> String {
    let mut line = format!("#{} {}; woken: {}", said.sequence, said.event_id, joined(&said.attention.woken));
    let others = said.attention.stored_count - said.attention.stored_for.len() as i64;
    let mut stored = said.attention.stored_for;
    if others > 0 {
        stored.push(format!("and {others} more"));
    }
    for (what, names) in [
        ("told that there is something", &said.attention.knocked),
        ("only stored for", &stored),
        (NOBODY, &said.unknown),
        (TOO_MANY, &said.left_out),
        ("masked", &said.masked),
    ] {
        if !names.is_empty() {
            line = format!("{line}; {what}: {}", joined(names));
        }
    }
    output::one_line(&line)
}

fn preview_lines(Preview { classification, attention, held, unknown, left_out }: Preview) -> String {
    let line = |one: &Decision| {
        let what = match one.mode {
            Mode::Immediate | Mode::Buffered => "would be woken",
            Mode::Notify => "would be told that there is something",
            Mode::ToolMailbox | Mode::Digest | Mode::Silent => "would find it when it looks",
        };
        format!("{} {what}: {}", output::one_line(&one.handle), one.reason)
    };
    let mut lines: Vec<_> = attention.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("nobody would be woken".into());
    } else {
        let Classification { intent, confidence, layer } = classification;
        lines.push(format!("taken for: {intent} (confidence {confidence}, by {layer})"));
    }
    if held {
        lines.insert(0, "it would wait until a person agrees; then, as it is now:".into());
    }
    for (what, names) in [(NOBODY, unknown), (TOO_MANY, left_out)] {
        if !names.is_empty() {
            lines.push(output::one_line(&format!("{what}: {}", joined(&names))));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_it_reaches_and_whom_not() {
        let said = json!({"event_id": "evt_0190a3c4d5e67f8090a1b2c3d4e5f607", "sequence": 3,
            "attention": {"woken": ["bob"], "knocked": ["carol"], "stored_for": ["dave"], "stored_count": 25},
            "masked": ["agent key"], "unknown": ["bbo\u{1b}"], "left_out": ["zoe"]});
        assert_eq!(
            said_line(serde_json::from_value(said).unwrap()),
            "#3 evt_0190a3c4d5e67f8090a1b2c3d4e5f607; woken: bob; told that there is something: carol; only stored for: \
             dave,and 24 more; nobody here is called: bbo\\u{1b}; left out, being mentioned after the first 50: zoe; masked: \
             agent key"
        );
    }
}
