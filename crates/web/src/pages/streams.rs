//! Work streams: the list of those in a person's channels, and the page of one with its channels, owners,
//! claims and last messages.
//!
//! Every change is a form that works without a script. The acts check permissions; the page offers only
//! permitted changes.

use super::channel::items::excerpt;
use crate::extract::{Path, Query};
use crate::face::Face;
use crate::form::{Form, body};
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::conversation::FoundView;
use chorus_app::work_streams::{self, Claimed, Closer, stream_id};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::streams::{NewStream, StreamChange, StreamMemberView, StreamPage, StreamView};
use chorus_protocol::ids::StreamId;
use chorus_protocol::words::{PrincipalKind, Word};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The most streams on a page.
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/streams", get(list))
        .route("/streams/new", get(form).post(make))
        .route("/streams/{id}", get(show).post(change))
        .route("/streams/{id}/{act}", post(act))
}

/// A channel, by id and name.
struct Place {
    id: String,
    name: String,
    /// True if the stream runs in this channel.
    chosen: bool,
}

struct Part {
    face: Face,
    handle: String,
    /// The link to the agent's card; `None` for a person.
    agent: Option<String>,
}

/// A recent message of the stream.
struct Latest {
    channel: String,
    name: String,
    event: String,
    handle: String,
    at: Moment,
    text: String,
}

struct Taken {
    said: Latest,
    holder: String,
    until: Moment,
}

struct Row {
    id: String,
    name: String,
    lead: Option<Part>,
    owners: Vec<Part>,
    others: usize,
    places: Vec<Place>,
}

#[derive(Template)]
#[template(path = "streams.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<Row>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "stream_new.html")]
struct NewPage {
    shell: Shell,
    places: Vec<Place>,
    name: String,
    owners: String,
    participants: String,
    lead: String,
}

#[derive(Template)]
#[template(path = "stream.html")]
struct OnePage {
    shell: Shell,
    id: String,
    name: String,
    closed: Option<Moment>,
    /// The stream's channels among the visitor's.
    goes_on: Vec<Place>,
    lead: Option<Part>,
    leads: String,
    owners: Vec<Part>,
    others: Vec<Part>,
    claimed: Vec<Taken>,
    latest: Vec<Latest>,
    may_change: bool,
    takes_part: bool,
    /// All channels that the stream could run in.
    places: Vec<Place>,
    participants: String,
}

/// Returns the visitor's channels, with the chosen ones marked.
fn places(shell: &Shell, chosen: &[String]) -> Vec<Place> {
    let place = |entry: &crate::shell::Entry| Place {
        id: entry.id.clone(),
        name: entry.name.clone(),
        chosen: chosen.contains(&entry.id),
    };
    shell.channels.iter().map(place).collect()
}

fn part(member: &StreamMemberView) -> Part {
    let is_agent = member.kind == Word::Known(PrincipalKind::Agent);
    Part {
        face: Face::of(is_agent, &member.id, &member.handle).small(),
        handle: member.handle.clone(),
        agent: is_agent.then(|| member.id.clone()),
    }
}

fn said(FoundView { channel, event }: FoundView) -> Latest {
    Latest {
        channel: channel.id,
        name: channel.name,
        event: event.event_id,
        handle: event.author.handle.unwrap_or_default(),
        at: Moment::new(&event.created_at),
        text: match event.content {
            Some(content) => excerpt(&content),
            None => "It was taken back.".into(),
        },
    }
}

fn taken(Claimed { message, holder, until }: Claimed) -> Taken {
    let holder = holder.unwrap_or_else(|| "somebody who has left".into());
    Taken { said: said(message), holder, until: Moment::new(&until) }
}

fn handles(members: &[StreamMemberView]) -> String {
    members.iter().map(|member| &*member.handle).collect::<Vec<_>>().join(" ")
}

#[derive(Deserialize)]
struct Wanted {
    after: Option<String>,
}

