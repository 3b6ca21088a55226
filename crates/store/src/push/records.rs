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
    pub id: DeliveryId,
    /// To whom, by name.
    pub agent: String,
    pub event: EventId,
    pub conversation: ConversationId,
    pub kind: EntryKind,
    pub transport: Transport,
    pub state: DeliveryState,
    /// The attention decision for this agent.
    pub attention: Attention,
    /// The number of tries, since the last replay.
    pub attempt: i64,
    /// The next try; `None` during a try.
    pub due_at: Option<i64>,
    /// The last error.
    pub detail: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
    /// True if it was given to its transport.
    pub handed: bool,
    /// The time of that, if known.
    pub handed_at: Option<i64>,
    /// The time the agent acknowledged it.
    pub acked_at: Option<i64>,
    /// The time it entered a turn of the agent's model.
    pub injected_at: Option<i64>,
    /// The number of times the agent was sent the event, including this time.
    pub sent: i64,
    /// The agent's disposition, and its time.
    pub disposition: Option<(Disposition, i64)>,
    /// The reason in the agent's words.
    pub disposition_reason: Option<String>,
    pub trace: TraceId,
}

macro_rules! select_record {
    ($($rest:literal),+) => {
        concat!(
            "SELECT c.agent_id, c.seq, COALESCE(a.name, '') AS agent_name, c.event_id, c.conversation_id, d.kind, d.transport,
                    d.state, c.attempt,
                    CASE WHEN d.lease_until IS NULL THEN c.due_at END AS due_at, d.detail, c.created_at,
                    COALESCE(c.handed_at, (SELECT h.at FROM handed h WHERE h.agent_id = c.agent_id AND h.through >= c.seq
                        AND d.transport = 'inbox' ORDER BY h.through LIMIT 1)) AS handed_at,
                    c.disposition, c.disposition_at, d.trace_id, i.handed_through,
                    d.updated_at, ", attention_columns!("c"), ", c.acked_at, c.injected_at, c.sent, i.sent_through, c.disposition_reason
             FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
             LEFT JOIN agents a ON a.id = c.agent_id LEFT JOIN inboxes i ON i.agent_id = c.agent_id WHERE ",
            $($rest),+
        )
    };
}

fn record(mut row: Row) -> Result<Record, StoreError> {
    let (seq, created_at) = (row.int("seq")?, row.int("created_at")?);
    let transport = word(&row.text("transport")?, Transport::parse)?;
    let through = transport == Transport::Inbox && seq <= row.opt_int("handed_through")?.unwrap_or(0);
    let (handed_at, acked_at) = (row.opt_int("handed_at")?, row.opt_int("acked_at")?);
    // A session that acknowledges one by one is handed more than it has acknowledged up to.
    let given = transport == Transport::Inbox && seq <= row.opt_int("sent_through")?.unwrap_or(0);
    let disposition = row.opt_text("disposition")?.map(|text| word(&text, Disposition::parse)).transpose()?;
    Ok(Record {
        id: DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq },
        agent: row.text("agent_name")?,
        event: EventId(row.uuid("event_id")?),
        conversation: ConversationId(row.uuid("conversation_id")?),
        kind: word(&row.text("kind")?, EntryKind::parse)?,
        transport,
        // A queued entry that was read since counts as delivered.
        state: match word(&row.text("state")?, DeliveryState::parse)? {
            DeliveryState::Queued if through => DeliveryState::DeliveredSse,
            state => state,
        },
        attention: attention(&mut row)?,
        attempt: row.int("attempt")?,
        due_at: row.opt_int("due_at")?,
        detail: row.opt_text("detail")?,
        created_at,
        updated_at: row.int("updated_at")?,
        handed: through || given || handed_at.is_some() || acked_at.is_some(),
        handed_at,
        acked_at,
        sent: row.int("sent")?,
        injected_at: row.opt_int("injected_at")?,
        disposition: disposition.zip(row.opt_int("disposition_at")?),
        disposition_reason: row.opt_text("disposition_reason")?,
        trace: TraceId(row.uuid("trace_id")?),
    })
}

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
            "SELECT d.agent_id, d.seq, COALESCE(a.name, '') AS agent_name, d.event_id, e.conversation_id, d.kind, d.transport,
                    d.state, CAST(0 AS BIGINT) AS attempt,
                    CAST(NULL AS BIGINT) AS due_at, d.detail, d.created_at,
                    (SELECT h.at FROM handed h WHERE h.agent_id = d.agent_id AND h.through >= d.seq AND d.transport = 'inbox'
                     ORDER BY h.through LIMIT 1) AS handed_at,
                    CAST(NULL AS TEXT) AS disposition, CAST(NULL AS BIGINT) AS disposition_at, d.trace_id, i.handed_through,
                    d.updated_at, 'direct_message' AS reason, CAST(NULL AS TEXT) AS directedness, CAST(NULL AS TEXT) AS policy,
                    CAST(NULL AS TEXT) AS mode, CAST(NULL AS TEXT) AS priority, CAST(NULL AS BIGINT) AS deadline_ms,
                    CAST(NULL AS BIGINT) AS acked_at, CAST(NULL AS BIGINT) AS injected_at, CAST(1 AS BIGINT) AS sent,
                    i.sent_through, CAST(NULL AS TEXT) AS disposition_reason
             FROM (SELECT agent_id, seq FROM ",
            $table,
            " WHERE sender_id = $1 AND trace_id = $2) s
             JOIN deliveries d ON d.agent_id = s.agent_id AND d.seq = s.seq JOIN events e ON e.id = d.event_id
             LEFT JOIN agents a ON a.id = d.agent_id LEFT JOIN inboxes i ON i.agent_id = d.agent_id WHERE d.event_id = $3"
        )
    };
}

/// Returns the delivery of an envelope on which its receiver has not acted yet. Callers decide on its
/// attention.
pub fn of_envelope(tx: &mut dyn Tx, envelope: &Event) -> Result<Option<Record>, StoreError> {
    let Some(sender) = envelope.author.agent() else { return Ok(None) };
    let (trace, event) = (&envelope.trace, &envelope.id);
    for sql in [select_envelope!("sent_lately"), select_envelope!("sent")] {
        let found = tx.first(sql, &[(&sender).into(), trace.into(), event.into()])?;
        if let Some(row) = found {
            return record(row).map(Some);
        }
    }
    Ok(None)
}

/// A filter for deliveries.
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
        let agent = AgentId(row.uuid("id")?);
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
            at: row.int("at")?,
            status: row.opt_int("status")?,
            latency_ms: row.int("latency_ms")?,
            error: row.opt_text("error")?,
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
