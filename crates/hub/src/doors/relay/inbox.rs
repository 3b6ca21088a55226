//! The inbox: a stream that begins with what waits, and the same history by cursor.
//!
//! A reader is a cursor. It takes what follows from the frames that were just encoded, and from the store when they
//! are not there; it holds no queue, so a slow client costs nothing but its own delay.

use super::success;
use super::{PageQuery, parse_place};
use crate::credentials::bearer;
use crate::doors::answers::{Overloaded, ServerSentEvent, TooFast};
use crate::error::ApiError;
use crate::extract::Agent;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use chorus_app::Error;
use chorus_app::authenticate::is_key_of;
use chorus_app::caller::{Identity, disabled, key_hash};
use chorus_app::delivery::bridge::{self, Content};
use chorus_app::delivery::live::{End, Inbox};
use chorus_app::delivery::reconcile;
use chorus_app::sealing;
use chorus_app::{App, AppState};
use chorus_protocol::page;
use chorus_protocol::relay::{Connected, Delivery, Failure, Gap, InboxMessage, Page, StoredMessage, Success};
use chorus_protocol::sse;
use chorus_protocol::time::rfc3339;
use chorus_store::deliveries::{self, Entry};
use chorus_store::directory::{self as agents, KeyHash};
use chorus_store::{StoreError, Tx, inboxes};
use futures_util::stream;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use uuid::Uuid;

/// What one turn of a reader takes from the store.
const READ_ENTRIES: i64 = 64;
const READ_BYTES: usize = 256 * 1024;
/// What one turn of a reader takes from the frames.
const FRAME_BYTES: usize = 64 * 1024;

