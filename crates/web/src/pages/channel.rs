//! The page of a conversation: its messages as they arrive, members, documents, and the reasons for each
//! delivery.
//!
//! The page works without scripts: it can be read, paged and written in. A script adds live updates, a preview
//! of the agents that a message would wake, and keyboard shortcuts.

pub(crate) mod board;
mod documents;
pub(crate) mod items;
mod list;
mod live;
mod making;
pub(crate) mod members;
mod roster;
mod settings;
mod uploading;
mod why;
mod writing;

use self::board::Board;
use self::items::{Item, View, items};
use self::members::Person;
use self::roster::Roster;
use crate::assets;
use crate::extract::{Path, Query};
use crate::form::Form;
use crate::markdown::Named;
use crate::page::{Fault, page};
use crate::pages::approvals::{Card, waiting};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::conversation::{self, At, Attended, Filter, Kinds, conversation_id, event_id};
use chorus_app::views::EventView;
use chorus_node::idempotency::Once;
use chorus_node::{App, AppState, Error};
use chorus_protocol::api::Page;
use chorus_protocol::api::channels::ConversationDetail;
use chorus_protocol::api::documents::Document;
use chorus_protocol::api::members::MemberView;
use chorus_protocol::api::messages::NewMessage;
use chorus_protocol::c2a::Glyphs;
use chorus_protocol::ids::{ConversationId, EventId};
use chorus_protocol::words::{ConversationKind, EventKind, PrincipalKind, Signal, Word};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The most events on a page and in a fragment, so that pages of long conversations stay small.
const OPENS_WITH: i64 = 50;
/// The most messages on a page. A message costs as much to render as all the small events around it.
const OPENS_WITH_MESSAGES: usize = 30;
/// The most earlier threads whose first message is looked up.
const NAMED_THREADS: usize = 8;
/// The most members and documents on the page.
const MOST: i64 = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/c/{id}", get(show))
        .route("/c/{id}/t/{thread}", get(show_thread))
        .route("/c/{id}/why/{event}", get(show_why))
        .route("/c/{id}/items", get(fragment))
        .route("/c/{id}/say", post(say))
        .route("/c/{id}/read", post(mark_read))
        .merge(board::routes())
        .merge(documents::routes())
        .merge(list::routes())
        .merge(live::routes())
        .merge(making::routes())
        .merge(members::routes())
        .merge(settings::routes())
        .merge(uploading::routes())
        .merge(writing::routes())
}

/// The query that selects a stretch of the log.
#[derive(Debug, Default, Deserialize)]
struct Stretch {
    before: Option<i64>,
    after: Option<i64>,
    limit: Option<i64>,
    thread: Option<String>,
    side: Option<String>,
}

#[derive(Template)]
#[template(path = "items.html")]
struct ItemsPart<'p> {
    id: &'p str,
    items: &'p [Item],
}

#[derive(Template)]
#[template(path = "channel.html")]
struct ChannelPage {
    shell: Shell,
    script: &'static str,
    id: String,
    place: ConversationDetail,
    is_channel: bool,
    /// The selected thread, by the id of its first message.
    thread: Option<String>,
    items: Vec<Item>,
    earlier: Option<String>,
    /// The sequence of the last shown event. Live updates begin after it.
    last: i64,
    live_from_end: bool,
    side: Side,
    people: Vec<Person>,
    board: Board,
    /// The number of agents at work.
    working: usize,
    may_add: bool,
    documents: Vec<Document>,
    approvals: Vec<Card>,
    /// The conversation to return to after a decision.
    back: String,
    signals: Vec<(&'static str, String)>,
}

/// The content of the side panel.
pub(crate) enum Side {
    Members,
    Board,
    Documents,
    Why(Box<why::Why>),
}

impl ChannelPage {
    fn at(&self, tab: &str) -> bool {
        matches!(
            (&self.side, tab),
            (Side::Members, "members")
                | (Side::Board, "board")
                | (Side::Documents, "documents")
                | (Side::Why(_), "why")
        )
    }

    /// Returns whether the page shows no message.
    fn is_silent(&self) -> bool {
        self.live_from_end && self.items.iter().all(|item| matches!(item, Item::Day(_) | Item::Line(_)))
    }

    /// Returns the handles and roles that the composer completes.
    fn names(&self) -> String {
        let names =
            self.people.iter().map(|one| (&*one.handle, if one.is_agent { "agent" } else { "person" }));
        let mut roles: Vec<_> =
            self.people.iter().flat_map(|one| &one.roles).map(|role| (&**role, "role")).collect();
        roles.sort_unstable();
        roles.dedup();
        serde_json::to_string(&names.chain(roles).collect::<Vec<_>>()).unwrap_or_default()
    }
}

/// Everything the page and its fragments know about a conversation.
struct Place {
    id: ConversationId,
    detail: ConversationDetail,
    members: Vec<MemberView>,
}

impl Place {
    async fn find(app: &App, visitor: &SignedIn, id: &str) -> Result<Self, Error> {
        let id = conversation_id(id)?;
        let detail = conversation::look_at(app, visitor.who(), id).await?;
        let page = Page { after: None, limit: MOST };
        let members = conversation::list_members(app, visitor.who(), id, page).await?.items;
        Ok(Self { id, detail, members })
    }

