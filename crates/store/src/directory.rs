//! The directory: which agents there are, under which name, with which key.
//!
//! A name belongs to one living agent at a time, whatever its letter case; an id belongs to one agent for ever. A
//! name that was deleted and registered again is a new agent and inherits nothing; only its inbox is numbered on, so that a
//! place in the former one means nothing there.

mod find;

pub use find::{Found, LOOKED_AT, Search, search};

use crate::usage::{self, Refusal};
use crate::{Row, StoreError, Tx, TxExt, inboxes, revocation};
use chorus_protocol::ids::{AccountId, AgentId, Principal, TraceId};
use find::{Findable, index};
use uuid::Uuid;

/// The SHA-256 of a key. Keys themselves are never stored.
pub type KeyHash = [u8; 32];

/// One agent as the directory knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub id: AgentId,
    /// Its name, as it spelled it.
    pub name: String,
    /// The URL that envelopes are POSTed to.
    pub endpoint: Option<String>,
    /// True if this endpoint has echoed a challenge.
    pub proven: bool,
    /// Its card, JSON as given.
    pub card: Option<String>,
    pub registered_at: i64,
    pub updated_at: i64,
    /// Until when its inbox counts as open.
    pub open_until: i64,
    /// The time of the last sign of life besides its open inbox; 0 for never.
    pub seen_at: i64,
    /// The account it belongs to.
    pub owner: Option<AccountId>,
    /// A description for people.
    pub description: Option<String>,
    /// Its own connection string, sealed: the database alone tells nobody where to post.
    pub connection: Option<Vec<u8>>,
    /// The URL of its C2A harness.
    pub harness: Option<String>,
    /// Words for what that harness can show its model.
    pub harness_shows: Option<String>,
    /// Counts the changes of what it is reached by; what was given out before one ends with it.
    pub epoch: i64,
    /// The reason why its connection string is no longer called, and since when.
    pub broken: Option<(String, i64)>,
    /// Since when the operator keeps it out, or its owner and all of its agents.
    pub disabled_at: Option<i64>,
    /// Since when what is for it waits, because its owner says so.
    pub paused_at: Option<i64>,
    /// The number of times the webhook signing secret was replaced.
    pub webhook_rotations: i64,
    /// The time of the last replacement, while the previous secret is still valid.
    pub webhook_rotated_at: Option<i64>,
    /// True if the agent or its owner blocks anybody.
    pub has_blocks: bool,
}

impl Agent {
    /// Its own connection string, sealed, unless that is broken.
    pub fn working_connection(&self) -> Option<&[u8]> {
        self.connection.as_deref().filter(|_| self.broken.is_none())
    }
}

/// The content of a registration.
#[derive(Debug, Clone)]
pub struct Record {
    /// The name, without a host.
    pub name: String,
    /// The URL that envelopes are POSTed to.
    pub endpoint: Option<String>,
    /// The card, JSON.
    pub card: Option<String>,
}

macro_rules! select_agent {
    ($($rest:literal),+) => {
        concat!(
            "SELECT a.id, a.name, a.endpoint, a.card, a.registered_at, a.updated_at, i.open_until, a.owner_id, a.description,
                    a.connection, a.epoch, a.broken, a.broken_at, i.seen_at,
                    COALESCE(a.disabled_at, a.owner_disabled_at) AS disabled_at,
                    a.webhook_rotations, a.webhook_rotated_at, a.has_blocks,
                    CASE WHEN a.proven_endpoint = a.endpoint THEN 1 ELSE 0 END AS is_proven, a.paused_at, a.harness,
                    a.harness_shows
             FROM agents a LEFT JOIN inboxes i ON i.agent_id = a.id WHERE a.deleted_at IS NULL AND ",
            $($rest),+
        )
    };
}
pub(crate) use select_agent;

