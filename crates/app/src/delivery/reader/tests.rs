use super::*;
use crate::conversation::{act, delete, say};
use chorus_environment::{Environment, ManualClock};
use chorus_node::App;
use chorus_node::Config;
use chorus_node::idempotency::Once;
use chorus_node::secrets::MasterKey;
use chorus_protocol::api::messages::NewMessage;
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::ConversationKind;
use chorus_store::conversation::{self, ConversationError, Handle, Newcomer};
use chorus_store::conversations::Conversation;
use chorus_store::directory::Record;
use chorus_store::{Store, TxExt};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const KEY: KeyHash = [3; 32];

/// A hub with bob in a channel. Its clock stands still, so that times are reproducible.
struct Fixture {
    app: AppState,
    bob: Identity,
    channel: ConversationId,
    ann: Principal,
}

impl Fixture {
    async fn new() -> Self {
        // This installs the TLS provider that the hub's own client needs.
        drop(chorus_testkit::http::client());
        let environment = Environment::seeded(1, &ManualClock::new(1_774_000_800_000));
        let config = Config::new(environment.uuid_v4(), "hub.example", [0; 32], MasterKey::new([7; 32]));
        let store = Store::in_memory().unwrap();
        let app = App::new(store, config, environment, CancellationToken::new(), true);
        let app = Arc::new(app.unwrap());
        let bob = Identity { id: AgentId(app.environment.uuid_v7()), name: "bob".into() };
        let ann = Principal::from(AccountId(app.environment.uuid_v7()));
        let new = act(&app, ann, ConversationId(app.environment.uuid_v7()));
        let (kind, name) = (ConversationKind::Channel, "plans".into());
        let channel = Conversation {
            context: Some("What we do next".into()),
            ..Conversation::new(new.conversation, kind, name, ann, new.now)
        };
        let joins = act(&app, ann, new.conversation);
        let (agent, now) = (bob.clone(), new.now);
        let make = move |tx: &mut dyn Tx| {
            let record = Record { name: agent.name.clone(), endpoint: None, card: None };
            directory::insert(tx, agent.id, &record, &KEY, new.trace, now)?;
            conversation::create(tx, &new, &channel, Handle::Exactly("ann".into()))?;
            let handle = Handle::Exactly("bob".into());
            let bob = Newcomer { principal: agent.id.into(), handle, roles: vec![], lead: false };
            conversation::add_member(tx, &joins, &bob)
        };
        app.store.write::<_, ConversationError, _>(make).await.unwrap();
        Self { app, bob, channel: joins.conversation, ann }
    }

    async fn open(&self, place: Option<i64>) -> Reader {
        let (app, bob) = (Arc::clone(&self.app), self.bob.clone());
        let mut reader = Reader::open(app, bob, KEY, Dialect::Sse, None, place).await.unwrap();
        assert!(next(&mut reader).await.starts_with("event: connected\n"));
        reader
    }

    async fn say(&self, content: &str) -> EventId {
        let new: NewMessage = serde_json::from_value(json!({"content": content})).unwrap();
        say(&self.app, self.ann, self.channel, new, Once::NO_KEY).await.unwrap().result.event_id
    }
}

async fn next(reader: &mut Reader) -> String {
    let piece = tokio::time::timeout(Duration::from_secs(10), reader.next()).await.unwrap().unwrap();
    String::from_utf8(piece.bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_chat_is_the_same_from_its_transaction_and_from_the_store() {
    let hub = Fixture::new().await;
    let mut first = hub.open(None).await;
    let content = "@bob look at this: \u{e9}\n| a | table |";
    hub.say(content).await;
    let framed = next(&mut first).await;
    let cached = hub.app.transport.live.frames.after(Dialect::Sse, hub.bob.id.0, 0, FRAME_BYTES).unwrap();
    assert_eq!((framed.as_bytes(), 1), (&*cached.0, cached.1));
    assert!(framed.contains(r#""reason":"direct_mention""#) && framed.contains(r#""name":"plans""#));

    let mut second = hub.open(Some(0)).await;
    assert_eq!(second.begun_at, 1, "it reads the store up to there");
    assert_eq!(next(&mut second).await, framed);
}

#[tokio::test]
async fn a_steady_chat_is_not_read_from_the_store() {
    let hub = Fixture::new().await;
    let mut reader = hub.open(None).await;
    for n in 0..100 {
        hub.say(&format!("@bob number {n}")).await;
    }
    // With the rows deleted, the entries can only come from the frames.
    let forget = |tx: &mut dyn Tx| tx.query("DELETE FROM chats RETURNING seq", &[]);
    assert_eq!(hub.app.store.write::<_, StoreError, _>(forget).await.unwrap().len(), 100);
    let mut heard = String::new();
    while heard.matches("event: chat\n").count() < 100 {
        heard += &next(&mut reader).await;
    }
    assert!(heard.contains("@bob number 0\"") && heard.contains("@bob number 99\""));
}

#[tokio::test]
async fn what_was_taken_back_is_not_handed_out_from_the_frames() {
    let hub = Fixture::new().await;
    let mut reader = hub.open(None).await;
    let following = hub.app.transport.live.follow(hub.channel.into());
    let said = hub.say("@bob not meant for you").await;
    let of_followers = || hub.app.transport.live.frames.after(Dialect::Sse, hub.channel.0, 2, FRAME_BYTES);
    assert!(of_followers().is_some());
    delete(&hub.app, hub.ann, (hub.channel, said), Once::NO_KEY).await.unwrap();
    assert!(of_followers().is_none());
    drop(following);
    let heard = next(&mut reader).await;
    assert!(heard.contains(r#""deleted":true"#) && !heard.contains("not meant"), "{heard}");
}

#[tokio::test]
async fn what_is_long_is_read_from_the_store() {
    let hub = Fixture::new().await;
    let mut reader = hub.open(None).await;
    hub.say(&format!("@bob {}", "\u{1f600}".repeat(99_000))).await;
    assert_eq!(hub.app.transport.live.frames.after(Dialect::Sse, hub.bob.id.0, 0, FRAME_BYTES), None);
    assert!(next(&mut reader).await.contains("\u{1f600}"));
}

#[tokio::test]
async fn to_give_is_not_to_hand() {
    let hub = Fixture::new().await;
    let mut reader = hub.open(None).await;
    hub.say("@bob one").await;
    hub.say("@bob two").await;
    let through = reader.next().await.unwrap().through;
    assert_eq!((through, reader.inbox.handed()), (2, 0));
    // After acknowledging one of the two, the connection gets the other again.
    reader.hand(1);
    drop(reader);
    let mut again = hub.open(None).await;
    assert!(next(&mut again).await.contains("@bob two\""));
}
