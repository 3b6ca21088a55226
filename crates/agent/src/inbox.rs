//! The inbox's event stream, followed across lost connections.
//!
//! The id of the last returned event is sent when reconnecting, so that no event is missed. Duplicates (of an
//! id, or of a turn of a conversation) are dropped. Only transient failures are retried. A refusal ends the
//! inbox. A takeover ends it too, because two connections that compete for one inbox would never stop.
//!
//! [`Inbox::next`] may be dropped at any await, in a `select!` for instance, without losing an event.

use crate::client::header;
use crate::reconnect::Reconnect;
use crate::seen::{REMEMBERED, Seen, turn_name};
use crate::{Client, ClientError};
use chorus_protocol::relay::{Connected, EnvelopeText, Gap, InboxMessage, Notice};
use chorus_protocol::sse::{Event, Item, Parser};
use chorus_protocol::words::EntryKind;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use url::Url;

/// A hub sends a keep-alive every 15 s. After three missing ones the connection is dead.
pub(crate) const IDLE_LIMIT: Duration = Duration::from_secs(45);

/// An item of an inbox.
#[derive(Debug)]
pub enum InboxItem {
    /// The stream is open.
    Connected {
        /// The agent that the inbox belongs to, if the hub names it.
        agent_id: Option<String>,
    },
    Message {
        /// The position in the inbox.
        id: Option<String>,
        /// The envelope and its origin.
        message: InboxMessage,
    },
    /// An event of a kind that this client does not know, or any event of a followed conversation.
    Other {
        event: String,
        /// The position in the inbox.
        id: Option<String>,
        data: String,
    },
    /// An event whose data does not fit its kind. It is skipped.
    Malformed {
        /// The position in the inbox.
        id: Option<String>,
        what: String,
    },
    /// Part of the requested history has been deleted.
    Gap(Gap),
    /// Another connection took this inbox over. This is the last item.
    Takeover,
    /// The connection is lost. The next try follows after a pause.
    Reconnecting {
        /// The pause, in milliseconds.
        in_ms: u64,
        why: ClientError,
    },
}

enum State {
    /// Not connected. The next try is not before this time of the monotonic clock, in milliseconds.
    Waiting(i64),
    Open(Box<Response>, Parser),
    Ended,
}

/// A followed inbox, or another event stream with ids.
pub struct Inbox {
    client: Client,
    /// The URL of the stream. `None` for the agent's inbox.
    url: Option<Url>,
    /// The number of entries still to return; `None` for no limit. It is sent to the hub, which keeps later
    /// entries for the next listener.
    wanted: Option<u64>,
    state: State,
    /// The event to resume after.
    last_id: Option<String>,
    /// Parsed, but not returned yet.
    pending: VecDeque<Item>,
    ids: Seen,
    turns: Seen,
    reconnect: Reconnect,
    idle_limit: Duration,
}

impl Inbox {
    pub(crate) fn new(client: Client, last_id: Option<String>) -> Self {
        Self {
            client,
            url: None,
            wanted: None,
            state: State::Waiting(i64::MIN),
            last_id,
            pending: VecDeque::new(),
            ids: Seen::new(REMEMBERED),
            turns: Seen::new(REMEMBERED),
            reconnect: Reconnect::default(),
            idle_limit: IDLE_LIMIT,
        }
    }

    /// Follows another event stream with ids.
    pub(crate) fn of_stream(client: Client, url: Url, last_id: Option<String>) -> Self {
        Self { url: Some(url), ..Self::new(client, last_id) }
    }

