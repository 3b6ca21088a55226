//! The participants: ten people and their fifty agents, half of them harnesses, in twenty channels; ten agents
//! have a skill. Some channels have an agent as lead, and others have a work stream led by a harness.

use super::harness::Agent;
use super::host::{Host, Key};
use crate::hub::{body, context};
use chorus_app::accounts::make_account;
use chorus_app::agents;
use chorus_app::conversation::{Added, add_member, make_channel};
use chorus_app::market::money::mint;
use chorus_app::market::register::register;
use chorus_app::work_streams::make_stream;
use chorus_environment::ManualClock;
use chorus_node::caller::key_hash;
use chorus_node::caller::{Caller, Identity, Person};
use chorus_node::idempotency::Once;
use chorus_node::transport::dialect::Dialect;
use chorus_protocol::ids::ConversationId;
use serde_json::{Value, json};

pub(crate) const PEOPLE: usize = 10;
pub(crate) const AGENTS: usize = 50;
pub(crate) const CHANNELS: usize = 20;
/// The number of agents that can be hired.
pub(crate) const WORKERS: usize = 10;
/// The initial credits of each person.
const GRANTED: u32 = 20;

pub(crate) struct Channel {
    pub(crate) id: ConversationId,
    /// The members, by their numbers.
    pub(crate) people: Vec<usize>,
    pub(crate) agents: Vec<usize>,
}

pub(crate) fn make_people(host: &mut Host) -> Vec<Person> {
    let made = (0..PEOPLE).map(|n| {
        let new = body(json!({"email": format!("person{n}@example.com"), "name": format!("person{n}")}));
        let made = host.run(async |app| make_account(app, context(), new, Once::NO_KEY).await);
        let made = made.unwrap().result;
        let person = Person { id: made.account_id, name: made.name, email: made.email };
        let owner = json!({"owner": person.id.to_string(), "amount": GRANTED});
        host.run(async |app| mint(app, context(), body(owner), Once::NO_KEY).await).unwrap();
        person
    });
    made.collect()
}

pub(crate) fn make_agents(host: &mut Host, people: &[Person], seed: u64, clock: &ManualClock) -> Vec<Agent> {
    let made = (0..AGENTS).map(|n| {
        let (owner, name) = (&people[n % PEOPLE], format!("agent{n}"));
        let new = body(json!({"name": name}));
        // Registrations are rate limited.
        clock.advance(3000);
        let made = host.run(async |app| agents::make(app, owner, context(), new, Once::NO_KEY).await);
        let made = made.unwrap().result;
        let identity = Identity { id: made.agent_id, name: name.clone() };
        if n < WORKERS {
            let skills = json!([{"skill_name": "sum", "cost_per_call": 1.5 + n as f64 / 4.0}]);
            let new = body(json!({"agent_name": name, "skills": skills}));
            let caller = Caller::Agent(identity.clone());
            host.run(async |app| register(app, caller, context(), new, Once::NO_KEY).await).unwrap();
        }
        let key = Key { identity, hash: key_hash(&made.api_key) };
        // Jobs arrive by the inbox.
        let dialect = if n < WORKERS || n % 2 == 0 { Dialect::Sse } else { Dialect::C2a };
        Agent::new(name, key, dialect, n % 7 == 3, seed.wrapping_mul(1009).wrapping_add(n as u64), clock)
    });
    made.collect()
}

/// Creates channels with two people and five agents each; every agent is in two of them.
pub(crate) fn make_channels(host: &mut Host, people: &[Person], agents: &[Agent]) -> Vec<Channel> {
    let made = (0..CHANNELS).map(|n| {
        let (owner, other) = (n % PEOPLE, (n + 1 + n / PEOPLE) % PEOPLE);
        let caller = Caller::Account(people[owner].clone());
        let new = body(json!({"name": format!("channel{n}")}));
        let made = host.run(async |app| make_channel(app, &caller, new, Once::NO_KEY).await);
        let id = ConversationId::parse(&made.unwrap().result.conversation.id).unwrap();
        let members: Vec<_> =
            (0..AGENTS).filter(|agent| agent % CHANNELS == n || (agent * 7 + 3) % CHANNELS == n).collect();
        let is_ops = |agent: usize| (agent + n).is_multiple_of(2);
        add(host, id, json!({"account": people[other].email, "handle": format!("person{other}")}));
        for agent in &members {
            let roles: &[&str] = if is_ops(*agent) { &["ops"] } else { &[] };
            // A lead gets escalations; a lead with a harness also gets digests.
            let first = if n % 4 == 0 { first_harness(&members, agents) } else { members.first().copied() };
            let lead = Some(*agent) == first && n % 2 == 0;
            let address = agents[*agent].key.identity.id.to_string();
            add(
                host,
                id,
                json!({"agent": address, "handle": agents[*agent].name, "roles": roles, "lead": lead}),
            );
        }
        Channel { id, people: vec![owner, other], agents: members }
    });
    made.collect()
}

fn first_harness(members: &[usize], agents: &[Agent]) -> Option<usize> {
    members.iter().copied().find(|agent| agents[*agent].dialect == Dialect::C2a)
}

/// Creates a work stream through each two channels of the same owner without a lead.
pub(crate) fn make_streams(host: &mut Host, people: &[Person], agents: &[Agent], channels: &[Channel]) {
    for n in (1..CHANNELS / 2).step_by(2) {
        let (one, other) = (&channels[n], &channels[n + CHANNELS / 2]);
        let leads = &agents[first_harness(&one.agents, agents).unwrap()].name;
        let places = [one.id.to_string(), other.id.to_string()];
        let new = body(json!({"name": format!("work{n}"), "conversations": places, "participants": [leads],
            "lead": leads}));
        let who = people[one.people[0]].id.into();
        host.run(async |app| make_stream(app, who, context(), new, Once::NO_KEY).await).unwrap();
    }
}

fn add(host: &mut Host, channel: ConversationId, member: Value) {
    let new = body(member);
    let act = async |app: &_| add_member(app, Caller::Operator, channel, context(), new, Once::NO_KEY).await;
    assert!(matches!(host.run(act).unwrap().result, Added::Joined(_)));
}
