//! A conversation as it goes on: its log as a stream, and who is typing.
//!
//! A reader is a cursor, as for inboxes: it takes what follows from the frames that were just encoded, and from the store
//! when they are not there. Frames are the same for everybody, so they serve only where everybody reads everything. Only
//! messages have frames: comings, goings and changes of the conversation are always met in the store, where what this
//! reader may read is looked up again; so a member that is removed gets nothing that comes after. And whoever's key, token or
//! session is taken back gets nothing that is said after that: the commit moves `revocations`, and until it is known what
//! still holds nothing more goes out.

use super::answers::{Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use super::conversation::{conversation_id, query};
use super::read;
use crate::doors::answers::ServerSentEvent;
use crate::doors::relay::parse_place;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::Route;
use crate::routes::Routes;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use chorus_app::AppState;
use chorus_app::authenticate;
use chorus_app::caller::Shown;
use chorus_app::views::{self, event_frame};
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::relay::Code;
use chorus_protocol::sse;
use chorus_store::conversation;
use chorus_store::conversations::History;
use chorus_store::log::{self, At, Filter};
use futures_util::stream;
use serde_json::json;
use std::convert::Infallible;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use utoipa_axum::routes;

/// What one turn of a reader takes from the store.
const READ_EVENTS: i64 = 64;
const READ_BYTES: usize = 256 * 1024;
/// What one turn of a reader takes from the frames.
const FRAME_BYTES: usize = 64 * 1024;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(open)).at(Route::API, routes!(typing))
}

/// Where a client wants to go on. A browser that connects again sends the header, and the query it began with.
fn place(headers: &HeaderMap, uri: &Uri) -> Result<Option<i64>, ApiError> {
    let after = query(uri).find(|(name, value)| name == "after" && !value.is_empty());
    let after = after.map(|(_, after)| parse_place("after", &after)).transpose()?;
    // What is no text is no id either.
    let id = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let id = id.filter(|id| !id.is_empty()).map(|id| parse_place("Last-Event-ID", id)).transpose()?;
    Ok(id.or(after))
}

