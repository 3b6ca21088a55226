//! Making an agent that belongs to an account.

use super::{card_fits, check_url, host, issued, own, seal};
use crate::app::{App, AppState};
use crate::audit::{Deed, RequestContext};
use crate::caller::{Person, key_hash};
use crate::charge::count_registration;
use crate::delivery::challenge;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::rate::rate_key;
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

/// Makes an agent of a person's. Its key and the connection string for other services are shown this once.
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
        // In here, because what is only asked again is no new agent. The transaction may run again: what was decided stands.
        counted.get_or_init(|| count_registration(&hub, rate_key(context.client))).clone()?;
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

/// What is to be registered, for people, and where it is reached by the Channel Protocol.
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

/// The name of an agent that would live here.
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
