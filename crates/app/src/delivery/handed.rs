//! Records the watermarks of open inboxes and the acknowledgements of their connections.

use chorus_node::App;
use chorus_node::transport::live::{Acknowledgements, Inbox};
use chorus_protocol::ids::AgentId;
use chorus_store::{StoreError, Tx, inboxes, obligations};
use std::collections::HashMap;
use std::sync::Arc;

/// Acknowledgements per transaction, because other writers wait for it.
const STEP: usize = 100;

/// Writes the watermarks that rose since the last time, in one transaction.
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

/// Writes the acknowledgements of connections, in steps that do not delay other writers for long.
async fn record_acknowledgements(app: &App, open: &[Arc<Inbox>]) -> Result<(), StoreError> {
    let (mut given, mut acked) = (vec![], vec![]);
    for inbox in open {
        if let Some(Acknowledgements { sent_through, acked: seqs }) = inbox.take_acknowledgements() {
            given.extend(sent_through.map(|seq| (inbox, seq)));
            acked.extend(seqs.into_iter().map(|seq| (inbox, seq)));
        }
    }
    let (mut given, mut acked) = (&given[..], &acked[..]);
    let written = async {
        while let Some((some, rest)) = split_step(given) {
            let marks = by_agent(some);
            let write = move |tx: &mut dyn Tx| {
                marks.iter().try_for_each(|(agent, seq)| inboxes::send_through(tx, *agent, *seq))
            };
            app.store.write::<_, StoreError, _>(write).await?;
            given = rest;
        }
        while let Some((some, rest)) = split_step(acked) {
            let (now, taken) = (app.now(), by_agent(some));
            app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| take(tx, &taken, now)).await?;
            acked = rest;
        }
        Ok(())
    }
    .await;
    for (inbox, seq) in given {
        inbox.give_back(Acknowledgements { sent_through: Some(*seq), acked: vec![] });
    }
    for (inbox, seq) in acked {
        inbox.give_back(Acknowledgements { sent_through: None, acked: vec![*seq] });
    }
    written
}

/// Records that agents acknowledged these deliveries.
fn take(tx: &mut dyn Tx, taken: &[(AgentId, i64)], now: i64) -> Result<(), StoreError> {
    for of_one in taken.chunk_by(|(agent, _), (next, _)| agent == next) {
        let Some((agent, _)) = of_one.first() else { continue };
        let seqs: Vec<i64> = of_one.iter().map(|(_, seq)| *seq).collect();
        obligations::ack(tx, *agent, &seqs, now)?;
    }
    Ok(())
}

type Place<'a> = (&'a Arc<Inbox>, i64);

/// Splits off the acknowledgements of the next step.
fn split_step<'a, 'b>(places: &'a [Place<'b>]) -> Option<(&'a [Place<'b>], &'a [Place<'b>])> {
    (!places.is_empty()).then(|| places.split_at(places.len().min(STEP)))
}

fn by_agent(places: &[Place<'_>]) -> Vec<(AgentId, i64)> {
    places.iter().map(|(inbox, seq)| (inbox.agent, *seq)).collect()
}
