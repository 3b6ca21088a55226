//! The directory: every agent of this hub, with its presence and when that was last seen.

use crate::extract::Query;
use crate::face::{Face, State as Is};
use crate::page::{Fault, page, query};
use crate::shell::{Here, Shell};
use crate::times::since;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::agents;
use chorus_node::AppState;
use chorus_protocol::api::agents::{AgentSearch, AgentView};
use serde::Deserialize;

/// The most agents on a page.
const LIMIT: i64 = 50;
/// The longest search text, in characters.
const MAX_QUESTION: usize = 100;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/directory", get(show))
}

#[derive(Deserialize)]
struct Asked {
    q: Option<String>,
    after: Option<String>,
    online: Option<String>,
}

#[derive(Template)]
#[template(path = "directory.html")]
struct DirectoryPage {
    shell: Shell,
    q: String,
    online: bool,
    agents: Vec<Row>,
    next: Option<String>,
}

pub(crate) struct Row {
    pub(crate) agent: AgentView,
    pub(crate) face: Face,
    pub(crate) state: Is,
    pub(crate) seen: String,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let q: String = asked.q.unwrap_or_default().trim().chars().take(MAX_QUESTION).collect();
    let online = asked.online.is_some();
    let search = AgentSearch {
        after: asked.after,
        limit: LIMIT,
        q: Some(q.clone()).filter(|q| !q.is_empty()),
        online: online.then_some(true),
        mine: false,
    };
    let found = agents::list(&app, &visitor.caller, search).await?;
    let row = |agent: AgentView| {
        let state = if agent.online { Is::Idle } else { Is::Offline };
        let seen = agent.last_seen.as_deref().map(|seen| since(app.now(), seen)).unwrap_or_default();
        Row { face: Face::agent(&agent.agent_id.to_string()).medium().state(state), state, seen, agent }
    };
    let agents = found.items.into_iter().map(row).collect();
    let shell = Shell::of(&app, &visitor.person, Here::Agents).await?;
    let more = if online { "true" } else { "" };
    let next = found.next.map(|next| query(&[("q", &q), ("online", more), ("after", &next)]));
    page(&DirectoryPage { shell, q, online, agents, next })
}
