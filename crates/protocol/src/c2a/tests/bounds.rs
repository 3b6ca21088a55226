//! Limits: messages with too long texts and too many items are rejected.

use super::document::{DELIVER, notify, parsed};
use super::*;
use crate::ids::{AgentId, ConversationId, EventId};
use crate::words::{ConversationKind, WireConversationKind};
use uuid::Uuid;

fn send() -> Value {
    json!({"name": "chat.send_message", "arguments": {"target": {"conversationId": "C1", "threadId": "T1"}, "inReplyTo": "evt_1",
        "idempotencyKey": "k", "visibility": "thread", "directedness": "to_other", "text": "done", "intent": "status",
        "priority": "low", "deadlineMs": 1000, "requiresApproval": true}})
}

#[test]
fn deliveries_are_bounded() {
    let text = |length: usize| json!([{"type": "text", "text": "字".repeat(length)}]);
    let parts = |count: usize| json!(vec![json!({"type": "text", "text": "x"}); count]);
    let mentions = |count: usize| json!(vec!["agent:a"; count]);
    for (path, good, bad, fault) in [
        (
            "content",
            text(100_000),
            text(100_001),
            "content[0].text: must be at most 100000 characters, not 100001",
        ),
        ("content", text(0), json!([]), "content: must be an array of 1 to 100 items, not of 0"),
        ("content", parts(100), parts(101), "content: must be an array of 1 to 100 items, not of 101"),
        (
            "content",
            parts(1),
            json!([{"type": "image", "text": "x"}]),
            "content[0].type: must be one of text",
        ),
        (
            "target.mentions",
            mentions(100),
            mentions(101),
            "target.mentions: must be an array of at most 100 items, not of 101",
        ),
        (
            "target.mentions",
            json!(null),
            json!([""]),
            "target.mentions[0]: must be 1 to 256 characters, not 0",
        ),
        (
            "eventId",
            json!("e".repeat(256)),
            json!("e".repeat(257)),
            "eventId: must be 1 to 256 characters, not 257",
        ),
        ("eventId", json!("字"), json!(7), "eventId: must be a string, not a number"),
        (
            "author.displayName",
            json!("n".repeat(256)),
            json!("n".repeat(257)),
            "author.displayName: must be at most 256",
        ),
        ("author.kind", json!("system"), json!("robot"), "author.kind: must be one of human, agent, system"),
        ("reliability.attempt", json!(2), json!(0), "reliability.attempt: must be an integer of 1 or more"),
        (
            "timing.createdAt",
            json!("2026-06-02T19:10:00.123+02:00"),
            json!("yesterday"),
            "timing.createdAt: must be an RFC 3339 time",
        ),
        (
            "timing.createdAt",
            json!(null),
            json!("2026-13-02T19:10:00Z"),
            "timing.createdAt: must be an RFC 3339 time",
        ),
        ("timing.createdAt", json!(null), json!("2026-02-30T19:10:00Z"), "body: there is no such time"),
        (
            "attention.deadlineMs",
            json!(0),
            json!(-1),
            "attention.deadlineMs: must be an integer of 0 or more",
        ),
        (
            "conversation.kind",
            json!("tool"),
            json!("room"),
            "conversation.kind: must be one of dm, channel, thread, system, tool",
        ),
    ] {
        Delivery::read(with(parsed(DELIVER), path, good)).unwrap_or_else(|faults| panic!("{path}: {faults}"));
        let faults = Delivery::read(with(parsed(DELIVER), path, bad)).unwrap_err().to_string();
        assert!(faults.starts_with(fault), "{faults}");
    }
    let long = Delivery::read(with(notify(), "knock.topic", "t".repeat(257))).unwrap_err().to_string();
    assert_eq!(long, "knock.topic: must be at most 256 characters, not 257");
    let other = Delivery::read(with(notify(), "knock.pullWith", "chat_read_thread")).unwrap_err().to_string();
    assert!(other.starts_with("knock.pullWith: must be one of chat.list_events"), "{other}");
}

#[test]
fn sends_are_whole_and_bounded() {
    assert_eq!(call_again(send()).unwrap(), send());
    for path in ["target", "target.conversationId", "idempotencyKey", "visibility", "directedness", "text"] {
        let faults = call_again(with(send(), &format!("arguments.{path}"), Value::Null)).unwrap_err();
        assert_eq!(faults.to_string(), format!("{path}: is required"));
    }
    for path in ["target.threadId", "inReplyTo", "intent", "priority", "deadlineMs", "requiresApproval"] {
        call_again(with(send(), &format!("arguments.{path}"), Value::Null)).unwrap();
    }
    for (path, bad, fault) in [
        ("text", json!(""), "text: must be 1 to 100000 characters, not 0"),
        ("text", json!("x".repeat(100_001)), "text: must be 1 to 100000 characters, not 100001"),
        ("idempotencyKey", json!("k".repeat(256)), "idempotencyKey: must be 1 to 255 characters, not 256"),
        ("visibility", json!("all"), "visibility: must be one of dm, thread, channel, ephemeral"),
        ("deadlineMs", json!(999), "deadlineMs: must be an integer from 1000 to 86400000"),
    ] {
        let faults = call_again(with(send(), &format!("arguments.{path}"), bad)).unwrap_err();
        assert_eq!(faults.to_string(), fault);
    }
}

