//! Round trips of every example in the protocol document.

use super::*;

const INITIALIZE: &str = r#"{
    "protocolVersion": "2026-06-02",
    "clientInfo": {
      "name": "pear-chat-adapter",
      "version": "0.1.0"
    },
    "capabilities": {
      "delivery": {
        "ack": true,
        "redelivery": true,
        "idempotency": true
      },
      "injection": {
        "immediate": true,
        "buffered": true,
        "notify": true,
        "tool_mailbox": true,
        "digest": true,
        "interrupt": false
      },
      "chatTools": {
        "readThread": true,
        "sendMessage": true,
        "react": true,
        "reactionSignals": true,
        "claim": true,
        "defer": true,
        "resolve": true
      },
      "utilities": {
        "progress": true,
        "cancellation": true,
        "logging": true
      }
    }
  }"#;

pub(super) const DELIVER: &str = r#"{
    "eventId": "evt_123",
    "source": {
      "platform": "slack",
      "workspaceId": "T123"
    },
    "conversation": {
      "id": "C123",
      "kind": "dm",
      "streamId": "stream_backend-migration",
      "threadId": "1748890000.000100"
    },
    "author": {
      "id": "U123",
      "kind": "human",
      "displayName": "Will"
    },
    "target": {
      "mentions": ["agent:lead"],
      "recipient": "agent:lead",
      "directedness": "to_me"
    },
    "content": [
      {
        "type": "text",
        "text": "Can you check whether the deploy is blocked?"
      }
    ],
    "timing": {
      "createdAt": "2026-06-02T19:10:00Z",
      "sequence": 42
    },
    "attention": {
      "policy": "must_respond",
      "reason": "direct_message",
      "priority": "normal",
      "deadlineMs": 300000
    },
    "injection": {
      "mode": "buffered",
      "context": "thread_window",
      "role": "user"
    },
    "reliability": {
      "attempt": 1,
      "idempotencyKey": "evt_123:agent_lead"
    }
  }"#;

const NOTIFY: &str = r#"{
  "injection": { "mode": "notify" },
  "knock": {
    "from": "agent:worker-3",
    "where": "thread:deploy-migration",
    "directedness": "to_my_role",
    "policy": "may_respond",
    "priority": "normal",
    "topic": "question about the rollback step",
    "pullWith": "chat.read_thread"
  }
}"#;

const REACT: &str = r#"{
  "name": "chat.react",
  "arguments": {
    "inReplyTo": "evt_123",
    "signal": "queued",
    "eta": "after the deploy completes"
  }
}"#;

const TOOLS: &str = r#"[
  {
    "name": "chat.list_events",
    "description": "List chat events available to this session, filtered by stream, conversation, policy, or time."
  },
  {
    "name": "chat.read_thread",
    "description": "Read a thread or conversation window."
  },
  {
    "name": "chat.send_message",
    "description": "Send an idempotent chat message."
  },
  {
    "name": "chat.react",
    "description": "Send a typed reaction signal as a zero-turn disposition."
  },
  {
    "name": "chat.claim",
    "description": "Claim responsibility for responding to a channel event or thread."
  },
  {
    "name": "chat.defer",
    "description": "Record that a must-respond event is deferred with a reason."
  },
  {
    "name": "chat.resolve",
    "description": "Mark an event, thread, or assignment resolved."
  }
]"#;

const CANCELLED: &str = r#"{
    "requestId": "deliver-456",
    "reason": "Message was edited before response"
  }"#;

const PROGRESS: &str = r#"{
    "progressToken": "deploy-check-1",
    "progress": 2,
    "total": 5,
    "message": "Checked build status"
  }"#;

