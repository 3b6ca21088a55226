//! What a person has not read yet, and saying that it has.

use crate::app::App;
use crate::caller::Person;
use crate::error::Error;
use crate::page::page;
use chorus_protocol::api::Items;
use chorus_protocol::api::unread::{ReadThrough, Reading, Unread, UnreadPage};
use chorus_protocol::ids::ConversationId;
use chorus_store::{Tx, conversation, readings};

/// Those of a person's conversations that hold something unread.
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
    // Something else than a message may have come.
    items.items.retain(|one| one.unread > 0 || one.held > 0);
    Ok(items)
}

/// A person has read a conversation, up to a message or all of it.
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
            None => tx.head(id.0)?,
        };
        Ok(ReadThrough { read: readings::read_through(tx, account, id, seq)? })
    };
    app.store.write::<_, Error, _>(mark).await
}

/// A person has read a conversation up to this place of it.
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
