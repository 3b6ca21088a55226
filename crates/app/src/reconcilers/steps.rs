//! The steps of background work.
//!
//! Each step is a function of a transaction, the time and the settings only. So a crash, another node, a quiet
//! day and a simulation all take the same path. Functions named `find…` only read, so that an idle hub writes
//! nothing. The step that gets their result is harmless if that result is outdated. `ticks` and `push` decide
//! when a step runs.

use chorus_node::Config;
use chorus_node::transport::outbound::lease_ms;
use chorus_node::transport::replies::MAX_STREAM;
use chorus_protocol::ids::DeliveryId;
use chorus_store::clock::{self, Longest};
use chorus_store::deliveries::Lease;
use chorus_store::market::jobs;
use chorus_store::push::{self, Due, Room};
use chorus_store::{
    StoreError, Tx, accounts, approvals, audit, choir, deliveries, growing, harness_logs, idempotency,
    inboxes, invitations, mcp_sessions, reply_lines, retention, tool_calls,
};
use std::collections::BTreeSet;
use uuid::Uuid;

/// The limits on concurrent POSTs of this node. Each is little more than a waiting connection, but a hanging
/// one lasts half a minute, so half of the slots are reserved for first attempts. Jobs that are answered later
/// are counted separately.
pub const ROOM: Room = Room { tries: 256, retries: 128, per_agent: 4 };
/// Deliveries that one step reroutes.
const REROUTE_STEP: i64 = 500;
/// Rows of each kind that one cleanup step removes. Each step is a transaction that other writers wait for.
const CLEAN_UP_STEP: i64 = 500;

/// The settings of background work.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub node: Uuid,
    /// The time for which a sign of life counts.
    pub presence_ms: i64,
    /// The duration of a push lease.
    pub push_lease_ms: i64,
    /// The furthest that stored times can lie ahead.
    pub longest: Longest,
    /// The retention period of finished work. `None` keeps it forever.
    pub retention_ms: Option<i64>,
}

impl Settings {
    pub fn new(config: &Config) -> Self {
        let presence_ms = config.presence.as_millis() as i64;
        Self {
            node: config.node,
            presence_ms,
            push_lease_ms: lease_ms(config.webhook_timeout),
            longest: Longest { lease_ms: lease_ms(config.webhook_timeout.max(MAX_STREAM)), presence_ms },
            retention_ms: config.retention.map(|keep| keep.as_millis() as i64),
        }
    }
}

/// Renews the leases of the open inboxes of this node.
pub fn renew(tx: &mut dyn Tx, now: i64, settings: &Settings) -> Result<u64, StoreError> {
    inboxes::renew(tx, settings.node, now + settings.presence_ms)
}

/// Removes expired rows and returns whether there may be more. Abandoned leases are failed only if `leases` is
/// set, which means that the clock can be trusted.
pub fn clean_up(tx: &mut dyn Tx, now: i64, settings: &Settings, leases: bool) -> Result<bool, StoreError> {
    if leases {
        deliveries::fail_abandoned(tx, now)?;
    }
    let keys = idempotency::remove_expired(tx, now, CLEAN_UP_STEP)?;
    let answers = idempotency::shorten(tx, now, CLEAN_UP_STEP)?;
    let credentials = accounts::remove_expired(tx, now, CLEAN_UP_STEP)?;
    let acts = audit::remove_old(tx, now, CLEAN_UP_STEP)?;
    let calls = tool_calls::remove_old(tx, now, CLEAN_UP_STEP)?;
    let lines = harness_logs::remove_old(tx, now, CLEAN_UP_STEP)?;
    let old = settings.retention_ms.map_or(Ok(retention::Removed::default()), |keep_ms| {
        retention::remove_before(tx, now - keep_ms, CLEAN_UP_STEP)
    })?;
    let results = settings
        .retention_ms
        .map_or(Ok(Default::default()), |keep_ms| jobs::forget_results(tx, now - keep_ms, CLEAN_UP_STEP))?;
    let said = retention::remove_said(tx, now, settings.retention_ms, CLEAN_UP_STEP)?;
    let invited = invitations::remove_expired(tx, now, CLEAN_UP_STEP)?;
    let decided = approvals::remove_old(tx, now, CLEAN_UP_STEP)?;
    let sessions = mcp_sessions::remove_unused(tx, now, CLEAN_UP_STEP)?;
    let grown = growing::remove_old(tx, now, CLEAN_UP_STEP)?;
    let replies = reply_lines::remove_expired(tx, now, CLEAN_UP_STEP)?;
    let unclaimed = choir::remove_unclaimed(tx, now)?;
    // A kind that filled a whole step may have more rows.
    Ok(unclaimed
        || [
            keys,
            answers,
            credentials,
            acts,
            calls,
            lines,
            invited,
            decided,
            sessions,
            grown,
            replies,
            results.0,
            old.deliveries,
            said.events,
        ]
        .contains(&(CLEAN_UP_STEP as u64)))
}

/// Returns whether another node holds a lease that ends later than any lease can, because a clock was set
/// back.
pub fn find_ahead(tx: &mut dyn Tx, now: i64, settings: &Settings) -> Result<bool, StoreError> {
    clock::finds_ahead(tx, settings.node, now, &settings.longest)
}

/// Shortens such leases.
pub fn pull_back(tx: &mut dyn Tx, now: i64, settings: &Settings) -> Result<(), StoreError> {
    clock::pull_back(tx, settings.node, now, &settings.longest)
}

/// Deliveries with an outdated route or time.
#[derive(Debug, Clone, Default)]
pub struct Astray {
    /// Deliveries that wait for a route that is gone or worse than another.
    rerouted: Vec<DeliveryId>,
    /// Deliveries that were postponed before the clock was set back.
    late: Vec<DeliveryId>,
}

/// Finds some such deliveries. Returns `None` if there are none.
pub fn find_astray(tx: &mut dyn Tx, now: i64) -> Result<Option<Astray>, StoreError> {
    let rerouted = push::find_rerouted(tx, now, REROUTE_STEP)?;
    let late = clock::find_late(tx, now, REROUTE_STEP)?;
    Ok((!rerouted.is_empty() || !late.is_empty()).then_some(Astray { rerouted, late }))
}

/// Reroutes the deliveries, and makes the late ones due now.
pub fn reroute(tx: &mut dyn Tx, now: i64, found: &Astray) -> Result<(), StoreError> {
    push::reroute(tx, &found.rerouted, now)?;
    push::hurry(tx, &found.late, now)
}

/// Returns the time of the next push, and the due deliveries if there is room for them beside the `long`
/// requests.
pub fn find_due(
    tx: &mut dyn Tx,
    now: i64,
    settings: &Settings,
    has_room: bool,
    long: &BTreeSet<DeliveryId>,
) -> Result<(Option<i64>, Vec<DeliveryId>), StoreError> {
    let next = push::next_due(tx)?;
    let is_due = has_room && next.is_some_and(|next| next <= now);
    Ok((next, if is_due { push::find_due(tx, settings.node, now, &ROOM, long)? } else { vec![] }))
}

/// Leases the due deliveries for this node, except those that another node has leased.
pub fn lease(
    tx: &mut dyn Tx,
    now: i64,
    settings: &Settings,
    found: &[DeliveryId],
) -> Result<Vec<Due>, StoreError> {
    let lease = Lease { owner: settings.node, until: now + settings.push_lease_ms };
    push::lease(tx, found, now, lease)
}