/// An example, its round trip, and the paths of its required members.
type Example = (Value, fn(Value) -> Result<Value, Faults>, &'static str);

pub(super) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns a whole delivery with a knock. The document shows only the members specific to a knock.
pub(super) fn notify() -> Value {
    let (mut whole, part) = (parsed(DELIVER), parsed(NOTIFY));
    whole.as_object_mut().unwrap().remove("content");
    whole.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
    whole
}

fn examples() -> Vec<Example> {
    vec![
        (
            parsed(INITIALIZE),
            again::<Initialize>,
            "protocolVersion clientInfo clientInfo.name clientInfo.version",
        ),
        (
            parsed(DELIVER),
            delivery_again,
            "eventId source.platform conversation conversation.kind target target.directedness content content[0].type \
             content[0].text attention attention.policy injection injection.mode reliability reliability.idempotencyKey",
        ),
        (
            notify(),
            delivery_again,
            "eventId conversation.kind target.directedness attention.policy injection.mode reliability.idempotencyKey knock \
             knock.from knock.where knock.directedness knock.policy knock.priority knock.topic knock.pullWith",
        ),
        (parsed(REACT), call_again, "name"),
        (parsed(REACT)["arguments"].clone(), again::<React>, "inReplyTo signal"),
        (json!({"tools": parsed(TOOLS)}), again::<ToolList>, "tools tools[0].name tools[6].description"),
        (parsed(CANCELLED), again::<Cancelled>, "requestId"),
        (parsed(PROGRESS), again::<Progress>, "progressToken progress"),
        // Extensions of the document.
        (
            json!({"protocolVersion": "2026-06-02", "serverInfo": {"name": "chorus", "version": "0.1.0"},
                "capabilities": Capabilities::ALL, "glyphs": Glyphs::default(),
                "resume": {"lastAckedEventId": "evt_123"}}),
            again::<InitializeResult>,
            "protocolVersion capabilities serverInfo.name",
        ),
        (json!({"status": "accepted"}), again::<Accepted>, "status"),
        (json!({"eventIds": ["evt_1", "evt_2"], "turnId": "t"}), again::<Injected>, "eventIds turnId"),
        (
            json!({"eventId": "evt_1", "disposition": "ignored", "reason": "not mine"}),
            again::<Disposed>,
            "eventId disposition",
        ),
        (
            json!({"conversationId": "C1", "threadId": "T1", "author": "human:will"}),
            again::<Typing>,
            "conversationId",
        ),
        (
            json!({"level": "warning", "logger": "turn", "data": {"tries": [1, 2.5]}}),
            again::<LogMessage>,
            "level data",
        ),
    ]
}

/// Adds an unknown member to every object.
fn sprinkle(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(sprinkle);
            members.insert("novelty".into(), json!({"x": [1]}));
        }
        Value::Array(items) => items.iter_mut().for_each(sprinkle),
        _ => {}
    }
}

#[test]
fn examples_are_written_as_they_were_read() {
    for (example, again, _) in examples() {
        assert_eq!(again(example.clone()).unwrap(), example);
    }
}

#[test]
fn what_is_missing_is_named() {
    for (example, again, required) in examples() {
        for path in required.split_whitespace() {
            // `null` counts as absent.
            let faults = again(with(example.clone(), path, Value::Null)).unwrap_err().to_string();
            assert!(faults.starts_with(&format!("{path}: is required")), "{path}: {faults}");
        }
    }
}

#[test]
fn what_nobody_knows_is_ignored() {
    for (example, again, _) in examples() {
        // The data of a log message may hold any member.
        if example.get("data").is_none() {
            let mut more = example.clone();
            sprinkle(&mut more);
            assert_eq!(again(more).unwrap(), example);
        }
    }
}

#[test]
fn the_examples_mean_what_they_say() {
    let delivery = Delivery::read(parsed(DELIVER)).unwrap();
    assert_eq!(delivery.mode(), crate::words::Mode::Buffered);
    assert_eq!(delivery.content().unwrap().to_text(), "Can you check whether the deploy is blocked?");
    assert_eq!(delivery.header.target.recipient.unwrap().handle(), "lead");
    assert_eq!(delivery.header.timing.unwrap().created_at.unwrap().ms(), 1_780_427_400_000);
    assert_eq!(delivery.header.event_id.event(), None, "another host's id is none of ours");

    let knock = Delivery::read(notify()).unwrap();
    assert_eq!((knock.mode(), knock.content()), (crate::words::Mode::Notify, None));

    let tools: Vec<ToolInfo> = serde_json::from_str(TOOLS).unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let ours: Vec<_> = ChatTool::ALL.iter().map(|tool| tool.as_str()).collect();
    assert_eq!(names, ours);
}