#[test]
fn calls_have_defaults_and_limits() {
    let call = |name: &str, arguments: Value| call_again(json!({"name": name, "arguments": arguments}));
    let arguments = |name: &str, given: Value| call(name, given).unwrap()["arguments"].clone();
    let fault = |name: &str, given: Value| call(name, given).unwrap_err().to_string();
    assert_eq!(arguments("chat.list_events", json!({})), json!({"limit": 50}));
    assert_eq!(arguments("chat.list_events", Value::Null), json!({"limit": 50}));
    assert_eq!(
        arguments("chat.claim", json!({"eventId": "e"})),
        json!({"eventId": "e", "ttlMs": CLAIM_TTL_MS})
    );
    for ttl in [10_000, 86_400_000] {
        assert_eq!(arguments("chat.claim", json!({"eventId": "e", "ttlMs": ttl}))["ttlMs"], ttl);
    }
    for ttl in [9_999, 86_400_001] {
        let faults = fault("chat.claim", json!({"eventId": "e", "ttlMs": ttl}));
        assert_eq!(faults, "ttlMs: must be an integer from 10000 to 86400000");
    }
    assert_eq!(arguments("chat.claim", json!({"eventId": "e", "release": true}))["release"], true);
    assert_eq!(
        fault(
            "chat.list_events",
            json!({"limit": 201, "policy": "must", "since": "now", "until": 1, "after": ""})
        ),
        "after: must be 1 to 256 characters, not 0; limit: must be an integer from 1 to 200; \
         policy: must be one of must_respond, may_respond, ack_only, must_not_respond; \
         since: must be an RFC 3339 time such as 2026-06-02T19:10:00Z; until: must be a string, not a number"
    );
    assert_eq!(
        fault("chat.read_thread", json!({"limit": 0})),
        "conversationId: is required; limit: must be an integer from 1 to 200"
    );
    assert_eq!(
        fault("chat.react", json!({"signal": "wow"})),
        "inReplyTo: is required; signal: must be one of seen, agree, working, queued, claimed, done, declined, blocked, unclear, stop"
    );
    assert_eq!(fault("chat.defer", json!({"eventId": "e"})), "reason: is required");
    assert_eq!(
        fault("chat.defer", json!({"eventId": "e", "reason": ""})),
        "reason: must be 1 to 1000 characters, not 0"
    );
    assert_eq!(fault("chat.resolve", json!({})), "eventId: is required");
    assert_eq!(fault("chat.shout", json!({})), "name: there is no chat tool of this name");
}

#[test]
fn a_tools_name_says_how_its_arguments_are_spelled() {
    for tool in ChatTool::ALL {
        assert_eq!(ChatTool::named(tool.as_str()), Some((*tool, Spelling::Camel)));
        assert_eq!(ChatTool::named(&tool.underscored()), Some((*tool, Spelling::Snake)));
        let bare = tool.as_str().replace("chat.", "");
        assert_eq!(ChatTool::named(&bare), Some((*tool, Spelling::Snake)));
    }
    for unknown in ["", "chat.", "chat_", "chat.chat_claim", "chat_chat_claim", "Chat.claim", "chat.Claim"] {
        assert_eq!(ChatTool::named(unknown), None, "{unknown}");
    }
    let claim = json!({"name": "chat_claim", "arguments": {"event_id": "e", "ttl_ms": 5}});
    assert_eq!(
        call_again(claim).unwrap_err().to_string(),
        "ttl_ms: must be an integer from 10000 to 86400000"
    );
}

