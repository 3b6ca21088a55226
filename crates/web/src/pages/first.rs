//! The first page: what this hub is, and what to do next. Whoever is signed in and has channels is shown what goes on.

use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::person;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use chorus_app::{AppState, agents, health_report};

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/", get(first))
}

#[derive(Template)]
#[template(path = "first.html")]
struct First {
    shell: Shell,
    url: String,
    agents: i64,
    open: usize,
    /// How long a write takes that is proved, in milliseconds; none if it could not be proved.
    write_ms: Option<u64>,
    name: Option<String>,
}

async fn first(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, Fault> {
    let person = person(&app, &headers).await?;
    let agents = agents::count(&app).await?;
    let health = health_report::report(&app).await.ok();
    page(&First {
        shell: Shell::maybe_of(&app, person.as_ref(), Here::First).await?,
        url: app.config.public_url.clone(),
        agents,
        open: app.live.open_inboxes(),
        write_ms: health.map(|health| health.store.write_latency_ms),
        name: person.map(|person| person.name),
    })
}
