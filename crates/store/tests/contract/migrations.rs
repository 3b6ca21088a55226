//! The schema of both databases, and reopening a database.

use crate::support::{Fixture, PATIENCE, Place, agent, count, entries, message, on_both, read, send, write};
use chorus_store::{Kind, Store, StoreError, Tx, TxExt, directory, settings};
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
        Kind::Sqlite => "PRAGMA user_version = 999",
        Kind::Postgres => "INSERT INTO schema_version (version) VALUES (999)",
    };
    write(&fixture.store, |tx| settings::set(tx, "kept", "1")).await;
    write(&fixture.store, move |tx: &mut dyn Tx| tx.execute(set_version, &[])).await;
    let place = fixture.close();
    for _ in 0..2 {
        let refused = place.open().err().unwrap();
        let StoreError::Newer { found: 999, known } = refused else { panic!("{refused}") };
        assert!((100..999).contains(&known));
    }
}

/// Every node migrates at its start, or waits for the one that does.
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
        // Each migration ran once.
        let again =
            "SELECT COUNT(*) - COUNT(DISTINCT version) + MIN(version) - 100 AS count FROM schema_version";
        assert_eq!(count(&store, again).await, 0);
    }
}

/// Maps table and column to type and nullability, and index to table. The search index is specific to each
/// database.
type Schema = BTreeMap<String, String>;

const SQLITE_SCHEMA: &str = "
    SELECT t.name || '.' || c.name AS name,
           replace(replace(c.type, 'INTEGER', 'BIGINT'), 'BLOB', 'BYTEA')
           || CASE WHEN c.\"notnull\" = 1 THEN ' NOT NULL' ELSE '' END
           || CASE WHEN c.pk > 0 THEN ' KEY ' || c.pk ELSE '' END AS kind
    FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'search%'
    UNION ALL
    SELECT i.name, i.tbl_name || CASE WHEN l.\"unique\" = 1 THEN ' UNIQUE ' ELSE ' ' END
           || CASE WHEN l.partial = 1 THEN 'PARTIAL ' ELSE '' END
           || (SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
    FROM sqlite_schema i JOIN pragma_index_list(i.tbl_name) l ON l.name = i.name
    WHERE i.type = 'index' AND i.sql IS NOT NULL";

const POSTGRES_SCHEMA: &str = "
    SELECT (c.table_name || '.' || c.column_name)::text AS name,
           (upper(c.data_type) || CASE WHEN c.is_nullable = 'NO' THEN ' NOT NULL' ELSE '' END
            || COALESCE(' KEY ' || k.ordinal_position, ''))::text AS kind
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
        tx.query(sql, &[])?.into_iter().map(|mut row| Ok((row.text("name")?, row.text("kind")?))).collect()
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
