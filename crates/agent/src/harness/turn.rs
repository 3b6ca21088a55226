//! A turn: a message in one common form, with its author, place and way to answer, for every way it can come.
//!
//! Pure. Data that does not fit its kind is refused with all its faults at once. A turn contains secrets (the
//! callback, the headers of MCP servers), so its `Debug` output is short.

mod delivery;
mod quoted;
mod stop;

pub use quoted::Quoted;

use crate::seen::message_name;
use chorus_attention::turn::Source;
use chorus_protocol::api::events::EventView;
use chorus_protocol::c2a::Knock;
use chorus_protocol::channel::{InboxPost, McpServer, Post};
use chorus_protocol::faults::Faults;
use chorus_protocol::inbox::Chat;
use chorus_protocol::relay::{EnvelopeText, InboxMessage, check_envelope};
use chorus_protocol::words::{
    AuthorKind, ConversationKind, Directedness, EntryKind, Mode, Policy, PrincipalKind, Priority, Reason,
};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The place of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    pub id: String,
    /// The kind, such as `channel` or `dm`. `None` means a channel.
    pub kind: Option<String>,
    /// The display name.
    pub name: Option<String>,
    /// The service that the channel belongs to.
    pub service: Option<String>,
    /// The channel's description.
    pub context: Option<String>,
    /// The event that started the thread of the message.
    pub thread: Option<String>,
    /// The message's sequence number in the conversation, if the hub gives one.
    pub sequence: Option<i64>,
}

/// The cultural information of an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culture {
    /// The sender's culture.
    pub sender: String,
    /// The sender's explanation for readers of another culture.
    pub context: Option<String>,
}

/// The way to answer a message.
#[derive(Clone, PartialEq)]
pub enum Back {
    /// To the callback that came with it.
    Callback(String),
    /// With an envelope to its sender.
    Envelope(Box<EnvelopeBack>),
    /// With a tool of the session it came by.
    Session(SessionBack),
}

/// The destination of the answer to a C2A event.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionBack {
    /// The conversation. `None` for some messages of the hub itself.
    pub conversation: Option<String>,
    pub thread: Option<String>,
    /// For an envelope, the number of replies before it, by the senders' own count.
    pub depth: u64,
}

/// The values that the answer to an envelope takes over from it.
#[derive(Clone, PartialEq, Default)]
pub struct EnvelopeBack {
    /// The stream on which the sender listens. `None` if it does not.
    pub reply_stream: Option<String>,
    pub conversation: Option<String>,
    /// The turn's number in the conversation.
    pub turn: Option<i64>,
    /// The number of replies before it, by the senders' own count.
    pub depth: u64,
}

/// A message to answer.
#[derive(Clone, PartialEq)]
pub struct Turn {
    /// The kind of entry. A `chat` is known to come from the agent's own hub: by its inbox, in a session, or
    /// signed.
    pub kind: EntryKind,
    /// A unique id, the same each time the message comes.
    pub id: String,
    /// The id that the other side uses.
    pub message_id: String,
    /// The hub's id for the message's delivery.
    pub trace_id: Option<String>,
    /// The author's name.
    pub sender: String,
    /// The sender's id at the hub, if it differs from the name. Names are chosen by the people themselves.
    pub sender_id: Option<String>,
    /// This agent's name in the channel, if the hub gives it.
    pub handle: Option<String>,
    /// The channel. `None` outside of channels.
    pub place: Option<Place>,
    /// The cultural information. `None` if it is not an envelope.
    pub culture: Option<Culture>,
    /// The reason why it is delivered to this agent.
    pub reason: Option<Reason>,
    /// The response policy, if the hub gives one.
    pub policy: Option<Policy>,
    /// The addressee, if the hub gives one.
    pub directedness: Option<Directedness>,
    /// The injection mode, if the hub gives one.
    pub mode: Option<Mode>,
    /// The priority, if the hub gives one.
    pub priority: Option<Priority>,
    /// The kind of author, if known. Only people write in pieces.
    pub author: Option<AuthorKind>,
    /// The id, by the other side, of the message that this one is an edit of.
    pub supersedes: Option<String>,
    /// The ids, by the other side, of the messages that this one answers or whose work it stops.
    pub answers: Vec<String>,
    /// `true` if the text is withheld and only a knock was delivered.
    pub withheld: bool,
    /// The knock that announced a withheld message.
    pub knock: Option<Box<Knock>>,
    /// The text of the message.
    pub text: String,
    /// The message that this one is about, if another author wrote it, as in a hub's reminder about an
    /// unanswered request.
    pub quoted: Option<Box<Quoted>>,
    pub back: Back,
    /// The tool servers that came with it.
    pub mcp: Vec<McpServer>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("id", &self.id).field("sender", &self.sender).finish_non_exhaustive()
    }
}

