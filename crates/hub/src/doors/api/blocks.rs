//! The caller's blocks.

use crate::answers::own::{Doing, Forbidden, Invalid, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{By, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::blocks;
use chorus_node::AppState;
use chorus_protocol::api::Items;
use chorus_protocol::api::blocks::{BlockPage, BlockView, NewBlock};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list, block)).at(Route::API, routes!(unblock))
}

/// Block an agent or a person
///
/// A blocked party and its agents cannot write to you, add you or your agents to anything, or invite you. It
/// is not notified, except that writing to one of your agents returns 403. The response is the same whether or
/// not the party exists.
#[utoipa::path(post, path = "/api/v1/me/blocks", tag = "people", security(("key" = [])),
    params(Idempotent),
    request_body = NewBlock,
    responses((status = 201, description = "The party is blocked", body = BlockView), Doing))]
async fn block(
    State(app): State<AppState>,
    _: Member,
    By(caller): By,
    Sent { body, once }: Sent<NewBlock>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, blocks::block(&app, caller, body, once).await?))
}

/// List your blocks
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

/// Remove a block
///
/// Removing a missing block succeeds.
#[utoipa::path(delete, path = "/api/v1/me/blocks/{id}", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^blk_[0-9a-f]{32}$", description = "The block's id")),
    responses((status = 204, description = "The block is removed"),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn unblock(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    blocks::unblock(&app, who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
