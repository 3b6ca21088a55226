//! The members of a conversation with their states; adding and removing members.

use crate::extract::Path;
use crate::face::{Face, State as Is};
use crate::form::{Form, body};
use crate::page::Fault;
use crate::times::since;
use crate::visitor::SignedIn;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use chorus_app::conversation::{Added, MemberPath, conversation_id};
use chorus_app::{agents, conversation};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::members::{MemberView, NewMember};
use chorus_protocol::ids::AgentId;
use chorus_protocol::words::{PrincipalKind, Word};
use serde_json::json;
use std::collections::{HashMap, HashSet};

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/c/{id}/members", post(add)).route("/c/{id}/members/{handle}/remove", post(remove))
}

/// A member in the side panel.
pub(crate) struct Person {
    pub(crate) handle: String,
    pub(crate) is_agent: bool,
    pub(crate) id: String,
    pub(crate) roles: Vec<String>,
    pub(crate) lead: bool,
    pub(crate) face: Face,
    pub(crate) state: Option<Is>,
    /// A summary of its state.
    pub(crate) known: String,
}

pub(crate) async fn people(
    app: &AppState,
    visitor: &SignedIn,
    members: &[MemberView],
    working: &HashMap<String, String>,
    stuck: &HashSet<&str>,
) -> Result<Vec<Person>, Error> {
    let ids =
        members.iter().filter(|member| is_agent(member)).filter_map(|member| AgentId::parse(&member.id));
    let agents = agents::some(app, &visitor.caller, ids.collect()).await?;
    let shown = |member: &MemberView| {
        let agent = agents.iter().find(|agent| agent.agent_id.to_string() == member.id);
        let task = working.get(&member.id);
        let state = is_agent(member).then(|| match (task, agent) {
            _ if stuck.contains(&*member.id) => Is::Blocked,
            (Some(_), _) => Is::Working,
            (None, Some(agent)) if agent.online => Is::Idle,
            (None, _) => Is::Offline,
        });
        let face = Face::of(is_agent(member), &member.id, &member.handle).medium();
        let known = agent.map(|agent| match (&agent.description, agent.online, &agent.last_seen) {
            (_, false, Some(seen)) => format!("last sign of life {} ago", since(app.now(), seen)),
            (Some(description), ..) => super::items::excerpt(description),
            (None, true, _) => "its inbox is open".to_owned(),
            (None, false, None) => "no sign of life yet".to_owned(),
        });
        Person {
            handle: member.handle.clone(),
            is_agent: is_agent(member),
            id: member.id.clone(),
            roles: member.roles.clone(),
            lead: member.lead,
            face: match state {
                Some(state) => face.state(state),
                None => face,
            },
            state,
            known: task.filter(|task| !task.is_empty()).cloned().or(known).unwrap_or_default(),
        }
    };
    Ok(members.iter().map(shown).collect())
}

/// The members that share a state, for the side panel.
pub(crate) struct Group<'p> {
    /// `None` for people, whose state is unknown.
    pub(crate) state: Option<Is>,
    pub(crate) people: Vec<&'p Person>,
}

/// Groups members: those who need attention first, then those at work, then people, then everybody else.
pub(crate) fn groups(people: &[Person]) -> Vec<Group<'_>> {
    let order =
        [Some(Is::Failing), Some(Is::Blocked), Some(Is::Working), None, Some(Is::Idle), Some(Is::Offline)];
    let group = |state| {
        let people: Vec<_> = people.iter().filter(|one| one.state == state).collect();
        (!people.is_empty()).then_some(Group { state, people })
    };
    order.into_iter().filter_map(group).collect()
}

fn is_agent(member: &MemberView) -> bool {
    member.kind == Word::Known(PrincipalKind::Agent)
}

/// Adds a member: a person by account id or by an email address of another host, otherwise an agent by name,
/// address or id.
async fn add(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let (who, roles) = (form.text("who"), form.text("roles"));
    let roles: Vec<_> = roles.split([',', ' ']).filter(|role| !role.is_empty()).collect();
    let local = format!("@{}", app.config.host_name);
    let is_person =
        who.starts_with("acc_") || who.contains('@') && !who.ends_with(&local) && !who.ends_with("@chorus");
    let named = if is_person { "account" } else { "agent" };
    let new: NewMember = body(json!({(named): who, "roles": roles, "lead": form.some("lead").is_some()}))?;
    let place = conversation_id(&id)?;
    let added =
        conversation::add_member(&app, visitor.caller, place, visitor.context, new, Once::NO_KEY).await?;
    let told = if matches!(added.result, Added::Asked(_)) { "?told=asked" } else { "" };
    Ok(Redirect::to(&format!("/c/{id}{told}")).into_response())
}

async fn remove(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, handle)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let member = MemberPath { conversation: conversation_id(&id)?, handle };
    conversation::remove_member(&app, visitor.who(), member, visitor.context, Once::NO_KEY).await?;
    Ok(Redirect::to(&format!("/c/{id}")).into_response())
}
