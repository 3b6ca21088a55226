//! Telling a C2A harness that what it was given is nobody's any more.

use crate::app::App;
use crate::transport::dialect::{Dialect, delivery_id};
use bytes::Bytes;
use chorus_protocol::c2a::{Cancelled, Method};
use chorus_protocol::ids::{DeliveryId, EventId};
use chorus_protocol::rpc::Notification;
use chorus_store::{StoreError, Tx, inboxes};
use serde_json::{Value, json};
use std::sync::Arc;

/// Tells a harness that is connected, wherever, or is POSTed to, once this is committed.
pub(crate) fn tell_cancelled(
    app: &App,
    tx: &mut dyn Tx,
    (id, event): (DeliveryId, EventId),
    reason: &str,
    now: i64,
) -> Result<(), StoreError> {
    let agent = id.agent;
    let is_here = app.live.dialect(agent) == Some(Dialect::C2a);
    if !is_here && inboxes::shows(tx, agent, now)?.is_none() {
        return Ok(());
    }
    let cancelled = Cancelled {
        request_id: json!(delivery_id(id.seq)),
        event_id: Some(event.into()),
        reason: Some(reason.into()),
    };
    let unexpected = |error: serde_json::Error| StoreError::Unexpected(error.into());
    let Value::Object(params) = serde_json::to_value(&cancelled).map_err(unexpected)? else { return Ok(()) };
    let notice = Notification { method: Method::Cancelled.as_str().to_owned(), params };
    let notice = Bytes::from(serde_json::to_string(&notice).map_err(unexpected)?);
    if !is_here {
        app.tell_harness_after(tx, agent, notice.clone());
    }
    let (store, live) = (app.store.clone(), Arc::clone(&app.live));
    tx.after_commit(Box::new(move || {
        store.pass(agent.0, &notice);
        live.tell(agent, Dialect::C2a, notice);
    }));
    Ok(())
}
