//! Trying anew what was given up or refused.

use super::{Asked, unknown};
use crate::agents::may_manage;
use crate::app::AppState;
use crate::audit::{Deed, RequestContext};
use crate::caller::Caller;
use crate::error::Error;
use chorus_protocol::api::deliveries::{ReplayView, ReplayedView};
use chorus_protocol::code::Code;
use chorus_protocol::words::DeliveryState;
use chorus_store::audit::{Action, Subject};
use chorus_store::{Tx, directory, push};
use serde_json::json;
use std::sync::Arc;

/// The most deliveries one call replays.
const MAX_REPLAYED: i64 = 1000;
/// How many of them in one transaction.
const REPLAYED_TOGETHER: usize = 100;

/// Whether somebody may ask for it at all.
pub fn may_replay(caller: &Caller) -> Result<(), Error> {
    if caller.is_known() { Ok(()) } else { Err(unknown()) }
}

/// Tries a delivery anew: at once, or in its turn if others of its conversation wait.
pub async fn replay(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    id: &str,
) -> Result<ReplayView, Error> {
    may_replay(&caller)?;
    let missing = || Error::not_found("delivery");
    let id = app.config.master_key.named_delivery(id).ok_or_else(missing)?;
    let (hub, now) = (Arc::clone(app), app.now());
    let replay = move |tx: &mut dyn Tx| {
        let agent = directory::by_id(tx, id.agent)?.filter(|agent| may_manage(&caller, agent));
        agent.ok_or_else(missing)?;
        let record = push::get(tx, id)?.ok_or_else(missing)?;
        if !push::replay(tx, id, now)? {
            let state = record.state.as_str();
            let what = format_args!("only what is dead or failed can be replayed; this delivery is {state}");
            return Err(Error::new(Code::Conflict, what));
        }
        if caller == Caller::Operator {
            let name = hub.config.master_key.delivery_name(id);
            let (subject, detail) = (Subject::Agent(id.agent), json!({"delivery": name}));
            let deed = Deed::new(caller.actor(), Action::DeliveriesReplayed, subject, detail);
            context.record(tx, &hub, deed)?;
        }
        hub.push_after(tx);
        Ok(())
    };
    app.store.write::<_, Error, _>(replay).await?;
    Ok(ReplayView { id: app.config.master_key.delivery_name(id), state: DeliveryState::Waiting })
}

/// Tries all of these anew, the oldest first, as many as one call may.
pub async fn replay_all(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    asked: Asked,
) -> Result<ReplayedView, Error> {
    // Found before it is written, and written in parts: everybody who writes waits for whoever writes.
    let who = caller.clone();
    let find = move |tx: &mut dyn Tx| match asked.filter(tx, &who)? {
        Some(filter) => Ok(push::find_replayable(tx, &filter, MAX_REPLAYED)?),
        None => Ok((vec![], false)),
    };
    let (found, more) = app.store.read::<_, Error, _>(find).await?;
    let mut replayed = 0;
    for some in found.chunks(REPLAYED_TOGETHER) {
        let (hub, now, some) = (Arc::clone(app), app.now(), some.to_vec());
        let (caller, context) = (caller.clone(), context.clone());
        let replay = move |tx: &mut dyn Tx| {
            hub.push_after(tx);
            let replayed = push::replay_all(tx, &some, now)?;
            if caller == Caller::Operator {
                let detail = json!({"replayed": replayed});
                let deed = Deed::new(caller.actor(), Action::DeliveriesReplayed, Subject::Hub, detail);
                context.record(tx, &hub, deed)?;
            }
            Ok(replayed)
        };
        replayed += app.store.write::<_, Error, _>(replay).await?;
    }
    Ok(ReplayedView { replayed, more })
}
