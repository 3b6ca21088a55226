//! Tests of the rendering of log stretches.

use super::*;
use serde_json::json;

fn view() -> View {
    View {
        roster: Arc::default(),
        me: "acc_1".into(),
        my_handle: "anna".into(),
        read: None,
        attended: HashMap::new(),
        begins: HashMap::new(),
        past: false,
    }
}

fn event(seq: i64, kind: &str, author: &str, more: Value) -> EventView {
    let mut event = json!({"event_id": format!("evt_{seq}"), "sequence": seq, "kind": kind,
        "created_at": format!("2026-03-20T10:00:{:02}.000Z", seq % 60),
        "author": {"id": author, "kind": if author == "acc_1" { "account" } else { "agent" }, "handle": author}});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(event).unwrap()
}

fn kinds(items: &[Item]) -> Vec<&'static str> {
    let kind = |item: &Item| match item {
        Item::Day(_) => "day",
        Item::New => "new",
        Item::Message(_) => "message",
        Item::Tools(_) => "tools",
        Item::Line(_) => "line",
    };
    items.iter().map(kind).collect()
}

#[test]
fn one_line_for_the_tools_of_a_turn() {
    let events = [
        event(1, "message", "acc_1", json!({"content": "@a look"})),
        event(2, "lifecycle", "a", json!({"status": "processing"})),
        event(3, "tool_call", "a", json!({"name": "read", "id": "1", "args": {"x": 1}})),
        event(4, "tool_call", "b", json!({"name": "find", "id": "1"})),
        event(5, "tool_result", "a", json!({"id": "1", "content": "42"})),
        event(6, "message", "a", json!({"content": "done"})),
        event(7, "tool_call", "a", json!({"name": "again", "id": "2"})),
        event(8, "error", "a", json!({"message": "504"})),
    ];
    let items = items(&events, &view());
    assert_eq!(kinds(&items), ["day", "message", "tools", "tools", "message", "tools"]);
    let (Item::Tools(first), Item::Tools(last)) = (&items[2], &items[5]) else { panic!() };
    assert_eq!((first.from, first.to, first.calls.len(), first.took().as_str()), (2, 5, 1, "4.0 s"));
    assert_eq!(first.calls[0].result.as_deref(), Some("42"));
    assert_eq!((last.fault.as_deref(), last.running), (Some("504"), false));
}

#[test]
fn messages_of_one_author_stand_together_and_what_is_new_is_marked() {
    let events = [
        event(1, "message", "a", json!({"content": "one"})),
        event(2, "message", "a", json!({"content": "two"})),
        event(3, "message", "acc_1", json!({"content": "mine"})),
        event(4, "reaction", "a", json!({"signal": "seen", "target": "evt_3"})),
        event(5, "message", "a", json!({"content": "new", "thread": "evt_1"})),
    ];
    let found = items(&events, &View { read: Some(2), ..view() });
    assert_eq!(kinds(&found), ["day", "message", "message", "message", "new", "message"]);
    let (Item::Message(second), Item::Message(last)) = (&found[2], &found[5]) else { panic!() };
    assert!(second.follows && !last.follows);
    assert_eq!(last.of_thread.as_deref(), Some("one"));
}

#[test]
fn comings_in_a_row_are_one_line() {
    let joined = |seq, who: &str| event(seq, "join", "acc_1", json!({"member": {"handle": who}}));
    let found = items(&[joined(1, "acc_1"), joined(2, "a"), joined(3, "b")], &view());
    let lines: Vec<_> = found
        .iter()
        .filter_map(|item| if let Item::Line(line) = item { Some(&*line.words) } else { None })
        .collect();
    assert_eq!(lines, ["joined", "added a, b"]);
}

/// A message ends its turn, and a turn without tools is hidden.
#[test]
fn a_message_ends_a_turn() {
    let events = [
        event(1, "lifecycle", "a", json!({"status": "processing"})),
        event(2, "tool_call", "a", json!({"name": "read", "id": "1"})),
        event(3, "message", "a", json!({"content": "done"})),
        event(4, "lifecycle", "a", json!({"status": "idle"})),
        event(5, "lifecycle", "b", json!({"status": "processing"})),
        event(6, "message", "b", json!({"content": "yes"})),
        event(7, "lifecycle", "c", json!({"status": "processing"})),
    ];
    let found = items(&events, &view());
    assert_eq!(kinds(&found), ["day", "tools", "message", "message", "tools"]);
    let running: Vec<_> = found
        .iter()
        .filter_map(|item| if let Item::Tools(turn) = item { Some(turn.running) } else { None })
        .collect();
    assert_eq!(running, [false, true]);
}

#[test]
fn what_is_taken_back_cannot_be_edited() {
    let gone = event(1, "message", "acc_1", json!({"deleted": true}));
    let said = event(2, "message", "acc_1", json!({"content": "x"}));
    let found = items(&[gone, said], &view());
    let sources: Vec<_> =
        found
            .iter()
            .filter_map(|item| {
                if let Item::Message(message) = item { Some(message.source.as_deref()) } else { None }
            })
            .collect();
    assert_eq!(sources, [None, Some("x")]);
}

/// A turn without an end in a past stretch does not count as running.
#[test]
fn nobody_is_at_work_in_the_past() {
    let events = [
        event(1, "tool_call", "a", json!({"name": "read", "id": "1"})),
        event(2, "lifecycle", "b", json!({"status": "processing"})),
    ];
    let past = items(&events, &View { past: true, ..view() });
    assert_eq!(kinds(&past), ["day", "tools"]);
    assert!(matches!(&past[1], Item::Tools(turn) if !turn.running));
    assert_eq!(kinds(&items(&events, &view())), ["day", "tools", "tools"]);
}

#[test]
fn a_turn_that_is_not_shown_parts_no_thread() {
    let events = [
        event(1, "message", "acc_1", json!({"content": "root"})),
        event(2, "message", "acc_1", json!({"content": "in it", "thread": "evt_1"})),
        event(3, "lifecycle", "a", json!({"status": "processing"})),
        event(4, "message", "a", json!({"content": "too", "thread": "evt_1"})),
    ];
    let found = items(&events, &view());
    let of: Vec<_> = found
        .iter()
        .filter_map(
            |item| if let Item::Message(message) = item { Some(message.of_thread.as_deref()) } else { None },
        )
        .collect();
    assert_eq!(of, [None, Some("root"), None]);
}

/// A thread that began before the stretch is named if its beginning was looked up.
#[test]
fn a_thread_from_before_is_named() {
    let events = [event(9, "message", "acc_2", json!({"content": "later", "thread": "evt_0"}))];
    let named = |view: &View| match &items(&events, view)[1] {
        Item::Message(message) => message.of_thread.clone(),
        _ => None,
    };
    assert_eq!(named(&view()).as_deref(), Some("an earlier message"));
    let known = View { begins: HashMap::from([("evt_0".to_owned(), "the plan".to_owned())]), ..view() };
    assert_eq!(named(&known).as_deref(), Some("the plan"));
}

#[test]
fn an_excerpt_loses_marks_and_no_words() {
    for (text, expected) in [
        ("fix issue #42 in C# > now", "fix issue #42 in C# > now"),
        ("## Plan\n> said **so** with `code`", "Plan said so with code"),
        ("#release 2 * 3", "#release 2 * 3"),
        ("see [the plan](https://a.example/x) and [b](c)", "see the plan and b"),
        ("no [link](here", "no [link](here"),
    ] {
        assert_eq!(excerpt(text), expected);
    }
    assert_eq!(excerpt(&"x".repeat(200)).chars().count(), 81);
}
