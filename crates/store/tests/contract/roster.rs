//! What a message costs does not depend on how many are in the channel: statements and rows are counted, not time.

use crate::attention::post_in;
use crate::channel::{act, join, post_of, room, run};
use crate::support::{Fixture, agent, on_both};
use chorus_store::conversation::{self, ConversationError};
use chorus_store::conversations::History;
use chorus_store::{Kind, Param, Row, Store, StoreError, Tx};
use uuid::Uuid;

on_both![a_message_looks_at_nobody_it_is_not_for];

/// A transaction that counts what is asked of it.
struct Counting<'a> {
    tx: &'a mut dyn Tx,
    statements: u32,
    rows: u32,
}

impl Tx for Counting<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.statements += 1;
        self.tx.execute(sql, params)
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.statements += 1;
        let rows = &mut self.rows;
        self.tx.each(sql, params, &mut |row| {
            *rows += 1;
            take(row)
        })
    }

    fn next_seq(&mut self, stream: Uuid) -> Result<i64, StoreError> {
        self.tx.next_seq(stream)
    }

    fn head(&mut self, stream: Uuid) -> Result<i64, StoreError> {
        self.tx.head(stream)
    }

    fn lock(&mut self, stream: Uuid) -> Result<(), StoreError> {
        self.tx.lock(stream)
    }

    fn kind(&self) -> Kind {
        self.tx.kind()
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.tx.after_commit(action);
    }
}

/// Statements and rows of checking a message and finding whom it concerns, and of posting it.
async fn cost(store: &Store, members: usize) -> [(u32, u32); 2] {
    let room = room(store, History::All).await;
    for n in 0..members {
        let name = format!("m{members}-{n}");
        let id = agent(store, &name).await.id;
        join(store, room, id.into(), &name).await;
    }
    let new = post_of("please look", &[&format!("m{members}-0"), "nobody"], None);
    let work = move |tx: &mut dyn Tx| {
        let act = act(room, room.owner);
        let mut drafted = Counting { tx, statements: 0, rows: 0 };
        conversation::draft_message(&mut drafted, &act, &new)?;
        let drafted = (drafted.statements, drafted.rows);
        let mut posted = Counting { tx, statements: 0, rows: 0 };
        post_in(&mut posted, &act, &new)?;
        Ok::<_, ConversationError>([drafted, (posted.statements, posted.rows)])
    };
    run(store, work).await.unwrap()
}

async fn a_message_looks_at_nobody_it_is_not_for(fixture: Fixture) {
    let few = cost(&fixture.store, 3).await;
    let many = cost(&fixture.store, 60).await;
    assert!(few[0].0 > 0 && few[1].0 > few[0].0, "{few:?}");
    assert_eq!(few, many, "(statements, rows) of the draft and of the whole");
}
