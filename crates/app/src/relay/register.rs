//! Registers agents, by themselves or by the operator.

use super::find::registration;
use super::tell_owner::tell_owner;
use crate::admission::Admission;
use crate::agents::{self, card_fits};
use crate::delivery::challenge;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::authentication::is_operator;
use chorus_node::caller::{Caller, disabled, key_hash};
use chorus_node::secrets::webhooks;
use chorus_node::source::{Source, rate_key};
use chorus_node::{App, AppState};
use chorus_protocol::address::MAX_LEN;
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, TraceId, is_id};
use chorus_protocol::relay::{Register, Registered};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::directory::{self, KeyHash, Record};
use chorus_store::relay::{self, RegisterError, Registrar};
use chorus_store::{StoreError, Tx, usage};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

/// A registered agent.
pub struct Saved {
    /// True for a new agent.
    pub created: bool,
    pub agent: Registered,
}

/// Registers the caller, or updates its record and replaces its key if it shows the current one. If sign-up
/// needs a code, a new agent shows one: `sign_up_code`, or the one in the request.
pub async fn register(
    app: &AppState,
    context: RequestContext,
    key: Option<&str>,
    sign_up_code: Option<&str>,
    request: Register,
) -> Result<Saved, Error> {
    let key = key.map(key_hash);
    let operator = key.is_some_and(|key| is_operator(app, &key));
    let admission = if operator {
        Admission::Everybody
    } else {
        Admission::of(app, sign_up_code.or(request.sign_up_code.as_deref()))
    };
    if !operator {
        count_new(app, &request, key, rate_key(context.client)).await?;
    }
    let newcomer = if operator { Actor::Operator } else { Actor::Nobody };
    save(app, context, newcomer, request, Registrar::Itself(key), admission).await
}

/// Checks that a caller may register other agents.
pub fn may_register_others(caller: &Caller) -> Result<(), Error> {
    match caller {
        Caller::Operator => Ok(()),
        Caller::Agent(_) | Caller::Account(_) | Caller::EditLink(_) | Caller::Owner(_) => Err(Error::new(
            Code::Forbidden,
            "only the operator registers others; register yourself at POST /register",
        )),
        Caller::Nobody => Err(Error::unauthorized("this needs the operator's key")),
    }
}

/// Registers an agent for the operator, or updates its record and keeps its key.
pub async fn register_by_operator(
    app: &AppState,
    context: RequestContext,
    request: Register,
) -> Result<Saved, Error> {
    save(app, context, Actor::Operator, request, Registrar::Operator, Admission::Everybody).await
}

/// Counts a registration if it would create an agent. A caller without the key of a taken name is refused
/// here, before any of its addresses is resolved.
async fn count_new(app: &App, request: &Register, key: Option<KeyHash>, source: Source) -> Result<(), Error> {
    let Some(name) = request.agent.local_name(&app.config.host_name).map(str::to_owned) else {
        return Ok(());
    };
    let find = move |tx: &mut dyn Tx| {
        let Some(agent) = directory::by_name(tx, &name)? else { return Ok(None) };
        let holder = key.map_or(Ok(None), |key| directory::by_key(tx, &key))?;
        Ok(Some(holder.is_some_and(|holder| holder.id == agent.id)))
    };
    match app.store.read::<_, StoreError, _>(find).await? {
        None => app.limits.count_registration(source),
        Some(true) => Ok(()),
        Some(false) => Err(refusal(RegisterError::Taken)),
    }
}

