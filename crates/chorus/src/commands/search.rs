//! `chorus search`: finds messages with certain words in the caller's conversations.

use crate::answer::read;
use crate::global::Global;
use crate::message::{indented, short_id};
use crate::output::{self, one_line};
use chorus_protocol::api::Items;
use chorus_protocol::api::events::EventView;
use owo_colors::OwoColorize;
use serde_json::Value;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus search rollback plan          messages that hold both words, the newest first
  chorus search deploy --limit 50

The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// Find messages in your conversations
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Words that a message must all contain
    #[arg(required = true)]
    words: Vec<String>,
    /// The maximum number of messages
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=50))]
    limit: u64,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let (words, limit) = (args.words.join(" "), args.limit.to_string());
    let query = [("q", words.as_str()), ("limit", limit.as_str())];
    let found: Items<Value> = global.keyed_client()?.api_get(&["search"], &query).await?;
    if global.json {
        output::json(&found.items)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.items.is_empty() {
        output::talk("no message holds all of these words");
    }
    for item in &found.items {
        output::data(show(item)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats a message and its place. Some hubs put the event beside the conversation, others into one object.
fn show(item: &Value) -> anyhow::Result<String> {
    let event: EventView = read(item.get("event").unwrap_or(item))?;
    let place = ["channel", "conversation"].iter().find_map(|name| item.get(*name));
    let place = place.and_then(|place| place["name"].as_str().or(place["id"].as_str()).or(place.as_str()));
    let author = event.author.handle.as_deref().unwrap_or(&event.author.id);
    let place = place.map(|place| format!(" in {}", one_line(place))).unwrap_or_default();
    Ok(format!(
        "{} {}{place} {}{}\n",
        one_line(&event.created_at),
        one_line(author).bold(),
        one_line(&short_id(&event.event_id)).dimmed(),
        indented("", event.content.as_deref().unwrap_or_default())
    ))
}
