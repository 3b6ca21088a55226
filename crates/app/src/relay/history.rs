//! Reading an inbox by cursor: what was sent to an agent, by whichever way.

use crate::app::App;
use crate::caller::Identity;
use crate::delivery::bridge::{Content, envelope};
use crate::error::Error;
use chorus_protocol::page;
use chorus_protocol::relay::{DeliveredVia, Page, StoredMessage};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use chorus_store::deliveries::{self, Entry};
use chorus_store::{StoreError, Tx, inboxes};

/// Which part of an inbox is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// After this place.
    pub after: i64,
    /// Not before this time.
    pub since: Option<i64>,
    /// At most so many.
    pub limit: i64,
    /// Whether other entries than envelopes are, too.
    pub all: bool,
}

/// A page of an agent's inbox. It may hold fewer than asked for, or none, although there are more: `next` alone says whether
/// it goes on.
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
        Ok((entries, looked, inboxes::handed_through(tx, agent)?, tx.head(agent.0)?))
    };
    let (entries, looked, handed, head) = app.store.read::<_, StoreError, _>(read).await?;
    let mut next = looked.filter(|looked| *looked < head).map(|looked| looked.to_string());
    // Clocks of nodes differ a little, so what lies around that time is looked at one by one.
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
    // What waited and was handed since has been delivered.
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
