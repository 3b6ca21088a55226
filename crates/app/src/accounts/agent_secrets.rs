//! Resetting an agent's key, and rotating its webhook secret.
//!
//! Anyone who holds an agent's key may replace it at `POST /register`, and so may a thief. The owner and the
//! operator can reset the key without knowing it, which gives them the last word. The owner gets a mail when
//! the key was replaced with the key itself.

use crate::agents::{AgentRef, host, managed, view};
use crate::market::detach::{MarketDetach, MarketDetached};
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Caller, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_node::secrets::webhooks;
use chorus_node::{App, AppState};
use chorus_protocol::api::accounts::{DetachReport, KeyReset, NewKey, WebhookSecret};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::market::allowances;
use chorus_store::{StoreError, Tx, push};
use serde_json::json;
use std::sync::Arc;

/// Gives an agent a new key. The owner and the operator may do this, without the old key. The old key stops
/// working at once, and so does everything issued under it.
pub async fn reset_key(
    app: &AppState,
    context: RequestContext,
    caller: Caller,
    id: &str,
    reset: KeyReset,
    once: Once,
) -> Result<Done<NewKey>, Error> {
    let (agent, now) = (AgentRef::parse(app, id)?, app.now());
    let (hub, api_key) = (Arc::clone(app), app.secret(SecretKind::AgentKey));
    let market = MarketDetach::new(app);
    let may = {
        let (agent, caller) = (agent.clone(), caller.clone());
        move |tx: &mut dyn Tx| {
            let found = agent.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
            may_reset(&caller, &found, reset)
        }
    };
    let work = move |tx: &mut dyn Tx| {
        let found = agent.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
        // The lock orders this against a claim of the agent and against a push to it.
        tx.lock(found.id.into())?;
        let agent = directory::by_id(tx, found.id)?.ok_or_else(|| Error::not_found("agent"))?;
        may_reset(&caller, &agent, reset)?;
        directory::reset_key(tx, agent.id, &key_hash(&api_key), now)?;
        let detached = if reset.detach { Some(detach(tx, &hub, &market, &agent)?) } else { None };
        if reset.release {
            release(tx, &hub, &agent)?;
        }
        hub.push_after(tx);
        let subject = Subject::Agent(agent.id);
        let detail = json!({"name": agent.name, "detach": reset.detach, "release": reset.release});
        context.record(tx, &hub, Deed::new(caller.actor(), Action::KeyReset, subject, detail))?;
        Ok(NewKey {
            agent_id: agent.id,
            address: hub.address(&agent.name),
            api_key: api_key.clone(),
            detached,
        })
    };
    app.once(once, may, work).await
}

/// Removes every way to reach the agent, whoever set it, and returns what was removed.
fn detach(tx: &mut dyn Tx, app: &App, market: &MarketDetach, agent: &Agent) -> Result<DetachReport, Error> {
    let shown = view(app, &Caller::Operator, agent);
    directory::detach(tx, agent.id, app.now())?;
    let MarketDetached { offers, job_callbacks, owners } = market.run(tx, app, agent)?;
    Ok(DetachReport {
        endpoint: shown.endpoint,
        harness: shown.harness,
        connection: shown.connection.and_then(|connection| connection.host),
        market_endpoint: host(offers.endpoint.as_deref()),
        skills: offers.skills,
        offers: offers.quotes,
        job_callbacks,
        owner_keys: owners,
    })
}

fn may_reset(caller: &Caller, agent: &Agent, reset: KeyReset) -> Result<(), Error> {
    let why = match caller {
        Caller::Operator => return Ok(()),
        Caller::Account(person) if agent.owner == Some(person.id) && !reset.release => return Ok(()),
        Caller::Account(person) if agent.owner == Some(person.id) => {
            "only the operator releases an agent; leave `release` out"
        }
        Caller::Account(_) | Caller::Agent(_) | Caller::EditLink(_) | Caller::Owner(_) | Caller::Nobody => {
            "this is for the agent's owner and the operator; an agent replaces its own key at POST /register"
        }
    };
    Err(Error::new(Code::Forbidden, why))
}

/// Removes an agent from its owner's account, so that a disabled owner no longer holds back its deliveries.
fn release(tx: &mut dyn Tx, app: &AppState, agent: &Agent) -> Result<(), StoreError> {
    let Some(owner) = agent.owner else { return Ok(()) };
    allowances::clear(tx, agent.id)?;
    directory::set_owner(tx, agent.id, None, None)?;
    push::retry_now(tx, agent.id, app.now())?;
    app.limits.usage.pass_after(tx, agent.id, Some(owner), None);
    Ok(())
}

/// Replaces the secret that the hub signs its requests to an agent with. The agent, its owner and the operator
/// may do this. The previous secret stays valid for a while.
pub async fn rotate_webhook_secret(
    app: &AppState,
    context: RequestContext,
    caller: Caller,
    id: &str,
    once: Once,
) -> Result<Done<WebhookSecret>, Error> {
    let (agent, now, hub) = (AgentRef::parse(app, id)?, app.now(), Arc::clone(app));
    let may = {
        let (agent, caller) = (agent.clone(), caller.clone());
        move |tx: &mut dyn Tx| managed(tx, &caller, &agent).map(drop)
    };
    let work = move |tx: &mut dyn Tx| {
        let agent = managed(tx, &caller, &agent)?;
        let webhook_rotations = directory::rotate_webhook_secret(tx, agent.id, now)?;
        let agent = Agent { webhook_rotations, webhook_rotated_at: Some(now), ..agent };
        let (subject, detail) = (Subject::Agent(agent.id), json!({"rotation": webhook_rotations}));
        let deed = Deed::new(caller.actor(), Action::WebhookSecretRotated, subject, detail);
        context.record(tx, &hub, deed)?;
        Ok(WebhookSecret {
            webhook_secret: webhooks::secret(&hub.config.master_key, &agent).printed(),
            previous_until: webhooks::previous_until(&agent, now).map(rfc3339),
        })
    };
    app.once(once, may, work).await
}
