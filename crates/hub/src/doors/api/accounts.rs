//! People: signing in, tokens, invitations, and who the caller is.

use super::answers::{Conflict, Forbidden, Invalid, Overloaded, TooFast, TooLarge, TooSlow, Unknown};
use super::conversation::{fields, line};
use super::{Items, read, value, write};
use crate::doors::body;
use crate::doors::relay::PageQuery;
use crate::doors::signin::{self, DAY_MS, MAX_INVITATION, credential};
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::middleware::Client;
use crate::route::{Credentials, Route, Routes};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use chorus_app::Signup;
use chorus_app::caller::Caller;
use chorus_app::mail::check_address;
use chorus_app::{App, AppState};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};
use chorus_protocol::relay::{Code, MAX_BODY};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::accounts::{self, Account, Credential, CredentialKind, MAX_NAME, NewCredential};
use chorus_store::audit::{Action, Subject};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use utoipa_axum::routes;

/// The longest label of a token, in characters.
pub(crate) const MAX_LABEL: usize = 100;
/// The most tokens, and the most open invitations, of one account.
const MOST: i64 = 100;
/// How long an invitation is good, unless said, and at most.
const DAYS: i64 = 7;
const MOST_DAYS: i64 = 90;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route { credentials: Credentials::Ignored, ..Route::API }, routes!(sign_in))
        .at(Route::API, routes!(sign_out))
        .at(Route::API, routes!(list_tokens, make_token))
        .at(Route::API, routes!(revoke_token))
        .at(Route::API, routes!(make_account))
        .at(Route::API, routes!(invite))
}

/// An address, if it is there.
fn email(fields: &mut Fields<'_, '_>) -> Option<String> {
    let text = fields.optional_text("email")?;
    if let Err(what) = check_address(text) {
        fields.fault("email", what);
    }
    Some(text.to_owned())
}

/// Ask for a sign-in link
///
/// If the address has an account here, or may have one, a link is mailed to it; it works once, within 15 minutes. The
/// answer is the same for every address. Where sign-up is by invitation, an invitation makes a new account possible.
#[utoipa::path(post, path = "/api/v1/signin", tag = "people",
    request_body(content_type = "application/json", content = SignInBody),
    responses((status = 202, description = "Taken on", body = Accepted), Invalid,
              TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn sign_in(
    State(app): State<AppState>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read_json(&app, &headers, body, MAX_BODY).await?;
    let (email, invitation) = fields(&body, |fields| {
        fields.required("email");
        (email(fields).unwrap_or_default(), line(fields, "invitation", MAX_INVITATION))
    })?;
    signin::ask(&app, client, email, invitation)?;
    let message = "if this address may sign in here, a link is on its way to it";
    Ok((StatusCode::ACCEPTED, axum::Json(Accepted { message })).into_response())
}

/// Who wants to sign in.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct SignInBody {
    email: EmailAddress,
    /// `ci_…`, where sign-up is by invitation.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    invitation: Option<String>,
}

/// An email address.
#[derive(utoipa::ToSchema)]
#[schema(
    max_length = 254,
    pattern = r"^[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+$",
    example = "ann@mail.example"
)]
#[expect(dead_code, reason = "describes a text for the OpenAPI document")]
pub(crate) struct EmailAddress(String);

/// The answer to everybody.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Accepted {
    /// What happens now.
    message: &'static str,
}

/// Sign this browser out
///
/// Ends the session of the cookie, if there is one, and clears it.
#[utoipa::path(post, path = "/api/v1/signout", tag = "people", security((), ("key" = [])),
    responses((status = 204, description = "The browser is signed out"),
              (status = 401, description = "`UNAUTHORIZED`: a key was sent, and it is not valid", body = crate::error::OwnFailure),
              Forbidden, TooFast, Overloaded))]
