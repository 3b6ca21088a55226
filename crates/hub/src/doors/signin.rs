//! Signing in: by a link in a mail, on pages that work without scripts.
//!
//! Nothing here tells whether an address has an account: what depends on that is done after the answer. The page of a
//! link does not use it up, so that a program which looks at the links in a mail does no harm; its button does.

use super::body;
use super::pages::{page, style};
use crate::credentials::{SESSION_COOKIE, session_cookie};
use crate::error::ApiError;
use crate::extract::Context;
use crate::middleware::{Client, ForPeople};
use crate::route::{Credentials, Route, Routes};
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use chorus_app::Sources;
use chorus_app::audit::RequestContext;
use chorus_app::caller::key_hash;
use chorus_app::mail::{self, Letter};
use chorus_app::mail_limits::Asker;
use chorus_app::{App, AppState};
use chorus_app::{Config, Signup};
use chorus_mcp::guard::Page;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};
use chorus_protocol::relay::Code;
use chorus_store::accounts::{self, CredentialKind, NewCredential, SignIn};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::directory::KeyHash;
use chorus_store::{Store, StoreError, Tx, settings};
use serde_json::json;
use std::cell::OnceCell;
use std::sync::Arc;

const MINUTE_MS: i64 = 60 * 1000;
pub(crate) const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// How long a link can be used.
const LINK_LIFE_MS: i64 = 15 * MINUTE_MS;
/// How long the link can be used that is printed when the hub starts for the first time.
const FIRST_LINK_LIFE_MS: i64 = DAY_MS;
/// How many links to one address can be used at a time. More than are mailed within their life: who is mailed no more for
/// an hour's sake has one that works.
const MOST_LINKS: i64 = 10;
/// How long a browser stays signed in.
const SESSION_LIFE_MS: i64 = 30 * DAY_MS;
/// What a form may hold.
pub(crate) const MAX_FORM: usize = 16 * 1024;
/// The longest invitation that is looked at.
pub(crate) const MAX_INVITATION: usize = 100;

pub(crate) fn routes() -> Routes {
    let signin = Router::new()
        .route("/signin", get(form).post(send_form))
        .route("/signin/{token}", get(link).post(enter));
    Routes::default()
        .group(Route { credentials: Credentials::Ignored, ..Route::API }, signin)
        .group(Route::API, Router::new().route("/signout", post(leave)))
        .under("/signin", Route::API)
        .under("/signout", Route::API)
}

#[derive(Template)]
#[template(path = "signin.html")]
struct Form {
    style: &'static str,
    host: String,
    email: String,
    invitation: String,
    fault: &'static str,
}

#[derive(Template)]
#[template(path = "signin_sent.html")]
struct Sent {
    style: &'static str,
    host: String,
}

#[derive(Template)]
#[template(path = "signin_link.html")]
struct Link {
    style: &'static str,
    host: String,
}

#[derive(Template)]
#[template(path = "signin_over.html")]
struct Over {
    style: &'static str,
    host: String,
}

/// A page that is an error.
fn fault_page(status: StatusCode, template: &impl Template) -> Result<Response, ApiError> {
    let mut response = page(template)?;
    *response.status_mut() = status;
    response.extensions_mut().insert(ForPeople);
    Ok(response)
}

fn over(app: &App) -> Result<Response, ApiError> {
    fault_page(StatusCode::GONE, &Over { style: style(), host: app.config.host_name.clone() })
}

