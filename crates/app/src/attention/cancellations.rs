//! Notifies C2A harnesses of cancelled events, and ends the open events of an agent that leaves a
//! conversation.

use bytes::Bytes;
use chorus_node::App;
use chorus_node::transport::dialect::{Dialect, delivery_id};
use chorus_protocol::c2a::{Cancelled, Method};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::rpc::Notification;
use chorus_protocol::words::Disposition;
use chorus_store::{StoreError, Tx, inboxes, obligations};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Notifies the agent's harness after the commit that an event is no longer wanted, whether it is connected to any
/// node or receives POST requests.
pub(crate) fn tell_cancelled(
    app: &App,
    tx: &mut dyn Tx,
    given: (DeliveryId, EventId),
    reason: &str,
    now: i64,
) -> Result<(), StoreError> {
    tell(app, tx, given, Why { reason, stopped: false }, now)
}

/// Notifies the agent's harness after the commit that somebody stopped the work on an event.
pub(crate) fn tell_stopped(
    app: &App,
    tx: &mut dyn Tx,
    given: (DeliveryId, EventId),
    reason: &str,
    now: i64,
) -> Result<(), StoreError> {
    let live = Arc::clone(&app.transport.live);
    let DeliveryId { agent, seq } = given.0;
    tx.after_commit(Box::new(move || live.frames.forget(agent.0, seq)));
    tell(app, tx, given, Why { reason, stopped: true }, now)
}

/// The reason why an event is no longer wanted.
#[derive(Debug, Clone, Copy)]
struct Why<'a> {
    reason: &'a str,
    stopped: bool,
}

fn tell(
    app: &App,
    tx: &mut dyn Tx,
    (id, event): (DeliveryId, EventId),
    why: Why<'_>,
    now: i64,
) -> Result<(), StoreError> {
    let agent = id.agent;
    let is_here = app.transport.live.dialect(agent) == Some(Dialect::C2a);
    if !is_here && inboxes::shows(tx, agent, now)?.is_none() {
        return Ok(());
    }
    let notice = notice_of((id, event), why).map_err(|error| StoreError::Unexpected(error.into()))?;
    if !is_here {
        app.tell_harness_after(tx, agent, notice.clone());
    }
    let (store, live) = (app.store.clone(), Arc::clone(&app.transport.live));
    tx.after_commit(Box::new(move || {
        store.pass(agent.into(), &notice);
        live.tell(agent, Dialect::C2a, notice);
    }));
    Ok(())
}

/// Builds the cancellation notice for a harness.
pub(crate) fn notice(given: (DeliveryId, EventId), reason: &str) -> Result<Bytes, serde_json::Error> {
    notice_of(given, Why { reason, stopped: false })
}

fn notice_of((id, event): (DeliveryId, EventId), why: Why<'_>) -> Result<Bytes, serde_json::Error> {
    let cancelled = Cancelled {
        request_id: json!(delivery_id(id.seq)),
        event_id: Some(event.into()),
        reason: Some(why.reason.into()),
        stopped: why.stopped,
    };
    let params = match serde_json::to_value(&cancelled)? {
        Value::Object(params) => params,
        _ => Map::new(),
    };
    let notice = Notification { method: Method::Cancelled.as_str().to_owned(), params };
    serde_json::to_string(&notice).map(Bytes::from)
}

/// The largest number of open events that end when an agent leaves. Further events end at their deadline.
const MAX_LEFT: i64 = 1000;

/// Ends the open events of an agent that has left a conversation, and stops their delivery.
pub(crate) fn leave(
    app: &App,
    tx: &mut dyn Tx,
    (agent, conversation): (AgentId, ConversationId),
    now: i64,
) -> Result<(), StoreError> {
    let mut left = vec![];
    for event in obligations::open_in(tx, agent, conversation, MAX_LEFT)? {
        let Some(known) = obligations::of(tx, event, agent, now)? else { continue };
        obligations::dispose(tx, &known, Some(Disposition::Ignored), None, None, now)?;
        tell_cancelled(app, tx, (known.id, event), "you are not in the conversation any more", now)?;
        left.push(known.id.seq);
    }
    let live = Arc::clone(&app.transport.live);
    tx.after_commit(Box::new(move || left.iter().for_each(|seq| live.frames.forget(agent.0, *seq))));
    Ok(())
}