/// Open your inbox
///
/// A stream of server-sent events: `connected`, then what waits, in order, then what comes. Each `message` has an
/// `id`; send the last one as `Last-Event-ID` to go on after it. Without it the stream begins after what any
/// connection of yours was handed before. One connection at a time: a second one takes over from the first, which
/// gets the event `takeover`. Other events: `gap` (history you ask for is gone), and a comment every 15 s.
#[utoipa::path(get, path = "/agent/inbox", operation_id = "open_inbox", tag = "relay", security(("key" = [])),
    params(("Last-Event-ID" = Option<String>, Header, nullable = false, pattern = "^[0-9]{0,18}$", description = "Go on after this message")),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn open(
    State(app): State<AppState>,
    Agent(identity): Agent,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = bearer(&headers)?.map(key_hash).unwrap_or_default();
    // What is no text is no id either.
    let place = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let place = place
        .filter(|place| !place.is_empty())
        .map(|place| parse_place("Last-Event-ID", place))
        .transpose()?;
    let body = if method == Method::HEAD {
        // To look at the headers must not take the inbox from whoever reads it.
        Body::empty()
    } else {
        let reader = Reader::open(app, identity, key, place).await?;
        Body::from_stream(stream::unfold(reader, |mut reader| async move {
            let bytes = reader.next().await?;
            Some((Ok::<_, Infallible>(bytes), reader))
        }))
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that buffer would hold messages back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((StatusCode::OK, headers, body).into_response())
}

/// One connection's way through an inbox.
struct Reader {
    app: AppState,
    identity: Identity,
    inbox: Arc<Inbox>,
    /// What it was opened with.
    key: KeyHash,
    /// The last entry that was encoded for the connection.
    cursor: i64,
    /// Frames to be sent before anything else.
    first: VecDeque<Bytes>,
    ended: bool,
}

impl Reader {
    async fn open(
        app: AppState,
        identity: Identity,
        key: KeyHash,
        place: Option<i64>,
    ) -> Result<Self, ApiError> {
        let session = app.environment.uuid_v4();
        // Registered here before it is in the database, so that no commit in between goes unnoticed.
        let (inbox, former) = app.live.open(identity.id, session);
        let mut reader = Self { app, identity, inbox, key, cursor: 0, first: VecDeque::new(), ended: false };
        reader.begin(session, former, place).await?;
        Ok(reader)
    }

    async fn begin(
        &mut self,
        session: Uuid,
        former: Option<Arc<Inbox>>,
        place: Option<i64>,
    ) -> Result<(), ApiError> {
        let (agent, key, node) = (self.identity.id, self.key, self.app.config.node);
        let until = self.app.now() + self.app.config.presence.as_millis() as i64;
        let open = move |tx: &mut dyn Tx| {
            // The row is a lock as well: a key that is replaced meanwhile, on any node, ends this session again.
            let opened = inboxes::open(tx, agent, session, node, until)?;
            let holder = agents::by_key(tx, &key)?.filter(|holder| holder.id == agent);
            if holder.as_ref().is_some_and(|holder| holder.disabled_at.is_some()) {
                return Err(disabled("agent"));
            }
            opened
                .filter(|_| holder.is_some())
                .ok_or_else(|| Error::unauthorized("this key is not valid (any more)"))
        };
        let opened = self.app.store.write(open).await?;
        self.inbox.set_stored();
        self.inbox.raise(opened.head);

        // What the former connection was handed may not be written yet.
        let handed = opened.handed_through.max(former.map_or(0, |former| former.handed()));
        // A place beyond the end is from another life of the database: it says nothing here.
        self.cursor = place.filter(|place| *place <= opened.head).unwrap_or(handed);
        let connected = Connected { agent_id: self.app.address(&self.identity.name), after: self.cursor };
        self.first.push_back(event("connected", None, &connected)?);
        if self.cursor + 1 < opened.oldest {
            let gap = Gap { after: self.cursor, oldest: opened.oldest };
            self.first.push_back(event("gap", None, &gap)?);
            self.cursor = opened.oldest - 1;
        }
        Ok(())
    }

    /// The next bytes for the connection; none at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.first.pop_front() {
            return Some(frame);
        }
        // The connection asks for more, so it took what it was given.
        self.inbox.hand(self.cursor);
        while !self.ended {
            if self.inbox.is_doubted() {
                match is_key_of(&self.app, self.key, self.inbox.agent).await {
                    Ok(true) => {}
                    Ok(false) => self.inbox.finish(End::Revoked),
                    // The client connects again, and then it is known.
                    Err(_) => return None,
                }
            }
            if let Some(end) = self.inbox.ended() {
                self.ended = true;
                return Some(farewell(self.reason(end).await));
            }
            if let Some((bytes, last)) =
                self.app.live.frames.after(self.inbox.agent.0, self.cursor, FRAME_BYTES)
            {
                self.cursor = last;
                return Some(bytes);
            }
            if self.inbox.head() > self.cursor {
                match self.read_store().await {
                    Ok(bytes) if bytes.is_empty() => continue,
                    Ok(bytes) => return Some(bytes),
                    Err(error) => {
                        // The client reconnects and goes on where it was.
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "an inbox could not be read"
                        );
                        return None;
                    }
                }
            }
            tokio::select! {
                () = self.inbox.changed() => {}
                () = tokio::time::sleep(self.app.config.times.ping) => return Some(Bytes::from_static(sse::PING)),
                () = self.app.stopping.cancelled() => return None,
            }
        }
        None
    }

    /// Whoever takes a key back ends the session too, and another node may see that it is gone before it hears of the key.
    async fn reason(&self, end: End) -> End {
        let taken_back = end == End::TakenOver
            && matches!(is_key_of(&self.app, self.key, self.inbox.agent).await, Ok(false));
        if taken_back { End::Revoked } else { end }
    }

    async fn read_store(&mut self) -> Result<Bytes, StoreError> {
        let (agent, after, head) = (self.inbox.agent, self.cursor, self.inbox.head());
        let read = move |tx: &mut dyn Tx| {
            let entries = deliveries::page(tx, agent, after, READ_ENTRIES, READ_BYTES)?;
            entries.into_iter().map(|entry| Content::read(tx, agent, entry)).collect::<Result<Vec<_>, _>>()
        };
        let entries = self.app.store.read::<_, StoreError, _>(read).await?;
        let mut bytes = BytesMut::new();
        // Nothing between here and the head: it was removed as too old.
        self.cursor = entries.last().map_or(head, |(entry, _)| entry.seq);
        for (entry, content) in entries.into_iter().filter(|(entry, _)| entry.streamed) {
            let (seq, kind) = (entry.seq, entry.kind);
            let data = match content {
                Content::Envelope => serde_json::to_string(&inbox_message(&self.app, &self.identity, entry)?),
                Content::Chat(chat) => serde_json::to_string(&chat.data(&self.app)),
                Content::Foreign => bridge::foreign_data(&self.app, &entry),
            };
            let data = data.map_err(|error| StoreError::Unexpected(error.into()))?;
            bytes.extend_from_slice(&sse::encode(kind.as_str(), Some(seq), &data));
        }
        Ok(bytes.freeze())
    }
}