/// A member of a form or a query; the first, if there are several.
pub(crate) fn member(encoded: &[u8], name: &str) -> String {
    let found = url::form_urlencoded::parse(encoded).find(|(given, _)| given == name);
    found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// The form for an address.
async fn form(State(app): State<AppState>, uri: Uri) -> Result<Response, ApiError> {
    let invitation = member(uri.query().unwrap_or_default().as_bytes(), "invitation");
    let invitation = Some(invitation).filter(|text| text.len() <= MAX_INVITATION).unwrap_or_default();
    let host = app.config.host_name.clone();
    page(&Form { style: style(), host, email: String::new(), invitation, fault: "" })
}

/// The form, filled in.
async fn send_form(
    State(app): State<AppState>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read(&app, &headers, body, MAX_FORM).await?;
    let (email, invitation) = (member(&body, "email"), member(&body, "invitation"));
    let (style, host) = (style(), app.config.host_name.clone());
    if mail::check_address(&email).is_err() {
        let fault = "This is not an email address.";
        return fault_page(StatusCode::BAD_REQUEST, &Form { style, host, email, invitation, fault });
    }
    ask(&app, client, email, Some(invitation).filter(|invitation| !invitation.is_empty()))?;
    page(&Sent { style, host })
}

/// Sends a link to an address, if whoever reads its mail has an account or may have one. That is found out after this
/// has returned, so that the answer is the same, and takes the same time, for every address.
pub(crate) fn ask(
    app: &AppState,
    client: Client,
    email: String,
    invitation: Option<String>,
) -> Result<(), ApiError> {
    let asker = Asker::Source(client.source());
    let Some(slot) = mail::room(app, &email, asker)? else { return Ok(()) };
    let hub = Arc::clone(app);
    app.tasks.spawn(async move {
        match issue_link(&hub, email, invitation.as_deref().map(key_hash), asker).await {
            Ok(Some(letter)) => mail::send(&hub, letter, slot).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a sign-in link was not issued");
            }
        }
    });
    Ok(())
}

/// A link in a letter, unless nobody may sign in with this address or it has enough of them.
async fn issue_link(
    app: &AppState,
    email: String,
    invitation: Option<KeyHash>,
    asker: Asker,
) -> Result<Option<Letter>, StoreError> {
    let (now, signup) = (app.now(), app.config.signup);
    let token = app.sources.secret(SecretKind::MagicLink);
    let new = NewCredential {
        expires_at: Some(now + LINK_LIFE_MS),
        ..credential(&app.sources, CredentialKind::Link, &token)
    };
    // Once, however often this is tried.
    let (hub, counted) = (Arc::clone(app), OnceCell::new());
    let issue = move |tx: &mut dyn Tx| {
        let account = accounts::by_email(tx, &email)?;
        if account.as_ref().is_some_and(|account| account.disabled_at.is_some()) {
            return Ok(None);
        }
        let invitation = invitation.filter(|_| account.is_none() && signup == Signup::Invite);
        let invited = match invitation {
            Some(hash) => accounts::peek(tx, CredentialKind::Invitation, &hash, now)?,
            None => None,
        };
        // An invitation that was sent to somebody is not for others.
        let invited =
            invited.filter(|it| it.email.as_deref().is_none_or(|to| accounts::same_email(to, &email)));
        if account.is_none() && invited.is_none() && signup != Signup::Open {
            return Ok(None);
        }
        // To the address as the account has it, however it was spelled now.
        let to = account.as_ref().map_or(&email, |account| &account.email);
        if accounts::live_links(tx, to, now, LINK_LIFE_MS)? >= MOST_LINKS {
            return Ok(None);
        }
        // Before there is a link: those that nobody gets would keep others from being made.
        if !counted.get_or_init(|| mail::count(&hub, to, asker)) {
            return Ok(None);
        }
        let link = NewCredential {
            account: account.as_ref().map(|account| account.id),
            email: Some(to.clone()),
            invitation: invited.map(|invitation| invitation.id),
            ..new.clone()
        };
        accounts::issue(tx, &link)?;
        Ok(link.email)
    };
    let to = app.store.write::<_, StoreError, _>(issue).await?;
    Ok(to.map(|to| letter(app, to, &token)))
}

fn letter(app: &App, to: String, token: &str) -> Letter {
    let Config { host_name, public_url, .. } = &app.config;
    let text = format!(
        "Somebody, most likely you, asked to sign in to the Chorus hub at {host_name}.\n\n\
         This link signs you in, once, within 15 minutes:\n\n\
         {public_url}/signin/{token}\n\n\
         If it was not you, do nothing: without the link nobody gets in.\n"
    );
    Letter { to, subject: format!("Sign in to Chorus at {host_name}"), text }
}

/// A new credential without an owner and without an end.
pub(crate) fn credential(sources: &Sources, kind: CredentialKind, secret: &str) -> NewCredential {
    NewCredential {
        id: CredentialId(sources.uuid_v7()),
        hash: key_hash(secret),
        kind,
        account: None,
        email: None,
        label: None,
        invitation: None,
        expires_at: None,
        trace: TraceId(sources.uuid_v7()),
        now: sources.now(),
    }
}

