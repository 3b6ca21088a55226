//! Signing in by a mailed link, on pages that work without scripts.
//!
//! Opening the link does not consume it, so that a mail scanner that follows links does no harm. The button on
//! its page does.

use crate::cookies::new_cookie;
use crate::extract::Path;
use crate::form::Form;
use crate::page::{Fault, fault_page, page};
use crate::shell::{Here, Shell};
use crate::visitor::{Context, OwnPage};
use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use chorus_app::accounts;
use chorus_node::config::mail::check_address;
use chorus_node::{App, AppState, Error};
use chorus_protocol::api::accounts::{EmailAddress, Line, SignIn};
use chorus_protocol::code::Code;

/// The longest sign-up code that is checked.
const MAX_CODE: usize = 100;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/signin", get(form).post(send_form))
        .route("/signin/{token}", get(link).post(use_link))
}

#[derive(Template)]
#[template(path = "signin.html")]
struct SignInPage {
    shell: Shell,
    email: String,
    invitation: String,
    fault: &'static str,
}

#[derive(Template)]
#[template(path = "signin_sent.html")]
struct LinkSent {
    shell: Shell,
}

#[derive(Template)]
#[template(path = "signin_link.html")]
struct Link {
    shell: Shell,
}

#[derive(Template)]
#[template(path = "signin_over.html")]
struct Over {
    shell: Shell,
}

fn shell(app: &App) -> Shell {
    Shell::bare(app, Here::Elsewhere)
}

fn over(app: &App) -> Result<Response, Fault> {
    fault_page(StatusCode::GONE, &Over { shell: shell(app) })
}

/// Shows the form for an email address.
async fn form(State(app): State<AppState>, uri: Uri) -> Result<Response, Fault> {
    let query = uri.query().unwrap_or_default().as_bytes();
    let invitation = url::form_urlencoded::parse(query).find(|(name, _)| name == "invitation");
    let invitation = invitation.map(|(_, code)| code.trim().to_owned()).filter(|code| code.len() <= MAX_CODE);
    let invitation = invitation.unwrap_or_default();
    page(&SignInPage { shell: shell(&app), email: String::new(), invitation, fault: "" })
}

/// Sends the sign-in link.
async fn send_form(
    State(app): State<AppState>,
    Context(context): Context,
    form: Form,
) -> Result<Response, Fault> {
    let (email, invitation) = (form.text("email"), form.text("invitation"));
    if check_address(&email).is_err() {
        let fault = "This is not an email address.";
        let shown = SignInPage { shell: shell(&app), email, invitation, fault };
        return fault_page(StatusCode::BAD_REQUEST, &shown);
    }
    let sign_up_code = Some(invitation).filter(|code| !code.is_empty()).map(Line);
    let asked = SignIn { email: EmailAddress(email), sign_up_code };
    accounts::ask_for_link(&app, context.asker(), asked)?;
    page(&LinkSent { shell: shell(&app) })
}

/// Shows the page of a link, with one button.
async fn link(State(app): State<AppState>, Path(token): Path<String>) -> Result<Response, Fault> {
    if !accounts::is_link_good(&app, &token).await? {
        return over(&app);
    }
    page(&Link { shell: shell(&app) })
}

/// Consumes the link and starts a session.
async fn use_link(
    State(app): State<AppState>,
    Context(context): Context,
    Path(token): Path<String>,
    Extension(OwnPage(own_page)): Extension<OwnPage>,
) -> Result<Response, Fault> {
    // Otherwise another site could sign a visitor in to a foreign account.
    if !own_page {
        return Err(Error::new(Code::Forbidden, "open the link, and use the button on its page").into());
    }
    let Some(session) = accounts::begin_session(&app, context, &token).await? else { return over(&app) };
    let cookie = new_cookie(&app, &session.secret, session.seconds)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}
