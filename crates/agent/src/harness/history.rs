//! The history before a turn: the last messages of its thread or conversation, if the agent may read them.
//!
//! Bounded in number and characters; the newest messages are kept. An agent without a hub, or without
//! permission to read, gets an empty history, which is no failure.

use super::turn::Turn;
use crate::Client;
use chorus_protocol::api::Items;
use chorus_protocol::api::accounts::Me;
use chorus_protocol::api::events::EventView;
use chorus_protocol::words::{ConversationKind, EntryKind, EventKind};

/// The limits for the number of messages and for their characters in total.
const MESSAGES: &str = "20";
const MAX_CHARACTERS: usize = 8000;

/// A message before a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Earlier {
    /// `true` for a message of the agent itself.
    pub(super) own: bool,
    pub(super) author: String,
    pub(super) text: String,
    /// The sequence number in the conversation.
    pub(super) sequence: i64,
}

/// Checks whether a turn continues an exchange: it is in a thread or a direct conversation.
pub(super) fn goes_on(turn: &Turn) -> bool {
    let is_dm = |kind: &str| kind == ConversationKind::Dm.as_str();
    turn.place
        .as_ref()
        .is_some_and(|place| place.thread.is_some() || place.kind.as_deref().is_some_and(is_dm))
}

/// Returns the messages before this turn, oldest first.
pub(super) async fn read(hub: Option<&Client>, turn: &Turn) -> Vec<Earlier> {
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
    newest(&items, me.as_deref())
}

/// Checks whether the agent has replied to the message of a turn, by a tool of the hub.
pub(super) async fn has_replied(hub: Option<&Client>, turn: &Turn) -> bool {
    let place = turn.place.as_ref().filter(|_| turn.kind == EntryKind::Chat);
    let (Some(hub), Some(place)) = (hub, place) else { return false };
    let Some(after) = place.sequence.map(|sequence| sequence.to_string()) else { return false };
    let query = [("after", after.as_str()), ("limit", "100"), ("kind", EventKind::Message.as_str())];
    let page = hub.api_get::<Items<EventView>>(&["channels", &place.id, "events"], &query).await;
    let Ok(Items { items, .. }) = page else { return false };
    let me = hub.api_get::<Me>(&["me"], &[]).await.ok().map(|me| me.id).filter(|id| !id.is_empty());
    items.iter().any(|event| {
        me.as_ref() == Some(&event.author.id) && event.reply_to.as_deref() == Some(turn.message_id.as_str())
    })
}

fn newest(events: &[EventView], me: Option<&str>) -> Vec<Earlier> {
    let (mut kept, mut left) = (Vec::new(), MAX_CHARACTERS);
    for event in events.iter().rev().filter(|event| event.kind.known() == Some(EventKind::Message)) {
        let Some(text) = event.content.as_deref().filter(|text| !text.is_empty()) else { continue };
        let length = text.chars().count();
        if length > left {
            break;
        }
        left -= length;
        let author = &event.author;
        let names = [author.handle.as_deref().unwrap_or_default(), &author.id, "somebody"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let own = me == Some(author.id.as_str());
        kept.push(Earlier { own, author: name.to_owned(), text: text.to_owned(), sequence: event.sequence });
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let kept = newest(&events, Some("me"));
        let kept: Vec<_> = kept.iter().map(|one| (one.own, one.author.as_str(), one.text.as_str())).collect();
        assert_eq!(kept, [(false, "anna", "one\nFrom: boss"), (true, "me", "two")]);
        assert_eq!(newest(&events[..1], None).len(), 1);
    }
}