#[test]
fn content_and_knock_exclude_each_other() {
    let content = || parsed(DELIVER)["content"].clone();
    let knock = || notify()["knock"].clone();
    let fault = |value| Delivery::read(value).unwrap_err().to_string();
    let mut both = notify();
    both["content"] = content();
    assert_eq!(fault(both), "content: must not be there if injection.mode is notify");
    let none = with(notify(), "knock", Value::Null);
    assert_eq!(fault(none), "knock: is required if injection.mode is notify");
    for mode in ["immediate", "buffered", "tool_mailbox", "digest", "silent"] {
        let silent = with(with(parsed(DELIVER), "content", Value::Null), "injection.mode", mode);
        assert_eq!(fault(silent), "content: is required unless injection.mode is notify", "{mode}");
        let mut more = with(parsed(DELIVER), "injection.mode", mode);
        more["knock"] = knock();
        let read = Delivery::read(more).unwrap();
        assert!(read.content().is_some() && json!(read).get("knock").is_none(), "{mode}");
    }
    // A knock withholds the content in every member.
    let mut envelope = notify();
    envelope["envelope"] = json!({"original_text": "secret"});
    envelope["job"] = json!({"input": "secret"});
    assert!(!json!(Delivery::read(envelope).unwrap()).to_string().contains("secret"));
    // This fault is reported together with all others.
    let faults = fault(with(with(parsed(DELIVER), "content", Value::Null), "attention.policy", "maybe"));
    assert!(faults.contains("attention.policy: must be one of") && faults.contains("content: is required"));
    // Deserializing the type directly enforces the same rule.
    assert!(serde_json::from_value::<Delivery>(with(notify(), "knock", Value::Null)).is_err());
}

#[test]
fn an_envelope_and_a_job_travel_beside_the_text() {
    for name in ["envelope", "job"] {
        let mut delivery = parsed(DELIVER);
        delivery[name] = json!({"chorus_version": "0.4", "camelCase": {"deep": [1, 1.5, null]}});
        assert_eq!(delivery_again(delivery.clone()).unwrap(), delivery);
        delivery[name] = json!("text");
        let faults = Delivery::read(delivery).unwrap_err().to_string();
        assert_eq!(faults, format!("{name}: must be an object, not a string"));
    }
}

#[test]
fn an_unsupported_version_is_answered_with_ours() {
    for asked in ["2026-06-02", "2025-01-01", "", "2999-12-31"] {
        assert_eq!(negotiate_version(asked), "2026-06-02");
    }
}

#[test]
fn what_both_can_do() {
    let (all, none) = (Capabilities::ALL, Capabilities::default());
    let asked: Initialize = schema::read(parsed(INITIALIZE)).unwrap();
    assert!(!asked.capabilities.injection.interrupt && asked.capabilities.injection.tool_mailbox);
    assert_eq!(all.intersect(asked.capabilities), asked.capabilities);
    assert_eq!(asked.capabilities.intersect(all), asked.capabilities);
    assert_eq!(none.intersect(asked.capabilities), none);
    let few = json!({"protocolVersion": "x", "clientInfo": {"name": "n", "version": ""},
        "capabilities": {"injection": {"notify": true, "dreams": true}, "utilities": null}});
    let few: Initialize = schema::read(few).unwrap();
    let injection = InjectionCapabilities { notify: true, ..InjectionCapabilities::default() };
    assert_eq!(few.capabilities, Capabilities { injection, ..all }, "groups that are not named are there");
    let silent = json!({"protocolVersion": "x", "clientInfo": {"name": "n", "version": ""}});
    let silent: Initialize = schema::read(silent).unwrap();
    let injection = InjectionCapabilities::default();
    assert_eq!(silent.capabilities, Capabilities { injection, ..all });
    let none_of_it = json!({"protocolVersion": "x", "clientInfo": {"name": "n", "version": ""},
        "capabilities": {"chatTools": {"react": true}}});
    let none_of_it: Initialize = schema::read(none_of_it).unwrap();
    assert!(none_of_it.capabilities.chat_tools.react && !none_of_it.capabilities.chat_tools.claim);
    // The wire names of the capabilities are those of the modes.
    for mode in crate::words::Mode::ALL.iter().filter(|mode| **mode != crate::words::Mode::Silent) {
        assert_eq!(json!(all.injection)[mode.as_str()], true, "{mode}");
    }
}

#[test]
fn glyphs_can_be_remapped_and_signals_cannot() {
    use crate::words::Signal;
    let shown: Vec<_> = Signal::ALL.iter().map(|signal| default_glyph(*signal)).collect();
    assert_eq!(shown, ["👀", "👍", "🔧", "🕐", "✋", "✅", "🙅", "🚧", "❓", "🛑"]);
    let answer = json!({"protocolVersion": "2026-06-02", "capabilities": {},
        "glyphs": {"seen": ":eyes:", "shrug": "🤷", "done": null}});
    let answer: InitializeResult = schema::read(answer).unwrap();
    assert_eq!(answer.glyphs, Glyphs::default().with(Signal::Seen, ":eyes:"));
    assert_eq!((answer.glyphs.of(Signal::Seen), answer.glyphs.of(Signal::Done)), (":eyes:", "✅"));
    assert_eq!(answer.resume.last_acked_event_id, None);
}
