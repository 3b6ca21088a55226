//! People: signing in, tokens, sessions, and invitations.

use super::Items;
use crate::answers::own::{Conflict, Forbidden, Invalid, Overloaded, TooFast, TooLarge, TooSlow, Unknown};
use crate::error::{ApiError, OwnFailure};
use crate::extract::{Context, Idempotent, Operator, Person, PersonOrOperator, Query, Sent, done};
use crate::route::{Credentials, Route};
use crate::routes::Routes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use chorus_app::{accounts, operator};
use chorus_node::AppState;
use chorus_node::caller::Shown;
use chorus_protocol::api::accounts::{
    Accepted, EndedSessions, IssuedToken, MadeAccount, NewAccount, NewSignUpCode, NewToken, OpenSignUpCode,
    SignIn, SignUpCode, Token, TokenPage, Tokens,
};
use chorus_protocol::api::operator::{Account, AccountSearch};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::CredentialId;
use chorus_web::cookies::{no_cookie, session_cookie};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route { credentials: Credentials::Ignored, ..Route::API }, routes!(sign_in))
        .at(Route::API, routes!(sign_out))
        .at(Route::API, routes!(list_tokens, make_token))
        .at(Route::API, routes!(revoke_token))
        .at(Route::API, routes!(make_account, list_accounts))
        .at(Route::API, routes!(invite, list_invitations))
        .at(Route::API, routes!(revoke_invitation))
        .at(Route::API, routes!(end_own_sessions))
}

/// Request a sign-in link
///
/// If the address has an account, or may create one, a link is mailed to it. The link works once, within 15
/// minutes. The response is the same for every address. If sign-up is by invitation, pass an invitation to
/// create an account.
#[utoipa::path(post, path = "/api/v1/signin", tag = "people", request_body = SignIn,
    responses((status = 202, description = "Accepted", body = Accepted), Invalid,
              TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn sign_in(
    State(app): State<AppState>,
    Context(context): Context,
    Sent { body, .. }: Sent<SignIn>,
) -> Result<Response, ApiError> {
    let accepted = accounts::ask_for_link(&app, context.asker(), body)?;
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

/// Sign this browser out
///
/// Ends the session of the cookie, if there is one, and clears the cookie.
#[utoipa::path(post, path = "/api/v1/signout", tag = "people", security((), ("key" = [])),
    responses((status = 204, description = "The browser is signed out"),
              (status = 401, description = "`UNAUTHORIZED`: the key is not valid", body = OwnFailure),
              Forbidden, TooFast, Overloaded))]
pub(crate) async fn sign_out(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(session) = session_cookie(&headers) {
        accounts::end_session(&app, context, session).await?;
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, no_cookie(&app)?)]).into_response())
}

/// Create a token for a program
///
/// The token acts for your account until you revoke it. It is shown only once.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "people", security(("key" = [])),
    params(Idempotent), request_body = NewToken,
    responses((status = 201, description = "Created", body = IssuedToken),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn make_token(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Sent { body, once }: Sent<NewToken>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, accounts::make_token(&app, context, person.id, body, once).await?))
}