    /// Replaces the silence after which a connection counts as dead.
    pub fn with_idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = limit;
        self
    }

    /// Ends the inbox after this many entries.
    pub fn with_limit(mut self, entries: u64) -> Self {
        self.wanted = Some(entries);
        self.end_if_enough();
        self
    }

    /// Returns the id to resume after: that of the last returned event.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Waits for the next item. An error is final. `None` follows an error, a takeover, and the last entry of
    /// a limited inbox.
    pub async fn next(&mut self) -> Option<Result<InboxItem, ClientError>> {
        loop {
            while let Some(item) = self.pending.pop_front() {
                if let Some(item) = self.take(item) {
                    self.count(&item);
                    return Some(Ok(item));
                }
            }
            let step = match &mut self.state {
                State::Ended => return None,
                State::Waiting(until) => {
                    let pause = until.saturating_sub(self.client.environment().elapsed());
                    sleep(Duration::from_millis(u64::try_from(pause).unwrap_or(0))).await;
                    self.open().await
                }
                State::Open(response, parser) => {
                    let piece = timeout(self.idle_limit, response.chunk()).await;
                    read(piece.ok(), &self.client, parser).map(|items| self.pending.extend(items))
                }
            };
            if let Err(why) = step {
                return Some(self.lost(why));
            }
        }
    }

    async fn open(&mut self) -> Result<(), ClientError> {
        let response =
            self.client.open_stream(self.url.as_ref(), self.wanted, self.last_id.as_deref()).await?;
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("nothing");
        if !kind.starts_with("text/event-stream") {
            let (url, kind) = (response.url(), kind.escape_debug());
            let what = format!("{url} answered {kind} instead of an event stream; is this a Chorus hub?");
            return Err(ClientError::Protocol(what));
        }
        self.state = State::Open(Box::new(response), Parser::new());
        self.reconnect.opened(self.client.environment());
        Ok(())
    }

    /// Counts a returned entry, so that a new connection asks only for the remaining ones.
    fn count(&mut self, item: &InboxItem) {
        if let InboxItem::Message { .. } | InboxItem::Other { id: Some(_), .. } = item {
            self.wanted = self.wanted.map(|wanted| wanted.saturating_sub(1));
            self.end_if_enough();
        }
    }

    fn end_if_enough(&mut self) {
        if self.wanted == Some(0) {
            self.state = State::Ended;
            self.pending.clear();
        }
    }

    /// Decides whether and when to reconnect after a failure.
    fn lost(&mut self, why: ClientError) -> Result<InboxItem, ClientError> {
        let Some(in_ms) = self.reconnect.lost(&why, self.client.environment()) else {
            self.state = State::Ended;
            return Err(why);
        };
        self.state = State::Waiting(self.client.environment().elapsed().saturating_add_unsigned(in_ms));
        Ok(InboxItem::Reconnecting { in_ms, why })
    }

    /// Converts a parsed piece of the stream to an item. Returns `None` if there is nothing to report.
    fn take(&mut self, item: Item) -> Option<InboxItem> {
        let event = match item {
            Item::Comment(_) => return None,
            Item::Retry(ms) => {
                self.reconnect.first_pause(ms);
                return None;
            }
            Item::Event(event) => event,
        };
        match Notice::parse(&event.event) {
            Some(Notice::Connected) => Some(self.connected(&event.data)),
            Some(Notice::Takeover) => {
                self.state = State::Ended;
                self.pending.clear();
                Some(InboxItem::Takeover)
            }
            // After a revocation, the next request of the client is refused by the hub with the reason.
            Some(
                Notice::Gap
                | Notice::Typing
                | Notice::Growing
                | Notice::Ephemeral
                | Notice::Approvals
                | Notice::Attention
                | Notice::Revoked,
            )
            | None => self.numbered(event),
        }
    }

    fn connected(&mut self, data: &str) -> InboxItem {
        // A hub that implements only the relay sends no data here.
        let Ok(Connected { agent_id, after }) = serde_json::from_str(data) else {
            return InboxItem::Connected { agent_id: None };
        };
        // From here on, resuming no longer depends on the hub's record of delivered entries.
        if self.last_id.is_none() {
            self.last_id = after.map(|after| after.to_string());
        }
        InboxItem::Connected { agent_id: Some(agent_id).filter(|id| !id.is_empty()) }
    }

    /// Handles an event that has a position in the inbox.
    fn numbered(&mut self, Event { event, data, id }: Event) -> Option<InboxItem> {
        // An id that is no valid header value cannot be used to resume.
        let id = id.filter(|id| header("id", id).is_ok());
        if let Some(id) = &id {
            if !self.ids.is_new(id) {
                return None;
            }
            self.last_id = Some(id.clone());
            self.reconnect.delivered();
        }
        if self.url.is_some() {
            return Some(InboxItem::Other { event, id, data });
        }
        match (EntryKind::parse(&event), Notice::parse(&event)) {
            (Some(EntryKind::Message), _) => match serde_json::from_str::<InboxMessage>(&data) {
                Ok(message) => self.is_new_turn(&message).then_some(InboxItem::Message { id, message }),
                Err(error) => Some(InboxItem::Malformed { id, what: format!("not a message: {error}") }),
            },
            (_, Some(Notice::Gap)) => Some(match serde_json::from_str(&data) {
                Ok(gap) => InboxItem::Gap(gap),
                Err(error) => InboxItem::Malformed { id, what: format!("not a gap: {error}") },
            }),
            _ => Some(InboxItem::Other { event, id, data }),
        }
    }

    fn is_new_turn(&mut self, message: &InboxMessage) -> bool {
        // An envelope without both numbers is not a numbered turn, and never a duplicate.
        let envelope = EnvelopeText::read(message.envelope.get());
        let Some((conversation, number)) = envelope.turn() else { return true };
        self.turns.is_new(&turn_name(&message.sender_id, conversation, number))
    }
}

/// Parses a piece of the stream. `None` means that no piece came in time.
pub(crate) fn read(
    piece: Option<reqwest::Result<Option<bytes::Bytes>>>,
    client: &Client,
    parser: &mut Parser,
) -> Result<Vec<Item>, ClientError> {
    let piece = piece.ok_or(ClientError::Lost("the hub has gone silent"))?;
    let piece = piece.map_err(|source| client.unreachable(source))?;
    let piece = piece.ok_or(ClientError::Lost("the hub closed the stream"))?;
    parser.push(&piece).map_err(|error| ClientError::Protocol(error.to_string()))
}
