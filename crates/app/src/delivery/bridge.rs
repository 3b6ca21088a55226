//! Renders an event for each route: an inbox, a webhook or a connection string.
//!
//! The functions are pure except for reads in the given transaction. The route is chosen elsewhere.

use super::agreement::Agreement;
use super::service::{callback_url, service_name};
use super::{c2a, job, job_result};
use crate::views::{self, EventView};
use chorus_attention::capabilities::Capabilities;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Identity;
use chorus_node::secrets::sealed_posts;
use chorus_node::secrets::{MCP_LIFE_MS, McpToken};
use chorus_node::transport::dialect::Dialect;
use chorus_protocol::attention::Attention;
use chorus_protocol::channel::{Channel, McpServer, Message, Post};
use chorus_protocol::ids::{AgentId, DeliveryId, TraceId};
use chorus_protocol::inbox::Chat;
use chorus_protocol::relay::InboxMessage;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{DeliveryState, EntryKind, EventKind};
use chorus_store::chats::{self, ChatEntry};
use chorus_store::conversations::Conversation;
use chorus_store::deliveries::{self, Entry};
use chorus_store::relay::Pending;
use chorus_store::{StoreError, Tx, directory};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The error for a connection string that was sealed with a former master key.
pub const UNREADABLE_CONNECTION: &str =
    "the connection string cannot be read with this hub's master key; set it again";

/// The content of an inbox entry.
pub enum Content {
    /// An envelope, stored in the entry itself.
    Envelope,
    /// An event of a conversation.
    Chat(Box<StoredChat>),
    /// A channel message of another service, sealed, stored in the entry itself.
    Foreign,
    /// A job, stored in the entry itself.
    Job {
        /// The epoch of its agent's keys.
        epoch: i64,
        /// True if the job ended before it was handed out.
        has_ended: bool,
    },
    /// A question for a quote, stored in the entry itself.
    Quote,
    /// A digest of a channel that the agent leads, stored in the entry itself.
    Digest,
    /// The result of a job that the agent hired for, or `None` if it is no longer stored.
    Result(Option<Box<RawValue>>),
}

impl Content {
    /// Loads the content of a page of an agent's inbox, for all entries together. Returns those entries that
    /// fit into about `max_bytes`, and at least one.
    pub fn read(
        tx: &mut dyn Tx,
        agent: AgentId,
        mut entries: Vec<Entry>,
        max_bytes: usize,
    ) -> Result<Vec<(Entry, Self)>, StoreError> {
        let chats = chats::of_page(tx, agent, &mut entries, max_bytes)?;
        let mut chats: HashMap<i64, ChatEntry> = chats.into_iter().map(|chat| (chat.seq, chat)).collect();
        let content = |entry: Entry| {
            let content = match entry.kind {
                EntryKind::Chat => {
                    let missing = || StoreError::Unexpected("a delivery without its conversation".into());
                    let chat = chats.remove(&entry.seq).ok_or_else(missing)?;
                    Self::Chat(Box::new(StoredChat { agent, chat }))
                }
                EntryKind::Channel => Self::Foreign,
                EntryKind::Message => Self::Envelope,
                EntryKind::Job => {
                    let epoch = directory::by_id(tx, agent)?.map_or(0, |agent| agent.epoch);
                    Self::Job { epoch, has_ended: job::has_ended(tx, &entry.body)? }
                }
                EntryKind::Quote => Self::Quote,
                EntryKind::Digest => Self::Digest,
                EntryKind::Result => Self::Result(job_result::kept(tx, &entry.body)?),
            };
            Ok((entry, content))
        };
        entries.into_iter().map(content).collect()
    }

    /// Returns how often the agent was sent this entry, as far as it is counted.
    pub fn sent(&self) -> i64 {
        if let Self::Chat(said) = self { said.chat.sent } else { 1 }
    }

