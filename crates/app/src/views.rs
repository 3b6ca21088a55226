//! Conversations and their events as the API renders them, the same at every door.
//!
//! The log is append-only. An edited or deleted message is rendered in its current state, with its history of
//! changes.

use chorus_protocol::api::channels::ConversationView;
pub use chorus_protocol::api::events::EventView;
use chorus_protocol::api::events::{AuthorView, ReactionView};
use chorus_protocol::api::members::MemberView;
use chorus_protocol::c2a::Glyphs;
use chorus_protocol::ids::{EventId, Principal};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{EventKind, PrincipalKind};
use chorus_store::chats::EscalatedMessage;
use chorus_store::conversations::{Conversation, Event};
use chorus_store::members::Member;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Renders a conversation for its members.
pub fn conversation(conversation: &Conversation) -> ConversationView {
    ConversationView {
        id: conversation.id.to_string(),
        kind: conversation.kind.into(),
        name: conversation.name.to_string(),
        context: conversation.context.as_deref().map(str::to_owned),
        owner: conversation.owner.into(),
        history: conversation.history.into(),
        created_at: rfc3339(conversation.created_at),
        archived: conversation.archived_at.is_some(),
        keep_days: conversation.keep_days,
        loop_guard: conversation.loop_turns,
        longest_task_ms: conversation.longest_task_ms,
        glyphs: glyphs(conversation),
        oldest: Some(conversation.oldest).filter(|oldest| *oldest > 1),
    }
}

/// Returns the conversation's own glyphs for signals, or `None` for the defaults.
pub fn glyphs(conversation: &Conversation) -> Option<Glyphs> {
    conversation.glyphs.as_deref().and_then(read_glyphs)
}

/// Parses stored glyphs. Anything but a map of glyphs is ignored.
pub fn read_glyphs(kept: &str) -> Option<Glyphs> {
    serde_json::from_str(kept).ok()
}

/// Renders a member for the others.
pub fn member(member: Member) -> MemberView {
    MemberView {
        id: member.principal.to_string(),
        kind: member.principal.kind().into(),
        handle: member.handle,
        roles: member.roles,
        lead: member.lead,
        joined_at: rfc3339(member.joined_at),
    }
}

/// Renders an author with its handle in the conversation.
pub fn author(who: Principal, handle: Option<String>) -> AuthorView {
    AuthorView { id: who.to_string(), kind: who.kind().into(), handle }
}

/// The member that names the person who approved a text. An edit has its own, or none.
pub(crate) const APPROVED_BY: &str = "approved_by";

/// The members that every event has. The details of a kind may not use these names.
const NAMES: [&str; 13] = [
    "event_id",
    "sequence",
    "kind",
    "author",
    "thread",
    "reply_to",
    "target",
    "created_at",
    "edited_at",
    "deleted",
    "reactions",
    "replies",
    "trace_id",
];

/// Renders an event as it was first said.
pub fn event(event: &Event) -> EventView {
    let mut more = match serde_json::from_str(&event.body) {
        Ok(Value::Object(body)) => body,
        // Only objects are ever stored.
        _ => Map::new(),
    };
    more.retain(|name, _| !NAMES.contains(&&**name));
    let content = match more.remove("content") {
        Some(Value::String(content)) => Some(content),
        _ => None,
    };
    let target = event.target.map(|id| id.to_string());
    let (reply_to, target) = if event.kind == EventKind::Message { (target, None) } else { (None, target) };
    EventView {
        event_id: event.id.to_string(),
        sequence: event.seq,
        kind: event.kind.into(),
        author: author_of(event),
        content,
        thread: event.thread.map(|id| id.to_string()),
        reply_to,
        target,
        created_at: rfc3339(event.created_at),
        edited_at: None,
        deleted: false,
        reactions: vec![],
        replies: None,
        trace_id: event.trace.to_string(),
        more,
    }
}

/// Returns the author. The hub is the author of an escalation, whoever asked.
fn author_of(event: &Event) -> AuthorView {
    if event.kind == EventKind::Escalation {
        let system = PrincipalKind::System;
        return AuthorView { id: system.to_string(), kind: system.into(), handle: None };
    }
    author(event.author, event.handle.clone())
}

/// Renders the message that another event is about, in its current state.
pub fn about(about: &EscalatedMessage) -> EventView {
    events(std::slice::from_ref(&about.event), &about.changes, &[]).remove(0)
}