impl Drop for Reader {
    /// The connection ended: what it was handed is written, the inbox closed, unless another has it already.
    fn drop(&mut self) {
        let (app, inbox) = (Arc::clone(&self.app), Arc::clone(&self.inbox));
        self.app.tasks.spawn(async move {
            let handed = reconcile::record_handed(&app, vec![Arc::clone(&inbox)]).await;
            let (agent, session) = (inbox.agent, inbox.session);
            let now = app.now();
            let close = move |tx: &mut dyn Tx| inboxes::close(tx, agent, session, now);
            let closed = handed.and(app.store.write::<_, StoreError, _>(close).await);
            if let Err(error) = closed {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "an inbox was not closed in the store; its lease ends by itself"
                );
            }
            // Only now: a connection that comes meanwhile learns from it what was handed.
            app.live.close(&inbox);
        });
    }
}

fn event<T: serde::Serialize>(name: &str, id: Option<i64>, data: &T) -> Result<Bytes, ApiError> {
    let data = serde_json::to_string(data).map_err(ApiError::internal)?;
    Ok(sse::encode(name, id, &data).into())
}

fn farewell(end: End) -> Bytes {
    match end {
        End::TakenOver => {
            sse::encode("takeover", None, r#"{"reason":"another connection opened this inbox"}"#).into()
        }
        End::Revoked => Bytes::from_static(b": closed: this key is not valid any more\n\n"),
    }
}

fn inbox_message(app: &App, receiver: &Identity, entry: Entry) -> Result<InboxMessage, StoreError> {
    Ok(InboxMessage {
        trace_id: entry.trace,
        sender_id: app.address(&entry.author.unwrap_or_default()),
        receiver_id: app.address(&receiver.name),
        created_at: rfc3339(entry.created_at),
        // Its sender still waits for what the receiver has to say.
        reply_stream: (entry.state == Delivery::Sending).then(|| app.reply_stream(receiver.id, entry.seq)),
        envelope: raw(entry.body)?,
    })
}

fn raw_of(data: &impl serde::Serialize) -> Result<Box<RawValue>, StoreError> {
    serde_json::value::to_raw_value(data).map_err(|error| StoreError::Unexpected(error.into()))
}

fn raw(body: String) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(body).map_err(|error| StoreError::Unexpected(error.into()))
}

/// Read your inbox by cursor
///
/// All that was sent to you, by whichever way, in order. An SSE `id` is a valid `after`.
#[utoipa::path(get, path = "/agent/messages", tag = "relay", security(("key" = [])),
    params(("after" = Option<String>, Query, pattern = "^[0-9]{0,18}$", description = "`next` of the page before, or an SSE id"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Success<Page>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn history(
    State(app): State<AppState>,
    Agent(identity): Agent,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = PageQuery::parse(&uri)?;
    let after = query.after.map_or(Ok(0), |after| parse_place("after", &after))?;
    let (agent, limit, max_bytes) = (identity.id, query.limit, app.config.quotas.page_bytes);
    let read = move |tx: &mut dyn Tx| {
        let entries = deliveries::page(tx, agent, after, limit, max_bytes as usize)?;
        let entries: Vec<_> =
            entries.into_iter().map(|entry| Content::read(tx, agent, entry)).collect::<Result<_, _>>()?;
        Ok((entries, inboxes::handed_through(tx, agent)?, tx.head(agent.0)?))
    };
    let (entries, handed, head) = app.store.read::<_, StoreError, _>(read).await?;
    let mut next = entries.last().filter(|(last, _)| last.seq < head).map(|(last, _)| last.seq.to_string());
    let messages = entries.into_iter().map(|(entry, content)| {
        // What waited and was handed since has been delivered.
        let delivery = match entry.state {
            Delivery::Queued if entry.seq <= handed => Delivery::DeliveredSse,
            state => state,
        };
        Ok(StoredMessage {
            id: entry.seq.to_string(),
            trace_id: entry.trace,
            sender_id: entry.author.as_deref().map(|name| app.address(name)),
            receiver_id: app.address(&identity.name),
            kind: entry.kind.as_str().into(),
            data: match &content {
                Content::Envelope => None,
                Content::Chat(chat) => Some(raw_of(&chat.data(&app))?),
                Content::Foreign => {
                    Some(raw(sealing::open_post(&app.config.master_key, entry.event, &entry.body))?)
                }
            },
            envelope: matches!(content, Content::Envelope).then(|| raw(entry.body)).transpose()?,
            delivery,
            created_at: rfc3339(entry.created_at),
        })
    });
    let mut messages = messages.collect::<Result<_, StoreError>>()?;
    if page::cut(&mut messages, max_bytes) {
        next = messages.last().map(|last: &StoredMessage| last.id.clone());
    }
    Ok(success(&app, StatusCode::OK, Page { messages, next }))
}
