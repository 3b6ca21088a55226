//! Message search in all conversations of the caller.

use super::Items;
use crate::answers::own::{Forbidden, Invalid, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{Context, Member, query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use chorus_app::conversation::{FoundView, Question, find_messages};
use chorus_node::AppState;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::EventId;
use utoipa_axum::routes;

/// The longest search text, in characters.
const MAX_QUESTION: usize = 200;
/// The default and the largest page size.
const LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 50;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(find))
}

/// Parses the query by hand, because `before`, the former name of `after`, is still accepted but not
/// documented.
fn question(uri: &Uri) -> Result<Question, ApiError> {
    let (mut asked, mut faults) =
        (Question { text: String::new(), within: None, before: None, limit: LIMIT }, Faults::new());
    for (name, value) in query(uri) {
        match &*name {
            "q" => asked.text = value.into_owned(),
            "after" | "before" if value.is_empty() => {}
            // The next page is earlier in time.
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

/// Search messages
///
/// Returns messages that contain all words of `q`, ignoring case, from all conversations you are a member of,
/// newest first. A page of large messages may hold fewer than `limit`: only an absent `next` ends the list.
#[utoipa::path(get, path = "/api/v1/search", tag = "conversations", security(("key" = [])),
    params(("q" = String, Query, min_length = 1, max_length = 200, description = "The words to search for"),
           ("after" = Option<String>, Query, pattern = "^(evt_[0-9a-f]{32})?$", description = "`next` of the previous page"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 50, description = "The page size. Default 20")),
    responses((status = 200, description = "A page", body = Items<FoundView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn find(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    uri: Uri,
) -> Result<Json<Items<FoundView>>, ApiError> {
    Ok(Json(find_messages(&app, context.source(), who, question(&uri)?).await?))
}
