//! Wallets, transfers, the ledger, and what the operator makes and takes away.

use super::answers::Short;
use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{By, Context, Exact, Idempotent, Operator, Query, done};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::AppState;
use chorus_app::market::{money, owner_key};
use chorus_protocol::api::Items;
use chorus_protocol::market::{
    Economy, Issue, Issued, LedgerSearch, MovementView, NewOwnerKey, Transfer, TransferView, WalletView,
};

/// Pay another owner
///
/// From your own wallet, with the owner's key or account. The same `transfer_id` is done once.
#[utoipa::path(post, path = "/market/transfer", tag = "market", security(("key" = [])),
    request_body = Transfer,
    responses((status = 200, description = "Paid", body = TransferView),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn transfer(
    State(app): State<AppState>,
    By(caller): By,
    Exact(body, _): Exact<Transfer>,
) -> Result<Json<TransferView>, ApiError> {
    Ok(Json(money::transfer(&app, caller, body).await?))
}

/// What an owner has; for the owner, its agents and the operator
#[utoipa::path(get, path = "/market/wallets/{owner}", tag = "market", security(("key" = [])),
    params(("owner" = String, Path, description = "The `owner_id`")),
    responses((status = 200, description = "The wallet", body = WalletView), Reading))]
pub(crate) async fn wallet(
    State(app): State<AppState>,
    By(caller): By,
    Path(owner): Path<String>,
) -> Result<Json<WalletView>, ApiError> {
    Ok(Json(money::wallet(&app, caller, owner).await?))
}

/// Replace an owner's key
///
/// With the old key, as the account that the wallet belongs to, or as the operator. The old one stops working at once.
#[utoipa::path(post, path = "/market/wallets/{owner}/key/reset", tag = "market", security(("key" = [])),
    params(("owner" = String, Path, description = "The `owner_id`")),
    responses((status = 200, description = "The new key, shown this once", body = NewOwnerKey),
              Unknown, Forbidden, Missing, TooSlow, TooFast, Overloaded))]
pub(crate) async fn reset_owner_key(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(owner): Path<String>,
) -> Result<Json<NewOwnerKey>, ApiError> {
    Ok(Json(owner_key::reset(&app, caller, context, owner).await?))
}

/// What moved: of your wallet the newest first, or for a job in order
#[utoipa::path(get, path = "/market/ledger", tag = "market", security(("key" = [])),
    params(LedgerSearch),
    responses((status = 200, description = "A page", body = Items<MovementView>), Reading))]
pub(crate) async fn ledger(
    State(app): State<AppState>,
    By(caller): By,
    Query(asked): Query<LedgerSearch>,
) -> Result<Json<Items<MovementView>>, ApiError> {
    Ok(Json(money::ledger(&app, caller, asked).await?))
}

/// Make credits
#[utoipa::path(post, path = "/market/mint", tag = "market", security(("key" = [])),
    params(Idempotent),
    request_body = Issue,
    responses((status = 200, description = "They are in the wallet", body = Issued),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn mint(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Exact(body, once): Exact<Issue>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, money::mint(&app, context, body, once).await?))
}

/// Take credits away
#[utoipa::path(post, path = "/market/burn", tag = "market", security(("key" = [])),
    params(Idempotent),
    request_body = Issue,
    responses((status = 200, description = "They are gone", body = Issued),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn burn(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Exact(body, once): Exact<Issue>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, money::burn(&app, context, body, once).await?))
}

/// The sum of it all, and whether it is right
#[utoipa::path(get, path = "/market/economy", tag = "market", security((), ("key" = [])),
    responses((status = 200, description = "Added up now", body = Economy), Unknown, TooFast, Overloaded))]
pub(crate) async fn economy(State(app): State<AppState>) -> Result<Json<Economy>, ApiError> {
    Ok(Json(money::economy(&app).await?))
}