async fn list(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(Wanted { after }): Query<Wanted>,
) -> Result<Response, Fault> {
    let after = after.as_deref().and_then(StreamId::parse);
    let found = work_streams::list_streams(&app, visitor.who(), StreamPage { after, limit: LIMIT }).await?;
    let shell = Shell::of(&app, &visitor.person, Here::Streams).await?;
    let row = |stream: StreamView| Row {
        places: places(&shell, &stream.conversations).into_iter().filter(|place| place.chosen).collect(),
        lead: stream.lead.as_ref().map(part),
        owners: stream.owners.iter().map(part).collect(),
        others: stream.participants.len(),
        id: stream.id,
        name: stream.name,
    };
    let rows = found.items.into_iter().map(row).collect();
    page(&ListPage { rows, next: found.next, shell })
}

async fn form(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    let shell = Shell::of(&app, &visitor.person, Here::Streams).await?;
    let (name, owners, participants, lead) = Default::default();
    page(&NewPage { places: places(&shell, &[]), shell, name, owners, participants, lead })
}

/// Splits a list of handles at spaces and commas, and drops a leading `@`.
fn words(text: &str) -> Vec<&str> {
    text.split([',', ' ', '\n'])
        .map(|word| word.trim().trim_start_matches('@'))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Builds the API body from a form. Channels and owners that the form leaves out stay unchanged.
fn typed(form: &Form) -> Value {
    let mut said = Map::new();
    said.insert("name".into(), json!(form.text("name")));
    let (places, owners) = (form.all("conversations"), form.text("owners"));
    if !places.is_empty() {
        said.insert("conversations".into(), json!(places));
    }
    if !words(&owners).is_empty() {
        said.insert("owners".into(), json!(words(&owners)));
    }
    said.insert("participants".into(), json!(words(&form.text("participants"))));
    if let Some(lead) = words(&form.text("lead")).first() {
        said.insert("lead".into(), json!(lead));
    }
    Value::Object(said)
}

async fn make(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let (new, who): (NewStream, _) = (body(typed(&form))?, visitor.who());
    let made = work_streams::make_stream(&app, who, visitor.context, new, Once::NO_KEY).await?.result;
    Ok(to(&made.id))
}

fn to(id: &str) -> Response {
    Redirect::to(&format!("/streams/{id}")).into_response()
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let closer = work_streams::look_closer(&app, visitor.who(), stream_id(&id)?).await?;
    let Closer { stream, may_change, takes_part, latest, claimed } = closer;
    let shell = Shell::of(&app, &visitor.person, Here::Streams).await?;
    page(&OnePage {
        goes_on: places(&shell, &stream.conversations).into_iter().filter(|place| place.chosen).collect(),
        places: places(&shell, &stream.conversations),
        closed: stream.closed_at.as_deref().map(Moment::new),
        lead: stream.lead.as_ref().map(part),
        leads: stream.lead.as_ref().map(|lead| lead.handle.clone()).unwrap_or_default(),
        owners: stream.owners.iter().map(part).collect(),
        others: stream.participants.iter().map(part).collect(),
        participants: handles(&stream.participants),
        claimed: claimed.into_iter().map(taken).collect(),
        latest: latest.into_iter().map(said).collect(),
        id: stream.id,
        name: stream.name,
        may_change,
        takes_part,
        shell,
    })
}

impl OnePage {
    /// Returns the handles of the owners, for the form.
    fn owning(&self) -> String {
        self.owners.iter().map(|owner| &*owner.handle).collect::<Vec<_>>().join(" ")
    }
}

async fn change(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let (change, who): (StreamChange, _) = (body(typed(&form))?, visitor.who());
    let stream = stream_id(&id)?;
    work_streams::change_stream(&app, who, visitor.context, stream, change, Once::NO_KEY).await?;
    Ok(to(&stream.to_string()))
}

/// Joins, leaves or closes the stream.
async fn act(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, act)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let (who, stream, once) = (visitor.who(), stream_id(&id)?, Once::NO_KEY);
    match &*act {
        "join" => work_streams::join_stream(&app, who, visitor.context, stream, once).await?,
        "leave" => work_streams::leave_stream(&app, who, visitor.context, stream, once).await?,
        "close" => work_streams::close_stream(&app, who, visitor.context, stream, once).await?,
        _ => return Err(Error::not_found("act").into()),
    };
    Ok(to(&stream.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_as_people_write_them() {
        assert_eq!(words(" @ada, bob\n\n@cara "), ["ada", "bob", "cara"]);
        assert_eq!(words(" , @ "), [] as [&str; 0]);
    }
}
