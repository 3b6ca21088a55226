//! Work streams: pieces of work in one or more channels, with their owners and events.
//!
//! A stream has no readers of its own: members of its channels see the part in their channels, and a
//! principal's part in a stream counts only while it is a member. So nothing here outlives a membership. The
//! events of a stream are numbered in it, so that they can be read by a cursor across channels. Callers decide
//! on permissions.

use crate::members::Member;
use crate::usage::{self, Refusal, WORK_STREAM_BYTES};
use crate::{Row, StoreError, Tx, TxExt, members};
use chorus_protocol::ids::{ConversationId, EventId, Principal, StreamId, TraceId};
use chorus_protocol::redact::MaskedText;
use uuid::Uuid;

/// The most agents of a stream that something said in it may concern.
const MAX_CONCERNED: i64 = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkStream {
    pub id: StreamId,
    pub name: MaskedText,
    pub created_at: i64,
    /// Since when nothing belongs to it any more.
    pub closed_at: Option<i64>,
}

/// A principal's part in a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// The work is its; else it takes part.
    pub owns: bool,
    /// It answers for the others.
    pub lead: bool,
}

fn work_stream(mut row: Row) -> Result<WorkStream, StoreError> {
    Ok(WorkStream {
        id: StreamId(row.uuid("id")?),
        name: MaskedText::stored(row.text("name")?),
        created_at: row.int("created_at")?,
        closed_at: row.opt_int("closed_at")?,
    })
}

pub fn insert(tx: &mut dyn Tx, new: &WorkStream, maker: Principal, trace: TraceId) -> Result<(), StoreError> {
    usage::charge(tx, maker, WORK_STREAM_BYTES, Refusal::WhenFull)?;
    tx.execute(
        "INSERT INTO work_streams (id, name, maker_id, created_at, closed_at, trace_id) VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            (&new.id).into(),
            new.name.as_str().into(),
            (&maker.uuid()).into(),
            new.created_at.into(),
            new.closed_at.into(),
            (&trace).into(),
        ],
    )?;
    Ok(())
}

/// Replaces what can change of a stream itself.
pub fn update(tx: &mut dyn Tx, changed: &WorkStream) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE work_streams SET name = $2, closed_at = $3 WHERE id = $1",
        &[(&changed.id).into(), changed.name.as_str().into(), changed.closed_at.into()],
    )?;
    Ok(())
}

/// The stream of this id.
pub fn by_id(tx: &mut dyn Tx, id: StreamId) -> Result<Option<WorkStream>, StoreError> {
    let sql = "SELECT id, name, created_at, closed_at FROM work_streams WHERE id = $1";
    tx.first(sql, &[(&id).into()])?.map(work_stream).transpose()
}

/// Counts the open streams that a principal made.
pub fn made_by(tx: &mut dyn Tx, maker: Principal) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM work_streams WHERE maker_id = $1 AND closed_at IS NULL";
    tx.first(sql, &[(&maker.uuid()).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// It goes on in these channels from now on, and in no others.
pub fn put_conversations(
    tx: &mut dyn Tx,
    id: StreamId,
    conversations: &[ConversationId],
) -> Result<(), StoreError> {
    tx.execute("DELETE FROM work_stream_conversations WHERE stream_id = $1", &[(&id).into()])?;
    for conversation in conversations {
        tx.execute(
            "INSERT INTO work_stream_conversations (conversation_id, stream_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            &[conversation.into(), (&id).into()],
        )?;
    }
    Ok(())
}

/// Replaces the owners and participants of a stream. An owner is not a participant as well.
pub fn put_members(
    tx: &mut dyn Tx,
    id: StreamId,
    owns: bool,
    members: &[Principal],
) -> Result<(), StoreError> {
    let leads = tx.first(
        "SELECT member_id FROM work_stream_members WHERE stream_id = $1 AND lead = 1",
        &[(&id).into()],
    )?;
    let sql = "DELETE FROM work_stream_members WHERE stream_id = $1 AND owns = $2";
    tx.execute(sql, &[(&id).into(), i64::from(owns).into()])?;
    for who in members {
        tx.execute(
            "INSERT INTO work_stream_members (stream_id, member_id, owns, lead) VALUES ($1, $2, $3, 0)
             ON CONFLICT (stream_id, member_id) DO UPDATE SET owns = 1",
            &[(&id).into(), (&who.uuid()).into(), i64::from(owns).into()],
        )?;
    }
    leads.map_or(Ok(()), |mut row| set_lead(tx, id, row.uuid("member_id")?))
}

/// Makes one of the members the lead.
pub fn set_lead(tx: &mut dyn Tx, id: StreamId, who: Uuid) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE work_stream_members SET lead = CASE WHEN member_id = $2 THEN 1 ELSE 0 END WHERE stream_id = $1",
        &[(&id).into(), (&who).into()],
    )?;
    Ok(())
}

