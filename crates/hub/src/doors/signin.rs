//! Signing in: by a link in a mail, on pages that work without scripts.
//!
//! The page of a link does not use it up, so that a program which looks at the links in a mail does no harm; its button
//! does.

use crate::body;
use crate::credentials::{new_cookie, no_cookie, session_cookie};
use crate::error::ApiError;
use crate::extract::Context;
use crate::html::{fault_page, page, style};
use crate::route::{Credentials, Route};
use crate::routes::Routes;
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use chorus_app::mail::check_address;
use chorus_app::{App, AppState, accounts};
use chorus_mcp::guard::Page;
use chorus_protocol::api::accounts::{EmailAddress, Line, SignIn};
use chorus_protocol::code::Code;

/// The longest sign-up code that is looked at.
const MAX_CODE: usize = 100;

pub(crate) fn routes() -> Routes {
    let signin = Router::new()
        .route("/signin", get(form).post(send_form))
        .route("/signin/{token}", get(link).post(use_link));
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
struct LinkSent {
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

fn over(app: &App) -> Result<Response, ApiError> {
    fault_page(StatusCode::GONE, &Over { style: style(), host: app.config.host_name.clone() })
}

/// The form for an address.
async fn form(State(app): State<AppState>, uri: Uri) -> Result<Response, ApiError> {
    let invitation = body::form_member(uri.query().unwrap_or_default().as_bytes(), "invitation");
    let invitation = Some(invitation).filter(|text| text.len() <= MAX_CODE).unwrap_or_default();
    let host = app.config.host_name.clone();
    page(&Form { style: style(), host, email: String::new(), invitation, fault: "" })
}

/// The form, filled in.
async fn send_form(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read(&app, &headers, body, body::MAX_FORM).await?;
    let (email, invitation) = (body::form_member(&body, "email"), body::form_member(&body, "invitation"));
    let (style, host) = (style(), app.config.host_name.clone());
    if check_address(&email).is_err() {
        let fault = "This is not an email address.";
        return fault_page(StatusCode::BAD_REQUEST, &Form { style, host, email, invitation, fault });
    }
    let sign_up_code = Some(invitation).filter(|code| !code.is_empty()).map(Line);
    let asked = SignIn { email: EmailAddress(email), sign_up_code };
    accounts::ask_for_link(&app, context.asker(), asked)?;
    page(&LinkSent { style, host })
}

/// The page of a link: one button.
async fn link(State(app): State<AppState>, Path(token): Path<String>) -> Result<Response, ApiError> {
    if !accounts::is_link_good(&app, &token).await? {
        return over(&app);
    }
    page(&Link { style: style(), host: app.config.host_name.clone() })
}

/// The button of a link: it is used up, and a session begins.
async fn use_link(
    State(app): State<AppState>,
    Context(context): Context,
    Path(token): Path<String>,
    Extension(page): Extension<Page>,
) -> Result<Response, ApiError> {
    // Or another site could sign somebody in as somebody else.
    if page != Page::Ours {
        return Err(ApiError::new(Code::Forbidden, "open the link, and use the button on its page"));
    }
    let Some(session) = accounts::begin_session(&app, context, &token).await? else { return over(&app) };
    let cookie = new_cookie(&app, &session.secret, session.seconds)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// The button for signing out.
async fn leave(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(session) = session_cookie(&headers) {
        accounts::end_session(&app, context, session).await?;
    }
    Ok(([(header::SET_COOKIE, no_cookie(&app)?)], Redirect::to("/")).into_response())
}