impl Turn {
    /// Checks whether this is the message with the given id, or an edit of it.
    pub(crate) fn stands_for(&self, message_id: &str) -> bool {
        self.message_id == message_id || self.supersedes.as_deref() == Some(message_id)
    }

    /// Reads the event `chat` of an inbox.
    pub fn chat(data: &str) -> Result<Self, Faults> {
        let Chat::<EventView> { trace_id, channel, event, about, handle, attention, callback, mcp } =
            serde_json::from_str(data).map_err(|error| Faults::one("data", format_args!("{error}")))?;
        let quoted = about.and_then(|about| Quoted::event(*about)).map(Box::new);
        let name = Some(channel.name).filter(|name| !name.is_empty());
        let kind = channel.kind.known().map(|kind| kind.as_str().to_owned());
        let (sender, sender_id) = named(event.author.handle, event.author.id);
        // The content is the same as a post of the Channel Protocol, so the same rules apply.
        let post = json!({
            "channel": {"id": channel.id, "name": name, "context": channel.context},
            "message": {"id": event.event_id, "sender": sender, "content": event.content},
            "callback": callback, "mcp": mcp,
        });
        let mut turn = Self::post(Post::read(post.to_string().as_bytes())?);
        // The hub's ids are unique across channels.
        turn.id = format!("chat {}", turn.message_id);
        turn.kind = EntryKind::Chat;
        (turn.trace_id, turn.handle) = (trace_id, handle);
        (turn.reason, turn.policy) = (attention.reason, attention.policy);
        (turn.directedness, turn.mode) = (attention.directedness, attention.mode);
        turn.priority = attention.priority;
        turn.author = author_kind(event.author.kind.known());
        (turn.sender_id, turn.quoted) = (sender_id, quoted);
        let stops = event.more.get("stops").and_then(Value::as_array).into_iter().flatten();
        let stops = stops.filter_map(Value::as_str).map(str::to_owned);
        turn.answers = event.reply_to.into_iter().chain(stops).collect();
        if let Some(place) = &mut turn.place {
            (place.kind, place.thread) = (kind, event.thread);
            // Sequence numbers begin at 1. Without one the field is 0.
            place.sequence = Some(event.sequence).filter(|sequence| *sequence > 0);
        }
        Ok(turn)
    }

    /// Reads an unsigned message in the form of a `chat`. It may come from anyone, so it counts as a message
    /// of some channel, and the rules for strangers apply to the addresses it names.
    pub fn unsigned_chat(data: &str) -> Result<Self, Faults> {
        let turn = Self::chat(data)?;
        let channel = turn.place.as_ref().map(|place| place.id.as_str()).unwrap_or_default();
        let id = channel_turn(channel, &turn.message_id);
        // The author is not authenticated.
        Ok(Self { kind: EntryKind::Channel, id, sender_id: None, ..turn })
    }

    /// Reads the event `channel` of an inbox.
    pub fn channel(data: &str) -> Result<Self, Faults> {
        let InboxPost { trace_id, post } = InboxPost::read(data.as_bytes())?;
        Ok(Self { trace_id, ..Self::post(post) })
    }

