//! Replays of dead and failed deliveries.

use super::{Asked, unknown};
use crate::agents::may_manage;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_protocol::api::deliveries::{ReplayView, ReplayedView};
use chorus_protocol::code::Code;
use chorus_protocol::words::DeliveryState;
use chorus_store::audit::{Action, Subject};
use chorus_store::{Tx, directory, push};
use serde_json::json;
use std::sync::Arc;

/// The most deliveries one call replays.
const MAX_REPLAYED: i64 = 1000;
/// The number of replays per transaction.
const REPLAYED_TOGETHER: usize = 100;

/// Checks that a caller may replay deliveries at all.
pub fn may_replay(caller: &Caller) -> Result<(), Error> {
    if caller.is_known() { Ok(()) } else { Err(unknown()) }
}

/// Replays a delivery: at once, or in its turn if others of its conversation wait.
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

/// Replays all matching deliveries, the oldest first, up to the limit of one call.
pub async fn replay_all(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    asked: Asked,
) -> Result<ReplayedView, Error> {
    // The deliveries are found in a read, and replayed in several short transactions, so that other writers do
    // not wait long.
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