#[test]
fn notices_are_bounded() {
    let ids = |count: usize| json!({"eventIds": vec!["e"; count], "turnId": "t"});
    assert!(again::<Injected>(ids(1000)).is_ok());
    assert!(again::<Injected>(ids(1001)).is_err() && again::<Injected>(ids(0)).is_err());
    let disposed = json!({"eventId": "e", "disposition": "gone", "reason": "r".repeat(1001)});
    assert_eq!(
        again::<Disposed>(disposed).unwrap_err().to_string(),
        "disposition: must be one of responded, acknowledged, deferred, claimed, ignored, superseded, failed; \
         reason: must be at most 1000 characters, not 1001"
    );
    for (id, good) in
        [(json!("a"), true), (json!(7), true), (json!(""), false), (json!(1.5), false), (json!([]), false)]
    {
        assert_eq!(again::<Cancelled>(json!({"requestId": id})).is_ok(), good, "{id}");
    }
    let log =
        |data: Value| schema::read::<LogMessage>(json!({"level": "info", "data": data})).unwrap().text();
    assert_eq!((log(json!("said")), log(json!({"a": 1}))), ("said".into(), r#"{"a":1}"#.into()));
    assert_eq!(log(json!("字".repeat(20_000))).chars().count(), 10_000);
}

#[test]
fn what_we_write_is_ours() {
    let uuid = Uuid::from_u128(0xa3b8_d1b6_0b3b_4b1a_9c1a_1a2b_3c4d_5e6f);
    let (event, agent, channel) = (EventId(uuid), AgentId(uuid), ConversationId(uuid));
    assert_eq!(
        IdempotencyKey::of_delivery(event, agent).0,
        "evt_a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f:a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f"
    );
    assert_eq!((WireId::from(event).event(), WireId::from(channel).event()), (Some(event), None));
    assert_eq!(WireId::from(channel).conversation(), Some(channel));
    for (kind, thread, expected) in [
        (ConversationKind::Dm, None, WireConversationKind::Dm),
        (ConversationKind::Channel, None, WireConversationKind::Channel),
        (ConversationKind::Dm, Some(event), WireConversationKind::Thread),
        (ConversationKind::Channel, Some(event), WireConversationKind::Thread),
    ] {
        let conversation = Conversation::new(channel, kind, thread);
        assert_eq!((conversation.kind, conversation.thread_id), (expected, thread.map(Into::into)));
    }
    assert_eq!(json!(Source::hub("h.example")), json!({"platform": "chorus", "workspaceId": "h.example"}));
    assert_eq!(json!(Time::at(1_774_000_800_000)), json!("2026-03-20T10:00:00.000Z"));
    let named = [Addressee::agent("a"), Addressee::human("b"), Addressee::role("c"), Addressee("U1".into())];
    assert_eq!(json!(named), json!(["agent:a", "human:b", "role:c", "U1"]));
    assert_eq!(named.each_ref().map(Addressee::handle), ["a", "b", "c", "U1"]);
    let methods: Vec<_> = Method::ALL.iter().map(|method| method.as_str()).collect();
    assert_eq!(
        methods,
        [
            "initialize",
            "chat/deliver",
            "tools/list",
            "tools/call",
            "notifications/injected",
            "notifications/disposition",
            "notifications/progress",
            "notifications/cancelled",
            "notifications/typing",
            "notifications/message"
        ]
    );
}

#[test]
fn refusals_have_codes() {
    let offered = Refusal::offered_to_other(29_000);
    assert!(offered.code.is_retryable());
    assert_eq!(
        json!(offered),
        json!({"code": "offered_to_other", "retryAfterMs": 29_000,
            "message": "this is offered to another agent first; ask again in 29000 ms"})
    );
    let forbidden = Refusal::new(RefusalCode::PolicyForbidden, "no answer is wanted");
    assert!(!forbidden.code.is_retryable());
    assert_eq!(json!(forbidden), json!({"code": "policy_forbidden", "message": "no answer is wanted"}));
    let codes: Vec<_> = RefusalCode::ALL.iter().map(|code| code.as_str()).collect();
    for code in ["policy_forbidden", "claimed_by_other", "offered_to_other", "not_a_member"] {
        assert!(codes.contains(&code), "{code}");
    }
}

#[test]
fn a_tools_result_is_its_own_or_a_refusal() {
    let event = json!({"eventId": "e", "conversation": {"kind": "dm"}, "target": {"directedness": "to_me"},
        "attention": {"policy": "may_respond"}, "content": [{"type": "text", "text": "x"}]});
    let claimed = json!({"eventId": "e", "state": "held", "holder": "agent:a", "event": event});
    let claimed: Claimed = schema::read(claimed).unwrap();
    let done = ToolResult::done(&claimed).unwrap();
    assert_eq!(again::<ToolResult>(json!(done)).unwrap(), json!(done));
    assert_eq!(done.clone().outcome::<Claimed>(), Ok(claimed));
    let unreadable = done.outcome::<EventPage>().unwrap_err().to_string();
    assert_eq!(unreadable, "the tool's result cannot be read: events: is required");

    let refusal = Refusal::offered_to_other(5);
    let refused = ToolResult::refused(&refusal).unwrap();
    assert_eq!(json!(refused)["isError"], true);
    assert_eq!(refused.outcome::<Claimed>(), Err(ToolFailure::Refused(refusal)));
    let long: Event = schema::read(with(event.clone(), "content[0].text", "x".repeat(100_000))).unwrap();
    let page = EventPage { events: vec![long; 200], next: None, more: true, left_out: 0 };
    let done: ToolResult = schema::read(json!(ToolResult::done(&page).unwrap())).unwrap();
    assert!(done.to_text().len() > 20_000_000);
    assert_eq!(done.outcome(), Ok(page));
    let foreign = json!({"isError": true, "content": [{"type": "image", "data": ""}, {"type": "text", "text": "no"}, {"type": "text", "text": "way"}]});
    let foreign: ToolResult = schema::read(foreign).unwrap();
    assert_eq!(foreign.outcome::<Claimed>(), Err(ToolFailure::Failed("no\n\nway".into())));
    // Faults are found at any depth.
    let page = json!({"events": [event, with(event.clone(), "target.directedness", "up"), with(event.clone(), "content", Value::Null)]});
    assert_eq!(
        again::<EventPage>(page).unwrap_err().to_string(),
        "events[1].target.directedness: must be one of to_me, to_my_role, to_other, ambient; events[2].content: is required"
    );
}
