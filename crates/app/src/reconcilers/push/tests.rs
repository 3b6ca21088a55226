use super::*;
use chorus_node::transport::outbound::{NotTaken, Policy};
use chorus_protocol::ids::{ConversationId, DeliveryId, EventId};
use chorus_protocol::words::EntryKind;
use chorus_store::deliveries::Lease;
use uuid::Uuid;

const NOW: i64 = 1_774_000_800_000;

fn due(transport: Transport, attempt: i64) -> Due {
    Due {
        id: DeliveryId { agent: AgentId(Uuid::nil()), seq: 1 },
        event: EventId(Uuid::nil()),
        conversation: ConversationId(Uuid::nil()),
        kind: EntryKind::Chat,
        transport,
        attempt,
        give_up_at: NOW + 1_000_000,
        lease: Lease { owner: Uuid::nil(), until: NOW },
    }
}

#[test]
fn what_each_answer_leads_to() {
    let blocked = || Policy::default().check("10.0.0.1".parse().unwrap()).unwrap_err();
    for (status, connection, webhook) in [
        (200, Outcome::Delivered, Outcome::Delivered),
        (204, Outcome::Delivered, Outcome::Delivered),
        (302, Outcome::Refused, Outcome::Refused),
        (400, Outcome::Refused, Outcome::Refused),
        (401, Outcome::Broken(7), Outcome::Again(NOW + 800)),
        (403, Outcome::Broken(7), Outcome::Again(NOW + 800)),
        (404, Outcome::Broken(7), Outcome::Again(NOW + 800)),
        (410, Outcome::Broken(7), Outcome::Again(NOW + 800)),
        (413, Outcome::Refused, Outcome::Refused),
    ] {
        let posted = Ok((status, None));
        assert_eq!(judge(&due(Transport::Channel, 1), 7, &posted, NOW, [0; 4]), connection, "{status}");
        assert_eq!(judge(&due(Transport::Webhook, 1), 7, &posted, NOW, [0; 4]), webhook, "{status}");
    }
    let posted = Err(PostError::Blocked(blocked()));
    assert_eq!(judge(&due(Transport::Channel, 1), 7, &posted, NOW, [0; 4]), Outcome::Broken(7));
    assert_eq!(judge(&due(Transport::Webhook, 1), 7, &posted, NOW, [0; 4]), Outcome::Refused);
    for posted in [
        Ok((408, None)),
        Ok((425, None)),
        Ok((429, None)),
        Ok((500, None)),
        Ok((503, None)),
        Err(PostError::Timeout(Duration::ZERO)),
        Err(PostError::NoConnection(Duration::ZERO)),
        Err(PostError::Unreachable(String::new())),
        Err(PostError::BrokenOff(String::new())),
    ] {
        let mut due = due(Transport::Channel, 1);
        assert_eq!(judge(&due, 7, &posted, NOW, [0; 4]), Outcome::Again(NOW + 800), "{posted:?}");
        due.give_up_at = NOW;
        assert_eq!(judge(&due, 7, &posted, NOW, [0; 4]), Outcome::Dead, "{posted:?}");
    }
    let refused = |code| Err(PostError::NotTaken(NotTaken::Refused { code, message: String::new() }));
    let harness = due(Transport::Harness, 1);
    for (posted, expected) in [
        (Ok((200, None)), Outcome::Delivered),
        (Ok((404, None)), Outcome::Again(NOW + 800)),
        (Ok((422, None)), Outcome::Refused),
        (refused(-32000), Outcome::Again(NOW + 800)),
        (refused(-32602), Outcome::Refused),
        (Err(PostError::NotTaken(NotTaken::NoResponse)), Outcome::Again(NOW + 800)),
    ] {
        assert_eq!(judge(&harness, 7, &posted, NOW, [0; 4]), expected, "{posted:?}");
    }
    let told =
        |after: &str| judge(&due(Transport::Channel, 1), 7, &Ok((503, Some(after.into()))), NOW, [0; 4]);
    assert_eq!(told("90"), Outcome::Again(NOW + 90_000));
    assert_eq!(told("0"), Outcome::Again(NOW + 800));
    assert_eq!(told("soon"), Outcome::Again(NOW + 800));
}

#[test]
fn pauses_double_with_jitter_up_to_five_minutes() {
    let least: Vec<_> = (1..=12).map(|attempt| pause_ms(attempt, [0; 4])).collect();
    assert_eq!(
        least,
        [800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 204_800, 240_000, 240_000, 240_000]
    );
    for attempt in [0, 1, 5, 9, 1000, i64::MAX] {
        let middle = pause_ms(attempt, [0; 4]) / 4 * 5;
        for random in [[0; 4], [255; 4], [1, 2, 3, 4], [99, 0, 255, 7]] {
            let pause = pause_ms(attempt, random);
            assert!((middle * 4 / 5..=middle * 6 / 5).contains(&pause), "{attempt} {random:?} {pause}");
        }
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    for (text, at) in [
        ("120", Some(NOW + 120_000)),
        (" 0 ", Some(NOW)),
        ("4294967295", Some(NOW + 4_294_967_295_000)),
        ("Fri, 20 Mar 2026 10:01:00 GMT", Some(NOW + 60_000)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777_000)),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Non 1994 08:49:37 GMT", None),
    ] {
        assert_eq!(retry_after(text, NOW), at, "{text}");
    }
}
