//! The log of a conversation, in pages.

use crate::views::{self, EventView};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::page::fitting;
use chorus_protocol::api::Items;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_store::log::PageSize;
use chorus_store::{Tx, conversation, log};

pub use chorus_store::log::{At, Filter, Kinds};

/// Returns a page of the log, with messages as they stand now. A page that is read backwards is in order too,
/// and continues before its first event.
pub async fn read_events(
    app: &App,
    who: Principal,
    id: ConversationId,
    filter: Filter,
    at: At,
    limit: i64,
) -> Result<Items<EventView>, Error> {
    let max_bytes = app.config.quotas.page_bytes as usize;
    let read = move |tx: &mut dyn Tx| {
        let (conversation, _) = conversation::as_reader(tx, id, who)?;
        Ok(log::page(tx, &conversation, who, &filter, at, PageSize { events: limit, bytes: max_bytes })?)
    };
    let page = app.store.read::<_, Error, _>(read).await?;
    let edge = match at {
        At::After(_) => page.events.last(),
        At::Before(_) => page.events.first(),
    };
    let next = edge.filter(|_| page.more).map(|event| event.seq.to_string());
    let items = views::events(&page.events, &page.standing.changes, &page.standing.replies);
    let cursor = |last: &EventView| last.sequence.to_string();
    Ok(match at {
        At::After(_) => fitting(app, items, next, cursor),
        // Read backwards, the oldest events are dropped if the page is too large.
        At::Before(_) => {
            let items = items.into_iter().rev().collect();
            let Items { mut items, next } = fitting(app, items, next, cursor);
            items.reverse();
            Items { items, next }
        }
    })
}
