//! Relay sends as their senders see them: their progress, not their content.
//!
//! A row for each send names the receiver's inbox and the position there; the state is that of the delivery.
//! Pages go from the newest back, because traces are made before they are committed and a page going forward
//! could miss one.
//!
//! `sent` is ordered by sender. SQLite would write a page for each sender, so there rows are appended to
//! `sent_lately` first and moved in bulk ([`sort_a_lot`]). Readers look into both.

use crate::conversations::Event;
use crate::error::word;
use crate::{Kind, Row, Store, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, DeliveryId, TraceId};
use chorus_protocol::words::{DeliveryState, Transport};
use std::cmp::Reverse;

/// So many that were sent lately are worth being brought in order.
const SORT_FROM: usize = 500;
/// The most that are brought in order together: the more, the more of them share a page.
const SORT_MOST: usize = 2048;
/// The number of rows moved at a time, while other writes wait.
const SORT_STEP: usize = 256;
/// Of two that one sender sent under the same trace, to the same place in two inboxes, one is kept.
const MOVED: &str =
    "INSERT INTO sent (sender_id, trace_id, seq, agent_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

/// One envelope that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub trace: TraceId,
    /// Its place in the receiver's inbox.
    pub seq: i64,
    pub receiver: String,
    pub transport: Transport,
    pub state: DeliveryState,
    pub detail: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
    /// True if a connection of the receiver got it.
    pub handed: bool,
    /// The time of that, if it was recorded.
    pub handed_at: Option<i64>,
}

/// The cursor of a page: rows after this one.
pub type Place = (TraceId, i64);

/// Notes that an envelope was sent.
pub(crate) fn note(
    tx: &mut dyn Tx,
    sender: AgentId,
    trace: TraceId,
    receiver: AgentId,
    seq: i64,
) -> Result<(), StoreError> {
    let sql = match tx.kind() {
        Kind::Sqlite => {
            "INSERT INTO sent_lately (sender_id, trace_id, seq, agent_id) VALUES ($1, $2, $3, $4)"
        }
        Kind::Postgres => "INSERT INTO sent (sender_id, trace_id, seq, agent_id) VALUES ($1, $2, $3, $4)",
    };
    tx.append(sql, &[(&sender).into(), (&trace).into(), seq.into(), (&receiver).into()])
}

/// An envelope that was sent lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lately {
    sender: AgentId,
    trace: TraceId,
    seq: i64,
    receiver: AgentId,
}

/// The oldest of those that were sent lately, in the order in which they will be by sender; none if there are fewer than `least`.
pub fn find_unsorted(tx: &mut dyn Tx, least: usize, most: usize) -> Result<Vec<Lately>, StoreError> {
    // Of a quiet hub, which is asked again and again, no row is read for nothing.
    let last = least.saturating_sub(1) as i64;
    if tx.first("SELECT seq FROM sent_lately ORDER BY trace_id LIMIT 1 OFFSET $1", &[last.into()])?.is_none()
    {
        return Ok(vec![]);
    }
    let sql = "SELECT sender_id, trace_id, seq, agent_id FROM sent_lately ORDER BY trace_id, sender_id, seq LIMIT $1";
    let rows = tx.query(sql, &[(most as i64).into()])?;
    let lately = |mut row: Row| {
        let (sender, trace) = (AgentId(row.uuid("sender_id")?), TraceId(row.uuid("trace_id")?));
        Ok(Lately { sender, trace, seq: row.int("seq")?, receiver: AgentId(row.uuid("agent_id")?) })
    };
    let mut found = rows.into_iter().map(lately).collect::<Result<Vec<_>, StoreError>>()?;
    // Neighbours there share their pages.
    found.sort_unstable();
    Ok(found)
}

/// These are by sender from now on; those that are kept no longer stay away.
pub fn sort(tx: &mut dyn Tx, some: &[Lately]) -> Result<(), StoreError> {
    for Lately { sender, trace, seq, receiver } in some {
        let place = [trace.into(), sender.into(), (*seq).into()];
        let sql = "DELETE FROM sent_lately WHERE trace_id = $1 AND sender_id = $2 AND seq = $3";
        if tx.execute(sql, &place)? == 1 {
            tx.append(MOVED, &[sender.into(), trace.into(), (*seq).into(), receiver.into()])?;
        }
    }
    Ok(())
}

/// A reconciler: what was sent lately is brought in order, if it is much, in steps that others do not wait for long. Says whether
/// there may be more.
pub async fn sort_a_lot(store: &Store) -> Result<bool, StoreError> {
    let find = |tx: &mut dyn Tx| find_unsorted(tx, SORT_FROM, SORT_MOST);
    let unsorted = store.read::<_, StoreError, _>(find).await?;
    for step in unsorted.chunks(SORT_STEP) {
        let step = step.to_vec();
        store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| sort(tx, &step)).await?;
    }
    Ok(unsorted.len() == SORT_MOST)
}