/// List your tokens
///
/// Oldest first, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "people", security(("key" = [])), params(TokenPage),
    responses((status = 200, description = "A page", body = Items<Token>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn list_tokens(
    State(app): State<AppState>,
    Person(person): Person,
    Query(page): Query<TokenPage>,
) -> Result<Json<Items<Token>>, ApiError> {
    Ok(Json(accounts::list_tokens(&app, person.id, page).await?))
}

/// Revoke a token
///
/// It stops working at once. Revoking a missing token succeeds.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "people", security(("key" = [])),
    params(("id" = CredentialId, Path, description = "The token's id")),
    responses((status = 204, description = "The token is revoked"),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn revoke_token(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = CredentialId::parse(&id).ok_or_else(|| Faults::one("id", "must be the id of a token: crd_…"))?;
    accounts::revoke_token(&app, context, person.id, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create an account as the operator
///
/// Works whether or not sign-up is open. The response holds a token for the account, which is shown only once.
#[utoipa::path(post, path = "/api/v1/accounts", tag = "people", security(("key" = [])),
    params(Idempotent), request_body = NewAccount,
    responses((status = 201, description = "Created", body = MadeAccount),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn make_account(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Sent { body, once }: Sent<NewAccount>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, accounts::make_account(&app, context, body, once).await?))
}

/// List accounts as the operator
///
/// Oldest first. A deleted account has only its id and a placeholder name. With `q` a page may hold fewer
/// accounts than `limit`, or none, although more follow: only an absent `next` ends the list.
#[utoipa::path(get, path = "/api/v1/accounts", tag = "people", security(("key" = [])), params(AccountSearch),
    responses((status = 200, description = "A page", body = Items<Account>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn list_accounts(
    State(app): State<AppState>,
    _: Operator,
    Query(search): Query<AccountSearch>,
) -> Result<Json<Items<Account>>, ApiError> {
    Ok(Json(operator::list_accounts(&app, search).await?))
}

/// Create an invitation
///
/// If sign-up is by invitation, it lets one person create an account (with `url`) or one agent register
/// (with the header `X-Chorus-Invitation`). It is shown only once and works once. An invitation for an email
/// address works only for that address.
#[utoipa::path(post, path = "/api/v1/invitations", tag = "people", security(("key" = [])),
    params(Idempotent), request_body = NewSignUpCode,
    responses((status = 201, description = "Created", body = SignUpCode),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn invite(
    State(app): State<AppState>,
    PersonOrOperator(caller): PersonOrOperator,
    Context(context): Context,
    Sent { body, once }: Sent<NewSignUpCode>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, accounts::make_sign_up_code(&app, context, caller, body, once).await?))
}

/// List unused invitations
///
/// Yours; for the operator, everybody's. Oldest first, without their secrets.
#[utoipa::path(get, path = "/api/v1/invitations", operation_id = "list_sign_up_invitations", tag = "people", security(("key" = [])), params(TokenPage),
    responses((status = 200, description = "A page", body = Items<OpenSignUpCode>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn list_invitations(
    State(app): State<AppState>,
    PersonOrOperator(caller): PersonOrOperator,
    Query(page): Query<TokenPage>,
) -> Result<Json<Items<OpenSignUpCode>>, ApiError> {
    Ok(Json(accounts::list_sign_up_codes(&app, &caller, page).await?))
}

/// Revoke an invitation
///
/// It stops working at once. Revoking a missing invitation succeeds.
#[utoipa::path(delete, path = "/api/v1/invitations/{id}", tag = "people", security(("key" = [])),
    params(("id" = CredentialId, Path, description = "The invitation's id")),
    responses((status = 204, description = "The invitation is revoked"),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn revoke_invitation(
    State(app): State<AppState>,
    PersonOrOperator(caller): PersonOrOperator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = CredentialId::parse(&id)
        .ok_or_else(|| Faults::one("id", "must be the id of an invitation: crd_…"))?;
    accounts::revoke_sign_up_code(&app, context, caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sign out everywhere else
///
/// Ends all sessions of your account except this browser's, and all unused sign-in links. Tokens stay valid
/// unless you ask to revoke them too; the token of this request stays. `DELETE /api/v1/tokens/{id}` revokes a
/// single token. With `tokens`, the allowances of your agents and the market keys of your wallets end as well,
/// and `review` lists acts that a thief of an ended credential may have done and that stay: look at them,
/// reset the keys of these agents with `detach`, and revoke signing secrets that are not yours.
#[utoipa::path(delete, path = "/api/v1/me/sessions", tag = "people", security(("key" = [])), params(Tokens),
    responses((status = 200, description = "The sessions have ended", body = EndedSessions),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn end_own_sessions(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    own: Option<Extension<Shown>>,
    Query(Tokens { tokens }): Query<Tokens>,
) -> Result<Json<EndedSessions>, ApiError> {
    let own = own.map(|Extension(shown)| shown.hash);
    Ok(Json(accounts::end_other_sessions(&app, context, person.id, own, tokens).await?))
}
