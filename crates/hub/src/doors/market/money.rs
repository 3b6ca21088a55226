//! Wallets, transfers, the ledger, and credits created and removed by the operator.

use super::answers::Short;
use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{By, Context, Exact, Idempotent, MaybeSent, Operator, Query, done};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::market::{money, owner_key};
use chorus_node::AppState;
use chorus_protocol::api::Items;
use chorus_protocol::market::{
    Economy, Issue, Issued, LedgerSearch, MovementView, NewOwnerKey, OwnerKeyReset, Transfer, TransferView,
    WalletView,
};

/// Transfer credits to another owner
///
/// From your own wallet, with the owner's key or account. Each `transfer_id` is executed once.
#[utoipa::path(post, path = "/market/transfer", tag = "market", security(("key" = [])),
    params(Idempotent), request_body = Transfer,
    responses((status = 200, description = "Transferred", body = TransferView),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn transfer(
    State(app): State<AppState>,
    By(caller): By,
    Exact(body, once): Exact<Transfer>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, money::transfer(&app, caller, body, once).await?))
}

/// Retrieve an owner's wallet, as the owner, its agent or the operator
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
/// With the old key, as the account that the wallet belongs to, or as the operator. The old key stops working
/// at once. Agents that were registered with it stay: if it was stolen, pass `detach`. Agents of this owner that
/// belong to no account then spend nothing and offer nothing; `detached` lists them. Set the allowance of yours
/// and list their skills again, and unregister the others. Open jobs stay; cancel those that you did not ask for.
#[utoipa::path(post, path = "/market/wallets/{owner}/key/reset", tag = "market", security(("key" = [])),
    params(("owner" = String, Path, description = "The `owner_id`"), Idempotent),
    request_body = Option<OwnerKeyReset>,
    responses((status = 200, description = "The new key, shown only once", body = NewOwnerKey),
              Doing))]
pub(crate) async fn reset_owner_key(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(owner): Path<String>,
    MaybeSent { body, once }: MaybeSent<OwnerKeyReset>,
) -> Result<Response, ApiError> {
    let options = body.unwrap_or_default();
    Ok(done(StatusCode::OK, owner_key::reset(&app, caller, context, owner, options, once).await?))
}

/// List ledger entries: of your wallet newest first, or of a job in order
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

/// Create credits as the operator
#[utoipa::path(post, path = "/market/mint", tag = "market", security(("key" = [])),
    params(Idempotent),
    request_body = Issue,
    responses((status = 200, description = "The credits are in the wallet", body = Issued),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn mint(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Exact(body, once): Exact<Issue>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, money::mint(&app, context, body, once).await?))
}

/// Remove credits as the operator
#[utoipa::path(post, path = "/market/burn", tag = "market", security(("key" = [])),
    params(Idempotent),
    request_body = Issue,
    responses((status = 200, description = "The credits were removed", body = Issued),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn burn(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Exact(body, once): Exact<Issue>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, money::burn(&app, context, body, once).await?))
}

/// Check the hub's books
///
/// Sums up all wallets and the ledger. A wallet that differs from its ledger is named to its owner and to the
/// operator.
#[utoipa::path(get, path = "/market/economy", tag = "market", security((), ("key" = [])),
    responses((status = 200, description = "The current sums", body = Economy), Unknown, TooFast, Overloaded))]
pub(crate) async fn economy(State(app): State<AppState>, By(caller): By) -> Result<Json<Economy>, ApiError> {
    Ok(Json(money::economy(&app, caller).await?))
}
