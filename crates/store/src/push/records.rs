//! Deliveries as their owners see them: one, those of an event, lists, and the tries.

use super::Attempt;
use crate::conversations::Event;
use crate::deliveries::{attention, attention_columns};
use crate::error::word;
use crate::{Param, Row, StoreError, Tx, TxExt};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::words::{DeliveryState, Disposition, EntryKind, Transport};

/// A delivery as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which.
    pub id: DeliveryId,
    /// To whom, by name.
    pub agent: String,
    /// Of which event.
    pub event: EventId,
    /// In which conversation.
    pub conversation: ConversationId,
    /// What kind of inbox entry it is.
    pub kind: EntryKind,
    /// How it travels.
    pub transport: Transport,
    /// How it stands.
    pub state: DeliveryState,
    /// What its event means for this agent.
    pub attention: Attention,
    /// How often it was tried, since it was replayed if it was.
    pub attempt: i64,
    /// When it is tried next; nothing while it is being tried.
    pub due_at: Option<i64>,
    /// What went wrong last.
    pub detail: Option<String>,
    /// When it was stored.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
    /// Whether it was given to its transport.
    pub handed: bool,
    /// When, if that is known.
    pub handed_at: Option<i64>,
    /// When the agent said that it has it, if it says so.
    pub acked_at: Option<i64>,
    /// When it entered a turn of the agent's model.
    pub injected_at: Option<i64>,
    /// How often the agent was sent the event, this time included.
    pub sent: i64,
    /// What the agent made of it, and when.
    pub disposition: Option<(Disposition, i64)>,
    /// Why, in the agent's words.
    pub disposition_reason: Option<String>,
    /// What it belongs to.
    pub trace: TraceId,
}

macro_rules! select_record {
    ($($rest:literal),+) => {
        concat!(
            "SELECT c.agent_id, c.seq, COALESCE(a.name, ''), c.event_id, c.conversation_id, d.kind, d.transport, d.state, c.attempt,
                    CASE WHEN d.lease_until IS NULL THEN c.due_at END, d.detail, c.created_at,
                    COALESCE(c.handed_at, (SELECT h.at FROM handed h WHERE h.agent_id = c.agent_id AND h.through >= c.seq
                        AND d.transport = 'inbox' ORDER BY h.through LIMIT 1)), c.disposition, c.disposition_at, d.trace_id, i.handed_through,
                    d.updated_at, ", attention_columns!("c"), ", c.acked_at, c.injected_at, c.sent, i.sent_through, c.disposition_reason
             FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
             LEFT JOIN agents a ON a.id = c.agent_id LEFT JOIN inboxes i ON i.agent_id = c.agent_id WHERE ",
            $($rest),+
        )
    };
}

fn record(mut row: Row) -> Result<Record, StoreError> {
    let (seq, created_at) = (row.int(1)?, row.int(11)?);
    let transport = word(&row.text(6)?, Transport::parse)?;
    let through = transport == Transport::Inbox && seq <= row.opt_int(16)?.unwrap_or(0);
    let (handed_at, acked_at) = (row.opt_int(12)?, row.opt_int(24)?);
    // A session that acknowledges one by one is handed more than it has acknowledged up to.
    let given = transport == Transport::Inbox && seq <= row.opt_int(27)?.unwrap_or(0);
    let disposition = row.opt_text(13)?.map(|text| word(&text, Disposition::parse)).transpose()?;
    Ok(Record {
        id: DeliveryId { agent: AgentId(row.uuid(0)?), seq },
        agent: row.text(2)?,
        event: EventId(row.uuid(3)?),
        conversation: ConversationId(row.uuid(4)?),
        kind: word(&row.text(5)?, EntryKind::parse)?,
        transport,
        // What waited in an inbox and was handed since has been delivered.
        state: match word(&row.text(7)?, DeliveryState::parse)? {
            DeliveryState::Queued if through => DeliveryState::DeliveredSse,
            state => state,
        },
        attention: attention(&mut row, 18)?,
        attempt: row.int(8)?,
        due_at: row.opt_int(9)?,
        detail: row.opt_text(10)?,
        created_at,
        updated_at: row.int(17)?,
        handed: through || given || handed_at.is_some() || acked_at.is_some(),
        handed_at,
        acked_at,
        sent: row.int(26)?,
        injected_at: row.opt_int(25)?,
        disposition: disposition.zip(row.opt_int(14)?),
        disposition_reason: row.opt_text(28)?,
        trace: TraceId(row.uuid(15)?),
    })
}

