//! The fleet: every agent a person may see, how it is and what it is doing; what needs somebody first.
//!
//! What the hub does not know, and what is not this person's to know, is not shown.

use crate::extract::Query;
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
use chorus_app::{AppState, fleet};
use chorus_protocol::api::Page;
use chorus_protocol::api::fleet::{Activity, Doing, FleetAgent, FleetState, FleetWay};
use serde::Deserialize;

/// As many as a page shows.
const MOST: i64 = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/fleet", get(show))
}

#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage {
    shell: Shell,
    total: usize,
    /// Only those that this person manages.
    mine: bool,
    groups: Vec<Group>,
    next: Option<String>,
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
    /// Where, by id and name.
    place: Option<(String, String)>,
    since: String,
    reached_by: &'static str,
    seen: String,
    dead: i64,
    waiting: i64,
    spent: i64,
    saved: i64,
    /// The last hour, drawn.
    hour: String,
}

impl FleetPage {
    fn count(&self, state: &str) -> usize {
        self.groups.iter().filter(|group| group.state.word() == state).map(|group| group.rows.len()).sum()
    }
}

#[derive(Deserialize)]
struct Wanted {
    after: Option<String>,
    mine: Option<String>,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(Wanted { after, mine }): Query<Wanted>,
) -> Result<Response, Fault> {
    let mut found = fleet::list(&app, &visitor.caller, Page { after, limit: MOST }).await?;
    let mine = mine.is_some();
    found.items.retain(|agent| agent.mine || !mine);
    let total = found.items.len();
    let mut groups: Vec<_> = [Is::Failing, Is::Blocked, Is::Working, Is::Idle, Is::Offline]
        .map(|state| Group { state, rows: vec![] })
        .into();
    for agent in found.items {
        let state = face_of(agent.state);
        if let Some(group) = groups.iter_mut().find(|group| group.state == state) {
            group.rows.push(row(&app, agent));
        }
    }
    groups.retain(|group| !group.rows.is_empty());
    let shell = Shell::of(&app, &visitor.person, Here::Fleet).await?;
    page(&FleetPage { shell, total, mine, groups, next: found.next })
}

fn face_of(state: FleetState) -> Is {
    match state {
        FleetState::Failing => Is::Failing,
        FleetState::Blocked => Is::Blocked,
        FleetState::Working => Is::Working,
        FleetState::Idle => Is::Idle,
        FleetState::Offline => Is::Offline,
    }
}

fn row(app: &AppState, agent: FleetAgent) -> Row {
    let id = agent.agent_id.to_string();
    let ago = |time: Option<&str>| time.map(|time| since(app.now(), time)).unwrap_or_default();
    let doing = match (&agent.why, &agent.doing, agent.state) {
        (Some(why), ..) => why.clone(),
        (None, Some(doing), _) => words(doing),
        (None, None, FleetState::Offline) => "Nothing waits for it; what comes is kept in its inbox.".into(),
        (None, None, _) => "Nothing waits for it.".into(),
    };
    let place = agent.doing.as_ref().and_then(|doing| doing.channel.clone());
    Row {
        face: Face::agent(&id).medium().state(face_of(agent.state)),
        id,
        name: agent.name,
        description: agent.description.unwrap_or_default(),
        doing,
        place: place.map(|place| (place.id, place.name)),
        since: ago(agent.doing.as_ref().map(|doing| &*doing.since)),
        reached_by: reached_by(agent.reached_by),
        seen: ago(agent.last_seen.as_deref()),
        dead: agent.dead,
        waiting: agent.waiting,
        spent: agent.turns_today.spent,
        saved: agent.turns_today.saved,
        hour: hour(&agent.last_hour),
    }
}

fn words(doing: &Doing) -> String {
    let text = doing.text.as_deref();
    match doing.what {
        Activity::Tool => format!("Uses {}", text.unwrap_or("a tool")),
        Activity::Status => text.unwrap_or("Says what it does").to_owned(),
        Activity::Turn => "Thinks".into(),
        Activity::Claim => "Has taken something on".into(),
        Activity::Busy => "Busy".into(),
    }
}

fn reached_by(way: FleetWay) -> &'static str {
    match way {
        FleetWay::C2a => "C2A",
        FleetWay::Inbox => "inbox",
        FleetWay::Harness => "harness endpoint",
        FleetWay::Webhook => "webhook",
        FleetWay::ConnectionString => "connection string",
        FleetWay::Waits => "inbox, when it opens it",
    }
}

/// The points of a line from the oldest minute to the newest, in a box of 120 by 20.
fn hour(minutes: &[i64]) -> String {
    let most = minutes.iter().copied().max().unwrap_or_default().max(1);
    let point = |(n, count): (usize, &i64)| format!("{},{}", n * 2 + 1, 19 - count * 18 / most);
    minutes.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_a_line() {
        assert_eq!(hour(&[0, 4, 2]), "1,19 3,1 5,10");
        assert_eq!(hour(&[0]), "1,19");
    }
}