    /// Returns whether the agent has left the conversation. Nothing of it is shown to a former member, over
    /// any route.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Chat(said) if said.has_left())
    }

    /// Returns whether the entry is no longer shown: the agent has left, the job has ended, or the event was
    /// superseded or deleted. Only C2A hides a deleted event; other dialects show that it is gone.
    pub fn is_cancelled(&self, dialect: Dialect) -> bool {
        if self.is_elsewhere() {
            return true;
        }
        let said = match self {
            Self::Chat(said) => said,
            Self::Job { has_ended, .. } => return *has_ended,
            Self::Envelope | Self::Foreign | Self::Quote | Self::Digest | Self::Result(_) => return false,
        };
        if said.was_deleted() { dialect == Dialect::C2a } else { said.was_superseded() }
    }

    /// Renders the entry for a session in its dialect, with the number of the attempt if the dialect reports
    /// it.
    pub fn data(
        &self,
        app: &App,
        receiver: &Identity,
        dialect: Dialect,
        entry: Entry,
        attempt: Option<i64>,
    ) -> Result<String, StoreError> {
        let data = match (self, dialect) {
            (Self::Chat(said), Dialect::C2a) => c2a::chat(app, &said.told(attempt)),
            (_, Dialect::C2a) => {
                self.outside(app, receiver, &entry)?.params(receiver.id, attempt.unwrap_or(1))
            }
            (Self::Envelope, Dialect::Sse) => serde_json::to_string(&inbox_message(app, receiver, entry)?),
            (Self::Chat(said), Dialect::Sse) => serde_json::to_string(&said.data(app)),
            (Self::Foreign, Dialect::Sse) => foreign_data(app, &entry),
            (Self::Result(told), Dialect::Sse) => serde_json::to_string(told),
            (Self::Quote | Self::Digest, Dialect::Sse) => Ok(entry.body),
            (Self::Job { epoch, .. }, Dialect::Sse) => {
                job::data(app, receiver.id, *epoch, entry.trace, &entry.body)
            }
        };
        data.map_err(|error| StoreError::Unexpected(error.into()))
    }

    /// Renders an entry from outside any conversation for a C2A harness.
    pub fn outside(&self, app: &App, receiver: &Identity, entry: &Entry) -> Result<c2a::Brought, StoreError> {
        let name = &receiver.name;
        let brought = match self {
            Self::Chat(_) => return Err(StoreError::Unexpected("this was said in a conversation".into())),
            Self::Envelope => {
                let said = c2a::Envelope {
                    event: entry.event,
                    conversation: entry.conversation,
                    sender: &app.address(entry.author.as_deref().unwrap_or_default()),
                    body: &entry.body,
                    created_at: entry.created_at,
                    shows: None,
                };
                c2a::envelope(app, receiver.id, name, &said)
            }
            Self::Foreign => {
                let posted = sealed_posts::open_post(&app.config.master_key, entry.event, &entry.body);
                c2a::foreign(app, receiver.id, entry, &posted)
            }
            Self::Job { epoch, .. } => job::data(app, receiver.id, *epoch, entry.trace, &entry.body)
                .and_then(|job| c2a::job(app, name, entry, &job)),
            Self::Quote => c2a::quote(app, name, entry),
            Self::Result(told) => c2a::result(app, name, entry, told.as_deref().map(RawValue::get)),
            Self::Digest => c2a::digest(app, entry),
        };
        brought.map_err(|error| StoreError::Unexpected(error.into()))
    }

    /// Renders the entry for the history, which has envelopes and traces in separate members.
    pub fn kept(
        &self,
        app: &App,
        receiver: AgentId,
        entry: &Entry,
    ) -> Result<Option<Box<RawValue>>, StoreError> {
        let data = match self {
            Self::Envelope => return Ok(None),
            Self::Chat(said) => serde_json::value::to_raw_value(&said.data(app)),
            Self::Foreign => {
                let posted = sealed_posts::open_post(&app.config.master_key, entry.event, &entry.body);
                RawValue::from_string(posted)
            }
            Self::Job { epoch, .. } => {
                job::data(app, receiver, *epoch, entry.trace, &entry.body).and_then(RawValue::from_string)
            }
            Self::Quote | Self::Digest => RawValue::from_string(entry.body.clone()),
            Self::Result(told) => return Ok(told.clone()),
        };
        data.map(Some).map_err(|error| StoreError::Unexpected(error.into()))
    }
}

fn inbox_message(app: &App, receiver: &Identity, entry: Entry) -> Result<InboxMessage, StoreError> {
    Ok(InboxMessage {
        trace_id: entry.trace.into(),
        sender_id: app.address(&entry.author.unwrap_or_default()),
        receiver_id: app.address(&receiver.name),
        created_at: rfc3339(entry.created_at),
        timestamp: rfc3339(entry.created_at),
        // The sender still waits for the receiver's answer.
        reply_stream: (entry.state == DeliveryState::Sending)
            .then(|| app.reply_stream(receiver.id, entry.seq)),
        envelope: envelope(entry.body)?,
    })
}

/// Returns an envelope as it was received.
pub fn envelope(body: String) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(body).map_err(|error| StoreError::Unexpected(error.into()))
}

