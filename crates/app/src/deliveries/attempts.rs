//! The attempts of one delivery.

use super::may_replay;
use crate::agents::may_manage;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_protocol::api::deliveries::AttemptView;
use chorus_protocol::time::rfc3339;
use chorus_store::push::{self, Attempt};
use chorus_store::{Tx, directory};

/// The most attempts that are shown of one delivery.
const MOST: i64 = 300;

/// Returns the attempts of a delivery, the oldest first. The caller must manage its agent.
pub async fn attempts(app: &App, caller: Caller, id: &str) -> Result<Vec<AttemptView>, Error> {
    may_replay(&caller)?;
    let missing = || Error::not_found("delivery");
    let id = app.config.master_key.named_delivery(id).ok_or_else(missing)?;
    let find = move |tx: &mut dyn Tx| {
        let agent = directory::by_id(tx, id.agent)?.filter(|agent| may_manage(&caller, agent));
        agent.ok_or_else(missing)?;
        let found = push::attempts(tx, id, MOST)?;
        Ok(found.into_iter().map(view).collect())
    };
    app.store.read::<_, Error, _>(find).await
}

pub(super) fn view(attempt: Attempt) -> AttemptView {
    let Attempt { at, status, latency_ms, error } = attempt;
    AttemptView { at: rfc3339(at), status, latency_ms, error }
}
