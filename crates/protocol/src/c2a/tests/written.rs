//! Property tests: each side can read whatever the other side writes.

use super::document::{DELIVER, parsed};
use super::*;
use crate::words::{
    AuthorKind, ClaimState, DeliveryState, Directedness, Disposition, Intent, Policy, Priority, Reason,
    Signal, Visibility, WireConversationKind,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Map;
use std::collections::BTreeMap;

fn ids() -> impl Strategy<Value = WireId> {
    "[^\0]{1,30}".prop_map(WireId)
}

fn addressees() -> impl Strategy<Value = Addressee> {
    "(agent|human|role):[a-z0-9._-]{1,20}".prop_map(Addressee)
}

fn times() -> impl Strategy<Value = Time> {
    // Limits the range to years of four digits.
    (-62_000_000_000_000_i64..253_000_000_000_000).prop_map(Time::at)
}

fn cursors() -> impl Strategy<Value = Cursor> {
    "[!-~]{1,20}".prop_map(Cursor)
}

fn objects() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[^\0]{0,5}".prop_map(Value::from),
        Just(Value::Null)
    ];
    let value = leaf.prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(Value::from));
    vec(("[a-zA-Z_]{0,8}", value), 0..4).prop_map(|members| members.into_iter().collect())
}

prop_compose! {
    fn conversations()(id in option::of(ids()), kind in select(WireConversationKind::ALL), stream_id in option::of(ids()),
        thread_id in option::of(ids()), name in option::of("[^\0]{0,20}"), glyph in option::of("[^\0]{1,8}")) -> Conversation {
        let glyphs = glyph.map(|glyph| Glyphs::default().with(Signal::Done, glyph));
        Conversation { id, kind, stream_id, thread_id, name, glyphs }
    }
}

prop_compose! {
    fn authors()(id in option::of(ids()), kind in option::of(select(AuthorKind::ALL)), display_name in option::of("[^\0]{0,20}"))
        -> Author {
        Author { id, kind, display_name }
    }
}

prop_compose! {
    fn targets()(mentions in vec(addressees(), 0..4), recipient in option::of(addressees()), directedness in select(Directedness::ALL))
        -> Target {
        Target { mentions, recipient, directedness }
    }
}

prop_compose! {
    fn attentions()(policy in select(Policy::ALL), reason in option::of(select(Reason::ALL)), intent in option::of(select(Intent::ALL)),
        priority in option::of(select(Priority::ALL)), deadline_ms in option::of(0..i64::MAX)) -> Attention {
        Attention { policy, reason, intent, priority, deadline_ms }
    }
}

prop_compose! {
    fn headers()(event_id in ids(), source in option::of(("[^\0]{1,9}", option::of("[^\0]{0,9}"))), conversation in conversations(),
        author in option::of(authors()), target in targets(), timing in option::of((option::of(times()), option::of(0..i64::MAX))),
        attention in attentions(), others in proptest::array::uniform2(option::of(ids())),
        disposition in option::of(select(Disposition::ALL))) -> Header {
        let [supersedes, in_reply_to] = others;
        let source = source.map(|(platform, workspace_id)| Source { platform, workspace_id });
        let timing = timing.map(|(created_at, sequence)| Timing { created_at, sequence });
        Header { event_id, source, conversation, author, target, timing, attention, supersedes, in_reply_to, disposition }
    }
}

prop_compose! {
    fn contents()(texts in vec("[^\0]{0,40}", 1..4), envelope in option::of(objects()), job in option::of(objects())) -> Content {
        Content { parts: texts.into_iter().map(|text| Part::Text { text }).collect(), envelope, job }
    }
}

prop_compose! {
    fn knocks()(from in addressees(), place in "[^\0]{1,20}", directedness in select(Directedness::ALL), policy in select(Policy::ALL),
        priority in select(Priority::ALL), topic in "[^\0]{0,40}", pull_with in select(ChatTool::ALL)) -> Knock {
        Knock { from, place, directedness, policy, priority, topic, pull_with }
    }
}

fn exposures() -> impl Strategy<Value = Exposure> {
    let modes = [
        ShownMode::Immediate,
        ShownMode::Buffered,
        ShownMode::ToolMailbox,
        ShownMode::Digest,
        ShownMode::Silent,
    ];
    let words = || option::of("[a-z_]{0,20}");
    let shown = (select(modes.to_vec()), words(), words(), contents())
        .prop_map(|(mode, context, role, content)| Exposure::Shown { mode, context, role, content });
    prop_oneof![knocks().prop_map(Exposure::Knock), shown]
}

prop_compose! {
    fn deliveries()(header in headers(), exposure in exposures(), attempt in 1..i64::MAX, key in "[^\0]{1,40}") -> Delivery {
        Delivery { header, exposure, reliability: Reliability { attempt, idempotency_key: IdempotencyKey(key) } }
    }
}

fn events() -> impl Strategy<Value = Event> {
    // The strategy is boxed, because it would overflow a test's stack.
    (headers().boxed(), contents()).prop_map(|(header, content)| Event { header, content }).boxed()
}

