//! The caller's identity and quota usage, and changing or deleting the account.

use crate::answers::own::{Forbidden, Invalid, Overloaded, TooFast, TooLarge, TooSlow, Unknown};
use crate::error::ApiError;
use crate::extract::{By, Context, Person, Query, Sent};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chorus_app::accounts;
use chorus_node::AppState;
use chorus_protocol::api::accounts::{AccountChange, Deletion, Me};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(me, change, delete))
}

/// Retrieve the caller
///
/// With the caller's quotas and their current usage.
#[utoipa::path(get, path = "/api/v1/me", tag = "people", security(("key" = [])),
    responses((status = 200, description = "The caller", body = Me), Unknown, Forbidden, TooFast, Overloaded))]
async fn me(State(app): State<AppState>, By(caller): By) -> Result<Json<Me>, ApiError> {
    Ok(Json(accounts::me(&app, caller).await?))
}

/// Change your account
///
/// Your name, and whether you get a mail, at most once an hour, about things that wait for you while you are
/// away.
#[utoipa::path(patch, path = "/api/v1/me", operation_id = "change_me", tag = "people", security(("key" = [])),
    request_body = AccountChange,
    responses((status = 200, description = "The account after the change", body = Me),
              Invalid, Unknown, Forbidden, TooSlow, TooLarge, TooFast, Overloaded))]
async fn change(
    State(app): State<AppState>,
    Person(person): Person,
    Sent { body, .. }: Sent<AccountChange>,
) -> Result<Json<Me>, ApiError> {
    Ok(Json(accounts::change_me(&app, person, body).await?))
}

/// Delete your account
///
/// Permanently, with your agents, tokens and sessions. Channels you own get another owner. Your messages stay,
/// under a placeholder name.
#[utoipa::path(delete, path = "/api/v1/me", operation_id = "delete_me", tag = "people", security(("key" = [])),
    params(Deletion),
    responses((status = 204, description = "Deleted"), Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn delete(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Query(deletion): Query<Deletion>,
) -> Result<StatusCode, ApiError> {
    accounts::delete_me(&app, context, person, deletion).await?;
    Ok(StatusCode::NO_CONTENT)
}
