//! A person's inbox: approvals, messages addressed to the person, invitations, and conversations with unread
//! messages.

use crate::extract::Path;
use crate::face::Face;
use crate::page::{Fault, page};
use crate::pages::approvals::{Card, waiting};
use crate::pages::channel::items::beginning;
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::conversation::{
    Addressed, accept_invitation, addressed, block_inviter, decline_invitation, list_invitations,
};
use chorus_node::{AppState, Error};
use chorus_protocol::api::invitations::{InvitationPage, InvitationView};

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/inbox", get(show)).route("/inbox/invitations/{id}/{answer}", post(answer))
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    shell: Shell,
    approvals: Vec<Card>,
    /// The page to return to after a decision.
    back: &'static str,
    addressed: Vec<Row>,
    invitations: Vec<InvitationView>,
}

struct Row {
    channel: String,
    name: String,
    event: String,
    handle: String,
    face: Face,
    at: Moment,
    text: String,
}

fn row(one: Addressed) -> Row {
    let (event, author) = (one.event, &one.standing);
    let (is_agent, handle) =
        (event.author.is_agent(), event.author.handle.unwrap_or_else(|| "the hub".to_owned()));
    Row {
        channel: author.conversation.to_string(),
        name: author.name.clone(),
        face: Face::of(is_agent, &event.author.id, &handle).medium(),
        handle,
        at: Moment::new(&event.created_at),
        text: beginning(&event.content.unwrap_or_default(), 240),
        event: event.event_id,
    }
}

async fn show(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    let asked = InvitationPage { after: None, limit: 50 };
    let invitations = list_invitations(&app, visitor.person.clone(), asked).await?.items;
    let approvals = waiting(&app, &visitor, None).await?;
    let addressed = addressed(&app, visitor.person.id).await?.into_iter().map(row).collect();
    let shell = Shell::of(&app, &visitor.person, Here::Inbox).await?;
    page(&InboxPage { shell, approvals, back: "", addressed, invitations })
}

async fn answer(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, answer)): Path<(String, String)>,
) -> Result<Response, Fault> {
    match &*answer {
        "accept" => {
            let view = accept_invitation(&app, visitor.person, &id).await?;
            return Ok(Redirect::to(&format!("/c/{}", view.id)).into_response());
        }
        "decline" => decline_invitation(&app, visitor.person, &id).await?,
        "block" => block_inviter(&app, visitor.person, &id).await?,
        _ => return Err(Error::not_found("answer").into()),
    }
    Ok(Redirect::to("/inbox").into_response())
}
