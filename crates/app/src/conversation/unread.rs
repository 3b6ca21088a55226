//! Unread conversations of a person, and marking them as read.

use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Person;
use chorus_node::page::page;
use chorus_protocol::api::Items;
use chorus_protocol::api::unread::{ReadThrough, Reading, Unread, UnreadPage};
use chorus_protocol::ids::ConversationId;
use chorus_store::{Tx, conversation, readings};

/// Returns a page of a person's conversations with unread messages or pending approvals.
pub async fn unread(
    app: &App,
    person: &Person,
    UnreadPage { after, limit }: UnreadPage,
) -> Result<Items<Unread>, Error> {
    let account = person.id;
    let find = move |tx: &mut dyn Tx| Ok(readings::unread(tx, account, after, limit + 1)?);
    let found = app.store.read::<_, Error, _>(find).await?;
    let shown = found.into_iter().map(|one| Unread {
        channel: one.conversation,
        kind: one.kind,
        name: one.name,
        read: one.read_seq,
        unread: one.count,
        asked: one.asked,
        held: one.held,
    });
    let mut items = page(app, shown.collect(), limit, |last: &Unread| last.channel.to_string());
    // The new events of a conversation may be other than messages, and reports on requests.
    items.items.retain(|one| one.unread > 0 || one.held > 0 || one.asked);
    Ok(items)
}

/// Marks a conversation as read, up to a message or all of it.
pub async fn mark_read(
    app: &App,
    person: &Person,
    id: ConversationId,
    reading: Reading,
) -> Result<ReadThrough, Error> {
    let account = person.id;
    let mark = move |tx: &mut dyn Tx| {
        conversation::as_reader(tx, id, account.into())?;
        let seq = match reading.event {
            Some(event) => readings::place_of(tx, id, event)?.ok_or_else(|| Error::not_found("message"))?,
            None => tx.head(id.into())?,
        };
        Ok(ReadThrough { read: readings::read_through(tx, account, id, seq)? })
    };
    app.store.write::<_, Error, _>(mark).await
}

/// Marks a conversation as read up to a sequence number.
pub async fn mark_read_through(
    app: &App,
    person: &Person,
    id: ConversationId,
    seq: i64,
) -> Result<(), Error> {
    let account = person.id;
    let mark = move |tx: &mut dyn Tx| {
        conversation::as_reader(tx, id, account.into())?;
        Ok(readings::read_through(tx, account, id, seq).map(drop)?)
    };
    app.store.write::<_, Error, _>(mark).await
}
