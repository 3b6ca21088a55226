//! The rail as a fragment, for open pages: unread counts, agents at work, and agents that need attention.

use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::fleet;
use chorus_node::AppState;
use chorus_protocol::api::Page;

/// The most agents that are examined.
const MOST: i64 = 100;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/rail", get(show))
}

#[derive(Template)]
#[template(path = "rail.html")]
struct RailPart {
    shell: Shell,
}

async fn show(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    let mut shell = Shell::of(&app, &visitor.person, Here::Elsewhere).await?;
    let agents = fleet::list(&app, &visitor.caller, Page { after: None, limit: MOST }).await?;
    shell.add_fleet(&agents.items);
    page(&RailPart { shell })
}