    /// Converts a post to the agent's own connection string.
    pub fn post(Post { channel, message, callback, mcp }: Post) -> Self {
        Self {
            kind: EntryKind::Channel,
            id: channel_turn(&channel.id, &message.id),
            message_id: message.id,
            trace_id: None,
            sender: message.sender,
            sender_id: None,
            handle: None,
            place: Some(Place {
                id: channel.id,
                name: channel.name,
                service: channel.service,
                context: channel.context,
                ..Place::default()
            }),
            culture: None,
            // The defaults for a message to one recipient.
            reason: Some(Reason::DirectMessage),
            policy: Some(Policy::MustRespond),
            directedness: Some(Directedness::ToMe),
            mode: None,
            priority: None,
            author: None,
            supersedes: None,
            answers: vec![],
            withheld: false,
            knock: None,
            text: message.content,
            quoted: None,
            back: Back::Callback(callback),
            mcp,
        }
    }

    /// Reads the event `message` of an inbox.
    pub fn message(message: InboxMessage) -> Result<Self, Faults> {
        // A hub that implements only the relay may give no trace. Then the message is identified by its
        // content.
        let trace = Some(message.trace_id.0).filter(|trace| !trace.is_empty());
        let name = trace.clone().unwrap_or_else(|| digest(message.envelope.get()));
        let mut turn = Self::envelope(&name, message.envelope.get(), &message.sender_id)?;
        turn.trace_id = trace;
        if let Back::Envelope(back) = &mut turn.back {
            back.reply_stream = message.reply_stream;
        }
        Ok(turn)
    }

    /// Reads an envelope, which is called `id` here.
    pub fn envelope(id: &str, envelope: &str, sender: &str) -> Result<Self, Faults> {
        let value = serde_json::from_str(envelope)
            .map_err(|error| Faults::one("envelope", format_args!("{error}")))?;
        let mut faults = Faults::new();
        check_envelope(&value, "envelope", &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        let envelope = EnvelopeText::read(envelope);
        let back = EnvelopeBack {
            depth: envelope.depth(),
            reply_stream: None,
            conversation: envelope.conversation_id,
            turn: envelope.turn_number,
        };
        Ok(Self {
            kind: EntryKind::Message,
            id: format!("message {id}"),
            message_id: id.to_owned(),
            trace_id: None,
            sender: sender.to_owned(),
            sender_id: None,
            handle: None,
            place: None,
            culture: Some(Culture {
                sender: envelope.sender_culture.unwrap_or_default(),
                context: envelope.cultural_context,
            }),
            // The defaults for a message to one recipient.
            reason: Some(Reason::DirectMessage),
            policy: Some(Policy::MustRespond),
            directedness: Some(Directedness::ToMe),
            mode: None,
            priority: None,
            author: Some(AuthorKind::Agent),
            supersedes: None,
            answers: vec![],
            withheld: false,
            knock: None,
            text: envelope.original_text.unwrap_or_default(),
            quoted: None,
            back: Back::Envelope(Box::new(back)),
            mcp: Vec::new(),
        })
    }

    /// Returns the idempotency key of the answer. It reveals nothing about the message.
    pub fn answer_key(&self) -> String {
        format!("answer-{}", &digest(&format!("answer {}", self.id))[..40])
    }

    /// Returns the unit of ordering: a thread, a direct conversation, or the exchange with one sender. A message
    /// outside of the threads of a hub's channel begins a thread, so it is a unit of its own.
    pub fn thread_key(&self) -> String {
        let Some(place) = &self.place else { return self.conversation() };
        let is_channel = place.kind.as_deref().is_none_or(|kind| kind == ConversationKind::Channel.as_str());
        let starts = is_channel && (self.kind == EntryKind::Chat || matches!(self.back, Back::Session(_)));
        let own = || self.supersedes.as_ref().unwrap_or(&self.message_id);
        let thread = place.thread.as_ref().or_else(|| starts.then(own));
        format!("{} {}", self.conversation(), thread.map_or("", String::as_str)).trim().to_owned()
    }

    /// Returns the channel, or the exchange with one sender.
    pub fn conversation(&self) -> String {
        match &self.place {
            Some(Place { id, service, .. }) => format!("{} {id}", service.as_deref().unwrap_or_default()),
            None => format!("from {}", self.sender),
        }
    }

    /// Returns the source of pieces that this message may be merged with: a person in a place with an
    /// injection mode. Agents and other services send whole messages and expect an answer to each.
    pub fn source(&self) -> Option<Source> {
        let typed = self.author == Some(AuthorKind::Human)
            && matches!(self.mode, Some(Mode::Buffered | Mode::Immediate));
        let place = self.place.as_ref().filter(|_| typed)?;
        let thread = place.thread.as_deref().unwrap_or_default();
        Some(Source { author: self.sender.clone(), conversation: format!("{} {thread}", place.id) })
    }

    /// Checks whether someone sees the answer while it is produced.
    pub fn is_listened_to(&self) -> bool {
        match &self.back {
            Back::Envelope(back) => back.reply_stream.is_some(),
            // Messages posted by a hub, in a channel or for an envelope. Other services do not support partial
            // answers.
            Back::Callback(_) => self.kind == EntryKind::Chat || self.message_id.starts_with("msg_"),
            Back::Session(_) => false,
        }
    }

    /// Returns the display name of the place.
    pub fn whereabouts(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.name.as_deref().unwrap_or(&place.id))
    }
}