/// Somebody takes part in it from now on, unless it has a part already.
pub fn join(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO work_stream_members (stream_id, member_id, owns, lead) VALUES ($1, $2, 0, 0) ON CONFLICT DO NOTHING",
        &[(&id).into(), (&who.uuid()).into()],
    )?;
    Ok(())
}

/// Somebody has no part in it any more; whether it had one.
pub fn remove_member(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<bool, StoreError> {
    let sql = "DELETE FROM work_stream_members WHERE stream_id = $1 AND member_id = $2";
    Ok(tx.execute(sql, &[(&id).into(), (&who.uuid()).into()])? == 1)
}

/// Somebody who is going away has no part in anything any more.
pub(crate) fn forget(tx: &mut dyn Tx, who: Principal) -> Result<(), StoreError> {
    for sql in
        ["DELETE FROM work_stream_members WHERE member_id = $1", "DELETE FROM digests WHERE agent_id = $1"]
    {
        tx.execute(sql, &[(&who.uuid()).into()])?;
    }
    Ok(())
}

/// Returns a principal's part in a stream, if it is a member of one of its channels.
pub fn part_of(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<Option<Part>, StoreError> {
    let sql = "SELECT owns, lead FROM work_stream_members WHERE stream_id = $1 AND member_id = $2";
    let found = tx.first(sql, &[(&id).into(), (&who.uuid()).into()])?;
    found.map(|mut row| Ok(Part { owns: row.int("owns")? == 1, lead: row.int("lead")? == 1 })).transpose()
}

/// Counts the owners and participants.
pub fn count_members(tx: &mut dyn Tx, id: StreamId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM work_stream_members WHERE stream_id = $1";
    tx.first(sql, &[(&id).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// The channels it goes on in, in the order of their ids.
pub fn conversations(tx: &mut dyn Tx, id: StreamId) -> Result<Vec<ConversationId>, StoreError> {
    let sql =
        "SELECT conversation_id FROM work_stream_conversations WHERE stream_id = $1 ORDER BY conversation_id";
    tx.query(sql, &[(&id).into()])?
        .into_iter()
        .map(|mut row| Ok(ConversationId(row.uuid("conversation_id")?)))
        .collect()
}

/// Those of them that somebody is in now.
pub fn conversations_of(
    tx: &mut dyn Tx,
    id: StreamId,
    who: Principal,
) -> Result<Vec<ConversationId>, StoreError> {
    tx.query(
        "SELECT w.conversation_id FROM work_stream_conversations w CROSS JOIN members m
         WHERE w.stream_id = $1 AND m.conversation_id = w.conversation_id AND m.member_id = $2 AND m.left_seq IS NULL
         ORDER BY w.conversation_id",
        &[(&id).into(), (&who.uuid()).into()],
    )?
    .into_iter()
    .map(|mut row| Ok(ConversationId(row.uuid("conversation_id")?)))
    .collect()
}

/// The open streams of a channel, some of them, in the order of their ids.
pub fn open_in(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    limit: i64,
) -> Result<Vec<StreamId>, StoreError> {
    tx.query(
        "SELECT w.stream_id FROM work_stream_conversations w CROSS JOIN work_streams s
         WHERE w.conversation_id = $1 AND s.id = w.stream_id AND s.closed_at IS NULL ORDER BY w.stream_id LIMIT $2",
        &[(&conversation).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(StreamId(row.uuid("stream_id")?)))
    .collect()
}

/// The open streams of the channels somebody is in, in the order of their ids, after `after`.
pub fn seen_by(
    tx: &mut dyn Tx,
    who: Principal,
    after: Option<StreamId>,
    limit: i64,
) -> Result<Vec<WorkStream>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), StreamId::as_bytes);
    tx.query(
        "SELECT s.id, s.name, s.created_at, s.closed_at FROM
            (SELECT DISTINCT w.stream_id FROM members m CROSS JOIN work_stream_conversations w
             WHERE m.member_id = $1 AND m.left_seq IS NULL AND w.conversation_id = m.conversation_id AND w.stream_id > $2) f
         CROSS JOIN work_streams s WHERE s.id = f.stream_id AND s.closed_at IS NULL ORDER BY s.id LIMIT $3",
        &[(&who.uuid()).into(), after.into(), limit.into()],
    )?
    .into_iter()
    .map(work_stream)
    .collect()
}

/// Those who have a part in a stream, as somebody sees them who is in some of its channels: by their handles there.
pub fn members_seen_by(
    tx: &mut dyn Tx,
    id: StreamId,
    who: Principal,
) -> Result<Vec<(Principal, String, Part)>, StoreError> {
    tx.query(
        "SELECT m.kind, p.member_id, MIN(m.handle) AS handle, p.owns, p.lead
         FROM work_stream_members p CROSS JOIN work_stream_conversations w CROSS JOIN members m CROSS JOIN members me
         WHERE p.stream_id = $1 AND w.stream_id = $1
           AND m.conversation_id = w.conversation_id AND m.member_id = p.member_id AND m.left_seq IS NULL
           AND me.conversation_id = w.conversation_id AND me.member_id = $2 AND me.left_seq IS NULL
         GROUP BY m.kind, p.member_id, p.owns, p.lead ORDER BY MIN(m.handle_key), p.member_id",
        &[(&id).into(), (&who.uuid()).into()],
    )?
    .into_iter()
    .map(|mut row| {
        let (kind, id) = (row.text("kind")?, row.uuid("member_id")?);
        let who = Principal::new(&kind, id).ok_or_else(|| StoreError::unexpected(format!("a {kind}")))?;
        Ok((who, row.text("handle")?, Part { owns: row.int("owns")? == 1, lead: row.int("lead")? == 1 }))
    })
    .collect()
}

/// Those who own a stream, or take part, and are in some of its channels, but in none together with somebody: it does not see them.
pub fn members_hidden_from(
    tx: &mut dyn Tx,
    id: StreamId,
    owns: bool,
    who: Principal,
) -> Result<Vec<Principal>, StoreError> {
    tx.query(
        "SELECT DISTINCT m.kind, p.member_id
         FROM work_stream_members p CROSS JOIN work_stream_conversations w CROSS JOIN members m
         WHERE p.stream_id = $1 AND p.owns = $2 AND w.stream_id = $1
           AND m.conversation_id = w.conversation_id AND m.member_id = p.member_id AND m.left_seq IS NULL
           AND NOT EXISTS (SELECT 1 FROM work_stream_conversations v CROSS JOIN members t CROSS JOIN members me
                WHERE v.stream_id = $1 AND t.conversation_id = v.conversation_id AND t.member_id = p.member_id
                  AND t.left_seq IS NULL AND me.conversation_id = v.conversation_id AND me.member_id = $3
                  AND me.left_seq IS NULL)",
        &[(&id).into(), i64::from(owns).into(), (&who.uuid()).into()],
    )?
    .into_iter()
    .map(|mut row| {
        let (kind, id) = (row.text("kind")?, row.uuid("member_id")?);
        Principal::new(&kind, id).ok_or_else(|| StoreError::unexpected(format!("a {kind}")))
    })
    .collect()
}

/// The agents that have a part in a stream and are in this channel, owners first.
pub fn agents_in(
    tx: &mut dyn Tx,
    id: StreamId,
    conversation: ConversationId,
) -> Result<Vec<(Member, Part)>, StoreError> {
    tx.query(
        "SELECT m.kind, m.member_id, m.handle, m.roles, m.lead, m.joined_seq, m.joined_at, p.owns, p.lead AS leads_stream
         FROM work_stream_members p CROSS JOIN members m
         WHERE p.stream_id = $1 AND m.conversation_id = $2 AND m.member_id = p.member_id AND m.left_seq IS NULL
           AND m.kind = 'agent' ORDER BY p.owns DESC, p.lead DESC, m.handle_key LIMIT $3",
        &[(&id).into(), (&conversation).into(), MAX_CONCERNED.into()],
    )?
    .into_iter()
    .map(|mut row| {
        let part = Part { owns: row.int("owns")? == 1, lead: row.int("leads_stream")? == 1 };
        Ok((members::member(row)?, part))
    })
    .collect()
}

/// The stream that something was said in.
pub fn of_event(tx: &mut dyn Tx, event: EventId) -> Result<Option<StreamId>, StoreError> {
    let sql = "SELECT stream_id FROM work_stream_events WHERE event_id = $1";
    tx.first(sql, &[(&event).into()])?.map(|mut row| Ok(StreamId(row.uuid("stream_id")?))).transpose()
}

/// Something was said in a stream, at this place of its conversation.
pub(crate) fn append(
    tx: &mut dyn Tx,
    id: StreamId,
    event: EventId,
    conversation: ConversationId,
    seq: i64,
) -> Result<(), StoreError> {
    let place = tx.next_seq(id.into())?;
    tx.execute(
        "INSERT INTO work_stream_events (stream_id, place, event_id, conversation_id, seq) VALUES ($1, $2, $3, $4, $5)",
        &[(&id).into(), place.into(), (&event).into(), (&conversation).into(), seq.into()],
    )?;
    Ok(())
}

/// The events of a stream (`$1`) that a principal (`$2`) may read.
macro_rules! select_readable {
    ($rest:literal) => {
        concat!(
            "SELECT w.place, w.event_id FROM work_stream_events w CROSS JOIN conversations c
             WHERE w.stream_id = $1 AND c.id = w.conversation_id
               AND EXISTS (SELECT 1 FROM members n WHERE n.conversation_id = w.conversation_id AND n.member_id = $2
                           AND n.left_seq IS NULL)
               AND (w.seq > c.open_from OR EXISTS (SELECT 1 FROM members m WHERE m.conversation_id = w.conversation_id
                    AND m.member_id = $2 AND m.joined_seq < w.seq AND (m.left_seq IS NULL OR m.left_seq >= w.seq))) ",
            $rest
        )
    };
}

fn placed(mut row: Row) -> Result<(i64, EventId), StoreError> {
    Ok((row.int("place")?, EventId(row.uuid("event_id")?)))
}

/// Lists the events of a stream after this position that a principal may read, with their positions.
pub fn page(
    tx: &mut dyn Tx,
    id: StreamId,
    who: Principal,
    after: i64,
    limit: i64,
) -> Result<Vec<(i64, EventId)>, StoreError> {
    let sql = select_readable!("AND w.place > $3 ORDER BY w.place LIMIT $4");
    let found = tx.query(sql, &[(&id).into(), (&who.uuid()).into(), after.into(), limit.into()])?;
    found.into_iter().map(placed).collect()
}

/// Returns the cursor after this event, or of the beginning. It reveals nothing about other events.
pub fn cursor(last: Option<EventId>) -> String {
    last.map_or_else(|| "0".to_owned(), |event| event.to_string())
}

/// Parses a cursor made by [`cursor`].
pub fn after(cursor: &str) -> Option<Option<EventId>> {
    if cursor == "0" { Some(None) } else { EventId::parse(cursor).map(Some) }
}

/// The place of an event in a stream. One that is gone was among the oldest: from the beginning.
pub fn place_of(tx: &mut dyn Tx, id: StreamId, event: EventId) -> Result<i64, StoreError> {
    let sql = "SELECT place FROM work_stream_events WHERE event_id = $2 AND stream_id = $1";
    tx.first(sql, &[(&id).into(), (&event).into()])?.map_or(Ok(0), |mut row| row.int("place"))
}

/// The last event up to a place that somebody may read.
pub fn last_until(
    tx: &mut dyn Tx,
    id: StreamId,
    who: Principal,
    place: i64,
) -> Result<Option<EventId>, StoreError> {
    let sql = select_readable!("AND w.place <= $3 ORDER BY w.place DESC LIMIT 1");
    let found = tx.first(sql, &[(&id).into(), (&who.uuid()).into(), place.into()])?;
    found.map(|row| Ok(placed(row)?.1)).transpose()
}

/// The newest of it, the newest first.
pub fn newest(tx: &mut dyn Tx, id: StreamId, who: Principal, limit: i64) -> Result<Vec<EventId>, StoreError> {
    let sql = select_readable!("ORDER BY w.place DESC LIMIT $3");
    let found = tx.query(sql, &[(&id).into(), (&who.uuid()).into(), limit.into()])?;
    found.into_iter().map(|row| Ok(placed(row)?.1)).collect()
}
