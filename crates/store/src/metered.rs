//! A transaction that says what it cost: a number that no busy machine changes, for tests and for whoever looks for what is dear.

use crate::usage::Meter;
use crate::{Kind, Param, Row, StoreError, StreamKey, Tx};
use std::sync::Arc;

pub struct Metered<'a> {
    tx: &'a mut dyn Tx,
    /// The statements in order; for other operations, their name.
    pub statements: Vec<&'static str>,
    /// The number of rows returned.
    pub rows: usize,
    /// The bytes of text and blobs bound to writing statements.
    pub bytes_written: usize,
    /// The number of locks taken.
    pub locks: usize,
}

impl std::fmt::Debug for Metered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { statements, rows, bytes_written, .. } = self;
        write!(f, "{rows} rows, {bytes_written} bytes written by {statements:#?}")
    }
}

impl<'a> Metered<'a> {
    /// Nothing was asked of this transaction yet.
    pub fn new(tx: &'a mut dyn Tx) -> Self {
        Self { tx, statements: vec![], rows: 0, bytes_written: 0, locks: 0 }
    }

    fn write(&mut self, sql: &'static str, params: &[Param<'_>]) {
        self.statements.push(sql);
        let length = |param: &Param<'_>| match param {
            Param::Null | Param::Int(_) => 0,
            Param::Text(text) => text.len(),
            Param::Bytes(bytes) => bytes.len(),
        };
        self.bytes_written += params.iter().map(length).sum::<usize>();
    }
}

impl Tx for Metered<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.write(sql, params);
        self.tx.execute(sql, params)
    }

    fn append(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.write(sql, params);
        self.tx.append(sql, params)
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.statements.push(sql);
        let rows = &mut self.rows;
        self.tx.each(sql, params, &mut |row| {
            *rows += 1;
            take(row)
        })
    }

    fn next_seq(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        self.statements.push("number a stream");
        self.tx.next_seq(stream)
    }

    fn head(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        self.statements.push("look at a stream");
        self.tx.head(stream)
    }

    fn set_head(&mut self, stream: StreamKey, head: i64) -> Result<(), StoreError> {
        self.statements.push("set a stream");
        self.tx.set_head(stream, head)
    }

    fn lock(&mut self, stream: StreamKey) -> Result<(), StoreError> {
        self.locks += 1;
        // On SQLite it costs nothing.
        if self.kind() == Kind::Postgres {
            self.statements.push("lock a stream");
        }
        self.tx.lock(stream)
    }

    fn kind(&self) -> Kind {
        self.tx.kind()
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.tx.after_commit(action);
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        self.tx.meter()
    }
}