pub(crate) fn agent(mut row: Row) -> Result<Agent, StoreError> {
    Ok(Agent {
        id: AgentId(row.uuid("id")?),
        name: row.text("name")?,
        endpoint: row.opt_text("endpoint")?,
        card: row.opt_text("card")?,
        registered_at: row.int("registered_at")?,
        updated_at: row.int("updated_at")?,
        open_until: row.opt_int("open_until")?.unwrap_or(0),
        owner: row.opt_bytes("owner_id")?.as_deref().and_then(AccountId::from_slice),
        description: row.opt_text("description")?,
        connection: row.opt_bytes("connection")?,
        epoch: row.int("epoch")?,
        broken: row.opt_text("broken")?.zip(row.opt_int("broken_at")?),
        seen_at: row.opt_int("seen_at")?.unwrap_or(0),
        disabled_at: row.opt_int("disabled_at")?,
        webhook_rotations: row.int("webhook_rotations")?,
        webhook_rotated_at: row.opt_int("webhook_rotated_at")?,
        has_blocks: row.int("has_blocks")? == 1,
        proven: row.int("is_proven")? == 1,
        paused_at: row.opt_int("paused_at")?,
        harness: row.opt_text("harness")?,
        harness_shows: row.opt_text("harness_shows")?,
    })
}

/// The key a name is found by: letter case does not tell agents apart.
fn name_key(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The agent of this name.
pub fn by_name(tx: &mut dyn Tx, name: &str) -> Result<Option<Agent>, StoreError> {
    let name = name_key(name);
    tx.first_cached(select_agent!("a.name_key = $1"), &[name.as_str().into()])?.map(agent).transpose()
}

/// The agent of this id, unless it was deleted.
pub fn by_id(tx: &mut dyn Tx, id: AgentId) -> Result<Option<Agent>, StoreError> {
    tx.first_cached(select_agent!("a.id = $1"), &[(&id).into()])?.map(agent).transpose()
}

/// The agent that holds this key.
pub fn by_key(tx: &mut dyn Tx, key: &KeyHash) -> Result<Option<Agent>, StoreError> {
    tx.first(select_agent!("a.key_hash = $1"), &[key.as_slice().into()])?.map(agent).transpose()
}

/// The hash of an agent's key, unless it was deleted.
pub fn key_of(tx: &mut dyn Tx, id: AgentId) -> Result<Option<KeyHash>, StoreError> {
    let sql = "SELECT key_hash FROM agents WHERE id = $1 AND deleted_at IS NULL";
    let key = tx.first(sql, &[(&id).into()])?.map(|mut row| row.bytes("key_hash")).transpose()?;
    key.map(|key| key.try_into().map_err(|_| StoreError::unexpected("a key's hash of another length")))
        .transpose()
}

/// The agent whose hub-issued connection string has this secret.
pub fn by_foreign_secret(tx: &mut dyn Tx, secret: &KeyHash) -> Result<Option<Agent>, StoreError> {
    tx.first(select_agent!("a.inlet_hash = $1"), &[secret.as_slice().into()])?.map(agent).transpose()
}

/// Replaces the secret of the connection string the hub issues for an agent; the old one stops at once.
pub fn set_foreign_secret(
    tx: &mut dyn Tx,
    id: AgentId,
    secret: &KeyHash,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET inlet_hash = $2, epoch = epoch + 1, updated_at = $3 WHERE id = $1",
        &[(&id).into(), secret.as_slice().into(), now.into()],
    )?;
    revocation::announce(tx, id)
}

/// Replaces an agent's own connection string, sealed; whatever was broken is mended by it.
pub fn set_connection(
    tx: &mut dyn Tx,
    id: AgentId,
    sealed: Option<&[u8]>,
    now: i64,
) -> Result<(), StoreError> {
    usage::changing_record(tx, id, |tx| {
        tx.execute(
        "UPDATE agents SET connection = $2, epoch = epoch + 1, broken = NULL, broken_at = NULL, updated_at = $3 WHERE id = $1",
        &[(&id).into(), sealed.into(), now.into()],
    )
    })?;
    revocation::announce(tx, id)
}

