//! The writer's query cache: results of queries whose tables were not written since.
//!
//! Only the writer knows of every change, so only it caches. Changes are tracked by table, not by row. This
//! suits rows that are read with every message and seldom change, such as the directory.

use super::tables::TableSet;
use crate::tx::{Param, Row};
use std::collections::HashMap;

/// The most answers; past it all are forgotten.
const MAX_ANSWERS: usize = 10_000;

#[derive(Default)]
pub(super) struct Remembered {
    answers: HashMap<Vec<u8>, Row>,
    /// The tables that the answers were read from.
    tables: TableSet,
    /// The question at hand.
    question: Vec<u8>,
}

impl Remembered {
    /// The first row of the answer to a question, if it is known that there is one.
    pub(super) fn find(&mut self, sql: &'static str, params: &[Param<'_>]) -> Option<Row> {
        self.question.clear();
        self.question.extend_from_slice(&sql.as_ptr().addr().to_ne_bytes());
        for param in params {
            let number;
            let (kind, said) = match param {
                Param::Null => (0, [].as_slice()),
                Param::Int(value) => {
                    number = value.to_ne_bytes();
                    (1, number.as_slice())
                }
                Param::Text(text) => (2, text.as_bytes()),
                Param::Bytes(bytes) => (3, *bytes),
            };
            // With its kind and length before it, no value runs into the next.
            self.question.push(kind);
            self.question.extend_from_slice(&said.len().to_ne_bytes());
            self.question.extend_from_slice(said);
        }
        self.answers.get(&self.question).cloned()
    }

    /// The first row of the answer to the question that was asked last, read from these tables.
    pub(super) fn keep(&mut self, tables: TableSet, answer: Row) {
        if self.answers.len() >= MAX_ANSWERS {
            self.forget();
        }
        self.tables.add(tables);
        self.answers.insert(self.question.clone(), answer);
    }

    /// These tables were written to.
    pub(super) fn change(&mut self, tables: TableSet) {
        if self.tables.meets(tables) {
            self.forget();
        }
    }

    pub(super) fn forget(&mut self) {
        self.answers.clear();
        self.tables = TableSet::default();
    }
}