/// An event of a conversation, for delivery to one agent.
#[derive(Debug, Clone, Copy)]
pub struct ChatDelivery<'a> {
    pub conversation: &'a Conversation,
    pub trace: TraceId,
    pub id: DeliveryId,
    /// The agent's handle in the conversation.
    pub handle: Option<&'a str>,
    /// The attention decided for this agent.
    pub attention: Attention,
    /// The epoch of the agent's route.
    pub epoch: i64,
}

impl ChatDelivery<'_> {
    /// Renders the event for an inbox or an endpoint, as the API shows it.
    pub fn data<E>(&self, app: &App, event: E) -> Chat<E> {
        Chat {
            trace_id: Some(self.trace.to_string()),
            channel: views::conversation(self.conversation),
            event,
            about: None,
            handle: self.handle.map(str::to_owned),
            attention: self.attention.into(),
            callback: self.callback(app),
            mcp: Some(self.mcp(app)),
        }
    }

    fn callback(&self, app: &App) -> String {
        callback_url(app, self.conversation.id, self.id, self.epoch)
    }

    /// Returns the channel's tools with a temporary token for this agent.
    fn mcp(&self, app: &App) -> McpServer {
        let (agent, channel) = (self.id.agent, self.conversation.id);
        let token = McpToken { agent, channel, expires_at: app.now() + MCP_LIFE_MS, epoch: self.epoch };
        let token = app.config.master_key.mcp_token(token);
        McpServer {
            url: format!("{}/mcp/{channel}", app.config.public_url),
            headers: [("Authorization".to_owned(), format!("Bearer {token}"))].into(),
            ..McpServer::default()
        }
    }
}

/// An event of a conversation for one agent, as loaded from the store.
pub struct StoredChat {
    agent: AgentId,
    chat: ChatEntry,
}

impl StoredChat {
    /// Loads the event of this delivery. Returns `None` if it belongs to no conversation.
    pub fn read(tx: &mut dyn Tx, id: DeliveryId) -> Result<Option<Self>, StoreError> {
        let mut entries = deliveries::page(tx, id.agent, id.seq - 1, 1, usize::MAX)?;
        let chats = chats::of_page(tx, id.agent, &mut entries, usize::MAX)?;
        let chat = chats.into_iter().find(|chat| chat.seq == id.seq);
        Ok(chat.map(|chat| Self { agent: id.agent, chat }))
    }

    /// Returns whether the agent has left the conversation.
    pub fn has_left(&self) -> bool {
        self.chat.handle.is_none()
    }

    /// Returns whether the message was deleted.
    pub fn was_deleted(&self) -> bool {
        self.chat.changes.iter().any(|change| change.kind == EventKind::Delete)
    }

    /// Returns whether the event asks nothing of the agent any more, or a later change asks in its place.
    pub fn was_superseded(&self) -> bool {
        self.chat.superseded
    }

    fn view(&self) -> EventView {
        views::events(std::slice::from_ref(&self.chat.event), &self.chat.changes, &[]).remove(0)
    }

    fn delivery(&self) -> ChatDelivery<'_> {
        let ChatEntry { seq, attention, epoch, ref conversation, ref event, ref handle, .. } = self.chat;
        let (id, handle) = (DeliveryId { agent: self.agent, seq }, handle.as_deref());
        ChatDelivery { conversation, trace: event.trace, id, handle, attention, epoch }
    }

    /// Renders the event for a C2A harness.
    pub fn told(&self, attempt: Option<i64>) -> c2a::Told<'_> {
        let ChatEntry { ref conversation, attention, ref handle, ref mentions, supersedes, sent, .. } =
            self.chat;
        c2a::Told {
            id: self.chat.event.id,
            conversation,
            agent: self.agent,
            handle: handle.as_deref(),
            attention,
            mentions,
            supersedes,
            sent: attempt.unwrap_or(sent),
            event: self.view(),
            about: self.chat.about.as_ref().map(views::about),
        }
    }

    /// Renders the event for an inbox or an endpoint.
    pub fn data(&self, app: &App) -> Chat {
        let about = self.chat.about.as_ref().map(|about| Box::new(views::about(about)));
        Chat { about, ..self.delivery().data(app, self.view()) }
    }

    /// Renders the event for a connection string. Returns `None` unless it is a message, an escalation or a stop:
    /// the Channel Protocol has no other kinds, and would show an edit as a new message.
    pub fn channel_post(&self, app: &App) -> Option<Post> {
        if !matches!(self.chat.event.kind, EventKind::Message | EventKind::Escalation | EventKind::Stop) {
            return None;
        }
        let (view, delivery) = (self.view(), self.delivery());
        let about = self.chat.about.as_ref().map(|about| c2a::words_about(&views::about(about)));
        let content = [Some(c2a::words(&view)), about].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        Some(Post {
            channel: Channel {
                id: self.chat.conversation.id.to_string(),
                name: Some(self.chat.conversation.name.to_string()),
                service: Some(service_name(app)),
                context: self.chat.conversation.context.as_deref().map(str::to_owned),
            },
            message: Message {
                id: view.event_id,
                sender: view.author.handle.unwrap_or(view.author.id),
                content,
            },
            callback: delivery.callback(app),
            mcp: vec![delivery.mcp(app)],
        })
    }
}

