//! Searching messages by words, and jumping to a conversation or an agent.

use crate::extract::Query;
use crate::page::{Fault, page, query};
use crate::pages::channel::items::beginning;
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::conversation::{Question, conversation_id, find_messages, look_at};
use chorus_node::AppState;
use chorus_protocol::ids::EventId;
use serde::Deserialize;

const LIMIT: i64 = 20;
/// The longest search text, in characters.
const MAX_QUESTION: usize = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/search", get(show))
}

#[derive(Deserialize)]
struct Asked {
    q: Option<String>,
    /// The only conversation to search, by id.
    #[serde(rename = "in")]
    within: Option<String>,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    shell: Shell,
    q: String,
    /// The only conversation that is searched, by id and name.
    within: Option<(String, String)>,
    found: Vec<Found>,
    next: Option<String>,
}

struct Found {
    channel: String,
    name: String,
    event: String,
    handle: String,
    at: Moment,
    text: String,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let q: String = asked.q.unwrap_or_default().trim().chars().take(MAX_QUESTION).collect();
    let (mut found, mut next) = (vec![], None);
    let within = asked.within.as_deref().filter(|id| !id.is_empty()).map(conversation_id).transpose()?;
    let place = match within {
        Some(id) => Some(look_at(&app, visitor.who(), id).await?.conversation),
        None => None,
    };
    let place = place.map(|place| (place.id, place.name));
    if !q.is_empty() {
        let before = asked.after.as_deref().and_then(EventId::parse);
        let question = Question { text: q.clone(), within, before, limit: LIMIT };
        let answer = find_messages(&app, visitor.context.source(), visitor.who(), question).await?;
        let here = place.as_ref().map_or("", |(id, _)| id);
        next = answer.next.map(|next| query(&[("q", &q), ("in", here), ("after", &next)]));
        found.extend(answer.items.into_iter().map(|one| Found {
            channel: one.channel.id,
            name: one.channel.name,
            event: one.event.event_id,
            handle: one.event.author.handle.unwrap_or_default(),
            at: Moment::new(&one.event.created_at),
            text: beginning(&one.event.content.unwrap_or_default(), 300),
        }));
    }
    let shell = Shell::of(&app, &visitor.person, Here::Search).await?;
    page(&SearchPage { shell, q, within: place, found, next })
}
