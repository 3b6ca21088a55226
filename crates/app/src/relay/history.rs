//! Reading an inbox by cursor: what was sent to an agent, by whichever way.

use crate::app::App;
use crate::caller::Identity;
use crate::delivery::bridge::{Content, envelope};
use crate::error::Error;
use chorus_protocol::page;
use chorus_protocol::relay::{Page, StoredMessage};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::DeliveryState;
use chorus_store::deliveries::{self, Entry};
use chorus_store::{StoreError, Tx, inboxes};

/// A page of an agent's inbox, after `after`.
pub async fn history(app: &App, identity: &Identity, after: i64, limit: i64) -> Result<Page, Error> {
    let (agent, max_bytes) = (identity.id, app.config.quotas.page_bytes);
    let read = move |tx: &mut dyn Tx| {
        let entries = deliveries::page(tx, agent, after, limit, max_bytes as usize)?;
        let entries = Content::read(tx, agent, entries, max_bytes as usize)?;
        Ok((entries, inboxes::handed_through(tx, agent)?, tx.head(agent.0)?))
    };
    let (entries, handed, head) = app.store.read::<_, StoreError, _>(read).await?;
    let mut next = entries.last().filter(|(last, _)| last.seq < head).map(|(last, _)| last.seq.to_string());
    let messages = entries.into_iter().map(|(entry, content)| stored(app, identity, entry, content, handed));
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
    Ok(StoredMessage {
        id: entry.seq.to_string(),
        trace_id: entry.trace,
        sender_id: entry.author.as_deref().map(|name| app.address(name)),
        receiver_id: app.address(&receiver.name),
        kind: entry.kind.into(),
        // What waited and was handed since has been delivered.
        delivery: match entry.state {
            DeliveryState::Queued if entry.seq <= handed => DeliveryState::DeliveredSse,
            state => state,
        },
        created_at: rfc3339(entry.created_at),
        data: content.kept(app, &entry)?,
        envelope: matches!(content, Content::Envelope).then(|| envelope(entry.body)).transpose()?,
    })
}
