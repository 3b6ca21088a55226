//! Opening databases of all ages.

use crate::attention::MENTIONED;
use crate::support::{Fixture, PATIENCE, Place, agent, count, entries, message, on_both, read, send, write};
use ::postgres::{Client, NoTls};
use chorus_protocol::ids::{AgentId, DeliveryId};
use chorus_protocol::words::{DeliveryState, Disposition, EntryKind};
use chorus_store::{Kind, Store, StoreError, Tx, TxExt, deliveries, directory, push, settings};
use std::collections::BTreeMap;
use std::time::Instant;

on_both![opening_again_is_harmless; with_threads: a_newer_database_is_refused];

async fn opening_again_is_harmless(mut fixture: Fixture) {
    let (anna, bob) = (agent(&fixture.store, "anna").await, agent(&fixture.store, "bob").await);
    send(&fixture.store, message(&anna, &bob)).await.unwrap();
    let before = schema(&fixture.store).await;
    for _ in 0..2 {
        fixture = fixture.reopen();
        assert_eq!(read(&fixture.store, directory::count).await, 2);
        assert_eq!(entries(&fixture.store, bob.id).await.len(), 1);
        assert_eq!(schema(&fixture.store).await, before);
    }
}

async fn a_newer_database_is_refused(fixture: Fixture) {
    let set_version = match fixture.store.kind() {
        Kind::Sqlite => "PRAGMA user_version = 99",
        Kind::Postgres => "INSERT INTO schema_version (version) VALUES (99)",
    };
    write(&fixture.store, |tx| settings::set(tx, "kept", "1")).await;
    write(&fixture.store, move |tx: &mut dyn Tx| tx.execute(set_version, &[])).await;
    let place = fixture.close();
    for _ in 0..2 {
        let refused = place.open().err().unwrap();
        let StoreError::Newer { found: 99, known } = refused else { panic!("{refused}") };
        assert!((1..99).contains(&known));
    }
}

/// Every node does at its start what needs to be done, or waits for the one that does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_open_a_fresh_database_at_once() {
    for _ in 0..3 {
        let place = Place::postgres();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let opening: Vec<_> = (0..4).map(|_| scope.spawn(|| place.open().map(drop))).collect();
            for thread in opening {
                thread.join().unwrap().unwrap();
            }
        });
        assert!(begin.elapsed() < PATIENCE);
        let store = place.open().unwrap();
        // Each ran once.
        let again = "SELECT COUNT(*) - COUNT(DISTINCT version) + MIN(version) - 1 FROM schema_version";
        assert_eq!(count(&store, again).await, 0);
    }
}

/// Table and column to type and whether it may be NULL; index to its table. The words of messages are indexed by each
/// database in its own way.
type Schema = BTreeMap<String, String>;