/// Replaces where an agent's C2A harness is POSTed to, which has said what it can show its model, in words.
pub fn set_harness(
    tx: &mut dyn Tx,
    id: AgentId,
    harness: Option<(&str, &str)>,
    now: i64,
) -> Result<(), StoreError> {
    usage::changing_record(tx, id, |tx| {
        tx.execute(
        "UPDATE agents SET harness = $2, harness_shows = $3, epoch = epoch + 1, updated_at = $4 WHERE id = $1",
        &[
            (&id).into(),
            harness.map(|(endpoint, _)| endpoint).into(),
            harness.map(|(_, shows)| shows).into(),
            now.into(),
        ],
    )
    })?;
    revocation::announce(tx, id)
}

/// Records what a harness can show after it was initialized. Returns whether it is still the agent's harness.
pub fn begin_harness(tx: &mut dyn Tx, id: AgentId, endpoint: &str, shows: &str) -> Result<bool, StoreError> {
    let begun = tx.execute(
        "UPDATE agents SET harness_shows = $3 WHERE id = $1 AND harness = $2 AND deleted_at IS NULL",
        &[(&id).into(), endpoint.into(), shows.into()],
    )?;
    Ok(begun == 1)
}

/// Marks an agent's connection as broken, or as mended.
pub fn set_broken(tx: &mut dyn Tx, id: AgentId, broken: Option<(&str, i64)>) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET broken = $2, broken_at = $3 WHERE id = $1",
        &[(&id).into(), broken.map(|(why, _)| why).into(), broken.map(|(_, at)| at).into()],
    )?;
    Ok(())
}

/// Remembers that an agent's endpoint has echoed a challenge; whether it is still its endpoint.
pub fn prove_endpoint(tx: &mut dyn Tx, id: AgentId, endpoint: &str) -> Result<bool, StoreError> {
    let proven = tx.execute(
        "UPDATE agents SET proven_endpoint = endpoint WHERE id = $1 AND endpoint = $2 AND deleted_at IS NULL",
        &[(&id).into(), endpoint.into()],
    )?;
    Ok(proven == 1)
}

/// Gives an agent to an account, whose blocks hold for it from now on and for whom it counts, or to nobody. An account that is
/// kept out keeps its agents out, too.
pub fn set_owner(
    tx: &mut dyn Tx,
    id: AgentId,
    owner: Option<AccountId>,
    description: Option<&str>,
) -> Result<(), StoreError> {
    let Some(before) = by_id(tx, id)? else { return Ok(()) };
    if let Some(owner) = owner {
        // Or an account that is disabled meanwhile would miss this one.
        tx.lock(owner.into())?;
    }
    usage::changing_record(tx, id, |tx| {
        tx.execute(
            "UPDATE agents SET owner_id = $2, description = COALESCE($3, description),
                owner_disabled_at = (SELECT disabled_at FROM accounts WHERE id = $2)
         WHERE id = $1",
            &[(&id).into(), owner.as_ref().into(), description.into()],
        )
    })?;
    usage::bring(tx, id, before.owner, owner)?;
    mark_blocks(tx, id.into())?;
    let before = Findable::from(&before);
    index(
        tx,
        id,
        Some(before),
        Some(Findable { owner, description: description.or(before.description), ..before }),
    )
}

/// Replaces what an agent is, for people.
pub fn set_description(tx: &mut dyn Tx, agent: &Agent, description: Option<&str>) -> Result<(), StoreError> {
    usage::changing_record(tx, agent.id, |tx| {
        tx.execute(
            "UPDATE agents SET description = $2 WHERE id = $1",
            &[(&agent.id).into(), description.into()],
        )
    })?;
    let before = Findable::from(agent);
    index(tx, agent.id, Some(before), Some(Findable { description, ..before }))
}

/// Lets what is for an agent wait from this time on, or go again. Its open session looks again before it goes on.
pub(crate) fn set_paused(tx: &mut dyn Tx, id: AgentId, since: Option<i64>) -> Result<(), StoreError> {
    tx.execute("UPDATE agents SET paused_at = $2 WHERE id = $1", &[(&id).into(), since.into()])?;
    revocation::announce(tx, id)
}

