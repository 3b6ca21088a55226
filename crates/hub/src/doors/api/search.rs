//! Finding messages by their words, in all conversations of the caller.

use super::answers::{Forbidden, Invalid, Overloaded, TooFast, Unknown};
use super::conversation::query;
use super::{Items, read};
use crate::error::ApiError;
use crate::extract::By;
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use chorus_app::AppState;
use chorus_app::views::{self, EventView};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::conversations::{self, Conversation};
use chorus_store::{StoreError, Tx, log, search};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use utoipa::ToSchema;
use utoipa_axum::routes;

/// The longest question, in characters.
const MAX_QUESTION: usize = 200;
/// How many messages a page holds, unless said, and at most.
const LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 50;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(find))
}

/// A message that was found.
#[derive(Debug, Serialize, ToSchema)]
struct FoundView {
    /// Where it was said.
    channel: PlaceView,
    /// The message.
    event: EventView,
}

/// A conversation, in short.
#[derive(Debug, Serialize, ToSchema)]
struct PlaceView {
    /// Its id.
    id: String,
    /// What people call it.
    name: String,
}

struct Question {
    text: String,
    before: Option<EventId>,
    limit: i64,
}

fn question(uri: &Uri) -> Result<Question, ApiError> {
    let (mut asked, mut faults) =
        (Question { text: String::new(), before: None, limit: LIMIT }, Faults::new());
    for (name, value) in query(uri) {
        match &*name {
            "q" => asked.text = value.into_owned(),
            "after" | "before" if value.is_empty() => {}
            // The next page lies before this one in time; `before` is its former name.
            "after" | "before" => match EventId::parse(&value) {
                Some(before) => asked.before = Some(before),
                None => faults.add(&name, "must be `next` of a page"),
            },
            "limit" => match value.parse() {
                Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => asked.limit = limit,
                _ => faults.add("limit", format_args!("must be an integer from 1 to {MAX_LIMIT}")),
            },
            _ => {}
        }
    }
    if !(1..=MAX_QUESTION).contains(&asked.text.chars().count()) {
        faults.add("q", format_args!("must be 1 to {MAX_QUESTION} characters"));
    }
    if faults.is_empty() { Ok(asked) } else { Err(faults.into()) }
}

/// Find messages
///
/// Those that hold all words of `q`, whatever their letter case, in all conversations you are a member of: the newest first.
/// A page may hold fewer than asked for, where they are large: `next` alone says whether the list goes on.
#[utoipa::path(get, path = "/api/v1/search", tag = "conversations", security(("key" = [])),
    params(("q" = String, Query, min_length = 1, max_length = 200, description = "Words"),
           ("after" = Option<String>, Query, pattern = "^(evt_[0-9a-f]{32})?$", description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 50, description = "20 unless said")),
    responses((status = 200, description = "A page", body = Items<FoundView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn find(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Json<Items<FoundView>>, ApiError> {
    let (who, asked) = (caller.principal()?, question(&uri)?);
    let max_bytes = app.config.quotas.page_bytes as usize;
    let turn = Mutex::new(Some(app.searches.begin(who).await?));
    let work = move |tx: &mut dyn Tx| {
        let found = found(tx, who, &asked, max_bytes);
        // Before the answer is there: whoever has it may search again.
        drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(found?)
    };
    let Items { items, next } = read(&app, work).await?;
    Ok(Json(super::fitting(&app, items, next, |last| last.event.event_id.clone())))
}

/// A page of messages as they stand; a shorter one where they are large.
fn found(
    tx: &mut dyn Tx,
    who: Principal,
    asked: &Question,
    max_bytes: usize,
) -> Result<Items<FoundView>, StoreError> {
    let mut places: HashMap<ConversationId, Conversation> = HashMap::new();
    let found = search::page(tx, who, None, &asked.text, asked.before, asked.limit)?;
    let (mut items, mut bytes, mut next) = (vec![], 0, found.next.map(|next| next.to_string()));
    for id in found.events {
        if bytes >= max_bytes {
            next = items.last().map(|last: &FoundView| last.event.event_id.clone());
            break;
        }
        let Some(event) = conversations::event_by_id(tx, id)? else { continue };
        let place = match places.get(&event.conversation) {
            Some(place) => place.clone(),
            None => match conversations::by_id(tx, event.conversation)? {
                Some(place) => place,
                None => continue,
            },
        };
        let stays = log::readable(tx, &place, who)?;
        let event = std::slice::from_ref(&event);
        let standing = log::stand(tx, &place, who, &stays, event)?;
        let event = views::events(event, &standing.changes, &standing.replies).remove(0);
        bytes += event.content.as_ref().map_or(0, String::len);
        let channel = PlaceView { id: place.id.to_string(), name: place.name.clone() };
        places.insert(place.id, place);
        items.push(FoundView { channel, event });
    }
    Ok(Items { items, next })
}
