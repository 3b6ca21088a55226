//! A path that is none, for a person: the usual surroundings, and ways on.

use crate::page::{Fault, fault_page};
use crate::shell::{Here, Shell};
use crate::visitor::person;
use askama::Template;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use chorus_app::App;

#[derive(Template)]
#[template(path = "nothing.html")]
struct NothingPage<'a> {
    shell: Shell,
    path: &'a str,
}

/// The page that says that there is none.
pub async fn show(app: &App, headers: &HeaderMap, path: &str) -> Result<Response, Fault> {
    let person = person(app, headers).await?;
    let shell = Shell::maybe_of(app, person.as_ref(), Here::Elsewhere).await?;
    fault_page(StatusCode::NOT_FOUND, &NothingPage { shell, path })
}