/// Returns the display name, and the id if it differs.
fn named(handle: Option<String>, id: String) -> (String, Option<String>) {
    let name = handle.unwrap_or_else(|| id.clone());
    let id = Some(id).filter(|id| !id.is_empty() && *id != name);
    (name, id)
}

fn author_kind(kind: Option<PrincipalKind>) -> Option<AuthorKind> {
    match kind {
        Some(PrincipalKind::Account) => Some(AuthorKind::Human),
        Some(PrincipalKind::Agent) => Some(AuthorKind::Agent),
        _ => None,
    }
}

/// Returns the id of a message that anyone may have written. It never equals the id of a hub's message.
pub(super) fn channel_turn(channel: &str, message: &str) -> String {
    format!("channel {}", message_name(channel, message))
}

fn digest(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn chat() -> Value {
        json!({
            "trace_id": "0123456789abcdef0123456789abcdef",
            "channel": {"id": "ch_1", "name": "ops", "kind": "channel", "context": "Operations"},
            "event": {"event_id": "evt_1", "sequence": 7, "kind": "message", "thread": "evt_0",
                "author": {"id": "a1", "kind": "account", "handle": "anna"}, "content": "@echo hi"},
            "attention": {"reason": "direct_mention"},
            "callback": "http://hub/channels/ch_1/inbox/tok_1",
            "mcp": {"url": "http://hub/mcp/ch_1", "headers": {"Authorization": "Bearer x"}},
        })
    }

    #[test]
    fn what_was_said_in_a_channel() {
        let turn = Turn::chat(&chat().to_string()).ok().unwrap();
        assert_eq!(
            (turn.kind, turn.id.as_str(), turn.sender.as_str()),
            (EntryKind::Chat, "chat evt_1", "anna")
        );
        let place = turn.place.as_ref().unwrap();
        assert_eq!((place.thread.as_deref(), place.sequence), (Some("evt_0"), Some(7)));
        assert_eq!(turn.reason, Some(Reason::DirectMention));
        assert_eq!(turn.mcp[0].headers["Authorization"], "Bearer x");
        assert!(matches!(&turn.back, Back::Callback(url) if url.ends_with("tok_1")));
        // The callback differs each time; the message is the same.
        let mut again = chat();
        again["callback"] = "http://hub/channels/ch_1/inbox/tok_2".into();
        let again = Turn::chat(&again.to_string()).ok().unwrap();
        assert_eq!((again.answer_key(), again.id), (turn.answer_key(), turn.id));
    }

    #[test]
    fn what_the_hub_tells_of_is_not_its_own() {
        let mut data = chat();
        data["about"] = chat()["event"].clone();
        data["event"]["author"] = json!({"id": "system", "kind": "system"});
        data["event"]["content"] = "ada has not answered".into();
        let turn = Turn::chat(&data.to_string()).ok().unwrap();
        assert_eq!((turn.text.as_str(), turn.sender.as_str()), ("ada has not answered", "system"));
        assert_eq!(turn.sender_id, None);
        let quoted = *turn.quoted.unwrap();
        assert_eq!((quoted.author.as_str(), quoted.kind), ("anna", Some(AuthorKind::Human)));
        assert_eq!((quoted.author_id.as_deref(), quoted.text.as_str()), (Some("a1"), "@echo hi"));
    }

    #[test]
    fn only_the_hub_says_who_somebody_is() {
        let data = chat().to_string();
        assert_eq!(Turn::chat(&data).ok().unwrap().sender_id.as_deref(), Some("a1"));
        assert_eq!(Turn::unsigned_chat(&data).ok().unwrap().sender_id, None);
    }

    /// A service's post and an envelope are for this agent alone.
    #[test]
    fn what_says_nothing_of_attention_is_a_direct_message() {
        let post = json!({"channel": {"id": "c"}, "message": {"id": "1", "sender": "s", "content": "c"},
            "callback": "http://s/cb"});
        let envelope = json!({"chorus_version": "0.4", "sender_id": "alice", "original_text": "hi",
            "sender_culture": "de"});
        let turns = [
            Turn::channel(&post.to_string()).ok().unwrap(),
            Turn::envelope("t1", &envelope.to_string(), "alice@x").ok().unwrap(),
        ];
        for turn in turns {
            assert_eq!((turn.policy, turn.reason), (Some(Policy::MustRespond), Some(Reason::DirectMessage)));
            assert_eq!(turn.directedness, Some(Directedness::ToMe));
        }
    }

    #[test]
    fn words_of_a_newer_hub_keep_nothing_from_it() {
        let mut data = chat();
        data["channel"]["kind"] = "assembly".into();
        data["channel"]["history"] = "a_week".into();
        let mut usual = Turn::chat(&chat().to_string()).ok().unwrap();
        // An unknown kind is dropped.
        usual.place.as_mut().unwrap().kind = None;
        assert_eq!(Turn::chat(&data.to_string()).ok(), Some(usual));
    }

    #[test]
    fn an_author_without_a_handle_and_a_deleted_message() {
        let mut data = chat();
        data["event"]["author"]["handle"] = Value::Null;
        data["mcp"] = Value::Null;
        let turn = Turn::chat(&data.to_string()).ok().unwrap();
        assert_eq!((turn.sender.as_str(), turn.mcp.len()), ("a1", 0));
        data["event"]["content"] = Value::Null;
        data["callback"] = "nowhere".into();
        let faults = Turn::chat(&data.to_string()).err().unwrap().to_string();
        assert_eq!(faults, "message.content: is required; callback: must be an absolute http or https URL");
    }

    #[test]
    fn the_same_id_in_two_foreign_channels_is_two_messages() {
        let post = |channel: &str, message: &str| {
            let post = json!({"channel": {"id": channel}, "message": {"id": message, "sender": "s", "content": "c"},
                "callback": "http://s/cb", "trace_id": "t"});
            Turn::channel(&post.to_string()).ok().unwrap()
        };
        assert_ne!(post("a", "1").id, post("b", "1").id);
        assert_ne!(post("a1", "1").id, post("a", "11").id);
        assert_eq!(post("a", "1").trace_id.as_deref(), Some("t"));
    }

    #[test]
    fn an_envelope_and_what_its_answer_takes_over() {
        let envelope = json!({"chorus_version": "0.4", "sender_id": "alice", "original_text": "hi",
            "sender_culture": "de", "cultural_context": "among colleagues", "conversation_id": "c", "turn_number": 3,
            "reply_depth": 2});
        let turn = Turn::envelope("t1", &envelope.to_string(), "alice@x").ok().unwrap();
        let culture = turn.culture.as_ref().unwrap();
        assert_eq!((culture.sender.as_str(), culture.context.as_deref()), ("de", Some("among colleagues")));
        let Back::Envelope(back) = &turn.back else { panic!("not an envelope") };
        assert_eq!((back.conversation.as_deref(), back.turn, back.depth), (Some("c"), Some(3), 2));
        assert!(Turn::envelope("t1", "{}", "alice@x").is_err());
    }
}