fn limits() -> impl Strategy<Value = i64> {
    1..=200_i64
}

prop_compose! {
    fn sends()(to in (ids(), option::of(ids())), in_reply_to in option::of(ids()), key in "[^\0]{1,40}", visibility in select(Visibility::ALL),
        directedness in select(Directedness::ALL), text in "[^\0]{1,80}", intent in option::of(select(Intent::ALL)),
        priority in option::of(select(Priority::ALL)), deadline_ms in option::of(1000..=86_400_000_i64), requires_approval: bool) -> SendMessage {
        SendMessage {
            target: Destination { conversation_id: to.0, thread_id: to.1, stream_id: None }, in_reply_to, idempotency_key: IdempotencyKey(key), visibility,
            directedness, text, intent, priority, deadline_ms, requires_approval,
        }
    }
}

prop_compose! {
    fn lists()(of in proptest::array::uniform2(option::of(ids())), policy in option::of(select(Policy::ALL)),
        from_to in proptest::array::uniform2(option::of(times())), after in option::of(cursors()), limit in limits()) -> ListEvents {
        let ([stream_id, conversation_id], [since, until]) = (of, from_to);
        ListEvents { stream_id, conversation_id, policy, since, until, after, limit }
    }
}

fn calls() -> impl Strategy<Value = Call> {
    let words = || option::of("[^\0]{1,40}");
    prop_oneof![
        lists().prop_map(Call::ListEvents),
        (ids(), option::of(ids()), option::of(cursors()), limits()).prop_map(
            |(conversation_id, thread_id, after, limit)| Call::ReadThread(ReadThread {
                conversation_id,
                thread_id,
                after,
                limit
            })
        ),
        sends().prop_map(Call::SendMessage),
        (ids(), select(Signal::ALL), words(), any::<bool>()).prop_map(
            |(in_reply_to, signal, eta, removed)| Call::React(React { in_reply_to, signal, eta, removed })
        ),
        (ids(), 10_000..=86_400_000_i64, any::<bool>())
            .prop_map(|(event_id, ttl_ms, release)| Call::Claim(Claim { event_id, ttl_ms, release })),
        (ids(), "[^\0]{1,40}", words()).prop_map(|(event_id, reason, eta)| Call::Defer(Defer {
            event_id,
            reason,
            eta
        })),
        (ids(), words()).prop_map(|(event_id, reason)| Call::Resolve(Resolve { event_id, reason })),
    ]
}

prop_compose! {
    fn sents()(event_id in ids(), sequence in option::of(any::<i64>()), thread_id in option::of(ids()),
        lists in proptest::array::uniform5(vec("[a-z]{0,5}", 0..3)), stored_count in 0..i64::MAX,
        delivery in option::of(select(DeliveryState::ALL)), awaits_approval: bool, ephemeral: bool) -> Sent {
        let [woken, knocked, stored_for, masked, unknown] = lists;
        let attention = Reached { woken, knocked, stored_for, stored_count };
        Sent { event_id, sequence, thread_id, attention, delivery, awaits_approval, ephemeral, masked, unknown }
    }
}

prop_compose! {
    fn claims()(event_id in ids(), state in select(ClaimState::ALL), holder in addressees(), until in option::of(times()),
        event in option::of(events())) -> Claimed {
        Claimed { event_id, state, holder, until, event: event.map(Box::new) }
    }
}

fn refusals() -> impl Strategy<Value = Refusal> {
    (select(RefusalCode::ALL), "[^\0]{0,40}", option::of(0..i64::MAX))
        .prop_map(|(code, message, retry_after_ms)| Refusal { retry_after_ms, ..Refusal::new(code, message) })
}

/// Returns the value that the other side reads.
fn sent<T: ToSchema + DeserializeOwned + Serialize + 'static>(written: &T) -> Result<T, String> {
    let bytes = serde_json::to_vec(written).unwrap();
    schema::read(crate::json::parse(&bytes).unwrap()).map_err(|faults| faults.to_string())
}

