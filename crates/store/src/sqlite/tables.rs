//! Determines the tables that a statement reads and writes, from SQLite's authorizer.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Some of the tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TableSet(u128);

impl TableSet {
    pub(super) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The tables of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Touched {
    /// It reads or writes these.
    pub(super) any: TableSet,
    pub(super) written: TableSet,
}

/// Listens to what a connection prepares.
#[derive(Clone, Default)]
pub(super) struct Listener(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    /// A table's number is its place here.
    tables: Vec<String>,
    touched: Touched,
}

impl Listener {
    pub(super) fn listen(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let heard = self.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            heard.hear(context.action);
            Authorization::Allow
        }))
    }

    /// Returns the tables of the statements prepared since the last call.
    pub(super) fn take(&self) -> Touched {
        std::mem::take(&mut self.heard().touched)
    }

    fn hear(&self, action: AuthAction<'_>) {
        let (table, writes) = match action {
            AuthAction::Read { table_name, .. } => (table_name, false),
            AuthAction::Insert { table_name }
            | AuthAction::Delete { table_name }
            | AuthAction::Update { table_name, .. } => (table_name, true),
            _ => return,
        };
        let mut heard = self.heard();
        let table = heard.set_of(table);
        heard.touched.any.add(table);
        if writes {
            heard.touched.written.add(table);
        }
    }

    /// A panic cannot leave it half changed, so a poisoned lock is still good.
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    fn set_of(&mut self, table: &str) -> TableSet {
        let known = self.tables.iter().position(|known| known == table);
        let number = known.unwrap_or_else(|| {
            self.tables.push(table.to_owned());
            self.tables.len() - 1
        });
        // Beyond as many as there are bits each counts as all of them.
        TableSet(
            u32::try_from(number).ok().and_then(|number| 1_u128.checked_shl(number)).unwrap_or(u128::MAX),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statement_reads_and_writes() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE a (x); CREATE TABLE b (y); CREATE TABLE c (z)").unwrap();
        let listener = Listener::default();
        listener.listen(&mut connection).unwrap();
        let touched = |sql: &str| {
            connection.prepare(sql).unwrap();
            listener.take()
        };
        let [a, b, c] = ["a", "b", "c"].map(|table| touched(&format!("SELECT COUNT(*) FROM {table}")).any);
        assert!(!a.meets(b) && !a.meets(c) && !b.meets(c));
        let moved = touched("INSERT INTO a SELECT y FROM b WHERE y NOT IN (SELECT x FROM a)");
        assert!(moved.any.meets(a) && moved.any.meets(b) && !moved.any.meets(c));
        assert_eq!(moved.written, a);
        assert_eq!(touched("UPDATE c SET z = (SELECT MAX(x) FROM a)").written, c);
        assert_eq!(touched("DELETE FROM b WHERE 1").written, b);
        assert_eq!(touched("SELECT 1"), Touched::default());
    }

    #[test]
    fn beyond_as_many_as_there_are_bits_each_counts_as_all() {
        let mut heard = Heard::default();
        let sets: Vec<_> = (0..130).map(|n| heard.set_of(&format!("t{n}"))).collect();
        assert!(!sets[0].meets(sets[127]));
        assert!(sets[0].meets(sets[128]) && sets[129].meets(sets[128]));
    }
}
