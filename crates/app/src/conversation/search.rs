//! Finding messages by their words, in all conversations of the caller.

use crate::app::App;
use crate::error::Error;
use crate::page::fitting;
use crate::views::{self, EventView};
use chorus_protocol::api::Items;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::conversations::{self, Conversation};
use chorus_store::{StoreError, Tx, log, search};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use utoipa::ToSchema;

/// A message that was found.
#[derive(Debug, Serialize, ToSchema)]
pub struct FoundView {
    /// Where it was said.
    pub channel: PlaceView,
    /// The message.
    pub event: EventView,
}

/// A conversation, in short.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlaceView {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
}

/// What is looked for.
#[derive(Debug)]
pub struct Question {
    pub text: String,
    /// Only what was said there; else in all conversations of the caller.
    pub within: Option<ConversationId>,
    /// Only what was said before this.
    pub before: Option<EventId>,
    pub limit: i64,
}

/// Messages that hold all words of a question, the newest first, where the caller is a member.
pub async fn find_messages(app: &App, who: Principal, asked: Question) -> Result<Items<FoundView>, Error> {
    let max_bytes = app.config.quotas.page_bytes as usize;
    let turn = Mutex::new(Some(app.searches.begin(who.uuid()).await?));
    let work = move |tx: &mut dyn Tx| {
        let found = found(tx, who, &asked, max_bytes);
        // Before the answer is there: whoever has it may search again.
        drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(found?)
    };
    let Items { items, next } = app.store.read::<_, Error, _>(work).await?;
    Ok(fitting(app, items, next, |last| last.event.event_id.clone()))
}

/// A page of messages as they stand; a shorter one where they are large.
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

/// A message as it stands, with where it was said. That somebody may read it is known already, and of some conversations more.
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
    let channel = PlaceView { id: place.id.to_string(), name: place.name.clone() };
    places.insert(place.id, place);
    Ok(Some(FoundView { channel, event }))
}