/// Respells every member name with underscores.
fn snake(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let respell = |name: &str| {
                name.chars().fold(String::new(), |name, c| match c {
                    'A'..='Z' => format!("{name}_{}", c.to_ascii_lowercase()),
                    c => format!("{name}{c}"),
                })
            };
            Value::Object(members.iter().map(|(name, value)| (respell(name), snake(value))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn deliveries_arrive(delivery in deliveries()) {
        prop_assert_eq!(Delivery::read(json!(delivery)).unwrap(), delivery.clone());
        prop_assert_eq!(sent(&delivery).unwrap(), delivery.clone());
        let written = json!(delivery);
        prop_assert_eq!(written.get("knock").is_some(), delivery.content().is_none());
        prop_assert_eq!(written.get("content").is_some(), delivery.content().is_some());
        prop_assert_eq!(&written["injection"]["mode"] == "notify", delivery.content().is_none());
    }

    #[test]
    fn calls_arrive_in_both_spellings(call in calls()) {
        let written = json!(call);
        prop_assert_eq!(&written["name"], call.tool().as_str());
        prop_assert_eq!(Call::read(schema::read(written.clone()).unwrap()).unwrap(), call.clone());
        let respelled = json!({"name": call.tool().underscored(), "arguments": snake(&written["arguments"])});
        prop_assert_eq!(Call::read(schema::read(respelled).unwrap()).unwrap(), call);
    }

    #[test]
    fn results_arrive(events in vec(events(), 0..3), next in option::of(cursors()), more: bool, done in sents(), claimed in claims(),
        refusal in refusals(), event_id in ids(), disposition in option::of(select(Disposition::ALL))) {
        let page = EventPage { events, next, more, left_out: 0 };
        prop_assert_eq!(sent(&page).unwrap(), page);
        prop_assert_eq!(sent(&done).unwrap(), done);
        prop_assert_eq!(sent(&claimed).unwrap(), claimed);
        prop_assert_eq!(sent(&refusal).unwrap(), refusal);
        let recorded = Recorded { event_id, disposition };
        prop_assert_eq!(sent(&recorded).unwrap(), recorded);
    }

    #[test]
    fn notices_arrive(id in ids(), event_ids in vec(ids(), 1..4), text in option::of("[^\0]{0,40}"), whole: i64, part in option::of(-1e9..1e9_f64),
        author in option::of(addressees()), level in select(LogLevel::ALL), data in objects(), disposition in select(Disposition::ALL)) {
        let injected = Injected { event_ids: event_ids.clone(), turn_id: id.clone() };
        prop_assert_eq!(sent(&injected).unwrap(), injected);
        let disposed = Disposed { event_id: id.clone(), disposition, reason: text.clone() };
        prop_assert_eq!(sent(&disposed).unwrap(), disposed);
        let total = part.and_then(serde_json::Number::from_f64);
        let progress = Progress { progress_token: id.clone(), progress: whole.into(), total, message: text.clone() };
        prop_assert_eq!(sent(&progress).unwrap(), progress);
        let cancelled = Cancelled { request_id: whole.into(), event_id: event_ids.first().cloned(), reason: text.clone(), stopped: false };
        prop_assert_eq!(sent(&cancelled).unwrap(), cancelled);
        let typing = Typing { conversation_id: id, thread_id: event_ids.first().cloned(), author };
        prop_assert_eq!(sent(&typing).unwrap(), typing);
        let log = LogMessage { level, logger: text, data: data.into() };
        prop_assert_eq!(sent(&log).unwrap(), log);
    }

    #[test]
    fn both_ends_agree_on_the_beginning(flags in proptest::array::uniform16(any::<bool>()), version in "[!-~]{1,10}", glyph in "[^\0]{1,8}",
        signal in select(Signal::ALL), acked in option::of(ids())) {
        let [ack, redelivery, immediate, buffered, notify, tool_mailbox, digest, interrupt, read_thread, send_message, react, claim, defer,
            resolve, progress, logging] = flags;
        let capabilities = Capabilities {
            delivery: DeliveryCapabilities { ack, redelivery, idempotency: ack },
            injection: InjectionCapabilities { immediate, buffered, notify, tool_mailbox, digest, interrupt },
            chat_tools: ChatToolCapabilities { read_thread, send_message, react, reaction_signals: react, claim, defer, resolve },
            utilities: UtilityCapabilities { progress, cancellation: progress, logging },
        };
        let program = Program { name: version.clone(), version: version.clone() };
        let asked = Initialize { protocol_version: version.clone(), client_info: program.clone(), capabilities };
        prop_assert_eq!(sent(&asked).unwrap(), asked);
        let answer = InitializeResult {
            protocol_version: negotiate_version(&version).into(), server_info: Some(program), capabilities: Capabilities::ALL.intersect(capabilities),
            conversation_glyphs: BTreeMap::from([("ch_1".to_owned(), Glyphs::default().with(signal, &glyph))]),
            glyphs: Glyphs::default().with(signal, glyph), resume: Resume { last_acked_event_id: acked },
        };
        prop_assert_eq!(answer.capabilities, capabilities);
        prop_assert_eq!(sent(&answer).unwrap(), answer);
    }

    /// Any value in any place is either read or rejected.
    #[test]
    fn nothing_panics(place in 0usize..100, other in objects(), text in "[^\0]{0,9}", number: f64) {
        let mut paths = vec![];
        walk(&parsed(DELIVER), String::new(), &mut paths);
        let path = &paths[place % paths.len()];
        for other in [other.into(), json!(text), json!(number), json!([text]), Value::Null] {
            let mut delivery = parsed(DELIVER);
            *delivery.pointer_mut(path).unwrap() = other;
            if let Ok(read) = Delivery::read(delivery) {
                prop_assert_eq!(Delivery::read(json!(read)).unwrap(), read);
            }
        }
    }
}

/// Collects the JSON pointers of all values.
fn walk(value: &Value, at: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| walk(value, format!("{at}/{name}"), paths));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| walk(value, format!("{at}/{n}"), paths));
        }
        _ => {}
    }
    paths.push(at);
}
