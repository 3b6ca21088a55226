//! Closures that share their round trips: what each of them reads is asked for at once, their streams are numbered at once, and
//! their rows are inserted at once. A batch costs as many round trips as one of its closures alone: for a relay send three, the
//! question, the numbers, and the rows with the COMMIT.
//!
//! A closure cannot be stopped in the middle, but it may be run again. So all closures of the batch are run without a
//! database, in passes: each goes on until it needs something that is not known yet, notes it, and is stopped by an error. Then
//! what they need is fetched for all of them, and they are run again from the start. Of the pass in which nobody needs
//! anything more everything is kept, of those before it nothing. A relay send takes three: who is the receiver; which number is
//! next in its inbox; done.
//!
//! # Why this is as if they ran one after the other
//!
//! - They may read, append rows ([`Tx::append`]) and number one stream each, and nothing else. All reads come before all
//!   writes; a batch in which anybody reads a table that anybody appends to is not done this way, nor one in which a
//!   closure reads something after it has its number. So no closure could have seen what another did.
//! - Numbers are given in the order of the closures, in the last pass, from streams whose rows are locked by then. They are reserved
//!   as often as they were asked for; if one is left over or missing, the batch is not done this way.
//! - A closure that fails in the last pass has left nothing anywhere: what it appended is forgotten. Unless it took a
//!   number; then the batch is not done this way.
//!
//! "Not done this way" means that nothing is returned and the transaction is rolled back; the worker knows another.
//!
//! # Why nodes do not wait for each other for ever
//!
//! Streams are locked by one statement, in the order of their keys, and nothing that could wait comes after it.

use super::many;
use super::session::{After, Column, Session, classify};
use crate::streams::{StreamKey, StreamKind};
use crate::tx::{Cell, Param, Row, Tx};
use crate::work::Work;
use crate::{Kind, StoreError};
use postgres::types::ToSql;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// After so many passes the closures are none of those this is for.
const MAX_PASSES: usize = 6;
/// Numbers as many places in each stream as are wanted, the smallest stream first.
const NUMBER: &str = "INSERT INTO streams (kind, id, head)
     SELECT wanted.kind, wanted.id, wanted.places
     FROM unnest($1::text[], $2::bytea[], $3::bigint[]) AS wanted (kind, id, places) ORDER BY wanted.kind, wanted.id
     ON CONFLICT (kind, id) DO UPDATE SET head = streams.head + excluded.head RETURNING kind, id, head";

