//! `chorus channel set`: changes the settings of a channel; the others stay unchanged.

use super::find;
use crate::answer::{or_dash, tell};
use crate::global::Global;
use crate::output::one_line;
use chorus_agent::{Client, Method};
use chorus_protocol::api::channels::ChangedConversation;
use chorus_protocol::words::Signal;
use clap::ArgGroup;
use serde_json::{Map, Value, json};

/// Change a channel of yours: its name, purpose, retention, loop guard, longest task and glyphs
#[derive(clap::Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true)
    .args(["name", "context", "history", "keep_days", "loop_guard", "longest_task", "glyphs", "usual_glyphs"]))]
pub(super) struct Set {
    /// The channel's id, or its name if only one of yours has it
    channel: String,
    /// The channel's name
    #[arg(long)]
    name: Option<String>,
    /// Its purpose; an empty text removes it
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// The history that members may read: all of it, or from when they joined
    #[arg(long, value_parser = ["all", "joined"])]
    history: Option<String>,
    /// The retention of messages in days; 0 uses the hub's default
    #[arg(long, value_name = "N")]
    keep_days: Option<u32>,
    /// The number of turns without a person after which agents no longer wake each other, or `off`
    #[arg(long, value_name = "N|off", value_parser = turns)]
    loop_guard: Option<u32>,
    /// The minutes for which an agent's progress moves the deadline of a request; 0 uses the default of 240
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(..=10_080))]
    longest_task: Option<u32>,
    /// The glyph of a signal, such as done=🎉; the others use their default. Can be given several times
    #[arg(long = "glyph", value_name = "SIGNAL=GLYPH", value_parser = glyph, conflicts_with = "usual_glyphs")]
    glyphs: Vec<(Signal, String)>,
    /// Use the default glyphs for all signals
    #[arg(long)]
    usual_glyphs: bool,
}

/// Parses a number of turns. The hub uses 0 for no limit.
fn turns(text: &str) -> Result<u32, String> {
    match text {
        "off" => Ok(0),
        text => text
            .parse()
            .ok()
            .filter(|turns| *turns > 0)
            .ok_or_else(|| "must be a number from 1, or off".into()),
    }
}

fn glyph(text: &str) -> Result<(Signal, String), String> {
    let (signal, glyph) = text.split_once('=').ok_or("must be SIGNAL=GLYPH")?;
    let known = || Signal::ALL.iter().map(|signal| signal.as_str()).collect::<Vec<_>>().join(", ");
    let signal = Signal::parse(signal).ok_or_else(|| format!("a signal is one of {}", known()))?;
    Ok((signal, glyph.to_owned()))
}

impl Set {
    pub(super) async fn run(self, global: &Global, client: &Client) -> anyhow::Result<()> {
        let id = find(global, self.channel).await?;
        let mut body = Map::new();
        let mut say =
            |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
        say("name", self.name.map(Value::from));
        say("context", self.context.map(Value::from));
        say("history", self.history.map(Value::from));
        say("keep_days", self.keep_days.map(Value::from));
        say("loop_guard", self.loop_guard.map(Value::from));
        say("longest_task_ms", self.longest_task.map(|minutes| (u64::from(minutes) * 60_000).into()));
        if self.usual_glyphs || !self.glyphs.is_empty() {
            let glyphs =
                self.glyphs.into_iter().map(|(signal, glyph)| (signal.as_str().to_owned(), json!(glyph)));
            say("glyphs", Some(Value::Object(glyphs.collect())));
        }
        let body = Value::Object(body);
        let changed = client.api_write(Method::PATCH, &["channels", &id], &[], Some(&body)).await?;
        tell(global, &changed, |ChangedConversation { conversation: now, .. }| {
            let kept =
                now.keep_days.map_or_else(|| "as long as the hub does".into(), |days| format!("{days} days"));
            one_line(&format!(
                "{}: for {}; members read {}; kept {kept}",
                now.name,
                or_dash(now.context.filter(|text| !text.is_empty())),
                now.history
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_said_of_loops_and_glyphs() {
        for (text, expected) in [("off", Ok(0)), ("20", Ok(20)), ("0", Err(())), ("many", Err(()))] {
            assert_eq!(turns(text).map_err(drop), expected, "{text}");
        }
        assert_eq!(glyph("done=🎉"), Ok((Signal::Done, "🎉".to_owned())));
        for text in ["done", "finished=🎉"] {
            assert!(glyph(text).is_err(), "{text}");
        }
    }
}
