//! The fleet: every agent of a person, what is known of each, and what needs somebody first.
//!
//! What the hub does not know is not shown.

use crate::face::{Face, State as Is};
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::times::since;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::deliveries::{self, Asked};
use chorus_app::{AppState, Error, agents};
use chorus_protocol::api::agents::{AgentSearch, AgentView};
use chorus_protocol::words::{ConnectionState, DeliveryState};
use std::collections::HashMap;

/// As many agents, and as many deliveries of a state, as are looked at.
const MOST: i64 = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/fleet", get(show))
}

#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage {
    shell: Shell,
    total: usize,
    groups: Vec<Group>,
}

struct Group {
    state: Is,
    rows: Vec<Row>,
}

struct Row {
    id: String,
    name: String,
    description: String,
    face: Face,
    doing: String,
    reached_by: &'static str,
    seen: String,
    dead: usize,
    waiting: usize,
}

impl FleetPage {
    fn count(&self, state: &str) -> usize {
        self.groups.iter().filter(|group| group.state.word() == state).map(|group| group.rows.len()).sum()
    }
}

async fn count(
    app: &AppState,
    visitor: &SignedIn,
    state: DeliveryState,
) -> Result<HashMap<String, usize>, Error> {
    let asked = Asked { state: Some(state), ..Asked::default() };
    let found = deliveries::list(app, visitor.caller.clone(), asked, None, MOST).await?.items;
    let mut counts = HashMap::new();
    for delivery in found {
        *counts.entry(delivery.agent.id).or_default() += 1;
    }
    Ok(counts)
}

async fn show(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    let mine = AgentSearch { after: None, limit: MOST, q: None, online: None, mine: true };
    let found = agents::list(&app, &visitor.caller, mine).await?.items;
    let mut dead = count(&app, &visitor, DeliveryState::Dead).await?;
    // What an agent's service refused is over too, until it is replayed.
    for (agent, refused) in count(&app, &visitor, DeliveryState::Failed).await? {
        *dead.entry(agent).or_default() += refused;
    }
    let waiting = count(&app, &visitor, DeliveryState::Waiting).await?;
    let total = found.len();
    let rows = found.into_iter().map(|agent| {
        let of = |counts: &HashMap<String, usize>| {
            counts.get(&agent.agent_id.to_string()).copied().unwrap_or_default()
        };
        let (dead, waiting) = (of(&dead), of(&waiting));
        row(&app, agent, dead, waiting)
    });
    let rows: Vec<(Is, Row)> = rows.collect();
    let mut groups: Vec<_> = [Is::Failing, Is::Blocked, Is::Working, Is::Idle, Is::Offline]
        .map(|state| Group { state, rows: vec![] })
        .into();
    for (state, row) in rows {
        if let Some(group) = groups.iter_mut().find(|group| group.state == state) {
            group.rows.push(row);
        }
    }
    groups.retain(|group| !group.rows.is_empty());
    page(&FleetPage { shell: Shell::of(&app, &visitor.person, Here::Fleet).await?, total, groups })
}

/// How an agent is, by what the hub knows.
fn row(app: &AppState, agent: AgentView, dead: usize, waiting: usize) -> (Is, Row) {
    let connection = agent.connection.as_ref();
    let broken = connection.filter(|connection| connection.state == ConnectionState::Broken);
    let (state, doing) = if let Some(broken) = broken {
        let why = broken.reason.as_deref().unwrap_or("it refused what was posted to it");
        (Is::Failing, format!("Its connection string is broken: {why}. Paste a new one."))
    } else if dead > 0 {
        (Is::Failing, format!("{dead} deliveries were refused or given up. They can be replayed."))
    } else if agent.disabled_since.is_some() {
        (Is::Blocked, "It is kept out by the operator.".into())
    } else if waiting > 0 {
        (Is::Blocked, format!("{waiting} deliveries wait for it, and are tried again."))
    } else if agent.online {
        (Is::Idle, "Nothing waits for it.".into())
    } else {
        (Is::Offline, "Nothing waits for it; what comes is kept in its inbox.".into())
    };
    let reached_by = match connection.map(|connection| connection.state) {
        _ if agent.online => "inbox",
        Some(ConnectionState::Ok | ConnectionState::Broken) => "connection string",
        _ => "inbox, or its webhook",
    };
    let row = Row {
        id: agent.agent_id.to_string(),
        face: Face::agent(&agent.agent_id.to_string()).medium().state(state),
        name: agent.name,
        description: agent.description.unwrap_or_default(),
        doing,
        reached_by,
        seen: agent.last_seen.as_deref().map(|seen| since(app.now(), seen)).unwrap_or_default(),
        dead,
        waiting,
    };
    (state, row)
}