pub fn owner_of(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<AccountId>, StoreError> {
    let row = tx.first("SELECT owner_id FROM agents WHERE id = $1", &[(&agent).into()])?;
    let owner = row.map_or(Ok(None), |mut row| row.opt_bytes("owner_id"))?;
    Ok(owner.as_deref().and_then(AccountId::from_slice))
}

/// Writes into an agent's row, or into those of an account's agents, whether there is any block to look for. Due after every
/// change of blocks and of owners.
pub(crate) fn mark_blocks(tx: &mut dyn Tx, who: Principal) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET has_blocks =
             CASE WHEN EXISTS (SELECT 1 FROM blocks b WHERE b.blocker_id IN (agents.id, agents.owner_id)) THEN 1 ELSE 0 END
         WHERE id = $1 OR owner_id = $1",
        &[(&who.uuid()).into()],
    )?;
    Ok(())
}

/// Counts all registered agents.
pub fn count(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    let row = tx.first("SELECT COUNT(*) AS count FROM agents WHERE deleted_at IS NULL", &[])?;
    row.map_or(Ok(0), |mut row| row.int("count"))
}

/// Returns where the inboxes of earlier agents of this name ended.
fn former_end(tx: &mut dyn Tx, name: &str) -> Result<i64, StoreError> {
    // Each was numbered on where the one before it ended, so the last ones tell; more than one, because a clock may stand still.
    let former = tx.query(
        "SELECT id FROM agents WHERE name_key = $1 AND deleted_at IS NOT NULL ORDER BY registered_at DESC LIMIT 10",
        &[name_key(name).as_str().into()],
    )?;
    former.into_iter().try_fold(0, |end, mut row| Ok(tx.head(AgentId(row.uuid("id")?).into())?.max(end)))
}

/// Keeps a mark of the source that registered an agent. It is no address. It stays when the agent is deleted, since the agent's
/// invitations still count for its source.
pub fn keep_source(tx: &mut dyn Tx, id: AgentId, mark: &[u8]) -> Result<(), StoreError> {
    tx.execute("UPDATE agents SET registered_from = $2 WHERE id = $1", &[(&id).into(), mark.into()])?;
    Ok(())
}

/// Returns an id of the party that an agent's expensive work counts for: its owner, or else the source that registered it, by its
/// mark. An agent with neither counts for itself.
pub fn party(tx: &mut dyn Tx, id: AgentId) -> Result<Uuid, StoreError> {
    let (owner, mark) = registrar(tx, id)?;
    let mark = mark.and_then(|mark| Uuid::from_slice(&mark).ok());
    Ok(owner.map(|owner| owner.0).or(mark).unwrap_or(id.0))
}

/// Returns the owner of an agent, and the mark of the source that registered it, as far as they are known.
pub(crate) fn registrar(
    tx: &mut dyn Tx,
    id: AgentId,
) -> Result<(Option<AccountId>, Option<Vec<u8>>), StoreError> {
    let row = tx.first("SELECT owner_id, registered_from FROM agents WHERE id = $1", &[(&id).into()])?;
    let Some(mut row) = row else { return Ok((None, None)) };
    Ok((row.opt_uuid("owner_id")?.map(AccountId), row.opt_bytes("registered_from")?))
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
    let bytes = usage::of_record(tx, id)?;
    usage::charge(tx, id.into(), bytes, Refusal::WhenFull)?;
    index(tx, id, None, Some(record.into()))?;
    let end = former_end(tx, &record.name)?;
    tx.execute(
        "INSERT INTO inboxes (agent_id, handed_through, oldest) VALUES ($1, $2, $3)",
        &[(&id).into(), end.into(), (end + 1).into()],
    )?;
    if end > 0 {
        tx.set_head(id.into(), end)?;
    }
    Ok(Agent {
        id,
        name: record.name.clone(),
        endpoint: record.endpoint.clone(),
        proven: false,
        card: record.card.clone(),
        registered_at: now,
        updated_at: now,
        open_until: 0,
        seen_at: 0,
        owner: None,
        description: None,
        connection: None,
        harness: None,
        harness_shows: None,
        epoch: 0,
        broken: None,
        disabled_at: None,
        paused_at: None,
        webhook_rotations: 0,
        webhook_rotated_at: None,
        has_blocks: false,
    })
}