    fn view(&self, visitor: &SignedIn, read: Option<i64>) -> View {
        let Roster { mut names, mut roles, .. } = Roster::default();
        for member in &self.members {
            let is_agent = member.kind == Word::Known(PrincipalKind::Agent);
            names.add(&member.handle, if is_agent { Named::Agent } else { Named::Person });
            roles.insert(member.handle.clone(), member.roles.clone());
        }
        for role in self.members.iter().flat_map(|member| &member.roles) {
            names.add(role, Named::Role);
        }
        let (me, my_handle) = (visitor.who().to_string(), self.detail.me.handle.clone());
        let glyphs = self.detail.conversation.glyphs.clone().unwrap_or_default();
        let roster = Arc::new(Roster { names, roles, glyphs });
        View { roster, me, my_handle, read, attended: HashMap::new(), begins: HashMap::new(), past: false }
    }
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    Query(stretch): Query<Stretch>,
) -> Result<Response, Fault> {
    let side = match stretch.side.as_deref() {
        Some("board") => Side::Board,
        Some("documents") => Side::Documents,
        Some(_) | None => Side::Members,
    };
    render(&app, visitor, &id, stretch, side).await
}

async fn show_thread(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, thread)): Path<(String, String)>,
    Query(stretch): Query<Stretch>,
) -> Result<Response, Fault> {
    render(&app, visitor, &id, Stretch { thread: Some(thread), ..stretch }, Side::Members).await
}

async fn show_why(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, event)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let why = why::find(&app, &visitor, &id, &event).await?;
    let stretch = Stretch { before: Some(why.seq + OPENS_WITH / 2), ..Stretch::default() };
    render(&app, visitor, &id, stretch, Side::Why(Box::new(why))).await
}

async fn render(
    app: &AppState,
    visitor: SignedIn,
    id: &str,
    stretch: Stretch,
    side: Side,
) -> Result<Response, Fault> {
    let place = Place::find(app, &visitor, id).await?;
    let thread = stretch.thread.as_deref().map(event_id).transpose()?;
    let standings = conversation::standings(app, visitor.person.id).await?;
    let read = standings.iter().find(|one| one.conversation == place.id).map(|one| one.read);
    let before = stretch.before.unwrap_or(i64::MAX);
    let filter = Filter { thread, kinds: Kinds::All };
    let mut log =
        conversation::read_events(app, visitor.who(), place.id, filter, At::Before(before), OPENS_WITH)
            .await?;
    let mut messages = log
        .items
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, event)| event.kind.known() == Some(EventKind::Message));
    if let Some((first, event)) = messages.nth(OPENS_WITH_MESSAGES - 1).filter(|(first, _)| *first > 0) {
        log.next = Some(event.sequence.to_string());
        log.items.drain(..first);
    }
    let last = log.items.last().map_or(0, |event| event.sequence);
    let mut view = place.view(&visitor, read.filter(|_| thread.is_none()));
    view.attended = attended(app, &visitor, place.id, &log.items).await?;
    view.begins = begins(app, &visitor, place.id, &log.items).await?;
    // The stretch is live if no event lies between its last one and the position it was read from.
    let live_from_end = stretch.before.is_none_or(|before| last + 1 < before);
    view.past = !live_from_end;
    let shown = items(&log.items, &view);
    let board = board::find(app, &visitor, &place).await?;
    let working = working(&shown, &board);
    let people = members::people(app, &visitor, &place.members, &working, &board.stuck()).await?;
    let documents = documents_of(app, &visitor, place.id).await?;
    let is_channel = place.detail.conversation.kind == Word::Known(ConversationKind::Channel);
    let owns = place.detail.conversation.owner.id == visitor.who().to_string();
    page(&ChannelPage {
        shell: Shell::of(app, &visitor.person, Here::Conversation(id.to_owned())).await?,
        script: assets::channel_script(),
        id: id.to_owned(),
        is_channel,
        thread: thread.map(|thread| thread.to_string()),
        items: shown,
        earlier: log.next,
        last,
        live_from_end,
        side,
        working: working.len(),
        people,
        board,
        may_add: is_channel && (owns || place.detail.me.lead),
        documents,
        approvals: waiting(app, &visitor, Some(place.id)).await?,
        back: id.to_owned(),
        signals: signals(place.detail.conversation.glyphs.as_ref()),
        place: place.detail,
    })
}