/// Returns the data of SSE event `channel`: the body as another service posted it, plus `trace_id`.
fn foreign_data(app: &App, entry: &Entry) -> Result<String, serde_json::Error> {
    /// Returns everything inside the outermost braces unparsed, because parsing could change numbers.
    fn members(body: &str) -> Option<&str> {
        body.trim().strip_prefix('{')?.strip_suffix('}')
    }
    let posted = sealed_posts::open_post(&app.config.master_key, entry.event, &entry.body);
    let mut body: Value = serde_json::from_str(&posted)?;
    match members(&posted) {
        Some(members) if body.get("trace_id").is_none() => {
            Ok(format!("{{\"trace_id\":\"{}\",{members}}}", entry.trace))
        }
        _ => {
            body["trace_id"] = json!(entry.trace.to_string());
            serde_json::to_string(&body)
        }
    }
}

/// Renders a relay envelope for a receiver whose harness gets POSTs.
pub fn envelope_request(
    app: &App,
    sender: &str,
    pending: &Pending,
    envelope: &RawValue,
) -> Result<String, Error> {
    let said = c2a::Envelope {
        event: pending.event,
        conversation: pending.conversation,
        sender,
        body: envelope.get(),
        created_at: app.now(),
        shows: pending.receiver.harness_shows.as_deref().map(Capabilities::of_words),
    };
    let data = c2a::envelope(app, pending.receiver.id, &pending.receiver.name, &said)
        .and_then(|brought| brought.params(pending.receiver.id, 1));
    let request = Dialect::C2a.entry(EntryKind::Message, pending.seq, &data.map_err(Error::internal)?);
    let message = Agreement::of(&pending.receiver).message(request, pending.seq);
    String::from_utf8(message.into()).map_err(Error::internal)
}

/// Renders a relay envelope for a receiver with only a connection string: its target and the channel message.
/// Returns `None` if the string cannot be decrypted.
pub fn envelope_post(
    app: &App,
    sender: &str,
    pending: &Pending,
    envelope: &RawValue,
) -> Result<Option<(String, String)>, Error> {
    let receiver = &pending.receiver;
    let sealed = receiver.connection.as_deref().unwrap_or_default();
    let Some(endpoint) = app.config.master_key.open(receiver.id.as_bytes(), sealed) else { return Ok(None) };
    let envelope: Value = serde_json::from_str(envelope.get()).map_err(Error::internal)?;
    let card: Value =
        receiver.card.as_deref().and_then(|card| serde_json::from_str(card).ok()).unwrap_or_default();
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    let culture = text(&envelope, "sender_culture").unwrap_or_default();
    let own =
        text(&card, "user_culture").map_or_else(String::new, |own| format!(" Your own culture is {own}."));
    let hint = text(&envelope, "cultural_context").map_or_else(String::new, |hint| format!(" {hint}"));
    let id = DeliveryId { agent: receiver.id, seq: pending.seq };
    let post = Post {
        channel: Channel {
            id: pending.conversation.to_string(),
            name: Some(sender.to_owned()),
            service: Some(service_name(app)),
            context: Some(format!(
                "A direct conversation with the agent {sender}, who writes from the culture {culture}.{own}{hint}"
            )),
        },
        message: Message {
            id: format!("msg_{}", pending.trace),
            sender: sender.to_owned(),
            content: text(&envelope, "original_text").unwrap_or_default(),
        },
        callback: callback_url(app, pending.conversation, id, receiver.epoch),
        mcp: vec![],
    };
    let body = serde_json::to_string(&post).map_err(Error::internal)?;
    Ok(Some((endpoint, body)))
}
