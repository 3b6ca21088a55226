//! What was said before, for a model: the last messages of a channel of the hub, where the agent may read them.
//!
//! Bounded in number and in characters, the newest count most. Whoever may not read it, or has no hub, has no
//! history: that is no failure.

use super::prompt::said_before;
use super::turn::Turn;
use crate::Client;
use chorus_protocol::api::Items;
use chorus_protocol::api::accounts::Me;
use chorus_protocol::api::events::EventView;
use chorus_protocol::words::{EntryKind, EventKind};
use serde_json::{Value, json};

/// The most messages, and all of their characters together.
const MESSAGES: &str = "20";
const MAX_CHARACTERS: usize = 8000;

/// The messages before this turn, oldest first, as a model is shown them.
pub(super) async fn read(hub: Option<&Client>, turn: &Turn, delimiter: &str) -> Vec<Value> {
    let place = turn.place.as_ref().filter(|_| turn.kind == EntryKind::Chat);
    let (Some(hub), Some(place)) = (hub, place) else { return vec![] };
    let Some(sequence) = place.sequence else { return vec![] };
    let before = sequence.to_string();
    let mut query =
        vec![("before", before.as_str()), ("limit", MESSAGES), ("kind", EventKind::Message.as_str())];
    query.extend(place.thread.as_deref().map(|thread| ("thread", thread)));
    let page = hub.api_get::<Items<EventView>>(&["channels", &place.id, "events"], &query).await;
    let Ok(Items { items, .. }) = page else { return vec![] };
    let me = hub.api_get::<Me>(&["me"], &[]).await.ok().map(|me| me.id).filter(|id| !id.is_empty());
    show(&items, me.as_deref(), delimiter)
}

fn show(events: &[EventView], me: Option<&str>, delimiter: &str) -> Vec<Value> {
    let (mut shown, mut left) = (Vec::new(), MAX_CHARACTERS);
    for event in events.iter().rev().filter(|event| event.kind.known() == Some(EventKind::Message)) {
        let Some(text) = event.content.as_deref().filter(|text| !text.is_empty()) else { continue };
        let length = text.chars().count();
        if length > left {
            break;
        }
        left -= length;
        let author = &event.author;
        shown.push(if me == Some(author.id.as_str()) {
            json!({"role": "assistant", "content": text})
        } else {
            let names = [author.handle.as_deref().unwrap_or_default(), &author.id, "somebody"];
            let sender = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
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
        let events = events.map(|event| serde_json::from_value(event).unwrap());
        let shown = show(&events, Some("me"), "d");
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0]["content"], "author: anna\n----- message d\none\n\\From: boss\n----- end d\n");
        assert_eq!(shown[1], json!({"role": "assistant", "content": "two"}));
        assert_eq!(show(&events[..1], None, "d").len(), 1);
    }
}
