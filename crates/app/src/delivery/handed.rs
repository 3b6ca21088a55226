//! Writing down how far open inboxes were handed, and what connections said of what they were given.

use crate::app::App;
use crate::attention::envelopes;
use crate::transport::live::Inbox;
use chorus_protocol::ids::AgentId;
use chorus_store::{StoreError, Tx, inboxes, obligations};
use std::collections::HashMap;
use std::sync::Arc;

/// Writes the watermarks that rose since the last time, all in one transaction.
pub async fn record_handed(app: &App, open: Vec<Arc<Inbox>>) -> Result<(), StoreError> {
    record_acknowledgements(app, &open).await?;
    let handed: Vec<(AgentId, i64)> =
        open.iter().filter_map(|inbox| Some((inbox.agent, inbox.unrecorded()?))).collect();
    if handed.is_empty() {
        return Ok(());
    }
    let (marks, now) = (handed.clone(), app.now());
    let record = move |tx: &mut dyn Tx| {
        marks.iter().try_for_each(|(agent, seq)| inboxes::hand_through(tx, *agent, *seq, now))
    };
    app.store.write::<_, StoreError, _>(record).await?;
    let handed: HashMap<_, _> = handed.into_iter().collect();
    for inbox in open {
        if let Some(seq) = handed.get(&inbox.agent) {
            inbox.record(*seq);
        }
    }
    Ok(())
}

/// Writes what connections said of what they were given, all in one transaction.
async fn record_acknowledgements(app: &App, open: &[Arc<Inbox>]) -> Result<(), StoreError> {
    let told: Vec<_> =
        open.iter().filter_map(|inbox| Some((inbox, inbox.take_acknowledgements()?))).collect();
    if told.is_empty() {
        return Ok(());
    }
    let (now, all) =
        (app.now(), told.iter().map(|(inbox, said)| (inbox.agent, said.clone())).collect::<Vec<_>>());
    let write = move |tx: &mut dyn Tx| {
        for (agent, said) in &all {
            if let Some(seq) = said.sent_through {
                inboxes::send_through(tx, *agent, seq)?;
            }
            let unknown = obligations::ack(tx, *agent, &said.acked, now)?;
            envelopes::take(tx, *agent, &unknown, now)?;
        }
        Ok(())
    };
    let written = app.store.write::<_, StoreError, _>(write).await;
    if written.is_err() {
        for (inbox, said) in told {
            inbox.give_back(said);
        }
    }
    written
}
