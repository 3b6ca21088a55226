//! The same thing in the language of each way: what an event becomes for an inbox, a webhook, a connection string.
//!
//! Pure but for what it reads in the transaction it is given. Which way is taken is decided elsewhere.

use crate::app::App;
use crate::error::Error;
use crate::sealing;
use crate::secrets::{CallbackToken, McpToken};
use crate::views::{self, EventView};
use chorus_protocol::channel::{Channel, McpServer, Message, Post};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId};
use chorus_protocol::inbox::{Chat, ChatAttention};
use chorus_protocol::words::{EntryKind, EventKind};
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::deliveries::Entry;
use chorus_store::relay::Pending;
use chorus_store::{StoreError, Tx, directory, log, members, push};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Why an agent is not reached by its own connection string after the hub's master key was changed.
pub const UNREADABLE_CONNECTION: &str =
    "the connection string cannot be read with this hub's master key; set it again";
/// How long the tools that come with a message can be used.
const MCP_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// What an entry of an inbox holds.
pub enum Content {
    /// An envelope, in the entry itself.
    Envelope,
    /// Something that was said in a conversation.
    Chat(Box<StoredChat>),
    /// Another service's channel message, sealed, in the entry itself.
    Foreign,
}

impl Content {
    /// Looks up what the entry itself does not hold.
    pub fn read(tx: &mut dyn Tx, agent: AgentId, entry: Entry) -> Result<(Entry, Self), StoreError> {
        let content = match entry.kind {
            EntryKind::Chat => {
                let said = StoredChat::read(tx, DeliveryId { agent, seq: entry.seq })?;
                let missing = || StoreError::Unexpected("a delivery without its conversation".into());
                Self::Chat(Box::new(said.ok_or_else(missing)?))
            }
            EntryKind::Channel => Self::Foreign,
            EntryKind::Message => Self::Envelope,
        };
        Ok((entry, content))
    }
}

/// Something that was said in a conversation, on its way to one agent.
pub struct StoredChat {
    conversation: Conversation,
    event: Event,
    changes: Vec<Event>,
    delivery: push::Record,
    epoch: i64,
}

impl StoredChat {
    /// What this delivery is about; nothing if it is about no conversation.
    pub fn read(tx: &mut dyn Tx, id: DeliveryId) -> Result<Option<Self>, StoreError> {
        let Some(delivery) = push::get(tx, id)? else { return Ok(None) };
        let Some(conversation) = conversations::by_id(tx, delivery.conversation)? else { return Ok(None) };
        let Some(event) = conversations::event_by_id(tx, delivery.event)? else { return Ok(None) };
        let epoch = directory::by_id(tx, id.agent)?.map_or(0, |agent| agent.epoch);
        // Who has left meanwhile is not told what happened since.
        let stays = members::stays(tx, conversation.id, id.agent.into())?;
        let changes = log::changes(tx, &stays, &[event.id])?;
        Ok(Some(Self { conversation, event, changes, delivery, epoch }))
    }

    /// Whether it was taken back.
    pub fn was_deleted(&self) -> bool {
        self.changes.iter().any(|change| change.kind == EventKind::Delete)
    }

    fn view(&self) -> EventView {
        views::events(std::slice::from_ref(&self.event), &self.changes, &[]).remove(0)
    }

    fn callback(&self, app: &App) -> String {
        callback(app, self.conversation.id, self.delivery.id, self.epoch)
    }

    /// The channel's tools, for this agent and a while.
    fn mcp(&self, app: &App) -> McpServer {
        let (agent, channel) = (self.delivery.id.agent, self.conversation.id);
        let token = McpToken { agent, channel, expires_at: app.now() + MCP_LIFE_MS, epoch: self.epoch };
        let token = app.config.master_key.mcp_token(token);
        McpServer {
            url: format!("{}/mcp/{channel}", app.config.public_url),
            headers: [("Authorization".to_owned(), format!("Bearer {token}"))].into(),
            ..McpServer::default()
        }
    }

    /// For an inbox or an endpoint.
    pub fn data(&self, app: &App) -> Chat {
        Chat {
            trace_id: Some(self.event.trace.to_string()),
            channel: views::conversation(&self.conversation),
            event: self.view(),
            attention: ChatAttention { reason: Some(self.delivery.reason) },
            callback: self.callback(app),
            mcp: Some(self.mcp(app)),
        }
    }

    /// For a connection string.
    pub fn channel_post(&self, app: &App) -> Post {
        let view = self.view();
        Post {
            channel: Channel {
                id: self.conversation.id.to_string(),
                name: Some(self.conversation.name.clone()),
                service: Some(service(app)),
                context: self.conversation.context.clone(),
            },
            message: Message {
                id: view.event_id,
                sender: view.author.handle.unwrap_or(view.author.id),
                content: view.content.unwrap_or_else(|| "(this message was deleted)".into()),
            },
            callback: self.callback(app),
            mcp: vec![self.mcp(app)],
        }
    }
}

fn service(app: &App) -> String {
    format!("Chorus at {}", app.config.host_name)
}

/// Where an agent answers one delivery: fresh each time it is asked for.
fn callback(app: &App, conversation: ConversationId, delivery: DeliveryId, epoch: i64) -> String {
    let token = CallbackToken { delivery, made_at: app.now(), epoch };
    let token = app.config.master_key.callback_token(token);
    format!("{}/channels/{conversation}/inbox/{token}", app.config.public_url)
}

/// The data of SSE event `channel`: the body as another service posted it, plus `trace_id`.
pub fn foreign_data(app: &App, entry: &Entry) -> Result<String, serde_json::Error> {
    /// Everything but the outermost braces as it came: what a parser makes of numbers is not what was posted.
    fn members(body: &str) -> Option<&str> {
        body.trim().strip_prefix('{')?.strip_suffix('}')
    }
    let posted = sealing::open_post(&app.config.master_key, entry.event, &entry.body);
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

/// A relay envelope for a receiver that has only a connection string: where it goes, and the channel message it becomes.
/// Nothing, if that string cannot be read.
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
            service: Some(service(app)),
            context: Some(format!(
                "A direct conversation with the agent {sender}, who writes from the culture {culture}.{own}{hint}"
            )),
        },
        message: Message {
            id: format!("msg_{}", pending.trace),
            sender: sender.to_owned(),
            content: text(&envelope, "original_text").unwrap_or_default(),
        },
        callback: callback(app, pending.conversation, id, receiver.epoch),
        mcp: vec![],
    };
    let body = serde_json::to_string(&post).map_err(Error::internal)?;
    Ok(Some((endpoint, body)))
}
