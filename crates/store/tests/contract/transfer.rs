//! Exports of builds that named streams by their id alone.

use crate::channel::{room, say};
use crate::support::{Fixture, agent, deliver, message, on_both, read, write};
use chorus_store::StreamKey;
use chorus_store::conversations::History;
use chorus_store::transfer::{Import, TransferError};
use chorus_store::{Tx, transfer};
use serde_json::{Value, json};
use std::io::Cursor;

on_both![an_export_without_kinds_of_streams];

/// Exports a store as such a build would have.
async fn old_export(fixture: &Fixture) -> String {
    let export = fixture.store.read::<_, TransferError, _>(|tx: &mut dyn Tx| {
        let mut file = vec![];
        transfer::export(tx, "old", &mut file, &|_, _| ())?;
        Ok(file)
    });
    let text = String::from_utf8(export.await.unwrap()).unwrap();
    let (mut old, mut in_streams) = (vec![], false);
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line.get("schema").is_some() {
            line["schema"] = json!(45);
        } else if let Some(table) = line.get("table") {
            in_streams = table == "streams";
            if in_streams {
                line["columns"] = json!(["id", "head"]);
            }
        } else if in_streams && let Some(row) = line.as_array_mut() {
            row.remove(0);
        }
        old.push(line.to_string());
    }
    old.join("\n")
}

/// Each stream goes on where it was.
async fn an_export_without_kinds_of_streams(old: Fixture) {
    let (ann, bob) = (agent(&old.store, "ann").await, agent(&old.store, "bob").await);
    for _ in 0..3 {
        deliver(&old.store, message(&ann, &bob)).await;
    }
    let room = room(&old.store, History::All).await;
    for text in ["one", "two"] {
        say(&old.store, room, room.owner, text).await;
    }
    write(&old.store, |tx| (0..4).map(|_| tx.next_seq(StreamKey::LOG)).collect::<Result<Vec<_>, _>>()).await;
    let streams = [bob.id.into(), room.id.into(), StreamKey::LOG];
    let heads = move |tx: &mut dyn Tx| streams.iter().map(|stream: &StreamKey| tx.head(*stream)).collect();
    let before: Vec<i64> = read(&old.store, heads).await;
    assert!(before.iter().all(|head| *head > 1), "{before:?}");

    let mut import = Import::open(Cursor::new(old_export(&old).await)).unwrap();
    let new = old.another();
    let (tables, through) = write(&new.store, |tx| Ok(transfer::prepare(tx, "old").unwrap())).await;
    import.begin(tables, through).unwrap();
    while let Some(step) = import.next_step().unwrap() {
        new.store
            .write::<_, TransferError, _>(move |tx: &mut dyn Tx| transfer::write(tx, "old", &step))
            .await
            .unwrap();
    }
    assert_eq!(read::<Vec<i64>, _>(&new.store, heads).await, before);
    let left =
        crate::support::count(&new.store, "SELECT COUNT(*) AS count FROM streams WHERE kind = 'unsorted'")
            .await;
    assert_eq!(left, 0);
}
