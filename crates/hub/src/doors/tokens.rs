//! The page on which a person makes a token for the command line, without one.

use super::api::accounts::{MAX_LABEL, issue_token, keep_token};
use super::pages::{page, style};
use super::{body, signin};
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::route::{Route, Routes};
use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use chorus_app::AppState;
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use serde_json::json;
use std::sync::Arc;

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

/// The form of the first page: a token with this label. The frame has seen that it came from one of our pages.
async fn make(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let Ok(person) = caller.person() else { return Ok(Redirect::to("/signin").into_response()) };
    let body = body::read(&app, &headers, body, signin::MAX_FORM).await?;
    let label: String =
        signin::member(&body, "label").chars().filter(|c| !c.is_control()).take(MAX_LABEL).collect();
    let label = if label.is_empty() { "command line".to_owned() } else { label };
    let (new, token) = issue_token(&app, person.id, label.clone());
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let issue = move |tx: &mut dyn Tx| {
        keep_token(tx, &new)?;
        Ok(context.record(tx, &hub, &who, Action::TokenMade, Subject::Credential(new.id), json!({}))?)
    };
    app.store.write::<_, ApiError, _>(issue).await?;
    let (host, url) = (app.config.host_name.clone(), app.config.public_url.clone());
    page(&Made { style: style(), host, url, label, token })
}