/// Updates an existing agent, or creates one if the newcomer is admitted.
async fn save(
    app: &AppState,
    context: RequestContext,
    newcomer: Actor,
    request: Register,
    registrar: Registrar,
    admission: Admission,
) -> Result<Saved, Error> {
    let name = own_name(app, &request)?.to_owned();
    if let Some(endpoint) = &request.endpoint {
        app.transport.outbound.check("endpoint", endpoint).await?;
    }
    let too_large = request.card.as_ref().and_then(|card| card_fits(app, card).err());
    let record = Record {
        name,
        endpoint: request.endpoint.map(Into::into),
        card: request.card.map(|card| card.to_string()),
    };
    let secret = app.secret(SecretKind::AgentKey);
    let new = relay::Registration {
        record,
        names: request.names,
        registrar,
        id: AgentId(app.environment.uuid_v4()),
        key: key_hash(&secret),
        trace: TraceId(app.environment.uuid_v7()),
        now: app.now(),
    };
    let (hub, runtime) = (Arc::clone(app), Handle::current());
    let (source, counted) = (rate_key(context.client), OnceLock::new());
    let register = move |tx: &mut dyn Tx| {
        let before = directory::by_name(tx, &new.record.name)?.map(|known| known.id);
        let before = before.map_or(Ok(0), |id| usage::of_record(tx, id))?;
        let everybody = matches!(admission, Admission::Everybody);
        if !everybody && directory::by_name(tx, &new.record.name)?.is_none() {
            admission.admit(tx, new.now)?;
        }
        if let Some(fault) = &too_large {
            // An agent that registered this card earlier may keep it.
            let known = directory::by_name(tx, &new.record.name)?;
            if known.is_none_or(|known| known.card != new.record.card) {
                return Err(Faults::one("agent_card", fault).into());
            }
        }
        let registered = relay::register(tx, &new).map_err(refusal)?;
        let agent = &registered.agent;
        if agent.owner.is_none() && registrar_is_stranger(registrar, newcomer) {
            let grown = usage::of_record(tx, agent.id)? - before;
            // The transaction may run again, so the decision is made once.
            counted.get_or_init(|| hub.limits.count_registered_bytes(source, grown)).clone()?;
        }
        let (action, actor) = match registrar {
            _ if registered.created => (Action::AgentRegistered, newcomer),
            Registrar::Operator => (Action::AgentUpdated, Actor::Operator),
            Registrar::Itself(_) => (Action::KeyRotated, Actor::Principal(agent.id.into())),
        };
        if action == Action::KeyRotated {
            tell_owner(tx, &hub, &runtime, agent)?;
        }
        if registered.created && newcomer == Actor::Nobody {
            context.keep_source(tx, &hub, agent.id)?;
        }
        let detail = json!({"name": agent.name, "endpoint": agents::host(agent.endpoint.as_deref())});
        context.record(tx, &hub, Deed::new(actor, action, Subject::Agent(agent.id), detail))?;
        Ok(registered)
    };
    let registered = app.store.write::<_, Error, _>(register).await?;
    let endpoint_proven = challenge::ask(app, &registered.agent).await;
    let relay::Registered { agent, created, keyed } = registered;
    let signed = agent.endpoint.as_ref();
    let webhook_secret = signed.map(|_| webhooks::secret(&app.config.master_key, &agent).printed());
    let agent = Registered {
        agent_id: app.address(&agent.name),
        api_key: keyed.then_some(secret),
        webhook_secret,
        endpoint_proven,
        registration: registration(app, agent, true),
    };
    Ok(Saved { created, agent })
}

/// Returns whether the operator has no part in a registration.
fn registrar_is_stranger(registrar: Registrar, newcomer: Actor) -> bool {
    matches!(registrar, Registrar::Itself(_)) && newcomer != Actor::Operator
}

/// Returns the name that an agent wants on this hub.
fn own_name<'a>(app: &App, request: &'a Register) -> Result<&'a str, Faults> {
    let host = &app.config.host_name;
    let name = request.agent.local_name(host).ok_or_else(|| {
        let what = format_args!("the host must be {host} or chorus: this hub speaks for no other");
        Faults::one("agent_id", what)
    })?;
    if app.address(name).len() > MAX_LEN {
        // The resulting address would be too long to write to.
        let what = format_args!("must be at most {MAX_LEN} characters together with @{host}");
        return Err(Faults::one("agent_id", what));
    }
    if is_id(name) {
        return Err(Faults::one("agent_id", "must not have the form of an id"));
    }
    Ok(name)
}

fn refusal(error: RegisterError) -> Error {
    match error {
        RegisterError::Taken => Error::new(
            Code::AgentIdTaken,
            "this agent_id belongs to somebody else; if it is yours, send its key as Authorization: Bearer",
        ),
        RegisterError::Disabled => disabled("agent"),
        RegisterError::Store(error) => error.into(),
    }
}
