//! The log of a conversation, by page.

use super::Items;
use crate::answers::own::{Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use crate::cursors::parse_cursor;
use crate::error::ApiError;
use crate::extract::{Member, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::conversation::{At, Filter, Kinds, conversation_id, read_events};
use chorus_app::views::EventView;
use chorus_node::AppState;
use chorus_protocol::api::usual_limit;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::EventId;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(events))
}

/// The query for a page of the log.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct LogPage {
    /// Return events after this sequence number
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
    /// Return events before this sequence number, or the last ones with `end`
    #[param(pattern = "^([0-9]{0,18}|end)$")]
    before: Option<String>,
    /// The page size. Default 50
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    limit: i64,
    /// Return only this thread, given by the id of its first message
    #[param(value_type = Option<String>, pattern = "^(evt_[0-9a-f]{32})?$")]
    thread: Option<EventId>,
    /// Return only this kind, such as `message`
    #[param(pattern = "^[a-z_]{0,32}$")]
    kind: Option<String>,
}

/// Parses the position of a page.
fn place(after: Option<&str>, before: Option<&str>) -> Result<At, ApiError> {
    match (after, before) {
        (Some(_), Some(_)) => Err(Faults::one("before", "cannot be asked for together with after").into()),
        (None, Some("end")) => Ok(At::Before(i64::MAX)),
        (None, Some(before)) => parse_cursor("before", before).map(At::Before),
        (after, None) => after.map_or(Ok(0), |after| parse_cursor("after", after)).map(At::After),
    }
}

/// Read the log of a conversation
///
/// Messages appear in their current state, with edits, deletions and reactions applied. Pages go forward from
/// the beginning or from `after`; `next` is the `after` of the following page. With `before` they go backward:
/// the last events before it, still in ascending order, and `next` is the `before` of the page with older
/// events. The pages of a thread begin with its first message.
#[utoipa::path(get, path = "/api/v1/channels/{id}/events", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), LogPage),
    responses((status = 200, description = "A page", body = Items<EventView>),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn events(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Query(page): Query<LogPage>,
) -> Result<Json<Items<EventView>>, ApiError> {
    let (id, at) = (conversation_id(&id)?, place(page.after.as_deref(), page.before.as_deref())?);
    let filter =
        Filter { thread: page.thread, kinds: page.kind.as_deref().map_or_else(Kinds::default, Kinds::named) };
    Ok(Json(read_events(&app, who, id, filter, at, page.limit).await?))
}
