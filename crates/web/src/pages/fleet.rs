//! The fleet: every agent that a person may see, with its state and current task. Agents that need attention
//! come first.
//!
//! A value that the hub does not know, or that this person may not see, is left out.

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
use chorus_app::fleet;
use chorus_node::AppState;
use chorus_protocol::api::Page;
use chorus_protocol::api::fleet::{Activity, Doing, FleetAgent, FleetState, FleetWay};
use serde::Deserialize;

/// The most agents on the page.
const MOST: i64 = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/fleet", get(show))
}

#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage {
    shell: Shell,
    total: usize,
    /// True if only the agents that this person manages are listed.
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
    /// The conversation it works in, by id and name.
    place: Option<(String, String)>,
    since: String,
    reached_by: &'static str,
    seen: String,
    dead: i64,
    waiting: i64,
    spent: i64,
    saved: i64,
    /// The active minutes of the last hour, as a drawing.
    hour: String,
    /// The link to the message that the agent is blocked on.
    answer: Option<String>,
    /// True if the agent has no task and no problem.
    rests: bool,
    /// True if the agent is at work, and this person may stop it.
    stops: bool,
}

impl FleetPage {
    fn count(&self, state: &str) -> usize {
        self.groups.iter().filter(|group| group.state.word() == state).map(|group| group.rows.len()).sum()
    }

    /// Sums today's model turns of all shown agents: spent and saved.
    fn turns(&self) -> (i64, i64) {
        let rows = self.groups.iter().flat_map(|group| &group.rows);
        rows.fold((0, 0), |(spent, saved), row| (spent + row.spent, saved + row.saved))
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
        (None, None, FleetState::Offline) => "What comes is kept in its inbox".into(),
        (None, None, _) => "Nothing waits for it".into(),
    };
    let rests = agent.why.is_none() && agent.doing.is_none();
    let stops = agent.mine && agent.doing.is_some();
    let begun = agent.doing.as_ref().map(|doing| &*doing.since).or(agent.since.as_deref());
    let place = agent.doing.as_ref().and_then(|doing| doing.channel.clone());
    let place = place.or_else(|| agent.blocked_on.as_ref().map(|blocked| blocked.channel.clone()));
    let answer = agent.blocked_on.map(|blocked| format!("/c/{}/t/{}", blocked.channel.id, blocked.event_id));
    Row {
        face: Face::agent(&id).medium().state(face_of(agent.state)),
        stops,
        id,
        name: agent.name,
        description: agent.description.unwrap_or_default(),
        doing,
        place: place.map(|place| (place.id, place.name)),
        since: ago(begun),
        reached_by: reached_by(agent.reached_by),
        seen: ago(agent.last_seen.as_deref()),
        dead: agent.dead,
        waiting: agent.waiting,
        spent: agent.turns_today.spent,
        saved: agent.turns_today.saved,
        hour: hour(&agent.last_hour),
        answer,
        rests,
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
        FleetWay::Inbox => "Inbox",
        FleetWay::Harness => "Harness endpoint",
        FleetWay::Webhook => "Webhook",
        FleetWay::ConnectionString => "Connection string",
        FleetWay::Waits => "Waits in its inbox",
    }
}

/// Draws activity from the oldest minute to the newest, two units per minute. Adjacent active minutes are one
/// block.
fn hour(minutes: &[i64]) -> String {
    let (mut blocks, mut at) = (vec![], 0);
    for run in minutes.chunk_by(|one, next| (*one > 0) == (*next > 0)) {
        if run.first().is_some_and(|count| *count > 0) {
            let wide = run.len() * 2;
            blocks.push(format!("M{} 3h{wide}v14h-{wide}z", at * 2));
        }
        at += run.len();
    }
    blocks.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_shows_when_something_was_done() {
        assert_eq!(hour(&[0, 4, 2, 0, 1]), "M2 3h4v14h-4zM8 3h2v14h-2z");
        assert_eq!((hour(&[0]), hour(&[])), (String::new(), String::new()));
    }
}
