//! Full-text search in the caller's conversations.

use crate::views::{self, EventView};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::page::fitting;
use chorus_node::source::Source;
use chorus_protocol::api::Items;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::conversations::{self, Conversation};
use chorus_store::{StoreError, Tx, log, search};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use utoipa::ToSchema;

/// A message that matches a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct FoundView {
    /// The conversation of the message.
    pub channel: PlaceView,
    /// The message.
    pub event: EventView,
}

/// A conversation by id and name.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlaceView {
    /// The id of the conversation.
    pub id: String,
    /// The name of the conversation.
    pub name: String,
}

/// A search request.
#[derive(Debug)]
pub struct Question {
    pub text: String,
    /// Only messages of this conversation; `None` for all of the caller's.
    pub within: Option<ConversationId>,
    /// Only messages before this event.
    pub before: Option<EventId>,
    pub limit: i64,
}

/// Returns a page of the messages with all words of the query, the newest first, from the caller's
/// conversations.
pub async fn find_messages(
    app: &App,
    source: Source,
    who: Principal,
    asked: Question,
) -> Result<Items<FoundView>, Error> {
    let max_bytes = app.config.quotas.page_bytes as usize;
    let turn = Mutex::new(Some(app.limits.searches.begin(source, who.uuid()).await?));
    let work = move |tx: &mut dyn Tx| {
        let found = found(tx, who, &asked, max_bytes);
        // The slot is released before the answer arrives, so that the caller can search again at once.
        drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(found?)
    };
    let Items { items, next } = app.store.read::<_, Error, _>(work).await?;
    Ok(fitting(app, items, next, |last| last.event.event_id.clone()))
}

/// Returns a page of messages as they stand, cut off at `max_bytes`.
fn found(
    tx: &mut dyn Tx,
    who: Principal,
    asked: &Question,
    max_bytes: usize,
) -> Result<Items<FoundView>, StoreError> {
    let mut places: HashMap<ConversationId, Conversation> = HashMap::new();
    let found = search::page(tx, who, asked.within, &asked.text, asked.before, asked.limit)?;
    let (mut items, mut bytes, mut next) = (vec![], 0, found.next.map(|next| next.to_string()));
    for id in found.events {
        if bytes >= max_bytes {
            next = items.last().map(|last: &FoundView| last.event.event_id.clone());
            break;
        }
        let Some(shown) = show(tx, who, id, &mut places)? else { continue };
        bytes += shown.event.content.as_ref().map_or(0, String::len);
        items.push(shown);
    }
    Ok(Items { items, next })
}

/// Returns a message as it stands, with its conversation. The caller has checked that `who` may read it.
/// `places` caches conversations.
pub(crate) fn show(
    tx: &mut dyn Tx,
    who: Principal,
    id: EventId,
    places: &mut HashMap<ConversationId, Conversation>,
) -> Result<Option<FoundView>, StoreError> {
    let Some(event) = conversations::event_by_id(tx, id)? else { return Ok(None) };
    let place = match places.get(&event.conversation) {
        Some(place) => place.clone(),
        None => match conversations::by_id(tx, event.conversation)? {
            Some(place) => place,
            None => return Ok(None),
        },
    };
    let stays = log::readable(tx, &place, who)?;
    let event = std::slice::from_ref(&event);
    let standing = log::stand(tx, &place, who, &stays, event)?;
    let event = views::events(event, &standing.changes, &standing.replies).remove(0);
    let channel = PlaceView { id: place.id.to_string(), name: place.name.to_string() };
    places.insert(place.id, place);
    Ok(Some(FoundView { channel, event }))
}