/// Follow a conversation
///
/// A stream of server-sent events, the same as in the log: `id` is the sequence number, `event` the kind. Send the last
/// `id` as `Last-Event-ID` to go on after it, or a sequence number as `after` to begin with; without either it begins with
/// what comes next. The first event is `connected`, with the place it begins `after`. Besides, `typing` says who is typing, and has no `id`. A comment shows every 15 s that it lives. It
/// ends when you are no member any more, and when your key, token or session is taken back.
#[utoipa::path(get, path = "/api/v1/channels/{id}/stream", operation_id = "open_stream", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("after" = Option<String>, Query, pattern = "^[0-9]{0,18}$", description = "Begin after this sequence number"),
           ("Last-Event-ID" = Option<String>, Header, nullable = false, pattern = "^[0-9]{0,18}$", description = "Go on after this event")),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn open(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (who, id) = (caller.principal()?, conversation_id(&id)?);
    let place = place(request.headers(), request.uri())?;
    let shown = request.extensions().get::<Shown>().copied();
    let shown = shown.ok_or_else(|| ApiError::internal("a caller who shows nothing"))?;
    let reader = Reader::open(app, id, who, shown, place).await?;
    let body = if request.method() == Method::HEAD {
        Body::empty()
    } else {
        Body::from_stream(stream::unfold(reader, |mut reader| async move {
            let bytes = reader.next().await?;
            Some((Ok::<_, Infallible>(bytes), reader))
        }))
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that buffer would hold events back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((StatusCode::OK, headers, body).into_response())
}

/// One connection's way through a conversation.
struct Reader {
    app: AppState,
    id: ConversationId,
    who: Principal,
    shown: Shown,
    head: watch::Receiver<i64>,
    signs: broadcast::Receiver<Bytes>,
    /// Moves when something that lets the caller in was taken back.
    revocations: watch::Receiver<i64>,
    /// The last event that was encoded for the connection, or that it may not read.
    cursor: i64,
    /// Up to here it is read from the store: frames know nothing of what was changed since.
    begun_at: i64,
    /// Whether everybody reads everything here.
    shared: bool,
    /// When it is looked whether the caller is still who it was.
    check_at: Instant,
    /// What is said before anything else: where it begins.
    greeting: Option<Bytes>,
}

impl Reader {
    async fn open(
        app: AppState,
        id: ConversationId,
        who: Principal,
        shown: Shown,
        place: Option<i64>,
    ) -> Result<Self, ApiError> {
        // Followed before the store is asked, so that no commit in between goes unnoticed.
        let ((head, signs), revocations) = (app.live.follow(id.0), app.revocations(who));
        // What was taken back before this was followed is seen here.
        authenticate::look_up(&app, &shown).await?;
        let begun = read(&app, move |tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            Ok((conversation.history, tx.head(id.0)?))
        });
        let (history, end) = begun.await?;
        // A place beyond the end is from another life of the database: it says nothing here.
        let cursor = place.filter(|place| *place <= end).unwrap_or(end);
        let check_at = Instant::now() + app.config.times.ping;
        let shared = history == History::All;
        let connected = json!({"channel": id.to_string(), "after": cursor}).to_string();
        let greeting = Some(sse::encode("connected", None, &connected).into());
        Ok(Self {
            app,
            id,
            who,
            shown,
            head,
            signs,
            revocations,
            cursor,
            begun_at: end,
            shared,
            check_at,
            greeting,
        })
    }

    /// The next bytes for the connection; none at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            // However much there is to say, it is said to members with valid keys only.
            if self.revocations.has_changed().unwrap_or(true) {
                self.revocations.mark_unchanged();
                // Whoever is not known for certain to be still let in connects again.
                authenticate::look_up(&self.app, &self.shown).await.ok()?;
            }
            if Instant::now() >= self.check_at {
                self.check().await?;
            }
            if self.shared && self.cursor >= self.begun_at {
                let frames = self.app.live.frames.after(self.id.0, self.cursor, FRAME_BYTES);
                if let Some((bytes, last)) = frames {
                    self.cursor = last;
                    return Some(bytes);
                }
            }
            if self.begun_at.max(*self.head.borrow_and_update()) > self.cursor {
                match self.read_store().await {
                    Ok(bytes) if bytes.is_empty() => continue,
                    Ok(bytes) => return Some(bytes),
                    // It is a stranger now.
                    Err(error) if error.code == Code::NotFound => return None,
                    Err(error) => {
                        // The client connects again and goes on where it was.
                        tracing::warn!(error = error.message, "a conversation could not be followed");
                        return None;
                    }
                }
            }
            tokio::select! {
                biased;
                () = self.app.stopping.cancelled() => return None,
                changed = self.revocations.changed() => {
                    changed.ok()?;
                    self.revocations.mark_changed();
                }
                moved = self.head.changed() => moved.ok()?,
                sign = self.signs.recv() => match sign {
                    Ok(sign) => return Some(sign),
                    // Some passed by unseen.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
                () = tokio::time::sleep_until(self.check_at) => {
                    self.check().await?;
                    return Some(Bytes::from_static(sse::PING));
                }
            }
        }
    }

    /// Whether the caller's key is still good and it is still a member; nothing if not.
    async fn check(&mut self) -> Option<()> {
        self.check_at = Instant::now() + self.app.config.times.ping;
        let caller = authenticate::look_up(&self.app, &self.shown).await;
        match caller {
            Ok(caller) if caller.principal().ok() != Some(self.who) => return None,
            Err(error) if matches!(error.code, Code::Unauthorized | Code::Forbidden) => return None,
            // That the store is busy says nothing of the caller.
            _ => {}
        }
        let (id, who) = (self.id, self.who);
        match read(&self.app, move |tx| Ok(conversation::as_reader(tx, id, who).map(drop)?)).await {
            Err(error) if error.code == Code::NotFound => None,
            _ => Some(()),
        }
    }

    async fn read_store(&mut self) -> Result<Bytes, ApiError> {
        let (id, who, at) = (self.id, self.who, At::After(self.cursor));
        let page = read(&self.app, move |tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            let page = log::page(tx, &conversation, who, &Filter::default(), at, READ_EVENTS, READ_BYTES)?;
            Ok((conversation.history, page, tx.head(id.0)?))
        });
        let (history, page, head) = page.await?;
        self.shared = history == History::All;
        // What lies between the last one it may read and the end is not for it.
        let last = page.events.last().filter(|_| page.more).map_or(head, |last| last.seq);
        self.cursor = last.max(self.cursor);
        let mut bytes = BytesMut::new();
        for view in views::events(&page.events, &page.standing.changes, &page.standing.replies) {
            bytes.extend_from_slice(&event_frame(&view).map_err(ApiError::internal)?);
        }
        Ok(bytes.freeze())
    }
}

/// Say that you are typing
///
/// Those who follow the conversation just then see it; it is kept nowhere.
#[utoipa::path(post, path = "/api/v1/channels/{id}/typing", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of")),
    responses((status = 204, description = "Said"),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn typing(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (who, id) = (caller.principal()?, conversation_id(&id)?);
    let (_, me) = read(&app, move |tx| Ok(conversation::as_reader(tx, id, who)?)).await?;
    let sign = sse::encode("typing", None, &json!({"handle": me.handle}).to_string());
    app.live.show(id.0, sign.into());
    Ok(StatusCode::NO_CONTENT)
}