pub(crate) async fn sign_out(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let cookie = signin::end_session(&app, &context, &headers).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Make a token for a program
///
/// It speaks for your account until you revoke it, and is shown this once.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "people", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, description = "To send this again safely")),
    request_body(content_type = "application/json", content = TokenBody),
    responses((status = 201, description = "Made", body = NewToken),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn make_token(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let account = caller.person()?.id;
    let bytes = body::read(&app, &headers, body, MAX_BODY).await?;
    let parsed = chorus_protocol::json::parse(&bytes).map_err(ApiError::validation)?;
    let label = fields(&parsed, |fields| {
        fields.required("label");
        line(fields, "label", MAX_LABEL).unwrap_or_default()
    })?;
    let (new, token) = issue_token(&app, account, label.clone());
    let answer = value(&NewToken { id: new.id.to_string(), token, label, created_at: rfc3339(new.now) })?;
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let make = move |tx: &mut dyn Tx| {
        keep_token(tx, &new)?;
        context.record(tx, &hub, &who, Action::TokenMade, Subject::Credential(new.id), json!({}))?;
        Ok((StatusCode::CREATED, answer.clone()))
    };
    write(&app, &caller, &headers, "/api/v1/tokens", &bytes, make).await
}

/// A new token of an account: what is kept of it, and the token itself.
pub(crate) fn issue_token(app: &App, account: AccountId, label: String) -> (NewCredential, String) {
    let token = app.sources.secret(SecretKind::ApiToken);
    let new = NewCredential {
        account: Some(account),
        label: Some(label),
        ..credential(&app.sources, CredentialKind::Token, &token)
    };
    (new, token)
}

/// Keeps a new token, unless its account has enough of them.
pub(crate) fn keep_token(tx: &mut dyn Tx, new: &NewCredential) -> Result<(), ApiError> {
    if let Some(account) = new.account {
        room(tx, account, CredentialKind::Token, "you have 100 tokens; revoke one that is not used")?;
    }
    Ok(accounts::issue(tx, new)?)
}

/// Whether an account may have one more of these.
fn room(tx: &mut dyn Tx, account: AccountId, kind: CredentialKind, full: &str) -> Result<(), ApiError> {
    let there = accounts::list(tx, account, kind, None, MOST)?.len() as i64;
    if there < MOST { Ok(()) } else { Err(ApiError::new(Code::Conflict, full)) }
}

/// A token to be made.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct TokenBody {
    /// What you call it.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        example = "my laptop"
    )]
    label: String,
}

/// A token, shown this once.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct NewToken {
    /// Its id, which is no secret.
    #[schema(example = "crd_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    id: String,
    /// `ct_…`: the key itself.
    token: String,
    /// What you call it.
    label: String,
    /// When.
    created_at: String,
}

