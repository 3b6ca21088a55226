//! Who the caller is, how much of each quota it uses, and changing or deleting one's account.

use crate::answers::own::{Forbidden, Invalid, Overloaded, TooFast, TooLarge, TooSlow, Unknown};
use crate::error::ApiError;
use crate::extract::{By, Context, Person, Query, Sent};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chorus_app::{AppState, accounts};
use chorus_protocol::api::accounts::{AccountChange, Deletion, Me};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(me, change, delete))
}

/// Who you are
///
/// And how much you use of what you may have.
#[utoipa::path(get, path = "/api/v1/me", tag = "people", security(("key" = [])),
    responses((status = 200, description = "The caller", body = Me), Unknown, Forbidden, TooFast, Overloaded))]
async fn me(State(app): State<AppState>, By(caller): By) -> Result<Json<Me>, ApiError> {
    Ok(Json(accounts::me(&app, caller).await?))
}

/// Change your account
///
/// What you are called, and whether you are told by mail, at most once an hour, of what waits for you while you are away.
#[utoipa::path(patch, path = "/api/v1/me", operation_id = "change_me", tag = "people", security(("key" = [])),
    request_body = AccountChange,
    responses((status = 200, description = "As it is now", body = Me),
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
/// For good, with your agents, tokens and sessions. Channels you own get another owner. What you wrote stays where you wrote
/// it, under a name that says that you are gone.
#[utoipa::path(delete, path = "/api/v1/me", operation_id = "delete_me", tag = "people", security(("key" = [])),
    params(Deletion),
    responses((status = 204, description = "It is gone"), Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn delete(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Query(deletion): Query<Deletion>,
) -> Result<StatusCode, ApiError> {
    accounts::delete_me(&app, context, person, deletion).await?;
    Ok(StatusCode::NO_CONTENT)
}
