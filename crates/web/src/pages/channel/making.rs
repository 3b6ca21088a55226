//! Creating a channel, starting a direct conversation, and answering invitations.

use crate::form::{Form, body};
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chorus_app::conversation::{Talk, make_channel_with, talk_to};
use chorus_node::AppState;
use chorus_node::idempotency::Once;
use chorus_protocol::api::channels::{NewChannel, NewPair};
use chorus_protocol::api::members::NewMember;
use serde_json::json;
use std::collections::BTreeSet;

/// The most agents that the form takes at once.
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

/// Creates a channel with its first agents.
async fn make(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let agents = form.text("agents");
    let agents = agents.split([',', ' ', '\n']).map(str::trim).filter(|agent| !agent.is_empty());
    let agents: BTreeSet<_> = agents.take(MOST_AGENTS).collect();
    let members = agents.into_iter().map(|agent| body::<NewMember>(json!({"agent": agent})));
    let members: Vec<_> = members.collect::<Result<_, _>>()?;
    let channel: NewChannel = form.body(&["name", "context"])?;
    let made = make_channel_with(&app, visitor.caller, visitor.context, channel, members).await?;
    Ok(Redirect::to(&format!("/c/{}", made.conversation.id)).into_response())
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
