//! The board beside a conversation: open items, who must act, and until when.

use super::items::excerpt;
use super::{Place, documents_of};
use crate::extract::Path;
use crate::face::{Face, State as Is};
use crate::page::{Fault, page};
use crate::pages::approvals::{Card, waiting};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::conversation::{self, Open};
use chorus_node::{AppState, Error};
use chorus_protocol::api::documents::Document;
use chorus_protocol::ids::Principal;
use std::collections::HashSet;

/// The most documents on the board. The others are on the document list.
const DOCUMENTS: usize = 5;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/c/{id}/board", get(show))
}

/// The open items of a conversation.
pub(crate) struct Board {
    pub(crate) blocked: Vec<Row>,
    pub(crate) awaited: Vec<Row>,
    pub(crate) held: Vec<Row>,
}

/// One open item of the board.
pub(crate) struct Row {
    /// The id of the message.
    pub(crate) event: String,
    pub(crate) excerpt: String,
    pub(crate) who: String,
    pub(crate) is_agent: bool,
    pub(crate) handle: String,
    pub(crate) face: Face,
    /// The deadline by the hub's clock, in milliseconds.
    pub(crate) until: Option<i64>,
    /// True if the deadline has passed.
    pub(crate) late: bool,
}

impl Board {
    /// Counts the open items. Approvals are not included.
    pub(crate) fn count(&self) -> usize {
        self.blocked.len() + self.awaited.len() + self.held.len()
    }

    /// Returns the ids of blocked members.
    pub(crate) fn stuck(&self) -> HashSet<&str> {
        self.blocked.iter().map(|row| &*row.who).collect()
    }
}

pub(super) async fn find(app: &AppState, visitor: &SignedIn, place: &Place) -> Result<Board, Error> {
    let found = conversation::board(app, visitor.who(), place.id).await?;
    let now = app.now();
    let rows =
        |open: Vec<Open>, state: Option<Is>| open.into_iter().map(|one| row(one, state, now)).collect();
    Ok(Board {
        blocked: rows(found.blocked, Some(Is::Blocked)),
        awaited: rows(found.awaited, None),
        held: rows(found.held, Some(Is::Working)),
    })
}

fn row(open: Open, state: Option<Is>, now: i64) -> Row {
    let is_agent = matches!(open.who, Principal::Agent(_));
    let who = open.who.to_string();
    let face = Face::of(is_agent, &who, &open.handle).medium();
    Row {
        event: open.message.event_id,
        excerpt: excerpt(open.message.content.as_deref().unwrap_or_default()),
        face: match state.filter(|_| is_agent) {
            Some(state) => face.state(state),
            None => face,
        },
        who,
        is_agent,
        handle: open.handle,
        until: open.until,
        late: open.until.is_some_and(|until| until <= now),
    }
}

/// The board as a fragment, for an open page.
#[derive(Template)]
#[template(path = "board.html")]
struct BoardPart {
    id: String,
    board: Board,
    approvals: Vec<Card>,
    documents: Vec<Document>,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let place = Place::find(&app, &visitor, &id).await?;
    let board = find(&app, &visitor, &place).await?;
    let approvals = waiting(&app, &visitor, Some(place.id)).await?;
    let documents = documents_of(&app, &visitor, place.id).await?;
    page(&BoardPart { id, board, approvals, documents })
}

/// Returns the documents that the board shows.
pub(crate) fn named(documents: &[Document]) -> &[Document] {
    &documents[..documents.len().min(DOCUMENTS)]
}
