//! Making an agent in an account.

use super::{card_fits, check_url, host, issued, own, seal};
use crate::delivery::challenge;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Person, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_node::source::rate_key;
use chorus_node::{App, AppState};
use chorus_protocol::address::{Address, MAX_LEN};
use chorus_protocol::api::agents::{AgentName, EndpointUrl, MadeAgent, NewAgent};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, TraceId, is_id};
use chorus_protocol::relay::check_endpoint;
use chorus_store::Tx;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::directory::{self, Record};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use url::Url;

/// Makes an agent that belongs to a person. Its key and its issued connection string are shown only in this
/// answer.
pub async fn make(
    app: &AppState,
    person: &Person,
    context: RequestContext,
    new: NewAgent,
    once: Once,
) -> Result<Done<MadeAgent>, Error> {
    let (record, description, connection) = check(app, new).await?;
    let (id, trace, owner) =
        (AgentId(app.environment.uuid_v4()), TraceId(app.environment.uuid_v7()), person.id);
    let (key, secret) = (app.secret(SecretKind::AgentKey), app.secret(SecretKind::ConnectionString));
    let sealed = connection.as_ref().map(|url| seal(app, id, url)).transpose()?;
    let challenged = app.config.endpoint_challenge && record.endpoint.is_some();
    let made = MadeAgent {
        agent_id: id,
        address: app.address(&record.name),
        connection_string: issued(app, &secret),
        webhook_secret: app.config.master_key.webhook_secret(id.as_bytes(), 0).printed(),
        api_key: key.clone(),
        endpoint_proven: challenged.then_some(false),
    };
    let (hub, runtime, now, counted) = (Arc::clone(app), Handle::current(), app.now(), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        // Counted inside the work, because a repeated request with the same idempotency key makes no new
        // agent. The cell keeps the decision when the transaction is retried.
        counted.get_or_init(|| hub.limits.count_registration(rate_key(context.client))).clone()?;
        if directory::by_name(tx, &record.name)?.is_some() {
            return Err(Error::new(Code::Conflict, "an agent of this name is registered here already"));
        }
        directory::insert(tx, id, &record, &key_hash(&key), trace, now)?;
        own(tx, &hub, id, owner, description.as_deref())?;
        directory::set_foreign_secret(tx, id, &key_hash(&secret), now)?;
        if let Some(sealed) = &sealed {
            directory::set_connection(tx, id, Some(sealed), now)?;
        }
        let endpoint = host(record.endpoint.as_deref());
        let detail = json!({"name": record.name, "endpoint": endpoint, "connection": sealed.is_some()});
        let actor = Actor::Principal(owner.into());
        context.record(tx, &hub, Deed::new(actor, Action::AgentRegistered, Subject::Agent(id), detail))?;
        if let Some(endpoint) = record.endpoint.clone() {
            let (hub, runtime) = (Arc::clone(&hub), runtime.clone());
            tx.after_commit(Box::new(move || challenge::ask_again(&hub, &runtime, id, endpoint)));
        }
        Ok(made.clone())
    };
    app.once(once, |_| Ok(()), work).await
}

/// Checks the request. Returns the directory record, the description, and the agent's own connection string.
async fn check(app: &App, new: NewAgent) -> Result<(Record, Option<String>, Option<Url>), Error> {
    let mut faults = Faults::new();
    let AgentName(name) = new.name;
    let name = local_name(app, &name).map_err(|what| faults.add("name", what)).unwrap_or_default();
    if let Some(Err(what)) = new.card.as_ref().map(|card| card_fits(app, card)) {
        faults.add("card", what);
    }
    let mut url = |name: &str, url: Option<EndpointUrl>| {
        url.and_then(|EndpointUrl(url)| check_endpoint(&url).map_err(|what| faults.add(name, what)).ok())
    };
    let (connection, endpoint) =
        (url("connection_string", new.connection_string), url("endpoint", new.endpoint));
    if !faults.is_empty() {
        return Err(faults.into());
    }
    check_url(app, "connection_string", connection.as_ref()).await?;
    check_url(app, "endpoint", endpoint.as_ref()).await?;
    let (endpoint, card) = (endpoint.map(String::from), new.card.map(|card| card.to_string()));
    Ok((Record { name, endpoint, card }, new.description, connection))
}

/// Returns the local name of an agent of this hub.
fn local_name(app: &App, text: &str) -> Result<String, String> {
    let address = Address::parse(text).map_err(|fault| fault.to_string())?;
    let host = &app.config.host_name;
    let name = address.local_name(host).ok_or_else(|| format!("must be a name alone, or one at {host}"))?;
    if app.address(name).len() > MAX_LEN {
        return Err(format!("must be at most {MAX_LEN} characters together with @{host}"));
    }
    if is_id(name) {
        return Err("must not have the form of an id".into());
    }
    Ok(name.to_owned())
}