/// `$which` cuts the page before anything is joined to it, so that whatever plan a database makes, and however little it knows of
/// its tables, it looks up as many deliveries as there are places on the page. The order is for the caller to make.
macro_rules! select_sent {
    ($table:literal, $which:literal) => {
        concat!(
            "SELECT s.trace_id, s.seq, a.name, d.transport, d.state, d.detail, d.created_at, d.updated_at,
                    CASE WHEN s.seq <= i.handed_through AND d.transport = 'inbox' THEN 1 ELSE 0 END AS is_handed,
                    (SELECT h.at FROM handed h WHERE h.agent_id = s.agent_id AND h.through >= s.seq
                     ORDER BY h.through LIMIT 1) AS handed_at
             FROM (SELECT trace_id, seq, agent_id FROM ",
            $table,
            " ",
            $which,
            ") s JOIN deliveries d ON d.agent_id = s.agent_id AND d.seq = s.seq
                 JOIN agents a ON a.id = s.agent_id
                 JOIN inboxes i ON i.agent_id = s.agent_id"
        )
    };
}

fn sent(mut row: Row) -> Result<Sent, StoreError> {
    let handed = row.int("is_handed")? == 1;
    Ok(Sent {
        trace: TraceId(row.uuid("trace_id")?),
        seq: row.int("seq")?,
        receiver: row.text("name")?,
        transport: word(&row.text("transport")?, Transport::parse)?,
        state: word(&row.text("state")?, DeliveryState::parse)?,
        detail: row.opt_text("detail")?,
        created_at: row.int("created_at")?,
        updated_at: row.int("updated_at")?,
        handed,
        handed_at: row.opt_int("handed_at")?.filter(|_| handed),
    })
}

macro_rules! newest {
    ($table:literal) => {
        select_sent!($table, "WHERE sender_id = $1 ORDER BY trace_id DESC, seq DESC LIMIT $2")
    };
}
macro_rules! newest_before {
    ($table:literal) => {
        select_sent!(
            $table,
            "WHERE sender_id = $1 AND (trace_id, seq) < ($2, $3)
             ORDER BY trace_id DESC, seq DESC LIMIT $4"
        )
    };
}
macro_rules! of_trace {
    ($table:literal) => {
        select_sent!($table, "WHERE sender_id = $1 AND trace_id = $2 ORDER BY seq LIMIT 1")
    };
}

/// A page of what an agent sent, from the newest back.
pub fn page(
    tx: &mut dyn Tx,
    sender: AgentId,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<Sent>, StoreError> {
    let mut page = vec![];
    match after {
        None => {
            for sql in [newest!("sent"), newest!("sent_lately")] {
                page.extend(tx.query(sql, &[(&sender).into(), limit.into()])?);
            }
        }
        Some((trace, seq)) => {
            for sql in [newest_before!("sent"), newest_before!("sent_lately")] {
                page.extend(tx.query(sql, &[(&sender).into(), (&trace).into(), seq.into(), limit.into()])?);
            }
        }
    }
    let mut page = page.into_iter().map(sent).collect::<Result<Vec<_>, _>>()?;
    page.sort_unstable_by_key(|sent| Reverse((sent.trace.0, sent.seq)));
    page.truncate(limit.max(0) as usize);
    Ok(page)
}

/// One that an agent sent; the first, if it said several things under the same trace.
pub fn one(tx: &mut dyn Tx, sender: AgentId, trace: TraceId) -> Result<Option<Sent>, StoreError> {
    let mut found = vec![];
    for sql in [of_trace!("sent"), of_trace!("sent_lately")] {
        let row = tx.first(sql, &[(&sender).into(), (&trace).into()])?;
        found.extend(row.map(sent).transpose()?);
    }
    Ok(found.into_iter().min_by_key(|sent| sent.seq))
}

macro_rules! of_event {
    ($table:literal) => {
        concat!(
            "SELECT d.seq, d.created_at FROM (SELECT seq, agent_id FROM ",
            $table,
            " WHERE sender_id = $1 AND trace_id = $2 AND agent_id = $3) s
              JOIN deliveries d ON d.agent_id = s.agent_id AND d.seq = s.seq WHERE d.event_id = $4"
        )
    };
}

/// The delivery of an envelope to its receiver, and when it was stored.
pub fn delivery_of(
    tx: &mut dyn Tx,
    envelope: &Event,
    receiver: AgentId,
) -> Result<Option<(DeliveryId, i64)>, StoreError> {
    let Some(sender) = envelope.author.agent() else { return Ok(None) };
    let params = [(&sender).into(), (&envelope.trace).into(), (&receiver).into(), (&envelope.id).into()];
    for sql in [of_event!("sent_lately"), of_event!("sent")] {
        if let Some(mut row) = tx.first(sql, &params)? {
            return Ok(Some((DeliveryId { agent: receiver, seq: row.int("seq")? }, row.int("created_at")?)));
        }
    }
    Ok(None)
}

/// Forgets one whose delivery is gone.
pub(crate) fn remove(tx: &mut dyn Tx, sender: AgentId, trace: TraceId, seq: i64) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM sent WHERE sender_id = $1 AND trace_id = $2 AND seq = $3",
        "DELETE FROM sent_lately WHERE sender_id = $1 AND trace_id = $2 AND seq = $3",
    ] {
        tx.execute(sql, &[(&sender).into(), (&trace).into(), seq.into()])?;
    }
    Ok(())
}