/// The page of a link: one button.
async fn link(State(app): State<AppState>, Path(token): Path<String>) -> Result<Response, ApiError> {
    let (hash, now) = (key_hash(&token), app.now());
    let peek = move |tx: &mut dyn Tx| accounts::peek(tx, CredentialKind::Link, &hash, now);
    match app.store.read::<_, StoreError, _>(peek).await? {
        Some(_) => page(&Link { style: style(), host: app.config.host_name.clone() }),
        None => over(&app),
    }
}

/// The button of a link: it is used up, and a session begins.
async fn enter(
    State(app): State<AppState>,
    Context(context): Context,
    Path(token): Path<String>,
    Extension(page): Extension<Page>,
) -> Result<Response, ApiError> {
    // Or another site could sign somebody in as somebody else.
    if page != Page::Ours {
        return Err(ApiError::new(Code::Forbidden, "open the link, and use the button on its page"));
    }
    let (secret, now) = (app.sources.secret(SecretKind::Session), app.now());
    let with = SignIn {
        link: key_hash(&token),
        new: AccountId(app.sources.uuid_v7()),
        open: app.config.signup == Signup::Open,
        session: (CredentialId(app.sources.uuid_v7()), key_hash(&secret), now + SESSION_LIFE_MS),
        trace: TraceId(app.sources.uuid_v7()),
        now,
    };
    let hub = Arc::clone(&app);
    let sign_in = move |tx: &mut dyn Tx| {
        let account = accounts::sign_in(tx, &with)?;
        // Its id is new, so it was made by this.
        if let Some(new) = account.as_ref().filter(|account| account.id == with.new) {
            let (actor, subject) = (Actor::Principal(new.id.into()), Subject::Account(new.id));
            context.record_as(tx, &hub, actor, Action::AccountMade, subject, json!({}))?;
        }
        Ok(account)
    };
    if app.store.write::<_, StoreError, _>(sign_in).await?.is_none() {
        return over(&app);
    }
    let cookie = cookie(&app, &secret, SESSION_LIFE_MS / 1000)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// The cookie of a browser that is signed in, for so many seconds.
fn cookie(app: &App, secret: &str, seconds: i64) -> Result<HeaderValue, ApiError> {
    let secure = if app.config.public_url.starts_with("https:") { "; Secure" } else { "" };
    let text =
        format!("{SESSION_COOKIE}={secret}; HttpOnly; SameSite=Lax; Path=/; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).map_err(ApiError::internal)
}

/// The button for signing out.
async fn leave(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let cookie = end_session(&app, &context, &headers).await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// Ends the session of this browser, if there is one, and returns the cookie that replaces its own.
pub(crate) async fn end_session(
    app: &AppState,
    context: &RequestContext,
    headers: &HeaderMap,
) -> Result<HeaderValue, ApiError> {
    if let Some(session) = session_cookie(headers) {
        let (hash, hub, context) = (key_hash(session), Arc::clone(app), context.clone());
        let end = move |tx: &mut dyn Tx| {
            if let Some(account) = accounts::end(tx, CredentialKind::Session, &hash)? {
                let (actor, subject) = (Actor::Principal(account.into()), Subject::Account(account));
                context.record_as(tx, &hub, actor, Action::SessionsEnded, subject, json!({"ended": 1}))?;
            }
            Ok(())
        };
        app.store.write::<_, StoreError, _>(end).await?;
    }
    cookie(app, "", 0)
}

/// A link that signs the operator in, at the first start on a database. Its account is made by its use, whoever else
/// may have one.
pub async fn first_link(
    store: &Store,
    config: &Config,
    sources: &Sources,
) -> Result<Option<String>, StoreError> {
    let token = sources.secret(SecretKind::MagicLink);
    let host = config.host_name.split(':').next().unwrap_or_default();
    let expires_at = Some(sources.now() + FIRST_LINK_LIFE_MS);
    let invitation = NewCredential {
        expires_at,
        ..credential(sources, CredentialKind::Invitation, &sources.secret(SecretKind::Invitation))
    };
    let link = NewCredential {
        expires_at,
        email: Some(format!("operator@{host}")),
        invitation: Some(invitation.id),
        ..credential(sources, CredentialKind::Link, &token)
    };
    let issue = move |tx: &mut dyn Tx| {
        let (_, first) = settings::set_once(tx, "operator_link", "issued")?;
        if first {
            accounts::issue(tx, &invitation)?;
            accounts::issue(tx, &link)?;
        }
        Ok(first)
    };
    let first = store.write::<_, StoreError, _>(issue).await?;
    Ok(first.then(|| format!("{}/signin/{token}", config.public_url)))
}
