//! The directory: which agents there are, under which name, with which key.
//!
//! A name belongs to one living agent at a time, whatever its letter case; an id belongs to one agent for ever. A
//! name that was deleted and registered again is a new agent and inherits nothing; only its inbox is numbered on, so that a
//! place in the former one means nothing there.

mod find;

pub use find::{Found, LOOKED_AT, Search, index_old, search, skip_old};

use crate::{Row, StoreError, Tx, TxExt, inboxes, revocation, usage};
use chorus_protocol::ids::{AccountId, AgentId, Principal, TraceId};
use find::{Findable, index};

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
    /// Whether this very endpoint has echoed a challenge.
    pub proven: bool,
    /// Its card, JSON as given.
    pub card: Option<String>,
    /// When the name was registered.
    pub registered_at: i64,
    /// When the record last changed.
    pub updated_at: i64,
    /// Until when its inbox counts as open.
    pub open_until: i64,
    /// When it last showed a sign of life, besides its open inbox; 0 for never.
    pub seen_at: i64,
    /// The account it belongs to.
    pub owner: Option<AccountId>,
    /// What it is, for people.
    pub description: Option<String>,
    /// Its own connection string, sealed: the database alone tells nobody where to post.
    pub connection: Option<Vec<u8>>,
    /// Where its C2A harness is POSTed to.
    pub harness: Option<String>,
    /// Words for what that harness can show its model.
    pub harness_shows: Option<String>,
    /// Counts the changes of what it is reached by; what was given out before one ends with it.
    pub epoch: i64,
    /// Why and since when its connection string is not called.
    pub broken: Option<(String, i64)>,
    /// Since when the operator keeps it out, or its owner and all of its agents.
    pub disabled_at: Option<i64>,
    /// Since when what is for it waits, because its owner says so.
    pub paused_at: Option<i64>,
    /// How often the secret was replaced with which requests to it are signed.
    pub webhook_rotations: i64,
    /// When that was last, if the one before goes on for a while.
    pub webhook_rotated_at: Option<i64>,
    /// Whether it, or its owner, keeps anybody out.
    pub has_blocks: bool,
}

impl Agent {
    /// Its own connection string, sealed, unless that is broken.
    pub fn working_connection(&self) -> Option<&[u8]> {
        self.connection.as_deref().filter(|_| self.broken.is_none())
    }
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
    ($($rest:literal),+) => {
        concat!(
            "SELECT a.id, a.name, a.endpoint, a.card, a.registered_at, a.updated_at, i.open_until, a.owner_id, a.description,
                    a.connection, a.epoch, a.broken, a.broken_at, i.seen_at, COALESCE(a.disabled_at, a.owner_disabled_at),
                    a.webhook_rotations, a.webhook_rotated_at, a.has_blocks,
                    CASE WHEN a.proven_endpoint = a.endpoint THEN 1 ELSE 0 END, a.paused_at, a.harness, a.harness_shows
             FROM agents a LEFT JOIN inboxes i ON i.agent_id = a.id WHERE a.deleted_at IS NULL AND ",
            $($rest),+
        )
    };
}
pub(crate) use select_agent;

pub(crate) fn agent(mut row: Row) -> Result<Agent, StoreError> {
    Ok(Agent {
        id: AgentId(row.uuid(0)?),
        name: row.text(1)?,
        endpoint: row.opt_text(2)?,
        card: row.opt_text(3)?,
        registered_at: row.int(4)?,
        updated_at: row.int(5)?,
        open_until: row.opt_int(6)?.unwrap_or(0),
        owner: row.opt_bytes(7)?.as_deref().and_then(AccountId::from_slice),
        description: row.opt_text(8)?,
        connection: row.opt_bytes(9)?,
        epoch: row.int(10)?,
        broken: row.opt_text(11)?.zip(row.opt_int(12)?),
        seen_at: row.opt_int(13)?.unwrap_or(0),
        disabled_at: row.opt_int(14)?,
        webhook_rotations: row.int(15)?,
        webhook_rotated_at: row.opt_int(16)?,
        has_blocks: row.int(17)? == 1,
        proven: row.int(18)? == 1,
        paused_at: row.opt_int(19)?,
        harness: row.opt_text(20)?,
        harness_shows: row.opt_text(21)?,
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
    let key = tx.first(sql, &[(&id).into()])?.map(|mut row| row.bytes(0)).transpose()?;
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
    tx.execute(
        "UPDATE agents SET connection = $2, epoch = epoch + 1, broken = NULL, broken_at = NULL, updated_at = $3 WHERE id = $1",
        &[(&id).into(), sealed.into(), now.into()],
    )?;
    revocation::announce(tx, id)
}

/// Replaces where an agent's C2A harness is POSTed to, which has said what it can show its model, in words.
pub fn set_harness(
    tx: &mut dyn Tx,
    id: AgentId,
    harness: Option<(&str, &str)>,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET harness = $2, harness_shows = $3, epoch = epoch + 1, updated_at = $4 WHERE id = $1",
        &[
            (&id).into(),
            harness.map(|(endpoint, _)| endpoint).into(),
            harness.map(|(_, shows)| shows).into(),
            now.into(),
        ],
    )?;
    revocation::announce(tx, id)
}

/// A harness began again: what it can show its model now. Whether it is still the agent's.
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
        tx.lock(owner.0)?;
    }
    tx.execute(
        "UPDATE agents SET owner_id = $2, description = COALESCE($3, description),
                owner_disabled_at = (SELECT disabled_at FROM accounts WHERE id = $2)
         WHERE id = $1",
        &[(&id).into(), owner.as_ref().into(), description.into()],
    )?;
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
    tx.execute(
        "UPDATE agents SET description = $2 WHERE id = $1",
        &[(&agent.id).into(), description.into()],
    )?;
    let before = Findable::from(agent);
    index(tx, agent.id, Some(before), Some(Findable { description, ..before }))
}

