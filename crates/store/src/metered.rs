//! A transaction that says what it cost: a number that no busy machine changes, for tests and for whoever looks for what is dear.

use crate::{Kind, Param, Row, StoreError, Tx};
use uuid::Uuid;

/// See the [module](self).
pub struct Metered<'a> {
    tx: &'a mut dyn Tx,
    /// What was asked of the database, in order; for what is no statement of the caller's, what it is.
    pub statements: Vec<&'static str>,
    /// How many rows came back.
    pub rows: usize,
    /// How many bytes of text and blobs were bound to statements that write.
    pub bytes_written: usize,
    /// How often others were made to wait, where there are others.
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

    fn next_seq(&mut self, stream: Uuid) -> Result<i64, StoreError> {
        self.statements.push("number a stream");
        self.tx.next_seq(stream)
    }

    fn head(&mut self, stream: Uuid) -> Result<i64, StoreError> {
        self.statements.push("look at a stream");
        self.tx.head(stream)
    }

    fn lock(&mut self, stream: Uuid) -> Result<(), StoreError> {
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
}
