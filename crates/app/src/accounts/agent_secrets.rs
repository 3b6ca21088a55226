//! Taking back an agent's key, and the secret that requests to it are signed with.
//!
//! Whoever holds an agent's key may replace it at `POST /register`, a thief too. Its owner and the operator can do so without
//! it, so that the last word is theirs; and the owner is told by mail when the key was replaced with the key.

use crate::agents::{AgentRef, managed};
use crate::app::AppState;
use crate::audit::{Deed, RequestContext};
use crate::caller::{Caller, key_hash};
use crate::error::Error;
use crate::once::{Done, Once};
use crate::webhooks;
use chorus_protocol::api::accounts::{KeyReset, NewKey, WebhookSecret};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::{StoreError, Tx, push};
use serde_json::json;
use std::sync::Arc;

/// Gives an agent a new key; its owner may, and the operator, who need not have the old one. That stops working at once, and
/// so does everything that was given out under it.
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
    let may = {
        let (agent, caller) = (agent.clone(), caller.clone());
        move |tx: &mut dyn Tx| {
            let found = agent.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
            may_reset(&caller, &found, reset)
        }
    };
    let work = move |tx: &mut dyn Tx| {
        let found = agent.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
        // Whoever claims it, or pushes to it, comes before or after this.
        tx.lock(found.id.0)?;
        let agent = directory::by_id(tx, found.id)?.ok_or_else(|| Error::not_found("agent"))?;
        may_reset(&caller, &agent, reset)?;
        directory::reset_key(tx, agent.id, &key_hash(&api_key), now)?;
        if reset.detach {
            directory::detach(tx, agent.id, now)?;
        }
        if reset.release {
            release(tx, &hub, &agent)?;
        }
        hub.push_after(tx);
        let subject = Subject::Agent(agent.id);
        let detail = json!({"name": agent.name, "detach": reset.detach, "release": reset.release});
        context.record(tx, &hub, Deed::new(caller.actor(), Action::KeyReset, subject, detail))?;
        Ok(NewKey { agent_id: agent.id, address: hub.address(&agent.name), api_key: api_key.clone() })
    };
    app.once(once, may, work).await
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

/// An agent belongs to nobody from now on, and is not kept out with its former owner.
fn release(tx: &mut dyn Tx, app: &AppState, agent: &Agent) -> Result<(), StoreError> {
    let Some(owner) = agent.owner else { return Ok(()) };
    directory::set_owner(tx, agent.id, None, None)?;
    push::retry_now(tx, agent.id, app.now())?;
    let (app, id) = (Arc::clone(app), agent.id);
    tx.after_commit(Box::new(move || app.usage.forget(id, owner)));
    Ok(())
}

/// Replaces the secret that requests to an agent are signed with; itself may, its owner and the operator. The one before is
/// good beside it for a while.
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