/// Lets what is for an agent wait from this time on, or go again. Its open session looks again before it goes on.
pub(crate) fn set_paused(tx: &mut dyn Tx, id: AgentId, since: Option<i64>) -> Result<(), StoreError> {
    tx.execute("UPDATE agents SET paused_at = $2 WHERE id = $1", &[(&id).into(), since.into()])?;
    revocation::announce(tx, id)
}

/// An agent's owner.
pub fn owner_of(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<AccountId>, StoreError> {
    let row = tx.first("SELECT owner_id FROM agents WHERE id = $1", &[(&agent).into()])?;
    let owner = row.map_or(Ok(None), |mut row| row.opt_bytes(0))?;
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

/// How many agents there are.
pub fn count(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    let row = tx.first("SELECT COUNT(*) FROM agents WHERE deleted_at IS NULL", &[])?;
    row.map_or(Ok(0), |mut row| row.int(0))
}

/// Where the inboxes of those who had this name before ended.
fn former_end(tx: &mut dyn Tx, name: &str) -> Result<i64, StoreError> {
    // Each was numbered on where the one before it ended, so the last ones tell; more than one, because a clock may stand still.
    let former = tx.query(
        "SELECT id FROM agents WHERE name_key = $1 AND deleted_at IS NOT NULL ORDER BY registered_at DESC LIMIT 10",
        &[name_key(name).as_str().into()],
    )?;
    former.into_iter().try_fold(0, |end, mut row| Ok(tx.head(row.uuid(0)?)?.max(end)))
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
    index(tx, id, None, Some(record.into()))?;
    let end = former_end(tx, &record.name)?;
    tx.execute(
        "INSERT INTO inboxes (agent_id, handed_through, oldest) VALUES ($1, $2, $3)",
        &[(&id).into(), end.into(), (end + 1).into()],
    )?;
    if end > 0 {
        tx.execute("INSERT INTO streams (id, head) VALUES ($1, $2)", &[(&id).into(), end.into()])?;
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
    )?;
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
    // Whoever reads the inbox did so with the old key. Its row is a lock as well, for whoever rotates at the same time.
    inboxes::disconnect(tx, id)?;
    tx.execute(
        "UPDATE agents SET key_hash = $2, epoch = epoch + 1, updated_at = $3 WHERE id = $1",
        &[(&id).into(), key.as_slice().into(), now.into()],
    )?;
    revocation::announce(tx, id)
}

/// Takes everything off that an agent is reached by, whoever set it: its endpoint, its harness, its own connection string, the
/// one the hub issued. Requests to it are signed with a new secret, and with no former one. What waits for it waits.
pub fn detach(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET endpoint = NULL, proven_endpoint = NULL, connection = NULL, harness = NULL, harness_shows = NULL, broken = NULL,
                broken_at = NULL, inlet_hash = NULL, webhook_rotations = webhook_rotations + 1, webhook_rotated_at = NULL, epoch = epoch + 1,
                updated_at = $2
         WHERE id = $1",
        &[(&id).into(), now.into()],
    )?;
    revocation::announce(tx, id)
}

/// Replaces the secret with which requests to an agent are signed, and says how often that was done.
pub fn rotate_webhook_secret(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<i64, StoreError> {
    let row = tx.first(
        "UPDATE agents SET webhook_rotations = webhook_rotations + 1, webhook_rotated_at = $2 WHERE id = $1
         RETURNING webhook_rotations",
        &[(&id).into(), now.into()],
    )?;
    row.ok_or_else(|| StoreError::unexpected("no such agent"))?.int(0)
}

/// Takes an agent out of the directory, and frees its name. What else ends with it is for `access`.
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
