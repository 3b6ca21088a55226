//! With which secrets requests to an agent are signed.
//!
//! Each follows from the master key, the agent's id and how often its secret was replaced. For a while after that requests
//! carry two signatures, as Standard Webhooks allows, so that a receiver can take the new secret over at a moment of its choice.

use crate::secrets::{MasterKey, WebhookSecret};
use chorus_store::directory::Agent;

/// The time for which the previous secret stays valid.
const OVERLAP_MS: i64 = 24 * 60 * 60 * 1000;

/// Returns the current secret of an agent.
pub fn secret(master: &MasterKey, agent: &Agent) -> WebhookSecret {
    master.webhook_secret(agent.id.as_bytes(), agent.webhook_rotations)
}

/// Returns the time at which the previous secret expires, if it has not yet.
pub fn previous_until(agent: &Agent, now: i64) -> Option<i64> {
    agent.webhook_rotated_at.map(|at| at + OVERLAP_MS).filter(|end| now < *end)
}

/// All that are good now, the current one first: also those that follow from a master key that is being replaced.
pub fn signing(master: &MasterKey, agent: &Agent, now: i64) -> Vec<WebhookSecret> {
    let rotations = agent.webhook_rotations;
    let before = previous_until(agent, now).map(|_| rotations - 1);
    let keys = [Some(master), master.previous()].into_iter().flatten();
    let of_key = |key: &MasterKey| {
        let numbers = [Some(rotations), before].into_iter().flatten();
        numbers.map(|number| key.webhook_secret(agent.id.as_bytes(), number)).collect::<Vec<_>>()
    };
    keys.flat_map(of_key).collect()
}
