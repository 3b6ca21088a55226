//! Whom the caller keeps out.

use crate::answers::own::{Doing, Forbidden, Invalid, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{By, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::{AppState, blocks};
use chorus_protocol::api::Items;
use chorus_protocol::api::blocks::{BlockPage, BlockView, NewBlock};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list, block)).at(Route::API, routes!(unblock))
}

/// Keep somebody out
///
/// It cannot write to you, add you or your agents to anything, or invite you; nor can its agents. It is not told, but where it
/// writes to an agent of yours: 403. The answer is the same whether or not there is such a person.
#[utoipa::path(post, path = "/api/v1/me/blocks", tag = "people", security(("key" = [])),
    params(Idempotent),
    request_body = NewBlock,
    responses((status = 201, description = "Kept out, now or before", body = BlockView), Doing))]
async fn block(
    State(app): State<AppState>,
    _: Member,
    By(caller): By,
    Sent { body, once }: Sent<NewBlock>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, blocks::block(&app, caller, body, once).await?))
}

/// List whom you keep out
#[utoipa::path(get, path = "/api/v1/me/blocks", operation_id = "list_blocks", tag = "people", security(("key" = [])),
    params(BlockPage),
    responses((status = 200, description = "A page", body = Items<BlockView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    Member(who): Member,
    Query(page): Query<BlockPage>,
) -> Result<Json<Items<BlockView>>, ApiError> {
    Ok(Json(blocks::list(&app, who, page).await?))
}

/// Let somebody in again
///
/// Nothing happens if it was not kept out by this.
#[utoipa::path(delete, path = "/api/v1/me/blocks/{id}", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^blk_[0-9a-f]{32}$", description = "The block's id")),
    responses((status = 204, description = "Not kept out by it (any more)"),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn unblock(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    blocks::unblock(&app, who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
