//! The invariants that must hold once a story has come to rest.

use crate::story::Story;
use chorus_protocol::ids::{EventId, Principal};
use chorus_protocol::words::{Disposition, EventKind, Policy};
use chorus_store::conversations::{self, Event};
use chorus_store::log::{self, At, PageSize};
use chorus_store::obligations;
use chorus_store::push::{self, Record};
use serde_json::Value;
use std::collections::BTreeMap;

/// More than any story holds.
const ALL: i64 = 10_000;

/// The amount of activity, so that an empty world does not count as a success.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) said: usize,
    pub(crate) deliveries: usize,
    pub(crate) answers: usize,
    pub(crate) crashes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.said += other.said;
        self.deliveries += other.deliveries;
        self.answers += other.answers;
        self.crashes += other.crashes;
    }
}

pub(crate) fn judge(story: &Story) -> Tally {
    let events = events(story);
    for (place, event) in (1..).zip(&events) {
        assert_eq!(event.seq, place, "places follow each other");
    }
    acknowledged_is_there(story, &events);
    let deliveries = deliveries(story);
    let answers = answered_once(story, &events);
    every_delivery_has_an_outcome(story, &deliveries, &answers);
    for agent in &story.agents {
        let head = deliveries.iter().filter(|delivery| delivery.id.agent == agent.id).count() as i64;
        assert_eq!(agent.cursor(), Some(head), "{} has dealt with its inbox", agent.name);
    }
    Tally {
        said: story.sayings.len(),
        deliveries: deliveries.len(),
        answers: answers.len(),
        crashes: story.hub.life + story.agents.iter().map(|agent| agent.life).sum::<u64>() - 3,
    }
}

/// Returns all events in the channel.
fn events(story: &Story) -> Vec<Event> {
    let (channel, who) = (story.channel, story.person.id);
    story.hub.query(move |tx| {
        let conversation = conversations::by_id(tx, channel)?.expect("it was made");
        let filter = log::Filter::default();
        let size = PageSize { events: ALL, bytes: usize::MAX };
        Ok(log::page(tx, &conversation, who.into(), &filter, At::After(0), size)?.events)
    })
}

fn deliveries(story: &Story) -> Vec<Record> {
    let filter = push::Filter { conversation: Some(story.channel), ..push::Filter::default() };
    story.hub.query(move |tx| push::list(tx, &filter, None, ALL))
}

fn content(event: &Event) -> String {
    let body: Value = serde_json::from_str(&event.body).unwrap();
    body["content"].as_str().unwrap_or_default().to_owned()
}

/// Every confirmed message exists once, at its position.
fn acknowledged_is_there(story: &Story, events: &[Event]) {
    for saying in &story.sayings {
        let said: Vec<i64> =
            events.iter().filter(|event| content(event) == saying.text).map(|event| event.seq).collect();
        assert_eq!(said, Vec::from_iter(saying.place), "{saying:?}");
    }
    for agent in &story.agents {
        for (key, text) in &agent.acknowledged {
            let is_it =
                |event: &&Event| event.author == Principal::Agent(agent.id) && content(event) == *text;
            assert_eq!(events.iter().filter(is_it).count(), 1, "{} was told of {key}: {text}", agent.name);
        }
    }
}

/// Returns the answers by author and message. Nobody answers the same message twice.
fn answered_once(story: &Story, events: &[Event]) -> BTreeMap<(Principal, EventId), EventId> {
    let mut answers = BTreeMap::new();
    let by_agents = events.iter().filter(|event| event.author != Principal::Account(story.person.id));
    for event in by_agents.filter(|event| event.kind == EventKind::Message) {
        let target = event.target.expect("agents only answer");
        let before = answers.insert((event.author, target), event.id);
        assert_eq!(before, None, "{target} was answered twice: {event:?}");
    }
    answers
}

/// Every delivery has an outcome that the hub knows, unless the agent crashed just before reporting it. An
/// unanswered obligation is still open.
fn every_delivery_has_an_outcome(
    story: &Story,
    deliveries: &[Record],
    answers: &BTreeMap<(Principal, EventId), EventId>,
) {
    let open = story.hub.query(|tx| obligations::due(tx, i64::MAX, ALL));
    for delivery in deliveries {
        let agent = story.agents.iter().find(|agent| agent.id == delivery.id.agent).expect("one of them");
        let answered = answers.contains_key(&(agent.id.into(), delivery.event));
        let outcome = delivery.disposition.map(|(disposition, _)| disposition);
        assert_eq!(outcome == Some(Disposition::Responded), answered, "{delivery:?}");
        let unsaid = agent.unsaid.contains(&format!("chat {}", delivery.event));
        let is_open = delivery.attention.policy == Policy::MustRespond
            && open.contains(&(delivery.event, delivery.id.agent));
        assert!(outcome.is_some() || unsaid || is_open, "nobody knows what became of {delivery:?}");
        assert!(delivery.handed, "{delivery:?}");
    }
}
