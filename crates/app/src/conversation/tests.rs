//! Counts the statements that a message costs: a figure that does not depend on how busy the machine is.

use super::{post_in, prepare};
use chorus_environment::{Environment, ManualClock};
use chorus_node::Config;
use chorus_node::Error;
use chorus_node::secrets::MasterKey;
use chorus_node::{App, AppState};
use chorus_protocol::api::messages::NewMessage;
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, EventId, Principal, TraceId};
use chorus_store::conversation::{self, Act, Handle, Newcomer};
use chorus_store::conversations::{Conversation, ConversationKind};
use chorus_store::directory::{self, Record};
use chorus_store::{Metered, Store, Tx};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const NOW: i64 = 1_774_000_800_000;
const ROOM: ConversationId = ConversationId(Uuid::from_u128(1));
const OWNER: AccountId = AccountId(Uuid::from_u128(2));
const AGENTS: [(&str, AgentId); 3] = [
    ("ada", AgentId(Uuid::from_u128(11))),
    ("bob", AgentId(Uuid::from_u128(12))),
    ("cara", AgentId(Uuid::from_u128(13))),
];

fn act(author: Principal, n: u128) -> Act {
    let (event, trace) = (EventId(Uuid::from_u128(100 + n)), TraceId(Uuid::from_u128(n)));
    Act { conversation: ROOM, author, event, trace, now: NOW + i64::try_from(n).unwrap() }
}

/// A channel of one person and three agents; Ada and Bob have the role `ops`.
async fn begin() -> AppState {
    drop(chorus_testkit::http::client());
    let environment = Environment::seeded(1, &ManualClock::new(NOW));
    let config = Config::new(environment.uuid_v4(), "hub.example", [0; 32], MasterKey::new([7; 32]));
    let app = App::new(Store::in_memory().unwrap(), config, environment, CancellationToken::new(), true);
    let app = Arc::new(app.unwrap());
    let make = move |tx: &mut dyn Tx| {
        let room = Conversation::new(ROOM, ConversationKind::Channel, "room".into(), OWNER.into(), NOW);
        conversation::create(tx, &act(OWNER.into(), 1), &room, Handle::Exactly("owner".into()))?;
        for (n, (name, id)) in (2..).zip(AGENTS) {
            let record = Record { name: name.into(), endpoint: None, card: None };
            directory::insert(tx, id, &record, &[u8::try_from(n).unwrap(); 32], TraceId(id.0), NOW)?;
            let roles = if name == "cara" { vec![] } else { vec!["ops".to_owned()] };
            let handle = Handle::Exactly(name.into());
            let new = Newcomer { principal: id.into(), handle, roles, lead: false };
            conversation::add_member(tx, &act(OWNER.into(), n), &new)?;
        }
        Ok(())
    };
    app.store.write::<_, Error, _>(make).await.unwrap();
    app
}

/// Says something, and returns how many statements that took.
async fn say(app: &AppState, author: Principal, n: u128, message: Value) -> usize {
    let new: NewMessage = serde_json::from_value(message).unwrap();
    let (post, hub) = (prepare(&new).unwrap(), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let mut metered = Metered::new(tx);
        post_in(&hub, &mut metered, &act(author, n), &post)?;
        Ok(metered.statements.len())
    };
    app.store.write::<_, Error, _>(work).await.unwrap()
}

#[tokio::test]
async fn saying_something_costs_so_many_statements() {
    let app = begin().await;
    let [(_, ada), (_, bob), _] = AGENTS;
    let (owner, ada, bob) = (Principal::from(OWNER), Principal::from(ada), Principal::from(bob));
    let event = |n: u128| EventId(Uuid::from_u128(100 + n));
    let rows = [
        ("a remark to nobody", owner, json!({"content": "Good morning."}), 10),
        ("a question to one", owner, json!({"content": "@ada is the build green?"}), 18),
        ("its answer", ada, json!({"content": "It is.", "reply_to": event(21)}), 24),
        ("a question in the thread", owner, json!({"content": "And on Windows?", "thread": event(21)}), 21),
        ("a question to a role", owner, json!({"content": "@ops can you look at the disk?"}), 31),
        ("an agent's question", ada, json!({"content": "@cara which port is it?"}), 21),
        ("an agent's remark", bob, json!({"content": "I am reading the log."}), 9),
        ("two agents are named", owner, json!({"content": "@bob @cara please look."}), 26),
        ("a person answers an agent", owner, json!({"content": "8080.", "reply_to": event(25)}), 23),
    ];
    let mut cost = vec![];
    for (n, (what, author, message, most)) in (20..).zip(rows) {
        let statements = say(&app, author, n, message).await;
        cost.push((what, statements, most));
    }
    assert!(cost.iter().all(|(_, statements, most)| statements <= most), "{cost:#?}");
}
