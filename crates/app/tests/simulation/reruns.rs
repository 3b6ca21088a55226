//! Acts whose transactions are all run twice, as after a conflict: effects and counts happen once, and
//! refusals stay.

use crate::hub::Hub;
use chorus_environment::ManualClock;
use chorus_node::caller::Person;
use chorus_protocol::channel::MAX_MESSAGES;
use chorus_protocol::code::Code;

/// Creates a hub that runs every write twice, and an account.
fn hub() -> (Hub, ManualClock, Person) {
    let clock = ManualClock::new(1_800_000_000_000);
    let hub = Hub::new(1, &clock, 1);
    let person = hub.make_person("anna@example.com");
    (hub, clock, person)
}

#[test]
fn a_message_that_was_refused_for_its_rate_stays_refused() {
    let (hub, clock, person) = hub();
    let agent = hub.make_agent(&person, "alpha").unwrap();
    let channel = hub.make_channel(&person, "room", &[agent]);
    let say = |n: usize| hub.say(agent, channel, &format!("key {n}"), &format!("message {n}"));
    let first = say(0).unwrap();
    for n in 1..MAX_MESSAGES {
        assert_eq!(say(n).unwrap(), first + n as i64);
    }
    let refused = say(MAX_MESSAGES).unwrap_err();
    assert_eq!(refused.code, Code::RateLimited);
    assert_eq!(
        hub.query(move |tx| tx.head(channel.into())),
        first + MAX_MESSAGES as i64 - 1,
        "nothing was said"
    );
    clock.advance(refused.retry_after_ms.unwrap());
    assert_eq!(say(MAX_MESSAGES).unwrap(), first + MAX_MESSAGES as i64, "the same key may be tried again");
    assert_eq!(say(MAX_MESSAGES + 1).unwrap_err().code, Code::RateLimited);
}

#[test]
fn an_agent_is_counted_once() {
    let (hub, _, person) = hub();
    for n in 0..20 {
        hub.make_agent(&person, &format!("agent{n}")).unwrap();
    }
    assert_eq!(hub.make_agent(&person, "one-more").unwrap_err().code, Code::RateLimited);
    assert_eq!(hub.query(chorus_store::directory::count), 20);
}

#[test]
fn bytes_are_counted_once() {
    let (hub, _, person) = hub();
    let channel = hub.make_channel(&person, "room", &[]);
    let before = hub.bytes_of(person.id);
    hub.say(person.id, channel, "key", "x").unwrap();
    let one = hub.bytes_of(person.id) - before;
    hub.say(person.id, channel, "another", "x").unwrap();
    assert_eq!(hub.bytes_of(person.id) - before, 2 * one);
    // After the write, the same value is read back.
    let mut hub = hub;
    (0..3).for_each(|_| hub.take_turn());
    assert_eq!(hub.bytes_of(person.id) - before, 2 * one);
    hub.crash();
    hub.start();
    assert_eq!(hub.bytes_of(person.id) - before, 2 * one);
}
