//! Messages that wait for a person's approval, as cards in the inbox and in their channel.

use crate::extract::Path;
use crate::face::Face;
use crate::form::Form;
use crate::page::{Fault, page};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::conversation::{agree, conversation_id, decline, list_approvals, look_at, withdraw};
use chorus_node::{AppState, Error};
use chorus_protocol::api::approvals::{ApprovalPage, ApprovalView, Decline};
use chorus_protocol::ids::ConversationId;

/// The most cards on a page. The others follow once these are decided.
const SHOWN: i64 = 20;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/approvals/{id}/{answer}", post(answer)).route("/c/{id}/waiting", get(cards))
}

/// The cards of one conversation, without a page around them.
#[derive(Template)]
#[template(path = "approvals.html")]
struct Cards {
    approvals: Vec<Card>,
    back: String,
}

/// A message that waits for approval.
pub(crate) struct Card {
    pub(crate) id: String,
    pub(crate) channel: String,
    /// The name of the conversation; empty on that conversation's page.
    pub(crate) place: String,
    pub(crate) handle: String,
    pub(crate) face: Face,
    pub(crate) until: Moment,
    pub(crate) text: String,
    pub(crate) may_decide: bool,
    /// True if this is an edit of an approved message.
    pub(crate) is_edit: bool,
}

fn card(one: ApprovalView, says_where: bool) -> Card {
    let (is_agent, handle) = (one.author.is_agent(), one.author.handle.unwrap_or_default());
    Card {
        id: one.id.to_string(),
        channel: one.channel.to_string(),
        place: if says_where { one.name } else { String::new() },
        face: Face::of(is_agent, &one.author.id, &handle).medium(),
        handle,
        until: Moment::new(&one.expires_at),
        text: one.content.unwrap_or_default(),
        may_decide: one.may_decide,
        is_edit: one.edit_of.is_some(),
    }
}

/// Returns the messages that wait for this person, everywhere or in one conversation.
pub(crate) async fn waiting(
    app: &AppState,
    visitor: &SignedIn,
    channel: Option<ConversationId>,
) -> Result<Vec<Card>, Error> {
    let page = ApprovalPage { channel, after: None, limit: SHOWN };
    let found = list_approvals(app, visitor.who(), page).await?;
    Ok(found.items.into_iter().map(|one| card(one, channel.is_none())).collect())
}

/// Renders the current cards of a conversation, for an open page.
async fn cards(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let place = conversation_id(&id)?;
    // A non-member learns nothing, not even that no message waits.
    look_at(&app, visitor.who(), place).await?;
    let approvals = waiting(&app, &visitor, Some(place)).await?;
    page(&Cards { approvals, back: id })
}

async fn answer(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, answer)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Fault> {
    match &*answer {
        "agree" => drop(agree(&app, &visitor.person, &id).await?),
        "decline" => {
            let why = Decline { reason: form.some("reason") };
            drop(decline(&app, &visitor.person, &id, why).await?);
        }
        "withdraw" => withdraw(&app, visitor.who(), &id).await?,
        _ => return Err(Error::not_found("answer").into()),
    }
    // The redirect goes to a conversation only; a form cannot name another address.
    let back = ConversationId::parse(&form.text("back"));
    let back = back.map_or_else(|| "/inbox".to_owned(), |channel| format!("/c/{channel}"));
    Ok(Redirect::to(&back).into_response())
}