/// A statement and its parameters.
type Question = (&'static str, Vec<Cell>);

/// The answers fetched for the closures.
#[derive(Default)]
struct Known {
    rows: HashMap<Question, Vec<Row>>,
    /// The next number of each stream, and the last that is reserved. None before they are.
    numbers: Option<BTreeMap<StreamKey, (i64, i64)>>,
}

/// The effects of one pass over the closures, and what they still need.
#[derive(Default)]
struct Pass {
    questions: HashSet<Question>,
    streams: BTreeMap<StreamKey, i64>,
    rows: BTreeMap<&'static str, Vec<Vec<Cell>>>,
    after: After,
    /// Somebody did what cannot be done together.
    unfit: bool,
}

/// Does them all; nothing, if they cannot be done this way.
pub(super) fn run(session: &mut Session, batch: &mut [Box<dyn Work>]) -> Result<Option<After>, StoreError> {
    let mut known = Known::default();
    for _ in 0..MAX_PASSES {
        let mut pass = Pass::default();
        for work in &mut *batch {
            pass.run(&mut known, &mut **work);
            if pass.unfit {
                return Ok(None);
            }
        }
        // Numbers last, and all at once: until they have what they read, not all closures have said which they want.
        if !pass.questions.is_empty() && known.numbers.is_none() {
            if !ask(session, &pass.questions, &mut known)? {
                return Ok(None);
            }
        } else if !pass.streams.is_empty() && known.numbers.is_none() {
            known.numbers = Some(number(session, &pass.streams)?);
        } else if pass.is_sound(&known) {
            return pass.finish(session, known);
        } else {
            return Ok(None);
        }
    }
    Ok(None)
}

impl Pass {
    fn run(&mut self, known: &mut Known, work: &mut dyn Work) {
        let (actions, rows) = (self.after.actions.len(), self.lengths());
        let mut tx = TogetherTx { known, pass: self, waits: false, numbered: false };
        let keep = work.run(&mut tx);
        let (waits, numbered) = (tx.waits, tx.numbered);
        if keep && !waits {
            return;
        }
        self.unfit |= numbered;
        self.after.actions.truncate(actions);
        for (sql, all) in &mut self.rows {
            all.truncate(rows.get(sql).copied().unwrap_or(0));
        }
    }

    fn lengths(&self) -> BTreeMap<&'static str, usize> {
        self.rows.iter().map(|(sql, rows)| (*sql, rows.len())).collect()
    }

    /// Returns whether this was the last pass, and no closure could have seen the effect of another.
    fn is_sound(&self, known: &Known) -> bool {
        let mut tables: BTreeSet<&str> = self.rows.keys().filter_map(|sql| many::inserts_into(sql)).collect();
        tables.insert("streams");
        let used_up = known.numbers.iter().flatten().all(|(_, (next, last))| next > last);
        let read: BTreeSet<&str> = known.rows.keys().map(|(sql, _)| *sql).collect();
        let apart = read.iter().all(|sql| !tables.iter().any(|table| sql.contains(table)));
        self.questions.is_empty() && self.streams.is_empty() && used_up && apart
    }

    fn finish(mut self, session: &mut Session, known: Known) -> Result<Option<After>, StoreError> {
        for (sql, rows) in self.rows.iter().filter(|(_, rows)| !rows.is_empty()) {
            let Some(prepared) = session.prepare_many(sql).map_err(classify)? else { return Ok(None) };
            let statement = prepared.statement;
            let columns = columns(rows, statement.params().len());
            let columns =
                columns.into_iter().map(|column| Column::Many(column.into_iter().cloned().collect()));
            session.put_off(statement, columns.collect()).map_err(classify)?;
        }
        let numbers = known.numbers.into_iter().flatten();
        self.after.moved = numbers.map(|(stream, (_, last))| (stream, last)).collect();
        Ok(Some(self.after))
    }
}

/// The values of each parameter.
fn columns<'a>(rows: impl IntoIterator<Item = &'a Vec<Cell>> + Clone, count: usize) -> Vec<Vec<&'a Cell>> {
    const ABSENT: &Cell = &Cell::Null;
    let column = |n| rows.clone().into_iter().map(|row: &Vec<Cell>| row.get(n).unwrap_or(ABSENT)).collect();
    (0..count).map(column).collect()
}

/// Asks everything at once, one statement each. False if one of them cannot be asked so.
fn ask(session: &mut Session, questions: &HashSet<Question>, known: &mut Known) -> Result<bool, StoreError> {
    let mut asked: BTreeMap<&'static str, Vec<&Vec<Cell>>> = BTreeMap::new();
    for (sql, params) in questions {
        asked.entry(sql).or_default().push(params);
    }
    for (sql, rows) in asked {
        let Some(prepared) = session.prepare_many(sql).map_err(classify)? else { return Ok(false) };
        let columns = columns(rows.iter().copied(), prepared.statement.params().len());
        let params: Vec<_> = columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
        let mut found: Vec<Vec<Row>> = rows.iter().map(|_| vec![]).collect();
        for row in session.query(&prepared.statement, &params).map_err(classify)? {
            let mut row = prepared.row(&row)?;
            let number = row.int(many::NUMBER)?;
            let place = usize::try_from(number - 1).ok().and_then(|place| found.get_mut(place));
            place.ok_or_else(|| StoreError::unexpected("an answer nobody asked for"))?.push(row);
        }
        for (params, found) in rows.into_iter().zip(found) {
            known.rows.insert((sql, params.clone()), found);
        }
    }
    Ok(true)
}