/// Replaces what an agent's record says, and its key if one is given: what was given out under the old one ends with it.
pub fn update(
    tx: &mut dyn Tx,
    agent: Agent,
    record: &Record,
    key: Option<&KeyHash>,
    now: i64,
) -> Result<Agent, StoreError> {
    usage::changing_record(tx, agent.id, |tx| {
        tx.execute(
            "UPDATE agents SET endpoint = $2, card = $3, updated_at = $4, key_hash = COALESCE($5, key_hash),
                epoch = epoch + $6
         WHERE id = $1",
            &[
                (&agent.id).into(),
                record.endpoint.as_deref().into(),
                record.card.as_deref().into(),
                now.into(),
                key.map(<[u8; 32]>::as_slice).into(),
                i64::from(key.is_some()).into(),
            ],
        )
    })?;
    if key.is_some() {
        revocation::announce(tx, agent.id)?;
    }
    // One that was proven before the last is asked once more.
    let proven = agent.proven && agent.endpoint == record.endpoint;
    let updated = Agent {
        proven,
        endpoint: record.endpoint.clone(),
        card: record.card.clone(),
        updated_at: now,
        epoch: agent.epoch + i64::from(key.is_some()),
        ..agent.clone()
    };
    index(tx, agent.id, Some((&agent).into()), Some((&updated).into()))?;
    Ok(updated)
}

/// Replaces an agent's key, whatever it was; what was given out under the old one ends with it.
pub fn reset_key(tx: &mut dyn Tx, id: AgentId, key: &KeyHash, now: i64) -> Result<(), StoreError> {
    // Ends the inbox connection, which used the old key. Its row is also a lock against concurrent rotations.
    inboxes::disconnect(tx, id)?;
    tx.execute(
        "UPDATE agents SET key_hash = $2, epoch = epoch + 1, updated_at = $3 WHERE id = $1",
        &[(&id).into(), key.as_slice().into(), now.into()],
    )?;
    revocation::announce(tx, id)
}

/// Removes every address of an agent: its endpoint, its harness, its own connection string and the one the hub
/// issued. Requests to it are signed with a new secret only. Waiting deliveries keep waiting.
pub fn detach(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<(), StoreError> {
    usage::changing_record(tx, id, |tx| {
        tx.execute(
        "UPDATE agents SET endpoint = NULL, proven_endpoint = NULL, connection = NULL, harness = NULL, harness_shows = NULL, broken = NULL,
                broken_at = NULL, inlet_hash = NULL, webhook_rotations = webhook_rotations + 1, webhook_rotated_at = NULL, epoch = epoch + 1,
                updated_at = $2
         WHERE id = $1",
        &[(&id).into(), now.into()],
    )
    })?;
    revocation::announce(tx, id)
}

/// Replaces the secret with which requests to an agent are signed, and says how often that was done.
pub fn rotate_webhook_secret(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<i64, StoreError> {
    let row = tx.first(
        "UPDATE agents SET webhook_rotations = webhook_rotations + 1, webhook_rotated_at = $2 WHERE id = $1
         RETURNING webhook_rotations",
        &[(&id).into(), now.into()],
    )?;
    row.ok_or_else(|| StoreError::unexpected("no such agent"))?.int("webhook_rotations")
}

/// Removes an agent from the directory, and frees its name. `access` ends the rest.
pub(crate) fn remove(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<(), StoreError> {
    if let Some(agent) = by_id(tx, id)? {
        index(tx, id, Some((&agent).into()), None)?;
    }
    tx.execute(
        "UPDATE agents SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL",
        &[(&id).into(), now.into()],
    )?;
    Ok(())
}
