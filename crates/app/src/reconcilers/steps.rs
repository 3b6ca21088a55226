//! The steps of background work: what each looks for, and what it does about it.
//!
//! Functions of a transaction, the time and what is set, and of nothing else: the path after a crash, on another node, on a quiet
//! day and in a simulation is the same path. Those called `find` only read, so that a hub with nothing to do writes nothing; what
//! they found is given to the step, which is harmless if it is no longer so. When they run is for `ticks` and `push` to say.

use crate::config::Config;
use crate::transport::outbound::lease_ms;
use crate::transport::replies::MAX_STREAM;
use crate::usage::Usage;
use chorus_protocol::ids::DeliveryId;
use chorus_store::clock::{self, Longest};
use chorus_store::deliveries::Lease;
use chorus_store::market::jobs;
use chorus_store::push::{self, Due, Room};
use chorus_store::{
    StoreError, Tx, accounts, approvals, audit, choir, deliveries, growing, harness_logs, idempotency,
    inboxes, invitations, mcp_sessions, reply_lines, retention, tool_calls,
};
use std::sync::Arc;
use uuid::Uuid;

/// The most POSTs of this node at a time. Each is little more than a connection that waits; but those that hang do so for half
/// a minute, so half of them are kept for what was not tried before.
pub const ROOM: Room = Room { tries: 256, retries: 128, per_agent: 4 };
/// How many deliveries one step sends another way.
const REROUTE_STEP: i64 = 500;
/// How much of each kind one step of the clean-up removes: each is a transaction, and others wait for it.
const CLEAN_UP_STEP: i64 = 500;

/// What is set of background work.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub node: Uuid,
    /// How long a sign of life counts.
    pub presence_ms: i64,
    /// How long a push is leased.
    pub push_lease_ms: i64,
    /// How far ahead times can lie.
    pub longest: Longest,
    /// How long what is done is kept; none for ever.
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

/// This node lives.
pub fn renew(tx: &mut dyn Tx, now: i64, settings: &Settings) -> Result<u64, StoreError> {
    inboxes::renew(tx, settings.node, now + settings.presence_ms)
}

/// What is over is brought to its end; whether there may be more of it. Leases are left alone unless their time can be trusted.
pub fn clean_up(
    tx: &mut dyn Tx,
    now: i64,
    settings: &Settings,
    leases: bool,
    usage: &Arc<Usage>,
) -> Result<bool, StoreError> {
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
    usage.give_back(tx, old.bytes);
    let results = settings
        .retention_ms
        .map_or(Ok(Default::default()), |keep_ms| jobs::forget_results(tx, now - keep_ms, CLEAN_UP_STEP))?;
    usage.give_back(tx, results.1);
    let said = retention::remove_said(tx, now, settings.retention_ms, CLEAN_UP_STEP)?;
    usage.give_back(tx, said.bytes);
    let invited = invitations::remove_expired(tx, now, CLEAN_UP_STEP)?;
    let decided = approvals::remove_old(tx, now, CLEAN_UP_STEP)?;
    let sessions = mcp_sessions::remove_unused(tx, now, CLEAN_UP_STEP)?;
    let grown = growing::remove_old(tx, now, CLEAN_UP_STEP)?;
    let replies = reply_lines::remove_expired(tx, now, CLEAN_UP_STEP)?;
    let unclaimed = choir::remove_unclaimed(tx, now)?;
    // Whatever took a whole step may have more.
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

/// Whether others hold something for longer than anybody can, because a clock was set back.
pub fn find_ahead(tx: &mut dyn Tx, now: i64, settings: &Settings) -> Result<bool, StoreError> {
    clock::finds_ahead(tx, settings.node, now, &settings.longest)
}

/// That ends.
pub fn pull_back(tx: &mut dyn Tx, now: i64, settings: &Settings) -> Result<(), StoreError> {
    clock::pull_back(tx, settings.node, now, &settings.longest)
}

/// Deliveries whose way or time is not what it should be.
#[derive(Debug, Clone, Default)]
pub struct Astray {
    /// They wait for a way that is gone, or worse than another.
    rerouted: Vec<DeliveryId>,
    /// They were put off before the clock was set back.
    late: Vec<DeliveryId>,
}

/// Finds some of them; nothing if there are none.
pub fn find_astray(tx: &mut dyn Tx, now: i64) -> Result<Option<Astray>, StoreError> {
    let rerouted = push::find_rerouted(tx, now, REROUTE_STEP)?;
    let late = clock::find_late(tx, now, REROUTE_STEP)?;
    Ok((!rerouted.is_empty() || !late.is_empty()).then_some(Astray { rerouted, late }))
}

/// They go another way, or are tried now.
pub fn reroute(tx: &mut dyn Tx, now: i64, found: &Astray) -> Result<(), StoreError> {
    push::reroute(tx, &found.rerouted, now)?;
    push::hurry(tx, &found.late, now)
}

/// When something is to be pushed next, and what of it is due, if there is room for it.
pub fn find_due(
    tx: &mut dyn Tx,
    now: i64,
    settings: &Settings,
    has_room: bool,
) -> Result<(Option<i64>, Vec<DeliveryId>), StoreError> {
    let next = push::next_due(tx)?;
    let is_due = has_room && next.is_some_and(|next| next <= now);
    Ok((next, if is_due { push::find_due(tx, settings.node, now, &ROOM)? } else { vec![] }))
}

/// Takes what was found due for this node, as far as nobody else has.
pub fn lease(
    tx: &mut dyn Tx,
    now: i64,
    settings: &Settings,
    found: &[DeliveryId],
) -> Result<Vec<Due>, StoreError> {
    let lease = Lease { owner: settings.node, until: now + settings.push_lease_ms };
    push::lease(tx, found, now, lease)
}