/// Renders events in their current state: with later changes applied, and the number of replies in their
/// threads.
pub fn events(events: &[Event], changes: &[Event], replies: &[(EventId, i64)]) -> Vec<EventView> {
    let mut views: Vec<_> = events.iter().map(event).collect();
    let places: HashMap<_, _> = events.iter().enumerate().map(|(place, event)| (event.id, place)).collect();
    let mut reactions: HashMap<(usize, String), Vec<String>> = HashMap::new();
    for change in changes {
        let Some(&place) = change.target.as_ref().and_then(|target| places.get(target)) else { continue };
        let mut new = event(change);
        match change.kind {
            EventKind::Edit if !views[place].deleted => {
                views[place].content = new.content;
                match new.more.remove(APPROVED_BY) {
                    Some(by) => views[place].more.insert(APPROVED_BY.to_owned(), by),
                    None => views[place].more.remove(APPROVED_BY),
                };
                views[place].edited_at = Some(new.created_at);
            }
            EventKind::Delete => {
                views[place].content = None;
                views[place].deleted = true;
                views[place].more = Map::new();
            }
            EventKind::Reaction => {
                let Some(Value::String(signal)) = new.more.remove("signal") else { continue };
                let by = change.handle.clone().unwrap_or_else(|| change.author.to_string());
                let all = reactions.entry((place, signal)).or_default();
                all.retain(|other| *other != by);
                if new.more.get("removed") != Some(&json!(true)) {
                    all.push(by);
                }
            }
            _ => {}
        }
    }
    let mut reactions: Vec<_> = reactions.into_iter().filter(|(_, by)| !by.is_empty()).collect();
    reactions.sort();
    for ((place, signal), by) in reactions {
        views[place].reactions.push(ReactionView { signal, by });
    }
    for (thread, count) in replies {
        if let Some(&place) = places.get(thread) {
            views[place].replies = Some(*count);
        }
    }
    // An edit is shown until the next edit or the deletion of its message.
    let over = |edit: &Event, change: &Event| {
        let newer = change.kind == EventKind::Edit && change.seq > edit.seq;
        change.target == edit.target && (newer || change.kind == EventKind::Delete)
    };
    for (view, event) in views.iter_mut().zip(events).filter(|(_, event)| event.kind == EventKind::Edit) {
        if changes.iter().any(|change| over(event, change)) {
            view.content = None;
        }
    }
    views
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::{AgentId, ConversationId, TraceId};
    use uuid::Uuid;

    fn event(n: u128, kind: &str, target: Option<u128>, body: &Value) -> Event {
        Event {
            id: EventId(Uuid::from_u128(n)),
            conversation: ConversationId(Uuid::nil()),
            seq: n as i64,
            kind: EventKind::parse(kind).unwrap(),
            author: AgentId(Uuid::from_u128(n % 2)).into(),
            handle: Some(format!("h{}", n % 2)),
            trace: TraceId(Uuid::nil()),
            created_at: 0,
            thread: None,
            target: target.map(|n| EventId(Uuid::from_u128(n))),
            body: body.to_string(),
        }
    }

    #[test]
    fn a_message_is_shown_as_it_stands() {
        let said = [event(1, "message", None, &json!({"content": "one", "intent": "chat"}))];
        let seen = |changes: &[Event]| events(&said, changes, &[]).remove(0);
        assert_eq!(seen(&[]).content.as_deref(), Some("one"));
        let edit = event(2, "edit", Some(1), &json!({"content": "two"}));
        assert_eq!(seen(std::slice::from_ref(&edit)).content.as_deref(), Some("two"));
        let delete = event(3, "delete", Some(1), &json!({}));
        let gone = seen(&[edit, delete]);
        assert!(gone.deleted && gone.content.is_none() && gone.more.is_empty());
    }

    #[test]
    fn an_approval_is_of_one_version() {
        let said = [event(1, "message", None, &json!({"content": "one", "approved_by": {"handle": "anna"}}))];
        let approver = |changes: &[Event]| {
            let view = events(&said, changes, &[]).remove(0);
            view.more.get("approved_by").map(|by| by["handle"].as_str().unwrap().to_owned())
        };
        assert_eq!(approver(&[]).as_deref(), Some("anna"));
        assert_eq!(approver(&[event(2, "edit", Some(1), &json!({"content": "two"}))]), None);
        let agreed = json!({"content": "two", "approved_by": {"handle": "ben"}});
        assert_eq!(approver(&[event(2, "edit", Some(1), &agreed)]).as_deref(), Some("ben"));
    }

    #[test]
    fn an_edit_says_no_more_than_its_message() {
        let edit = |n, text| event(n, "edit", Some(1), &json!({"content": text}));
        let log = [edit(2, "two"), edit(3, "three")];
        let seen = |changes: &[Event]| -> Vec<_> {
            events(&log, changes, &[]).into_iter().map(|view| view.content).collect()
        };
        assert_eq!(seen(&log[1..]), [None, Some("three".into())]);
        assert_eq!(seen(&[log[1].clone(), event(4, "delete", Some(1), &json!({}))]), [None, None]);
        assert_eq!(seen(&[event(9, "edit", Some(1), &json!({}))]), [None, None]);
    }

    #[test]
    fn a_body_adds_no_second_member_of_a_name() {
        let odd = event(1, "status", None, &json!({"kind": "x", "author": "y", "status": "thinking"}));
        let view = serde_json::to_string(&super::event(&odd)).unwrap();
        assert_eq!(view.matches("\"kind\":").count(), 2, "its own and its author's: {view}");
        assert!(view.contains("thinking"));
    }

    #[test]
    fn reactions_are_gathered_and_taken_back() {
        let said = [event(1, "message", None, &json!({"content": "one"}))];
        let react = |n, signal, removed| {
            event(n, "reaction", Some(1), &json!({"signal": signal, "removed": removed}))
        };
        let all = [
            react(2, "seen", false),
            react(3, "seen", false),
            react(4, "seen", false),
            react(5, "done", false),
        ];
        let view = events(&said, &all, &[]).remove(0);
        let seen = ReactionView { signal: "seen".into(), by: vec!["h1".into(), "h0".into()] };
        let done = ReactionView { signal: "done".into(), by: vec!["h1".into()] };
        assert_eq!(view.reactions, [done, seen]);
        let view = events(&said, &[react(2, "seen", false), react(4, "seen", true)], &[]).remove(0);
        assert_eq!(view.reactions, []);
    }
}
