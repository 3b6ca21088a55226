//! The directory: which agents there are, under which name, with which key.
//!
//! A name belongs to one living agent at a time, whatever its letter case; an id belongs to one agent for ever. A
//! name that was deleted and registered again is a new agent and inherits nothing.

use crate::{Row, StoreError, Tx, TxExt, inboxes};
use chorus_protocol::ids::{AgentId, TraceId};

/// The SHA-256 of a key. Keys themselves are never stored.
pub type KeyHash = [u8; 32];

/// One agent as the directory knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its name, as it spelled it.
    pub name: String,
    /// Where envelopes are POSTed to.
    pub endpoint: Option<String>,
    /// Its card, JSON as given.
    pub card: Option<String>,
    /// When the name was registered.
    pub registered_at: i64,
    /// When the record last changed.
    pub updated_at: i64,
    /// Until when its inbox counts as open.
    pub open_until: i64,
}

/// What a registration says.
#[derive(Debug, Clone)]
pub struct Record {
    /// The name, without a host.
    pub name: String,
    /// Where envelopes are POSTed to.
    pub endpoint: Option<String>,
    /// The card, JSON.
    pub card: Option<String>,
}

macro_rules! select_agent {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.name, a.endpoint, a.card, a.registered_at, a.updated_at, i.open_until
             FROM agents a LEFT JOIN inboxes i ON i.agent_id = a.id WHERE a.deleted_at IS NULL AND ",
            $rest
        )
    };
}

fn agent(mut row: Row) -> Result<Agent, StoreError> {
    Ok(Agent {
        id: AgentId(row.uuid(0)?),
        name: row.text(1)?,
        endpoint: row.opt_text(2)?,
        card: row.opt_text(3)?,
        registered_at: row.int(4)?,
        updated_at: row.int(5)?,
        open_until: row.opt_int(6)?.unwrap_or(0),
    })
}

/// The key a name is found by: letter case does not tell agents apart.
fn name_key(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The agent of this name.
pub fn by_name(tx: &mut dyn Tx, name: &str) -> Result<Option<Agent>, StoreError> {
    tx.first(select_agent!("a.name_key = $1"), &[name_key(name).as_str().into()])?.map(agent).transpose()
}

/// The agent of this id, unless it was deleted.
pub fn by_id(tx: &mut dyn Tx, id: AgentId) -> Result<Option<Agent>, StoreError> {
    tx.first(select_agent!("a.id = $1"), &[(&id).into()])?.map(agent).transpose()
}

/// The agent that holds this key.
pub fn by_key(tx: &mut dyn Tx, key: &KeyHash) -> Result<Option<Agent>, StoreError> {
    tx.first(select_agent!("a.key_hash = $1"), &[key.as_slice().into()])?.map(agent).transpose()
}

/// A page of the directory in the order of names, after the name `after`.
pub fn list(tx: &mut dyn Tx, after: &str, limit: i64) -> Result<Vec<Agent>, StoreError> {
    tx.query(
        select_agent!("a.name_key > $1 ORDER BY a.name_key LIMIT $2"),
        &[name_key(after).as_str().into(), limit.into()],
    )?
    .into_iter()
    .map(agent)
    .collect()
}

/// How many agents there are.
pub fn count(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    let row = tx.first("SELECT COUNT(*) FROM agents WHERE deleted_at IS NULL", &[])?;
    row.map_or(Ok(0), |mut row| row.int(0))
}

/// Adds an agent. The caller has seen, in this transaction, that the name is free.
pub fn insert(
    tx: &mut dyn Tx,
    id: AgentId,
    record: &Record,
    key: &KeyHash,
    trace: TraceId,
    now: i64,
) -> Result<Agent, StoreError> {
    tx.execute(
        "INSERT INTO agents (id, name, name_key, key_hash, endpoint, card, registered_at, updated_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)",
        &[
            (&id).into(),
            record.name.as_str().into(),
            name_key(&record.name).as_str().into(),
            key.as_slice().into(),
            record.endpoint.as_deref().into(),
            record.card.as_deref().into(),
            now.into(),
            (&trace).into(),
        ],
    )?;
    tx.execute("INSERT INTO inboxes (agent_id) VALUES ($1)", &[(&id).into()])?;
    Ok(Agent {
        id,
        name: record.name.clone(),
        endpoint: record.endpoint.clone(),
        card: record.card.clone(),
        registered_at: now,
        updated_at: now,
        open_until: 0,
    })
}

/// Replaces what an agent's record says, and its key if one is given.
pub fn update(
    tx: &mut dyn Tx,
    agent: Agent,
    record: &Record,
    key: Option<&KeyHash>,
    now: i64,
) -> Result<Agent, StoreError> {
    tx.execute(
        "UPDATE agents SET endpoint = $2, card = $3, updated_at = $4, key_hash = COALESCE($5, key_hash)
         WHERE id = $1",
        &[
            (&agent.id).into(),
            record.endpoint.as_deref().into(),
            record.card.as_deref().into(),
            now.into(),
            key.map(<[u8; 32]>::as_slice).into(),
        ],
    )?;
    Ok(Agent { endpoint: record.endpoint.clone(), card: record.card.clone(), updated_at: now, ..agent })
}

/// Takes an agent out of the directory and frees its name. Its open inbox is closed with it.
pub fn delete(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL",
        &[(&id).into(), now.into()],
    )?;
    inboxes::disconnect(tx, id)
}
