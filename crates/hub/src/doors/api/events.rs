//! The log of a conversation, page by page.

use super::Items;
use super::conversation::{conversation_id, query};
use crate::answers::own::{Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::By;
use crate::places::{PageQuery, parse_place};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use chorus_app::AppState;
use chorus_app::conversation::{At, Filter, read_events};
use chorus_app::views::EventView;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::EventId;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(events))
}

/// Which page is asked for.
fn page_of(uri: &Uri) -> Result<(At, Filter, i64), ApiError> {
    let PageQuery { after, limit } = PageQuery::parse(uri)?;
    let (mut before, mut filter, mut faults) = (None, Filter::default(), Faults::new());
    for (name, value) in query(uri).filter(|(_, value)| !value.is_empty()) {
        match &*name {
            "before" if value == "end" => before = Some(i64::MAX),
            "before" => match parse_place("before", &value) {
                Ok(place) => before = Some(place),
                Err(_) => faults.add("before", "must be a sequence number or `end`"),
            },
            "thread" => match EventId::parse(&value) {
                Some(thread) => filter.thread = Some(thread),
                None => faults.add("thread", "must be the id of a message: evt_ and 32 hex digits"),
            },
            "kind" if value.len() <= 32 && value.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
                filter.kind = Some(value.into_owned());
            }
            "kind" => faults.add("kind", "must be a kind of event, such as message"),
            _ => {}
        }
    }
    let after = after.map(|after| parse_place("after", &after)).transpose();
    if after.is_err() {
        faults.add("after", "must be a sequence number");
    }
    if matches!(after, Ok(Some(_))) && before.is_some() {
        faults.add("before", "cannot be asked for together with after");
    }
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let after = after.ok().flatten().unwrap_or(0);
    Ok((before.map_or(At::After(after), At::Before), filter, limit))
}

/// Read the log
///
/// Messages are shown as they stand now, edited or taken back, with what was thought of them. Pages go forward from the
/// beginning, or from `after`; `next` is the `after` of the page that follows. With `before` they go back: the last events
/// before it, in order all the same, and `next` is the `before` of the page with older ones. A thread's pages begin with
/// the message that began it.
#[utoipa::path(get, path = "/api/v1/channels/{id}/events", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("after" = Option<String>, Query, pattern = "^[0-9]{0,18}$", description = "Only what came after this sequence number"),
           ("before" = Option<String>, Query, pattern = "^([0-9]{0,18}|end)$", description = "Backwards from this sequence number, or from the `end`"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said"),
           ("thread" = Option<String>, Query, pattern = "^(evt_[0-9a-f]{32})?$", description = "Only this thread, by the message that began it"),
           ("kind" = Option<String>, Query, pattern = "^[a-z_]{0,32}$", description = "Only this kind, such as `message`")),
    responses((status = 200, description = "A page", body = Items<EventView>),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn events(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Items<EventView>>, ApiError> {
    let (who, id) = (caller.principal()?, conversation_id(&id)?);
    let (at, filter, limit) = page_of(&uri)?;
    Ok(Json(read_events(&app, who, id, filter, at, limit).await?))
}
