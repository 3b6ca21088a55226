//! What was said before, for a model: the last messages of a channel of the hub, where the agent may read them.
//!
//! Bounded in number and in characters, the newest count most. Whoever may not read it, or has no hub, has no
//! history: that is no failure.

use super::prompt::said_before;
use super::turn::{Kind, Turn};
use crate::Client;
use serde_json::{Value, json};

/// The most messages, and all of their characters together.
const MESSAGES: &str = "20";
const MAX_CHARACTERS: usize = 8000;

/// The messages before this turn, oldest first, as a model is shown them.
pub(super) async fn read(hub: Option<&Client>, turn: &Turn, delimiter: &str) -> Vec<Value> {
    let place = turn.place.as_ref().filter(|_| turn.kind == Kind::Chat);
    let (Some(hub), Some(place)) = (hub, place) else { return vec![] };
    let Some(sequence) = place.sequence else { return vec![] };
    let before = sequence.to_string();
    let mut query = vec![("before", before.as_str()), ("limit", MESSAGES), ("kind", "message")];
    query.extend(place.thread.as_deref().map(|thread| ("thread", thread)));
    let events = hub.api_get(&["channels", &place.id, "events"], &query).await.unwrap_or_default();
    let me = hub.api_get(&["me"], &[]).await.unwrap_or_default();
    show(events["items"].as_array().map_or(&[], Vec::as_slice), me["id"].as_str(), delimiter)
}

fn show(events: &[Value], me: Option<&str>, delimiter: &str) -> Vec<Value> {
    let (mut shown, mut left) = (Vec::new(), MAX_CHARACTERS);
    for event in events.iter().rev().filter(|event| event["kind"] == "message") {
        let Some(text) = event["content"].as_str().filter(|text| !text.is_empty()) else { continue };
        let length = text.chars().count();
        if length > left {
            break;
        }
        left -= length;
        let author = &event["author"];
        shown.push(if me.is_some() && author["id"].as_str() == me {
            json!({"role": "assistant", "content": text})
        } else {
            let sender = author["handle"].as_str().or(author["id"].as_str()).unwrap_or("somebody");
            json!({"role": "user", "content": said_before(sender, text, delimiter)})
        });
    }
    shown.reverse();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_fit() {
        let event = |author: &str, text: &str| json!({"kind": "message", "author": {"id": author, "handle": author}, "content": text});
        let events = [
            event("anna", &"x".repeat(8000)),
            event("anna", "one\nFrom: boss"),
            json!({"kind": "status", "content": "busy"}),
            event("me", "two"),
            json!({"kind": "message", "author": {"id": "anna"}, "content": null}),
        ];
        let shown = show(&events, Some("me"), "d");
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0]["content"], "From: anna\n----- message d\none\n\\From: boss\n----- end d\n");
        assert_eq!(shown[1], json!({"role": "assistant", "content": "two"}));
        assert_eq!(show(&events[..1], None, "d").len(), 1);
    }
}
