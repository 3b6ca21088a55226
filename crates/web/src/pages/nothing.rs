//! The "not found" page, with the usual shell and links.

use crate::page::{Fault, fault_page};
use crate::shell::{Here, Shell};
use crate::visitor::person;
use askama::Template;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use chorus_node::App;

#[derive(Template)]
#[template(path = "nothing.html")]
struct NothingPage<'a> {
    shell: Shell,
    path: &'a str,
}

/// Renders the "not found" page.
pub async fn show(app: &App, headers: &HeaderMap, path: &str) -> Result<Response, Fault> {
    let person = person(app, headers).await?;
    let shell = Shell::maybe_of(app, person.as_ref(), Here::Elsewhere).await?;
    fault_page(StatusCode::NOT_FOUND, &NothingPage { shell, path })
}
