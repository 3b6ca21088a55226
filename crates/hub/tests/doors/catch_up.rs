//! The messages of an import are indexed while the hub works.

use crate::support::{SOON, Setup, TestHub, eventually};
use chorus_store::{StoreError, Tx, TxExt};
use serde_json::json;
use std::time::Instant;

async fn change(hub: &TestHub, statements: &'static [&'static str]) {
    let write = |tx: &mut dyn Tx| statements.iter().try_for_each(|sql| tx.execute(sql, &[]).map(drop));
    hub.store().write::<_, StoreError, _>(write).await.unwrap();
}

pub(crate) async fn number(hub: &TestHub, sql: &'static str) -> i64 {
    let read = move |tx: &mut dyn Tx| tx.first(sql, &[])?.map_or(Ok(0), |mut row| row.int("count"));
    hub.store().read::<_, StoreError, _>(read).await.unwrap()
}

const LEFT: &str = "SELECT COUNT(*) AS count FROM settings WHERE name = 'search_indexed_from'";
const BEGIN: &str = "INSERT INTO settings (name, value) VALUES ('search_indexed_from', 'ffffffff-ffff-ffff-ffff-ffffffffffff')";

#[tokio::test]
async fn a_row_that_cannot_be_indexed_keeps_no_other_from_it() {
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.start();
        let anna = hub.register("anna").await;
        let channel = hub.channel(&anna, &json!({"name": "c"})).await;
        for content in ["word one", "word two", "word three"] {
            hub.say(&channel, &anna, &json!({"content": content})).await;
        }
        change(
            &hub,
            &[
                "DELETE FROM search",
                "UPDATE events SET body = 'not JSON' WHERE body LIKE '%word two%'",
                BEGIN,
            ],
        )
        .await;
        let hub = hub.restart(|_| ()).await;
        eventually(async || number(&hub, LEFT).await, |left| *left == 0).await;
        let said = hub.get("/api/v1/search?q=word", Some(&anna)).await;
        assert_eq!(said.body["items"].as_array().unwrap().len(), 2, "{}", said.text);
    }
}

/// Indexing an import does not delay other work.
#[tokio::test]
async fn reconcilers_go_on_meanwhile() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.register("anna").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.say(&channel, &anna, &json!({"content": "one of many words"})).await;
    change(
        &hub,
        &[
            "INSERT INTO events (id, conversation_id, seq, kind, author_id, author_kind, trace_id, created_at, body)
             WITH RECURSIVE c (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM c WHERE n < 41000)
             SELECT randomblob(16), conversation_id, n, kind, author_id, author_kind, trace_id, created_at, body
             FROM events JOIN c WHERE kind = 'message'",
            BEGIN,
        ],
    )
    .await;
    let hub = hub.restart(|_| ()).await;
    let mut inbox = hub.inbox(&bob, None).await;
    let begin = Instant::now();
    assert_eq!(hub.send(&anna, "anna", "bob", "hello").await.status, 200);
    inbox.texts(1).await;
    let handed = async || number(&hub, "SELECT MAX(handed_through) AS count FROM inboxes").await;
    eventually(handed, |handed| *handed == 1).await;
    assert_eq!(number(&hub, LEFT).await, 1, "of the messages, after {:?}", begin.elapsed());
    assert!(hub.stop().await < SOON);
}