/// Reserves places: the first and the last of each stream.
fn number(
    session: &mut Session,
    streams: &BTreeMap<StreamKey, i64>,
) -> Result<BTreeMap<StreamKey, (i64, i64)>, StoreError> {
    let kinds: Vec<&str> = streams.keys().map(|stream| stream.kind.as_str()).collect();
    let ids: Vec<&[u8]> = streams.keys().map(|stream| stream.id.as_bytes().as_slice()).collect();
    let places: Vec<i64> = streams.values().copied().collect();
    let prepared = session.prepare(NUMBER).map_err(classify)?;
    session.make_begun().map_err(classify)?;
    let mut numbers = BTreeMap::new();
    for row in session.query(&prepared.statement, &[&kinds, &ids, &places]).map_err(classify)? {
        let mut row = prepared.row(&row)?;
        let kind = StreamKind::parse(&row.text("kind")?)
            .ok_or_else(|| StoreError::unexpected("an unknown kind of stream"))?;
        let (stream, last) = (StreamKey { kind, id: row.uuid("id")? }, row.int("head")?);
        let count = streams.get(&stream).copied().unwrap_or(0);
        numbers.insert(stream, (last - count + 1, last));
    }
    Ok(numbers)
}

/// The transaction that a closure sees.
struct TogetherTx<'a> {
    known: &'a mut Known,
    pass: &'a mut Pass,
    /// It needs something that is not known yet.
    waits: bool,
    /// It has its number.
    numbered: bool,
}

impl TogetherTx<'_> {
    /// Ends this run of the closure. The error is one that passes, and reaches nobody: the closure will be run again.
    fn stop<T>(&mut self) -> Result<T, StoreError> {
        self.waits = true;
        Err(StoreError::Conflict("it waits for what others of its batch need too".into()))
    }

    fn refuse<T>(&mut self) -> Result<T, StoreError> {
        self.pass.unfit = true;
        self.stop()
    }
}

fn owned(params: &[Param<'_>]) -> Vec<Cell> {
    params.iter().copied().map(Cell::from).collect()
}

impl Tx for TogetherTx<'_> {
    fn execute(&mut self, _: &'static str, _: &[Param<'_>]) -> Result<u64, StoreError> {
        self.refuse()
    }

    fn append(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        if many::inserts_into(sql).is_none() {
            return self.refuse();
        }
        self.pass.rows.entry(sql).or_default().push(owned(params));
        Ok(())
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        if self.waits || self.numbered || !many::is_select(sql) {
            return self.refuse();
        }
        let question = (sql, owned(params));
        let Some(rows) = self.known.rows.get(&question) else {
            self.pass.questions.insert(question);
            return self.stop();
        };
        for row in rows {
            if !take(row.clone())? {
                break;
            }
        }
        Ok(())
    }

    fn next_seq(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        if self.waits || self.numbered {
            return self.refuse();
        }
        let Some(numbers) = &mut self.known.numbers else {
            *self.pass.streams.entry(stream).or_default() += 1;
            return self.stop();
        };
        match numbers.get_mut(&stream) {
            Some((next, last)) if *next <= *last => {
                *next += 1;
                self.numbered = true;
                Ok(*next - 1)
            }
            _ => self.refuse(),
        }
    }

    fn head(&mut self, _: StreamKey) -> Result<i64, StoreError> {
        self.refuse()
    }

    fn set_head(&mut self, _: StreamKey, _: i64) -> Result<(), StoreError> {
        self.refuse()
    }

    fn lock(&mut self, _: StreamKey) -> Result<(), StoreError> {
        self.refuse()
    }

    fn kind(&self) -> Kind {
        Kind::Postgres
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.pass.after.actions.push(action);
    }
}
