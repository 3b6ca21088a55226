//! Steps of the background work without their loops: each needs only a transaction and a time.

use crate::hub::Hub;
use chorus_app::reconcilers::steps::{self, Settings};
use chorus_environment::ManualClock;
use chorus_protocol::ids::AgentId;
use chorus_store::deliveries::{Way, way};
use chorus_store::push::Due;
use chorus_store::{Tx, directory};
use std::collections::BTreeSet;
use uuid::Uuid;

const NOW: i64 = 1_800_000_000_000;

/// Leases the deliveries that are due at `now`.
fn lease(hub: &Hub, now: i64, settings: Settings) -> Vec<Due> {
    hub.change(move |tx| {
        let (_, found) = steps::find_due(tx, now, &settings, true, &BTreeSet::new())?;
        steps::lease(tx, now, &settings, &found)
    })
}

/// A node that dies during a push leaves a lease, which expires.
#[test]
fn what_is_due_is_had_by_one_node_until_its_lease_is_over() {
    let hub = Hub::new(1, &ManualClock::new(NOW), 2);
    let person = hub.make_person("anna@example.com");
    let agent = hub.make_agent_at(&person, "alpha", Some("https://8.8.8.8/")).unwrap();
    let channel = hub.make_channel(&person, "room", &[agent]);
    let (own, settings) =
        (hub.settings(), |node: u128| Settings { node: Uuid::from_u128(node), ..hub.settings() });
    assert_eq!(lease(&hub, NOW, own).len(), 0);
    hub.say(person.id, channel, "key", "@alpha, look").unwrap();
    let leased = lease(&hub, NOW, settings(1));
    assert_eq!(leased.iter().map(|due| (due.id.agent, due.attempt)).collect::<Vec<_>>(), [(agent, 1)]);
    let end = NOW + own.push_lease_ms;
    assert_eq!((lease(&hub, NOW, settings(2)).len(), lease(&hub, end - 1, settings(2)).len()), (0, 0));
    let again = lease(&hub, end, settings(2));
    assert_eq!((again.len(), again[0].id, again[0].attempt), (1, leased[0].id, 2));
}

#[test]
fn an_inbox_is_open_for_as_long_as_its_node_says_so() {
    let mut hub = Hub::new(1, &ManualClock::new(NOW), 2);
    let person = hub.make_person("anna@example.com");
    let agent = hub.make_agent(&person, "alpha").unwrap();
    hub.connect(agent, None);
    let settings = hub.settings();
    let is_open = |hub: &Hub, agent: AgentId, now: i64| {
        let agent = hub.query(move |tx| directory::by_id(tx, agent)).unwrap();
        way(&agent, None, now) == Way::Session
    };
    let end = NOW + settings.presence_ms;
    assert!(is_open(&hub, agent, end - 1) && !is_open(&hub, agent, end));
    let elsewhere = Settings { node: Uuid::from_u128(9), ..settings };
    let renew = |settings: Settings| move |tx: &mut dyn Tx| steps::renew(tx, NOW + 1000, &settings);
    assert_eq!((hub.change(renew(elsewhere)), hub.change(renew(settings))), (0, 1));
    assert!(is_open(&hub, agent, end + 999) && !is_open(&hub, agent, end + 1000));
}
