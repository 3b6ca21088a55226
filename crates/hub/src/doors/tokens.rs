//! The page on which a person makes a token for the command line, without one.

use crate::body;
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::html::{page, style};
use crate::route::Route;
use crate::routes::Routes;
use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use chorus_app::once::Once;
use chorus_app::{AppState, accounts};
use chorus_protocol::api::accounts::{Line, NewToken};

/// The longest label, in characters.
const MAX_LABEL: usize = 100;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .group(Route::API, Router::new().route("/tokens", post(make)))
        .under("/tokens", Route::API)
}

#[derive(Template)]
#[template(path = "token.html")]
struct Made {
    style: &'static str,
    host: String,
    url: String,
    label: String,
    token: String,
}

/// The form of the first page: a token with this label. The middleware has seen that it came from one of our pages.
async fn make(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let Ok(person) = caller.person() else { return Ok(Redirect::to("/signin").into_response()) };
    let body = body::read(&app, &headers, body, body::MAX_FORM).await?;
    let label: String =
        body::form_member(&body, "label").chars().filter(|c| !c.is_control()).take(MAX_LABEL).collect();
    let label = Line(if label.is_empty() { "command line".to_owned() } else { label });
    let made = accounts::make_token(&app, context, person.id, NewToken { label }, Once::NO_KEY).await?;
    let (host, url) = (app.config.host_name.clone(), app.config.public_url.clone());
    page(&Made { style: style(), host, url, label: made.result.label, token: made.result.token })
}