/// List your tokens
///
/// Oldest first, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "people", security(("key" = [])),
    params(("after" = Option<String>, Query, pattern = "^(crd_[0-9a-f]{32})?$", description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<TokenView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn list_tokens(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Response, ApiError> {
    let account = caller.person()?.id;
    let PageQuery { after, limit } = PageQuery::parse(&uri)?;
    let after = after.map(|text| credential_id("after", &text)).transpose()?;
    let find =
        move |tx: &mut dyn Tx| Ok(accounts::list(tx, account, CredentialKind::Token, after, limit + 1)?);
    let tokens = read(&app, find).await?.into_iter().map(TokenView::from).collect();
    Ok(axum::Json(super::page(&app, tokens, limit, |token: &TokenView| token.id.clone())).into_response())
}

fn credential_id(name: &str, text: &str) -> Result<CredentialId, ApiError> {
    CredentialId::parse(text).ok_or_else(|| Faults::one(name, "must be the id of a token: crd_…").into())
}

/// A token, without its secret.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct TokenView {
    /// Its id.
    #[schema(example = "crd_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    id: String,
    /// What you call it.
    label: String,
    /// When it was made.
    created_at: String,
}

impl From<Credential> for TokenView {
    fn from(token: Credential) -> Self {
        Self {
            id: token.id.to_string(),
            label: token.label.unwrap_or_default(),
            created_at: rfc3339(token.created_at),
        }
    }
}

/// Revoke a token
///
/// It stops working at once. Nothing happens if it is gone already.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^crd_[0-9a-f]{32}$", description = "The token's id")),
    responses((status = 204, description = "It does not work (any more)"),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn revoke_token(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let account = caller.person()?.id;
    let id = credential_id("id", &id)?;
    let hub = Arc::clone(&app);
    let revoke = move |tx: &mut dyn Tx| {
        // Nothing of one's own is as good as gone, whether or not somebody else has it.
        if accounts::revoke(tx, account, CredentialKind::Token, id)? {
            let subject = Subject::Credential(id);
            context.record(tx, &hub, &caller, Action::TokenRevoked, subject, json!({}))?;
        }
        Ok(())
    };
    app.store.write::<_, ApiError, _>(revoke).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Make an account for somebody, as the operator
///
/// Whether or not sign-up is open. The answer holds a token for the account, which is shown this once.
#[utoipa::path(post, path = "/api/v1/accounts", tag = "people", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, description = "To send this again safely")),
    request_body(content_type = "application/json", content = AccountBody),
    responses((status = 201, description = "Made", body = NewAccount),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn make_account(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    caller.operator()?;
    let bytes = body::read(&app, &headers, body, MAX_BODY).await?;
    let parsed = chorus_protocol::json::parse(&bytes).map_err(ApiError::validation)?;
    let (email, name) = fields(&parsed, |fields| {
        fields.required("email");
        (email(fields).unwrap_or_default(), line(fields, "name", MAX_NAME))
    })?;
    let name = name.unwrap_or_else(|| accounts::name_of(&email));
    let (id, created_at) = (AccountId(app.sources.uuid_v7()), app.now());
    let account = Account { id, email, name, created_at, disabled_at: None };
    let api_token = app.sources.secret(SecretKind::ApiToken);
    let token = NewCredential {
        account: Some(account.id),
        label: Some("made with the account".into()),
        ..credential(&app.sources, CredentialKind::Token, &api_token)
    };
    let answer = value(&NewAccount {
        account_id: account.id.to_string(),
        email: account.email.clone(),
        name: account.name.clone(),
        api_token,
    })?;
    let trace = TraceId(app.sources.uuid_v7());
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let make = move |tx: &mut dyn Tx| {
        if !accounts::insert(tx, &account, trace)? {
            return Err(ApiError::new(Code::Conflict, "this address has an account already"));
        }
        accounts::issue(tx, &token)?;
        context.record(tx, &hub, &who, Action::AccountMade, Subject::Account(id), json!({}))?;
        Ok((StatusCode::CREATED, answer.clone()))
    };
    write(&app, &caller, &headers, "/api/v1/accounts", &bytes, make).await
}

/// An account to be made.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct AccountBody {
    email: EmailAddress,
    /// What to call the person; else what stands before the `@`.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    name: Option<String>,
}

/// An account that was made.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct NewAccount {
    /// Its id.
    #[schema(example = "acc_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    account_id: String,
    /// Where its sign-in links go.
    email: String,
    /// What to call the person.
    name: String,
    /// `ct_…`, shown this once.
    api_token: String,
}

/// Invite somebody
///
/// Where sign-up is by invitation, this lets one person make an account (with the `url`), or one agent register (with
/// the header `X-Chorus-Invitation`). It is shown this once, and used up by that. One for an address is for the person
/// who reads its mail only.
#[utoipa::path(post, path = "/api/v1/invitations", tag = "people", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, description = "To send this again safely")),
    request_body(content_type = "application/json", content = InvitationBody),
    responses((status = 201, description = "Made", body = NewInvitation),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn invite(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let account = match &caller {
        Caller::Operator => None,
        other => Some(other.person()?.id),
    };
    let bytes = body::read(&app, &headers, body, MAX_BODY).await?;
    let parsed = chorus_protocol::json::parse(&bytes).map_err(ApiError::validation)?;
    let (email, days) = fields(&parsed, |fields| (email(fields), days(fields)))?;
    if app.config.signup == Signup::Closed {
        return Err(ApiError::new(
            Code::Conflict,
            "sign-up is closed on this hub: an invitation lets nobody in",
        ));
    }
    let invitation = app.sources.secret(SecretKind::Invitation);
    let expires_at = app.now() + days * DAY_MS;
    let new = NewCredential {
        account,
        email,
        expires_at: Some(expires_at),
        ..credential(&app.sources, CredentialKind::Invitation, &invitation)
    };
    let answer = value(&NewInvitation {
        id: new.id.to_string(),
        url: format!("{}/signin?invitation={invitation}", app.config.public_url),
        invitation,
        expires_at: rfc3339(expires_at),
    })?;
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let make = move |tx: &mut dyn Tx| {
        if let Some(account) = account {
            room(
                tx,
                account,
                CredentialKind::Invitation,
                "you have 100 open invitations; wait until some are used",
            )?;
        }
        accounts::issue(tx, &new)?;
        let detail = json!({"expires_at": rfc3339(expires_at)});
        context.record(tx, &hub, &who, Action::InvitationMade, Subject::Credential(new.id), detail)?;
        Ok((StatusCode::CREATED, answer.clone()))
    };
    write(&app, &caller, &headers, "/api/v1/invitations", &bytes, make).await
}

/// How long an invitation is good.
fn days(fields: &mut Fields<'_, '_>) -> i64 {
    let Some(value) = fields.get("days") else { return DAYS };
    let days = chorus_protocol::json::whole(value).filter(|days| (1..=MOST_DAYS).contains(days));
    days.unwrap_or_else(|| {
        fields.fault("days", format_args!("must be an integer from 1 to {MOST_DAYS}"));
        DAYS
    })
}

/// An invitation to be made.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct InvitationBody {
    /// Whom it is for; else for whoever has it.
    email: Option<EmailAddress>,
    /// How many days it is good; 7 unless said.
    #[schema(minimum = 1, maximum = 90)]
    days: Option<i64>,
}

/// An invitation, shown this once.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct NewInvitation {
    /// Its id, which is no secret.
    #[schema(example = "crd_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    id: String,
    /// `ci_…`: the invitation itself.
    invitation: String,
    /// The page on which a person uses it.
    url: String,
    /// Until when it is good.
    expires_at: String,
}