/// One delivery.
pub fn get(tx: &mut dyn Tx, id: DeliveryId) -> Result<Option<Record>, StoreError> {
    tx.first(select_record!("c.agent_id = $1 AND c.seq = $2"), &[(&id.agent).into(), id.seq.into()])?
        .map(record)
        .transpose()
}

/// All deliveries of an event.
pub fn of_event(tx: &mut dyn Tx, event: EventId, limit: i64) -> Result<Vec<Record>, StoreError> {
    tx.query(
        select_record!("c.event_id = $1 ORDER BY c.agent_id, c.seq LIMIT $2"),
        &[(&event).into(), limit.into()],
    )?
    .into_iter()
    .map(record)
    .collect()
}

/// The same columns for an envelope of which nothing is kept but that it was sent: it is a message of two.
macro_rules! select_envelope {
    ($table:literal) => {
        concat!(
            "SELECT d.agent_id, d.seq, COALESCE(a.name, ''), d.event_id, $4, d.kind, d.transport, d.state, CAST(0 AS BIGINT),
                    CAST(NULL AS BIGINT), d.detail, d.created_at,
                    (SELECT h.at FROM handed h WHERE h.agent_id = d.agent_id AND h.through >= d.seq AND d.transport = 'inbox'
                     ORDER BY h.through LIMIT 1),
                    CAST(NULL AS TEXT), CAST(NULL AS BIGINT), d.trace_id, i.handed_through, d.updated_at, 'direct_message',
                    CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS BIGINT),
                    CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(1 AS BIGINT), i.sent_through, CAST(NULL AS TEXT)
             FROM (SELECT agent_id, seq FROM ",
            $table,
            " WHERE sender_id = $1 AND trace_id = $2) s
             JOIN deliveries d ON d.agent_id = s.agent_id AND d.seq = s.seq
             LEFT JOIN agents a ON a.id = d.agent_id LEFT JOIN inboxes i ON i.agent_id = d.agent_id WHERE d.event_id = $3"
        )
    };
}

/// The delivery of an envelope of which its receiver has said nothing yet. What it means is for others to say.
pub fn of_envelope(tx: &mut dyn Tx, envelope: &Event) -> Result<Option<Record>, StoreError> {
    let Some(sender) = envelope.author.agent() else { return Ok(None) };
    let (trace, event, conversation) = (&envelope.trace, &envelope.id, &envelope.conversation);
    for sql in [select_envelope!("sent_lately"), select_envelope!("sent")] {
        let found = tx.first(sql, &[(&sender).into(), trace.into(), event.into(), conversation.into()])?;
        if let Some(row) = found {
            return record(row).map(Some);
        }
    }
    Ok(None)
}

/// Which deliveries a list holds.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only those to agents of this account.
    pub owner: Option<AccountId>,
    /// Only those to this agent.
    pub agent: Option<AgentId>,
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those in this state.
    pub state: Option<DeliveryState>,
    /// Only those stored since.
    pub since: i64,
    /// Only those stored before.
    pub until: Option<i64>,
}

/// A place in the list of deliveries: when, to whom, which.
pub type Cursor = (i64, DeliveryId);

/// A page of deliveries in the order of time, after `after`.
pub fn list(
    tx: &mut dyn Tx,
    filter: &Filter,
    after: Option<Cursor>,
    limit: i64,
) -> Result<Vec<Record>, StoreError> {
    let Some(owner) = filter.owner else { return page(tx, filter, after, limit) };
    // The pages of its agents, merged: whoever owns few deliveries does not look at everybody's.
    let mut found = vec![];
    for mut row in tx.query("SELECT id FROM agents WHERE owner_id = $1", &[(&owner).into()])? {
        let agent = AgentId(row.uuid(0)?);
        if filter.agent.is_some_and(|only| only != agent) {
            continue;
        }
        found.extend(page(tx, &Filter { agent: Some(agent), ..filter.clone() }, after, limit)?);
        found.sort_by_key(|record| (record.created_at, record.id));
        found.truncate(limit.max(0) as usize);
    }
    Ok(found)
}

