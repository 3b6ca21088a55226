//! Live updates of a conversation. A message is sent as markup. For any other event only the affected message
//! is named, and the script reloads it.

use super::Place;
use super::items::{Item, View, items};
use super::roster::{Roster, Rosters};
use crate::extract::{Path, Query};
use crate::page::Fault;
use crate::visitor::SignedIn;
use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use chorus_app::conversation::Follower;
use chorus_app::views::EventView;
use chorus_node::caller::Shown;
use chorus_node::{AppState, Error};
use chorus_protocol::sse;
use chorus_protocol::words::EventKind;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/c/{id}/live", get(open)).layer(Extension(Rosters::default()))
}

#[derive(Deserialize)]
struct Begin {
    after: Option<i64>,
}

/// One connected viewer. There may be thousands for hours, mostly idle. The data that all of them have in
/// common is shared (see [`roster`](super::roster)), and buffers are made only while something is read.
struct Watching {
    follower: Follower,
    roster: Arc<Roster>,
    handle: Box<str>,
}

async fn open(
    State(app): State<AppState>,
    Extension(rosters): Extension<Rosters>,
    visitor: SignedIn,
    Path(id): Path<String>,
    Query(Begin { after }): Query<Begin>,
    request: Request,
) -> Result<Response, Fault> {
    let place = Place::find(&app, &visitor, &id).await?;
    let resumed = request.headers().get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let shown = request.extensions().get::<Shown>().copied();
    let shown = shown.ok_or_else(|| Error::internal("a caller who shows nothing"))?;
    let View { roster, my_handle, .. } = place.view(&visitor, None);
    let roster = rosters.share(place.id, roster);
    let follower = Follower::open(app, place.id, visitor.who(), shown, resumed.or(after)).await?;
    // A box, because the stream would otherwise reserve the space twice: idle and in flight.
    let watching = Box::new(Watching { follower, roster, handle: my_handle.into() });
    let body = stream::unfold(watching, |mut watching| async move {
        let bytes = watching.follower.next().await?;
        let told = watching.tell(&bytes)?;
        Some((Ok::<_, Infallible>(told), watching))
    });
    Ok((sse::STREAM_HEADERS, Body::from_stream(body)).into_response())
}

impl Watching {
    /// Converts the follower's output for the page. Returns `None` for unreadable output; the page then
    /// reconnects.
    fn tell(&self, bytes: &[u8]) -> Option<Bytes> {
        let mut told = vec![];
        // Each chunk of a follower holds whole events.
        for item in sse::Parser::new().push(bytes).ok()? {
            match item {
                sse::Item::Event(event) => told.extend(self.event(&event)?),
                _ => told.extend_from_slice(sse::PING),
            }
        }
        Some(told.into())
    }

    /// Returns the members and the viewer, for rendering.
    fn view(&self) -> View {
        let (me, my_handle) = (self.follower.who().to_string(), self.handle.to_string());
        let roster = Arc::clone(&self.roster);
        View {
            roster,
            me,
            my_handle,
            read: None,
            attended: HashMap::new(),
            begins: HashMap::new(),
            past: false,
        }
    }

    fn event(&self, event: &sse::Event) -> Option<Vec<u8>> {
        if event.id.is_none() {
            return Some(sse::encode(&event.event, None, &event.data));
        }
        let view: EventView = serde_json::from_str(&event.data).ok()?;
        let seq = Some(view.sequence);
        if !is_shown_by_itself(view.kind.known()) {
            let data = json!({"kind": view.kind, "target": view.target, "author": view.author.id});
            return Some(sse::encode("touch", seq, &data.to_string()));
        }
        let mut shown = items(std::slice::from_ref(&view), &self.view());
        shown.retain(|item| !matches!(item, Item::Day(_)));
        let html = super::ItemsPart { id: &self.follower.conversation().to_string(), items: &shown }
            .render()
            .ok()?;
        let data =
            json!({"html": html, "kind": view.kind, "thread": view.thread, "day": view.created_at.get(..10)});
        Some(sse::encode("item", seq, &data.to_string()))
    }
}

/// Returns whether an event is an item of its own, and not a change of another one.
fn is_shown_by_itself(kind: Option<EventKind>) -> bool {
    use EventKind::{Artifact, Change, Join, Leave, Message, Stop};
    matches!(kind, Some(Message | Join | Leave | Change | Artifact | Stop))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A viewer costs no more memory than a waiting inbox reader, apart from its connection.
    #[test]
    fn who_watches_is_small() {
        let own = size_of::<Watching>() - size_of::<Follower>();
        assert!(own <= 24, "{own}");
    }
}
