//! Secrets at rest and in user text: which are sealed, which are masked, and what a new master key changes.

use crate::channel_fixture::{ChannelFixture, inbox_of};
use crate::recovery::{acts, text};
use crate::support::{Answer, SOON, Setup, TestHub, eventually};
use chorus_hub::{Environment, FINGERPRINT, FingerprintError, MasterKey, keep_fingerprint};
use chorus_protocol::credentials::SecretKind;
use chorus_store::{Kind, StoreError, Tx, TxExt, settings};
use chorus_testkit::receiver::FakeAgent;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];

/// Returns whether any file, or any row of any table, contains this text.
async fn is_stored(hub: &TestHub, text: &str) -> bool {
    if hub.store().kind() == Kind::Sqlite {
        return hub.bytes_on_disk().windows(text.len()).any(|window| window == text.as_bytes());
    }
    let hex = HEXLOWER.encode(text.as_bytes());
    let (plain, hex) = (format!("%{text}%"), format!("%{hex}%"));
    let look = move |tx: &mut dyn Tx| {
        let tables = "SELECT table_name::text AS table_name FROM information_schema.tables WHERE table_schema = 'public'";
        let mut found = 0;
        for mut row in tx.query(tables, &[])? {
            let table = row.text("table_name")?;
            let sql =
                format!("SELECT count(*) AS count FROM {table} t WHERE t::text LIKE $1 OR t::text LIKE $2");
            let mut count = tx.query(sql.leak(), &[plain.as_str().into(), hex.as_str().into()])?;
            found += count[0].int("count")?;
        }
        Ok(found > 0)
    };
    hub.store().read::<_, StoreError, _>(look).await.unwrap()
}

fn post(id: &str) -> Value {
    json!({
        "channel": {"id": "ch_1", "name": "ops"},
        "message": {"id": id, "sender": "alice", "content": "the weather in Oslo?"},
        "callback": "https://service.example/channels/ch_1/inbox/tok_foreigncallback1",
        "mcp": {"url": "https://service.example/mcp", "headers": {"Authorization": "Bearer foreignbearer1"}},
    })
}

#[tokio::test]
async fn one_of_each_kind_of_credential_is_masked() {
    let fixture = ChannelFixture::start().await;
    for kind in SecretKind::all() {
        let (secret, described) = (kind.secret(&Environment::system().random_hex()), kind.description());
        assert!(secret.starts_with(described.prefix));
        let event = fixture.say(&format!("keep {secret} safe")).await;
        let log = fixture.log().await;
        let said = log.iter().find(|said| said["event_id"] == event).unwrap();
        assert_eq!(said["content"], format!("keep [redacted: {}] safe", described.name));
        assert!(!is_stored(&fixture.hub, &secret).await, "{secret} is stored");
    }
}