const SQLITE_SCHEMA: &str = "
    SELECT t.name || '.' || c.name,
           replace(replace(c.type, 'INTEGER', 'BIGINT'), 'BLOB', 'BYTEA')
           || CASE WHEN c.\"notnull\" = 1 THEN ' NOT NULL' ELSE '' END
           || CASE WHEN c.pk > 0 THEN ' KEY ' || c.pk ELSE '' END
    FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'search%'
    UNION ALL
    SELECT i.name, i.tbl_name || CASE WHEN l.\"unique\" = 1 THEN ' UNIQUE ' ELSE ' ' END
           || CASE WHEN l.partial = 1 THEN 'PARTIAL ' ELSE '' END
           || (SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
    FROM sqlite_schema i JOIN pragma_index_list(i.tbl_name) l ON l.name = i.name
    WHERE i.type = 'index' AND i.sql IS NOT NULL";

const POSTGRES_SCHEMA: &str = "
    SELECT (c.table_name || '.' || c.column_name)::text,
           (upper(c.data_type) || CASE WHEN c.is_nullable = 'NO' THEN ' NOT NULL' ELSE '' END
            || COALESCE(' KEY ' || k.ordinal_position, ''))::text
    FROM information_schema.columns c
    LEFT JOIN information_schema.key_column_usage k
           ON k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.column_name = c.column_name
    WHERE c.table_schema = 'public' AND c.table_name NOT IN ('schema_version', 'search')
    UNION ALL
    SELECT i.relname::text,
           (t.relname || CASE WHEN x.indisunique THEN ' UNIQUE ' ELSE ' ' END
            || CASE WHEN x.indpred IS NOT NULL THEN 'PARTIAL ' ELSE '' END
            || (SELECT string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = i.oid))::text
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = 'public' AND NOT x.indisprimary AND t.relname <> 'search'";

async fn schema(store: &Store) -> Schema {
    let sql = match store.kind() {
        Kind::Sqlite => SQLITE_SCHEMA,
        Kind::Postgres => POSTGRES_SCHEMA,
    };
    read(store, move |tx| {
        tx.query(sql, &[])?.into_iter().map(|mut row| Ok((row.text(0)?, row.text(1)?))).collect()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_databases_have_the_same_schema() {
    let (sqlite, postgres) = (Fixture::sqlite(), Fixture::postgres());
    let (sqlite, postgres) = (schema(&sqlite.store).await, schema(&postgres.store).await);
    assert!(sqlite.contains_key("deliveries.seq") && sqlite.contains_key("events_by_place"), "{sqlite:?}");
    assert_eq!(sqlite, postgres);
}

/// The first seven migrations, as both databases had them before documents knew their places.
macro_rules! seven {
    ($database:literal) => {
        [
            include_str!(concat!("../../migrations/", $database, "/0001_relay.sql")),
            include_str!(concat!("../../migrations/", $database, "/0002_unplaced.sql")),
            include_str!(concat!("../../migrations/", $database, "/0003_people.sql")),
            include_str!(concat!("../../migrations/", $database, "/0004_former_names.sql")),
            include_str!(concat!("../../migrations/", $database, "/0005_pushing.sql")),
            include_str!(concat!("../../migrations/", $database, "/0006_reading.sql")),
            include_str!(concat!("../../migrations/", $database, "/0007_sealed.sql")),
        ]
    };
}

/// One conversation with 20,000 versions of a document, each with an event before its own that is none, and one without any.
fn many_versions(number: &str, numbers: &str) -> String {
    let id = |n: &str| number.replace('?', n);
    let (conversation, author) = (id("1"), id("2"));
    let event = |first: &str, seq: &str, kind: &str| {
        format!(
            "INSERT INTO events (id, conversation_id, seq, kind, author_id, trace_id, created_at, body)
             SELECT {}, {conversation}, {seq}, '{kind}', {author}, {}, 0, '{{}}' FROM {numbers};",
            id(&format!("n + {first}")),
            id("n")
        )
    };
    let artifact = |version: &str, from: &str| {
        format!(
            "INSERT INTO artifacts (conversation_id, slug, version, title, content_type, content, author_kind, author_id,
                                    created_at, trace_id)
             SELECT {conversation}, 'a', {version}, 't', 'text/plain', 'x', 'agent', {author}, 0, {} FROM {from};",
            id(version)
        )
    };
    [
        event("100000", "2 * n", "message"),
        event("200000", "2 * n + 1", "artifact"),
        artifact("n", numbers),
        artifact("99999", "(SELECT 1) AS one"),
    ]
    .concat()
}

/// Makes a database of an old version and puts into it what `rows` says, which gets the text of an id with the number `?`.
async fn fill(place: &Place, migrations: String, version: i64, rows: impl Fn(&str) -> String) {
    match place {
        Place::Sqlite(_) => {
            let file = rusqlite::Connection::open(place.file().path.unwrap()).unwrap();
            file.execute_batch(&migrations).unwrap();
            file.execute_batch(&rows("CAST(printf('%016d', ?) AS BLOB)")).unwrap();
            file.pragma_update(None, "user_version", version).unwrap();
        }
        Place::Postgres(database) => {
            let (url, rows) = (database.url.clone(), rows("CAST(lpad(CAST(? AS TEXT), 16, '0') AS BYTEA)"));
            let fill = move || {
                let mut client = Client::connect(&url, NoTls).unwrap();
                client.batch_execute(&migrations).unwrap();
                client.batch_execute(&rows).unwrap();
                let version = format!("INSERT INTO schema_version VALUES ({version})");
                client
                    .batch_execute(&format!(
                        "CREATE TABLE schema_version (version BIGINT NOT NULL); {version}"
                    ))
                    .unwrap();
            };
            tokio::task::spawn_blocking(fill).await.unwrap();
        }
    }
}

/// However many there are, a hub starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_versions_get_their_places_soon() {
    for place in [Place::sqlite(), Place::postgres()] {
        let numbers = match &place {
            Place::Sqlite(_) => {
                "(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n FROM c)"
            }
            Place::Postgres(_) => "generate_series(1, 20000) AS c (n)",
        };
        let seven = match &place {
            Place::Sqlite(_) => seven!("sqlite").concat(),
            Place::Postgres(_) => seven!("postgres").concat(),
        };
        fill(&place, seven, 7, |number| many_versions(number, numbers)).await;
        let begin = Instant::now();
        let store = place.open().unwrap();
        assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
        let wrong = "SELECT COUNT(*) FROM artifacts WHERE seq <> CASE WHEN version = 99999 THEN 0 ELSE 2 * version + 1 END";
        assert_eq!(
            (count(&store, wrong).await, count(&store, "SELECT COUNT(*) FROM artifacts").await),
            (0, 20001)
        );
    }
}

/// The migrations after the first seven, before deliveries and chats were parted.
macro_rules! five_more {
    ($database:literal) => {
        [
            include_str!(concat!("../../migrations/", $database, "/0008_search.sql")),
            include_str!(concat!("../../migrations/", $database, "/0009_recovery.sql")),
            include_str!(concat!("../../migrations/", $database, "/0010_consent.sql")),
            include_str!(concat!("../../migrations/", $database, "/0011_endpoint_proof.sql")),
            include_str!(concat!("../../migrations/", $database, "/0012_documents.sql")),
        ]
    };
}

/// One of each state, all to the agent 1.
fn old_deliveries(number: &str) -> String {
    let id = |n: i64| number.replace('?', &n.to_string());
    let agent = format!(
        "INSERT INTO agents (id, name, name_key, key_hash, endpoint, registered_at, updated_at, trace_id)
         VALUES ({0}, 'bob', 'bob', {0}, 'https://agent.example/', 0, 0, {0});
         INSERT INTO inboxes (agent_id) VALUES ({0});
         INSERT INTO settings (name, value) VALUES ('kept', '1'), ('mcp sessions of bob in ch_1', '[]');",
        id(1)
    );
    let deliveries = [
        "1, 'message', 'inbox', 'queued', 'none', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
        "2, 'chat', 'webhook', 'waiting', 'push', 2, 500, 21, 'direct_mention', 9000, NULL, NULL, 'timeout'",
        "3, 'chat', 'webhook', 'waiting', 'push', 0, NULL, 21, 'direct_mention', 9001, NULL, NULL, NULL",
        "4, 'channel', 'channel', 'dead', 'push', 9, NULL, 22, 'direct_message', 300, NULL, NULL, 'gone'",
        "5, 'chat', 'inbox', 'delivered_sse', 'none', 0, NULL, 22, 'direct_mention', NULL, NULL, 'responded', NULL",
        "6, 'chat', 'webhook', 'waiting', 'push', 1, 400, 23, 'direct_message', 9002, 600, NULL, NULL",
        "7, 'message', 'webhook', 'sending', 'none', 1, NULL, NULL, NULL, NULL, 600, NULL, NULL",
    ];
    let rows = deliveries.map(|row| {
        let columns: Vec<_> = row.split(", ").collect();
        let [seq, kind, transport, state, retry, attempt, due_at, conversation, reason, give_up_at, lease, made, detail] =
            columns[..]
        else {
            panic!("{row}")
        };
        let conversation = conversation.parse().map_or("NULL".to_owned(), id);
        let owner = if lease == "NULL" { "NULL".to_owned() } else { id(8) };
        let at = if made == "NULL" { "NULL" } else { "77" };
        format!(
            "INSERT INTO deliveries (agent_id, seq, event_id, kind, transport, state, retry, attempt, due_at, conversation_id,
                 reason, give_up_at, lease_owner, lease_until, disposition, disposition_at, detail, created_at, updated_at, trace_id)
             VALUES ({0}, {seq}, {1}, {kind}, {transport}, {state}, {retry}, {attempt}, {due_at}, {conversation}, {reason},
                 {give_up_at}, {owner}, {lease}, {made}, {at}, {detail}, 100 + {seq}, 200 + {seq}, {0});",
            id(1),
            id(30),
        )
    });
    agent + &rows.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_an_old_database_go_on() {
    let bob = AgentId(uuid::Uuid::from_bytes(*b"0000000000000001"));
    for place in [Place::sqlite(), Place::postgres()] {
        let twelve = match &place {
            Place::Sqlite(_) => seven!("sqlite").concat() + &five_more!("sqlite").concat(),
            Place::Postgres(_) => seven!("postgres").concat() + &five_more!("postgres").concat(),
        };
        fill(&place, twelve, 12, old_deliveries).await;
        let store = place.open().unwrap();
        let id = move |seq| DeliveryId { agent: bob, seq };
        let get = |seq| read(&store, move |tx| push::get(tx, DeliveryId { agent: bob, seq }));
        for seq in [1, 7] {
            assert_eq!(get(seq).await, None, "an envelope has no chat");
        }
        let first = get(2).await.unwrap();
        assert_eq!((first.state, first.attempt, first.due_at), (DeliveryState::Waiting, 2, Some(500)));
        assert_eq!((first.attention, first.created_at, first.updated_at), (MENTIONED, 102, 202));
        assert_eq!((first.kind, first.detail.as_deref()), (EntryKind::Chat, Some("timeout")));
        let behind = get(3).await.unwrap();
        assert_eq!(
            (behind.state, behind.due_at, behind.conversation),
            (DeliveryState::Waiting, None, first.conversation)
        );
        let responded = get(5).await.unwrap();
        assert_eq!(responded.state, DeliveryState::DeliveredSse);
        assert_eq!(responded.disposition, Some((Disposition::Responded, 77)));
        let dead = push::Filter { state: Some(DeliveryState::Dead), ..push::Filter::default() };
        let dead = read(&store, move |tx| push::list(tx, &dead, None, 10)).await;
        assert_eq!(dead.iter().map(|record| record.id).collect::<Vec<_>>(), [id(4)]);

        // What was under way is tried again, what waits has its turn, what was given up can be replayed.
        let leased = crate::push::lease(&store, 600).await;
        assert_eq!(crate::push::ids(&leased), [id(2), id(6)]);
        assert_eq!((leased[0].attempt, leased[0].give_up_at, leased[1].attempt), (3, 9000, 2));
        assert!(crate::push::taken(&store, &leased[0], 601).await);
        assert_eq!(crate::push::ids(&crate::push::lease(&store, 601).await), [id(3)]);
        assert!(write(&store, move |tx| push::replay(tx, id(4), 602)).await);
        assert_eq!(write(&store, |tx| deliveries::fail_abandoned(tx, 700)).await, 1, "the envelope");
        assert_eq!(count(&store, "SELECT COUNT(*) FROM deliveries").await, 7);
        let kept = read(&store, |tx| settings::get(tx, "kept")).await;
        assert_eq!((kept.as_deref(), count(&store, "SELECT COUNT(*) FROM settings").await), (Some("1"), 1));
    }
}
