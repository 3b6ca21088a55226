//! Making a channel, writing to one, and what invitations ask.

use crate::form::{Form, body};
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chorus_app::conversation::{Talk, make_channel, talk_to};
use chorus_app::once::Once;
use chorus_app::{AppState, conversation};
use chorus_protocol::api::channels::{NewChannel, NewPair};
use chorus_protocol::api::members::NewMember;
use chorus_protocol::ids::ConversationId;
use serde_json::json;

/// As many agents as the form takes at once.
const MOST_AGENTS: usize = 20;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/channels/new", get(channel_form).post(make))
        .route("/direct/new", get(direct_form).post(write_to))
}

#[derive(Template)]
#[template(path = "channel_new.html")]
struct NewPage {
    shell: Shell,
}

#[derive(Template)]
#[template(path = "direct_new.html")]
struct DirectPage {
    shell: Shell,
    asked: bool,
}

async fn channel_form(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    page(&NewPage { shell: Shell::of(&app, &visitor.person, Here::Elsewhere).await? })
}

/// A channel, with agents in it from the start.
async fn make(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let agents = form.text("agents");
    let agents = agents.split([',', ' ', '\n']).map(str::trim).filter(|agent| !agent.is_empty());
    // Read before anything is made: one that is no name is told while nothing has happened.
    let new = agents.take(MOST_AGENTS).map(|agent| body::<NewMember>(json!({"agent": agent})));
    let new: Vec<_> = new.collect::<Result<_, _>>()?;
    let channel: NewChannel = form.body(&["name", "context"])?;
    let made = make_channel(&app, &visitor.caller, channel, Once::NO_KEY).await?.result.conversation;
    let id = conversation::conversation_id(&made.id)?;
    for member in new {
        add(&app, &visitor, id, member).await?;
    }
    Ok(Redirect::to(&format!("/c/{id}")).into_response())
}

async fn add(app: &AppState, visitor: &SignedIn, id: ConversationId, new: NewMember) -> Result<(), Fault> {
    let (caller, context) = (visitor.caller.clone(), visitor.context.clone());
    conversation::add_member(app, caller, id, context, new, Once::NO_KEY).await?;
    Ok(())
}

async fn direct_form(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    page(&DirectPage { shell: Shell::of(&app, &visitor.person, Here::Elsewhere).await?, asked: false })
}

async fn write_to(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let new: NewPair = form.body(&["with"])?;
    let talk = talk_to(&app, &visitor.caller, visitor.context, new, Once::NO_KEY).await?.result;
    match talk {
        Talk::Made(view) | Talk::Known(view) => Ok(Redirect::to(&format!("/c/{}", view.id)).into_response()),
        Talk::Asked(_) => {
            page(&DirectPage { shell: Shell::of(&app, &visitor.person, Here::Elsewhere).await?, asked: true })
        }
    }
}
