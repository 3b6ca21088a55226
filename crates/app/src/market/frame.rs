//! Encodes a job for an inbox that is open on this node, so that its reader need not query the store.

use crate::delivery::bridge::Content;
use chorus_node::App;
use chorus_node::caller::Identity;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use chorus_store::deliveries::Entry;
use chorus_store::directory::Agent;
use chorus_store::market::jobs::Agreed;
use chorus_store::{StoreError, Tx};
use std::sync::Arc;

/// Bytes of the longest job that is cached as a frame. A longer one is read from the store.
const MAX_FRAME: usize = 64 * 1024;

/// Puts the job among the frames of its agent's inbox, if that is open on this node. After the commit nobody
/// needs to read it from the store. Other writers wait meanwhile, so long jobs are left to the store.
pub(super) fn put(
    tx: &mut dyn Tx,
    app: &App,
    agent: &Agent,
    job: &Agreed,
    seq: i64,
    body: String,
) -> Result<(), StoreError> {
    let Some(dialect) = app.transport.live.dialect(agent.id).filter(|_| body.len() <= MAX_FRAME) else {
        return Ok(());
    };
    let entry = Entry {
        seq,
        kind: EntryKind::Job,
        transport: Transport::Inbox,
        state: DeliveryState::Queued,
        trace: job.trace,
        created_at: job.created_at,
        event: job.event,
        conversation: ConversationId::of_job(job.id),
        author: None,
        body,
    };
    let receiver = Identity { id: agent.id, name: agent.name.clone() };
    let data =
        Content::Job { epoch: agent.epoch, has_ended: false }.data(app, &receiver, dialect, entry, None)?;
    let frame = dialect.entry(EntryKind::Job, seq, &data);
    let (live, stream) = (Arc::clone(&app.transport.live), agent.id.0);
    tx.after_commit(Box::new(move || live.frames.put(dialect, stream, seq, frame)));
    Ok(())
}