/// Returns all signals with their glyphs in this conversation.
fn signals(glyphs: Option<&Glyphs>) -> Vec<(&'static str, String)> {
    let glyphs = glyphs.cloned().unwrap_or_default();
    Signal::ALL.iter().map(|signal| (signal.as_str(), glyphs.of(*signal).to_owned())).collect()
}

/// Returns the newest documents of a conversation.
async fn documents_of(app: &App, visitor: &SignedIn, id: ConversationId) -> Result<Vec<Document>, Error> {
    let listed = Page { after: None, limit: MOST };
    Ok(conversation::list_documents(app, visitor.who(), id, listed).await?.items)
}

/// Loads the claims and other attention state of these messages.
async fn attended(
    app: &App,
    visitor: &SignedIn,
    id: ConversationId,
    events: &[EventView],
) -> Result<HashMap<String, Attended>, Error> {
    let messages = events.iter().filter(|event| event.kind.known() == Some(EventKind::Message));
    let messages = messages.filter_map(|event| EventId::parse(&event.event_id)).collect();
    conversation::attended(app, visitor.who(), id, messages).await
}

/// Loads the first messages of threads that began before this stretch, at most [`NAMED_THREADS`] of them.
async fn begins(
    app: &App,
    visitor: &SignedIn,
    id: ConversationId,
    events: &[EventView],
) -> Result<HashMap<String, String>, Error> {
    let is_here = |root: &str| events.iter().any(|event| event.event_id == root);
    let roots = events.iter().filter_map(|event| event.thread.as_deref()).filter(|root| !is_here(root));
    let roots: BTreeSet<_> = roots.filter_map(EventId::parse).collect();
    let mut begins = HashMap::new();
    for root in roots.into_iter().take(NAMED_THREADS) {
        let filter = Filter { thread: Some(root), kinds: Kinds::Only(EventKind::Message) };
        let first = conversation::read_events(app, visitor.who(), id, filter, At::After(0), 1).await?;
        if let Some(first) = first.items.into_iter().next() {
            begins.insert(first.event_id, items::excerpt(first.content.as_deref().unwrap_or_default()));
        }
    }
    Ok(begins)
}

/// Returns the agents at work, each with its current task: a running turn in this stretch, or a claim.
fn working(items: &[Item], board: &Board) -> HashMap<String, String> {
    let held = board.held.iter().filter(|row| row.is_agent).map(|row| (row.who.clone(), row.excerpt.clone()));
    let turns = items.iter().filter_map(|item| if let Item::Tools(turn) = item { Some(turn) } else { None });
    let turns = turns.filter(|turn| turn.running).map(|turn| (turn.author.clone(), turn.status.clone()));
    // An agent's own status is more precise than its claim, so it comes last and wins.
    held.chain(turns).collect()
}

/// Renders a stretch of the log, for the page's script.
async fn fragment(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    Query(stretch): Query<Stretch>,
) -> Result<Response, Fault> {
    let place = Place::find(&app, &visitor, &id).await?;
    let thread = stretch.thread.as_deref().map(event_id).transpose()?;
    let at = stretch.after.map_or(At::Before(stretch.before.unwrap_or(i64::MAX)), At::After);
    let limit = stretch.limit.unwrap_or(OPENS_WITH).clamp(1, MOST);
    let filter = Filter { thread, kinds: Kinds::All };
    let log = conversation::read_events(&app, visitor.who(), place.id, filter, at, limit).await?;
    let mut view = place.view(&visitor, None);
    view.past = stretch.before.is_some();
    view.attended = attended(&app, &visitor, place.id, &log.items).await?;
    view.begins = begins(&app, &visitor, place.id, &log.items).await?;
    let shown = items(&log.items, &view);
    let mut response = page(&ItemsPart { id: &id, items: &shown })?;
    let next = log.next.and_then(|next| next.parse().ok());
    if let Some(next) = next {
        response.headers_mut().insert("x-next", next);
    }
    Ok(response)
}

/// Posts a message, for browsers without scripts.
async fn say(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let new: NewMessage = form.body(&["content", "thread", "intent"])?;
    let back = match new.thread {
        Some(thread) => format!("/c/{id}/t/{thread}"),
        None => format!("/c/{id}"),
    };
    conversation::send(&app, visitor.who(), conversation_id(&id)?, new, Once::NO_KEY).await?;
    Ok(Redirect::to(&back).into_response())
}

/// Marks the messages on the screen as read.
async fn mark_read(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let seq = form.text("seq").parse().map_err(|_| Error::validation("seq: must be a number"))?;
    conversation::mark_read_through(&app, &visitor.person, conversation_id(&id)?, seq).await?;
    Ok(axum::http::StatusCode::NO_CONTENT.into_response())
}

/// Parses an event id from a path.
fn event(text: &str) -> Result<EventId, Error> {
    event_id(text)
}
