//! A transaction that counts what is asked of it: cost as a number, which no busy machine changes.

use chorus_store::{Kind, Param, Row, StoreError, Tx};
use uuid::Uuid;

/// See the [module](self).
pub(crate) struct Counting<'a> {
    tx: &'a mut dyn Tx,
    /// How many statements it was asked for, those that number a stream among them.
    pub(crate) statements: u32,
    /// How many rows came back.
    pub(crate) rows: u32,
    /// How often others were made to wait.
    pub(crate) locks: u32,
}

impl<'a> Counting<'a> {
    pub(crate) fn new(tx: &'a mut dyn Tx) -> Self {
        Self { tx, statements: 0, rows: 0, locks: 0 }
    }
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
        self.statements += 1;
        self.tx.next_seq(stream)
    }

    fn head(&mut self, stream: Uuid) -> Result<i64, StoreError> {
        self.statements += 1;
        self.tx.head(stream)
    }

    fn lock(&mut self, stream: Uuid) -> Result<(), StoreError> {
        self.statements += 1;
        self.locks += 1;
        self.tx.lock(stream)
    }

    fn kind(&self) -> Kind {
        self.tx.kind()
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.tx.after_commit(action);
    }
}