macro_rules! select_page {
    ($($which:literal),+) => {
        select_record!(
            $($which),+,
            " AND c.created_at >= $1 AND (c.created_at > $2 OR c.agent_id > $3 OR (c.agent_id = $3 AND c.seq > $4))
              AND c.created_at < $5 AND (CAST($7 AS BIGINT) = 0 OR c.conversation_id = $8)
              ORDER BY c.created_at, c.agent_id, c.seq LIMIT $9"
        )
    };
}

// One statement for each index, because a planner that knows no numbers would take the wrong one for a statement that
// serves them all.
const UNDELIVERED: &str = select_page!("c.undelivered = $6");
const UNDELIVERED_OF_AGENT: &str = select_page!("c.undelivered = $6 AND c.agent_id = $10");
const ANY: &str = select_page!(
    "($6 = '' OR $6 = CASE WHEN d.state = 'queued' AND d.seq <= COALESCE(i.handed_through, 0)
                           THEN 'delivered_sse' ELSE d.state END)"
);
const ANY_OF_AGENT: &str = select_page!(
    "($6 = '' OR $6 = CASE WHEN d.state = 'queued' AND d.seq <= COALESCE(i.handed_through, 0)
                           THEN 'delivered_sse' ELSE d.state END) AND c.agent_id = $10 AND c.seq > 0"
);

const ANY_IN: &str = select_page!(
    "($6 = '' OR $6 = CASE WHEN d.state = 'queued' AND d.seq <= COALESCE(i.handed_through, 0)
                           THEN 'delivered_sse' ELSE d.state END) AND c.conversation_id = $8 AND c.seq > 0"
);

/// The same of one agent, or of all: whose they are is not asked here.
fn page(
    tx: &mut dyn Tx,
    filter: &Filter,
    after: Option<Cursor>,
    limit: i64,
) -> Result<Vec<Record>, StoreError> {
    let nobody = uuid::Uuid::nil();
    let conversation = filter.conversation.map_or(nobody, |id| id.0);
    let state = filter.state.map_or("", DeliveryState::as_str);
    let (time, id) = after.map_or((i64::MIN, (nobody, 0)), |(time, id)| (time, (id.agent.0, id.seq)));
    let mut params = vec![
        filter.since.max(time).into(),
        time.into(),
        (&id.0).into(),
        id.1.into(),
        filter.until.unwrap_or(i64::MAX).into(),
        state.into(),
        i64::from(filter.conversation.is_some()).into(),
        (&conversation).into(),
        limit.into(),
    ];
    params.extend(filter.agent.as_ref().map(Param::from));
    let undelivered = matches!(filter.state, Some(DeliveryState::Dead | DeliveryState::Failed));
    let sql = match (undelivered, filter.agent) {
        (true, None) => UNDELIVERED,
        (true, Some(_)) => UNDELIVERED_OF_AGENT,
        (false, None) if filter.conversation.is_some() => ANY_IN,
        (false, None) => ANY,
        (false, Some(_)) => ANY_OF_AGENT,
    };
    tx.query(sql, &params)?.into_iter().map(record).collect()
}

/// The tries of a delivery, the first first.
pub fn attempts(tx: &mut dyn Tx, id: DeliveryId, limit: i64) -> Result<Vec<Attempt>, StoreError> {
    tx.query(
        "SELECT at, status, latency_ms, error FROM attempts WHERE agent_id = $1 AND seq = $2 ORDER BY number LIMIT $3",
        &[(&id.agent).into(), id.seq.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| {
        Ok(Attempt {
            at: row.int(0)?,
            status: row.opt_int(1)?,
            latency_ms: row.int(2)?,
            error: row.opt_text(3)?,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// Nobody looks through everybody's deliveries for his own, nor through what arrived for what did not.
    #[tokio::test]
    async fn each_list_has_its_index() {
        for (sql, params, index) in [
            (ANY_IN, 9, "chats_by_conversation (conversation_id=? AND created_at>? AND created_at<?)"),
            (ANY, 9, "chats_by_time (created_at>? AND created_at<?)"),
            (ANY_OF_AGENT, 10, "chats_by_agent (agent_id=? AND created_at>? AND created_at<?)"),
            (UNDELIVERED, 9, "chats_undelivered (undelivered=? AND created_at>? AND created_at<?)"),
            (
                UNDELIVERED_OF_AGENT,
                10,
                "chats_undelivered_by_agent (agent_id=? AND undelivered=? AND created_at>? AND created_at<?)",
            ),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