/// Secrets in the posts of other services are not stored in clear text.
#[tokio::test]
async fn foreign_callbacks_and_bearers_are_sealed() {
    for setup in [Setup::new(), Setup::postgres()] {
        let (fixture, timber) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
        let reader = fixture.agent(&json!({"name": "reader"})).await;
        let key = reader["api_key"].as_str().unwrap();
        let mut inbox = fixture.hub.inbox(key, None).await;
        let pushed = fixture.agent(&json!({"name": "timber", "connection_string": inbox_of(&timber)})).await;
        for to in [&reader, &pushed] {
            let url = to["connection_string"].as_str().unwrap();
            let answer = Answer::of(fixture.hub.client.post(url).json(&post("msg_1"))).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
        // The post is delivered unchanged by every transport.
        let mut streamed = inbox.event("channel").await;
        streamed.as_object_mut().unwrap().remove("trace_id");
        assert_eq!(streamed, post("msg_1"));
        assert_eq!(fixture.hub.history(key).await[0]["data"], post("msg_1"));
        assert_eq!(timber.wait_for(1, SOON).await[0].body, post("msg_1"));
        for secret in ["foreigncallback1", "foreignbearer1", "weather in Oslo"] {
            assert!(!is_stored(&fixture.hub, secret).await, "{secret} is stored");
        }
        assert!(is_stored(&fixture.hub, "direct_message").await, "this is where it would be");
    }
}

/// Returns the sealed connection string and post from the database.
async fn sealed(hub: &TestHub) -> (Vec<u8>, String) {
    let read = |tx: &mut dyn Tx| {
        let connection = "SELECT connection FROM agents WHERE connection IS NOT NULL";
        let post = "SELECT body FROM events WHERE kind = 'foreign'";
        Ok((
            tx.first(connection, &[])?.unwrap().bytes("connection")?,
            tx.first(post, &[])?.unwrap().text("body")?,
        ))
    };
    hub.store().read::<_, StoreError, _>(read).await.unwrap()
}

/// Everything issued under the old key keeps working, and in the end nothing needs that key.
#[tokio::test]
async fn a_master_key_is_replaced_without_anybody_noticing() {
    for setup in [Setup::new(), Setup::postgres()] {
        let mut fixture =
            ChannelFixture::on(&setup.config(|config| config.master_key = MasterKey::new(OLD))).await;
        let timber = FakeAgent::start().await;
        fixture.connected("timber", &timber).await;
        let reader = fixture.agent(&json!({"name": "reader"})).await;
        let (key, url) = (reader["api_key"].as_str().unwrap(), reader["connection_string"].as_str().unwrap());
        assert_eq!(Answer::of(fixture.hub.client.post(url).json(&post("msg_1"))).await.status, 200);
        fixture.say("@timber hello").await;
        let first = timber.wait_for(1, SOON).await[0].clone();
        let (was, begun) = (sealed(&fixture.hub).await, fixture.hub.url.clone());
        let callback = |fixture: &ChannelFixture| {
            json!(first.body["callback"].as_str().unwrap().replace(&begun, &fixture.hub.url))
        };
        let answer = json!({"type": "message", "content": "hi"});
        let signatures = |n: usize| {
            let requests = timber.requests();
            requests[n].headers["webhook-signature"].to_str().unwrap().split(' ').count()
        };

        // With both keys: old signatures are valid, webhooks carry both signatures, and sealed data is sealed
        // again.
        fixture.hub =
            fixture.hub.restart(|config| config.master_key = MasterKey::new(NEW).replacing(OLD)).await;
        assert_eq!(fixture.call_back(&callback(&fixture), &answer).await.status, 200);
        fixture.say("@timber again").await;
        timber.wait_for(2, SOON).await;
        assert_eq!((signatures(0), signatures(1)), (1, 2));
        eventually(async || sealed(&fixture.hub).await, |now| now.0 != was.0 && now.1 != was.1).await;

        // With the new key alone: sealed data is readable, and signatures by the old key are refused.
        fixture.hub = fixture.hub.restart(|config| config.master_key = MasterKey::new(NEW)).await;
        assert_eq!(fixture.call_back(&callback(&fixture), &answer).await.status, 404);
        assert_eq!(fixture.hub.history(key).await[0]["data"], post("msg_1"));
        fixture.say("@timber at last").await;
        assert_eq!(timber.wait_for(3, SOON).await[2].body["message"]["content"], "@timber at last");
        assert_eq!(signatures(2), 1);
    }
}

/// Data stored before sealing existed is sealed after the next start.
#[tokio::test]
async fn what_lies_open_is_sealed() {
    let fixture = ChannelFixture::start().await;
    let reader = fixture.agent(&json!({"name": "reader"})).await;
    let url = reader["connection_string"].as_str().unwrap();
    assert_eq!(Answer::of(fixture.hub.client.post(url).json(&post("msg_1"))).await.status, 200);
    let open = |tx: &mut dyn Tx| {
        tx.execute(
            "UPDATE events SET body = $1 WHERE kind = 'foreign'",
            &[post("msg_1").to_string().as_str().into()],
        )
    };
    fixture.hub.store().write::<_, StoreError, _>(open).await.unwrap();
    let hub = fixture.hub.restart(|_| {}).await;
    let body = |tx: &mut dyn Tx| {
        tx.first("SELECT body FROM events WHERE kind = 'foreign'", &[])?.unwrap().text("body")
    };
    let body = async || hub.store().read::<_, StoreError, _>(body).await.unwrap();
    eventually(body, |body| body.starts_with("sealed:") && !body.contains("foreignbearer1")).await;
    assert_eq!(hub.history(reader["api_key"].as_str().unwrap()).await[0]["data"], post("msg_1"));
}

/// A database belongs to one master key at a time, on both databases.
#[tokio::test]
async fn a_database_knows_its_master_key() {
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.start();
        let keep =
            async |key: MasterKey| keep_fingerprint(hub.store(), &key, &Environment::system(), false).await;
        let held = async || {
            let get = |tx: &mut dyn Tx| settings::get(tx, FINGERPRINT);
            hub.store().read::<_, StoreError, _>(get).await.unwrap().unwrap()
        };
        let other = |kept: Result<(), FingerprintError>| matches!(kept, Err(FingerprintError::OtherKey));
        keep(MasterKey::new(OLD)).await.unwrap();
        let old = held().await;
        assert_eq!(old.len(), 32);
        assert!(other(keep(MasterKey::new(NEW)).await) && held().await == old, "nothing has changed");
        assert!(other(keep(MasterKey::new([9; 32]).replacing(NEW)).await) && held().await == old);
        keep(MasterKey::new(NEW).replacing(OLD)).await.unwrap();
        assert_ne!(held().await, old);
        assert!(other(keep(MasterKey::new(OLD)).await));
        keep(MasterKey::new(NEW)).await.unwrap();
        // An operator who has lost the key confirms it explicitly.
        keep_fingerprint(hub.store(), &MasterKey::new([9; 32]), &Environment::system(), true).await.unwrap();
        assert!(other(keep(MasterKey::new(NEW)).await));
        keep(MasterKey::new([9; 32])).await.unwrap();
        let acts = acts(&hub, "", "").await;
        let acts: Vec<_> = acts.iter().map(|act| (text(&act["action"]), &act["detail"]["lost"])).collect();
        let replaced = |lost| ("master_key.replaced", lost);
        assert_eq!(acts, [replaced(&json!(true)), replaced(&json!(false))], "the first one replaced none");
    }
}

/// A database from before fingerprints recognises its key by its sealed data.
#[tokio::test]
async fn what_was_sealed_tells_whose_it_is() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    let environment = Environment::system();
    let keep = async |key: [u8; 32]| {
        keep_fingerprint(fixture.hub.store(), &MasterKey::new(key), &environment, false).await
    };
    assert!(matches!(keep(NEW).await, Err(FingerprintError::OtherKey)));
    keep(OLD).await.unwrap();
}
