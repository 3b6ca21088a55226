//! Reads an inbox by cursor, whatever route its entries came by.

use crate::delivery::bridge::{Content, envelope};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Identity;
use chorus_protocol::page;
use chorus_protocol::relay::{DeliveredVia, Page, StoredMessage};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use chorus_store::deliveries::{self, Entry};
use chorus_store::market::handing;
use chorus_store::{StoreError, Tx, inboxes};

/// A selection of an inbox.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Entries after this sequence number.
    pub after: i64,
    /// Entries since this time.
    pub since: Option<i64>,
    pub limit: i64,
    /// True to include entries other than envelopes.
    pub all: bool,
}

/// Returns a page of an agent's inbox. A page may hold fewer entries than the limit, or none, although there
/// are more: only `next` says whether the list continues.
pub async fn history(app: &App, identity: &Identity, part: Part) -> Result<Page, Error> {
    let (agent, max_bytes) = (identity.id, app.config.quotas.page_bytes);
    let read = move |tx: &mut dyn Tx| {
        let Part { mut after, since, limit, all } = part;
        if let Some(since) = since {
            after = after.max(deliveries::place_before(tx, agent, since)?);
        }
        let bytes = max_bytes as usize;
        let (entries, mut looked) = if all {
            let entries = deliveries::page(tx, agent, after, limit, bytes)?;
            let last = entries.last().map(|last| last.seq);
            (entries, last)
        } else {
            let (entries, last) =
                deliveries::page_of_kind(tx, agent, EntryKind::Message, after, limit, bytes)?;
            (entries, Some(last))
        };
        let read = entries.len();
        let entries = Content::read(tx, agent, entries, bytes)?;
        if entries.len() < read {
            looked = entries.last().map(|(last, _)| last.seq);
        }
        let jobs = entries.iter().filter(|(entry, _)| entry.kind == EntryKind::Job);
        let jobs: Vec<_> = jobs.map(|(entry, _)| entry.event).collect();
        let polled = handing::unrecorded(tx, &jobs)?;
        Ok((entries, looked, inboxes::handed_through(tx, agent)?, tx.head(agent.into())?, polled))
    };
    let (entries, looked, handed, head, polled) = app.store.read::<_, StoreError, _>(read).await?;
    if !polled.is_empty() {
        // The agent has these jobs now, whether or not its inbox is ever opened.
        let now = app.now();
        let record = move |tx: &mut dyn Tx| handing::record_all(tx, &polled, now);
        app.store.write::<_, StoreError, _>(record).await?;
    }
    let mut next = looked.filter(|looked| *looked < head).map(|looked| looked.to_string());
    // Clocks of nodes differ a little, so entries around that time are filtered one by one.
    let is_in_time = |entry: &Entry| part.since.is_none_or(|since| entry.created_at >= since);
    let is_shown = |(entry, content): &(Entry, Content)| is_in_time(entry) && !content.is_elsewhere();
    let entries = entries.into_iter().filter(is_shown);
    let messages = entries.map(|(entry, content)| stored(app, identity, entry, content, handed));
    let mut messages = messages.collect::<Result<_, StoreError>>()?;
    if page::cut(&mut messages, max_bytes) {
        next = messages.last().map(|last: &StoredMessage| last.id.clone());
    }
    Ok(Page { messages, next })
}

fn stored(
    app: &App,
    receiver: &Identity,
    entry: Entry,
    content: Content,
    handed: i64,
) -> Result<StoredMessage, StoreError> {
    // A queued entry up to the handed position has been delivered since.
    let delivery = match entry.state {
        DeliveryState::Queued if entry.seq <= handed => DeliveryState::DeliveredSse,
        state => state,
    };
    let via = match (entry.transport, delivery) {
        (_, DeliveryState::Queued) => DeliveredVia::Queued,
        (Transport::Inbox, _) => DeliveredVia::Sse,
        (Transport::Harness, _) => DeliveredVia::Harness,
        (Transport::Webhook, _) => DeliveredVia::Webhook,
        (Transport::Channel, _) => DeliveredVia::Channel,
    };
    Ok(StoredMessage {
        id: entry.seq.to_string(),
        trace_id: entry.trace.into(),
        sender_id: entry.author.as_deref().map(|name| app.address(name)),
        receiver_id: app.address(&receiver.name),
        kind: entry.kind.into(),
        delivery,
        delivered_via: via.into(),
        created_at: rfc3339(entry.created_at),
        timestamp: rfc3339(entry.created_at),
        data: content.kept(app, receiver.id, &entry)?,
        envelope: matches!(content, Content::Envelope).then(|| envelope(entry.body)).transpose()?,
    })
}
