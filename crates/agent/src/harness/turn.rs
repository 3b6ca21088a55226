//! What came, in one form: whichever door it came by, a turn says who wrote what, where, and how to answer.
//!
//! Pure. What is not what its kind promises is refused with every fault at once. A turn holds secrets (the callback,
//! the headers of MCP servers), so its `Debug` shows little.

mod delivery;
mod quoted;

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
    AuthorKind, Directedness, EntryKind, Mode, Policy, PrincipalKind, Priority, Reason,
};
use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Where something was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Its id.
    pub id: String,
    /// What it is, such as `channel` or `dm`; a channel, unless said.
    pub kind: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// The service it is a channel of.
    pub service: Option<String>,
    /// What it is about.
    pub context: Option<String>,
    /// The event that begins the thread it was said in.
    pub thread: Option<String>,
    /// Its number in the conversation, where the hub gives one.
    pub sequence: Option<i64>,
}

/// What an envelope says about cultures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culture {
    /// The sender's.
    pub sender: String,
    /// What somebody of another culture should know.
    pub context: Option<String>,
}

/// How to answer.
#[derive(Clone, PartialEq)]
pub enum Back {
    /// To the callback that came with it.
    Callback(String),
    /// With an envelope to its sender.
    Envelope(Box<EnvelopeBack>),
    /// With a tool of the session it came by.
    Session(SessionBack),
}

/// Where the answer to a C2A event goes.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionBack {
    /// The conversation; what the hub says itself may have none.
    pub conversation: Option<String>,
    /// The thread in it.
    pub thread: Option<String>,
    /// If it is an envelope, how many answers to answers came before it, by the senders' own account.
    pub depth: u64,
}

/// What the answer to an envelope takes over from it.
#[derive(Clone, PartialEq, Default)]
pub struct EnvelopeBack {
    /// Where its sender listens, if it does.
    pub reply_stream: Option<String>,
    /// The conversation it is part of.
    pub conversation: Option<String>,
    /// Its number there.
    pub turn: Option<i64>,
    /// How many answers to answers came before it, by the senders' own account.
    pub depth: u64,
}

/// One thing to answer.
#[derive(Clone, PartialEq)]
pub struct Turn {
    /// How it came. A `chat` is known to come from the agent's own hub: by its inbox, in a session, or signed.
    pub kind: EntryKind,
    /// The same each time it comes, and of no other message.
    pub id: String,
    /// As the other side calls it.
    pub message_id: String,
    /// The hub's name for its way.
    pub trace_id: Option<String>,
    /// Who wrote it.
    pub sender: String,
    /// The sender's id at the hub, where it has one that is not its name: names are what people call themselves.
    pub sender_id: Option<String>,
    /// What this agent is called there, where the hub says so.
    pub handle: Option<String>,
    /// Where, if it was in a channel.
    pub place: Option<Place>,
    /// What it says about cultures, if it is an envelope.
    pub culture: Option<Culture>,
    /// Why it comes to this agent.
    pub reason: Option<Reason>,
    /// What is expected of it, where the hub says so.
    pub policy: Option<Policy>,
    /// At whom it is aimed, where the hub says so.
    pub directedness: Option<Directedness>,
    /// How it is to be shown, where the hub says so.
    pub mode: Option<Mode>,
    /// How much it matters, where the hub says so.
    pub priority: Option<Priority>,
    /// What wrote it, where that is known: people type in pieces.
    pub author: Option<AuthorKind>,
    /// The message, as the other side calls it, that this one takes the place of: it was edited.
    pub supersedes: Option<String>,
    /// Whether what was said is withheld: it was only told that there is something.
    pub withheld: bool,
    /// What was told of it then.
    pub knock: Option<Box<Knock>>,
    /// What was said.
    pub text: String,
    /// What it is about, if that is not its author's: the hub tells what somebody has not answered.
    pub quoted: Option<Box<Quoted>>,
    /// How to answer.
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
    /// Whether this is a message, or a change of it: it is meant by the message's id, or by its own.
    pub(crate) fn stands_for(&self, message_id: &str) -> bool {
        self.message_id == message_id || self.supersedes.as_deref() == Some(message_id)
    }

    /// The event `chat` of an inbox.
    pub fn chat(data: &str) -> Result<Self, Faults> {
        let Chat::<EventView> { trace_id, channel, event, about, handle, attention, callback, mcp } =
            serde_json::from_str(data).map_err(|error| Faults::one("data", format_args!("{error}")))?;
        let quoted = about.and_then(|about| Quoted::event(*about)).map(Box::new);
        let name = Some(channel.name).filter(|name| !name.is_empty());
        let kind = channel.kind.known().map(|kind| kind.as_str().to_owned());
        let (sender, sender_id) = named(event.author.handle, event.author.id);
        // The same as a post of the Channel Protocol, so it is held to the same rules.
        let post = json!({
            "channel": {"id": channel.id, "name": name, "context": channel.context},
            "message": {"id": event.event_id, "sender": sender, "content": event.content},
            "callback": callback, "mcp": mcp,
        });
        let mut turn = Self::post(Post::read(post.to_string().as_bytes())?);
        // The hub's ids are unique whatever the channel.
        turn.id = format!("chat {}", turn.message_id);
        turn.kind = EntryKind::Chat;
        (turn.trace_id, turn.handle) = (trace_id, handle);
        (turn.reason, turn.policy) = (attention.reason, attention.policy);
        (turn.directedness, turn.mode) = (attention.directedness, attention.mode);
        turn.priority = attention.priority;
        turn.author = author_kind(event.author.kind.known());
        (turn.sender_id, turn.quoted) = (sender_id, quoted);
        if let Some(place) = &mut turn.place {
            (place.kind, place.thread) = (kind, event.thread);
            // Sequences begin with 1: a hub that says none has none.
            place.sequence = Some(event.sequence).filter(|sequence| *sequence > 0);
        }
        Ok(turn)
    }

    /// What has the shape of a `chat` and is not signed: anybody may have written it. So it is a message of some channel, and
    /// what it names is held to the rules for strangers.
    pub fn unsigned_chat(data: &str) -> Result<Self, Faults> {
        let turn = Self::chat(data)?;
        let channel = turn.place.as_ref().map(|place| place.id.as_str()).unwrap_or_default();
        let id = channel_turn(channel, &turn.message_id);
        // Whose words they are, nobody vouches for.
        Ok(Self { kind: EntryKind::Channel, id, sender_id: None, ..turn })
    }

    /// The event `channel` of an inbox.
    pub fn channel(data: &str) -> Result<Self, Faults> {
        let InboxPost { trace_id, post } = InboxPost::read(data.as_bytes())?;
        Ok(Self { trace_id, ..Self::post(post) })
    }

    /// A post to one's own connection string.
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
            // What a host makes of what is for one alone, unless it says something else.
            reason: Some(Reason::DirectMessage),
            policy: Some(Policy::MustRespond),
            directedness: Some(Directedness::ToMe),
            mode: None,
            priority: None,
            author: None,
            supersedes: None,
            withheld: false,
            knock: None,
            text: message.content,
            quoted: None,
            back: Back::Callback(callback),
            mcp,
        }
    }

    /// The event `message` of an inbox.
    pub fn message(message: InboxMessage) -> Result<Self, Faults> {
        // A hub that goes by the document alone may give none: then a message is known by all that it says.
        let trace = Some(message.trace_id.0).filter(|trace| !trace.is_empty());
        let name = trace.clone().unwrap_or_else(|| digest(message.envelope.get()));
        let mut turn = Self::envelope(&name, message.envelope.get(), &message.sender_id)?;
        turn.trace_id = trace;
        if let Back::Envelope(back) = &mut turn.back {
            back.reply_stream = message.reply_stream;
        }
        Ok(turn)
    }

    /// An envelope that has the name `id` here.
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
            // What a host makes of what is for one alone, unless it says something else.
            reason: Some(Reason::DirectMessage),
            policy: Some(Policy::MustRespond),
            directedness: Some(Directedness::ToMe),
            mode: None,
            priority: None,
            author: Some(AuthorKind::Agent),
            supersedes: None,
            withheld: false,
            knock: None,
            text: envelope.original_text.unwrap_or_default(),
            quoted: None,
            back: Back::Envelope(Box::new(back)),
            mcp: Vec::new(),
        })
    }

    /// What keeps a second try of the answer from being a second answer. It tells nothing of the message.
    pub fn answer_key(&self) -> String {
        format!("answer-{}", &digest(&format!("answer {}", self.id))[..40])
    }

    /// What is dealt with in order: a channel, or the exchange with one sender.
    pub fn conversation(&self) -> String {
        match &self.place {
            Some(Place { id, service, .. }) => format!("{} {id}", service.as_deref().unwrap_or_default()),
            None => format!("from {}", self.sender),
        }
    }

    /// Whose words it is put together with, if it may be a piece of something: what a person says where the hub tells how
    /// it is to be shown. Agents and other services say what they have to say at once, and want an answer to each.
    pub fn source(&self) -> Option<Source> {
        let typed = self.author == Some(AuthorKind::Human)
            && matches!(self.mode, Some(Mode::Buffered | Mode::Immediate));
        let place = self.place.as_ref().filter(|_| typed)?;
        let thread = place.thread.as_deref().unwrap_or_default();
        Some(Source { author: self.sender.clone(), conversation: format!("{} {thread}", place.id) })
    }

    /// Whether somebody sees the answer while it is made.
    pub fn is_listened_to(&self) -> bool {
        match &self.back {
            Back::Envelope(back) => back.reply_stream.is_some(),
            // What a hub posts, in a channel or for an envelope: other services know of no pieces.
            Back::Callback(_) => self.kind == EntryKind::Chat || self.message_id.starts_with("msg_"),
            Back::Session(_) => false,
        }
    }

    /// Where it was said, in a few words for a person.
    pub fn whereabouts(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.name.as_deref().unwrap_or(&place.id))
    }
}

/// What somebody is called, and the id if that is another.
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

/// The name of a turn that anybody may write: of none that the hub tells of.
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
        // A callback is fresh each time; the message is the same.
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

    /// What a service posts and what comes as an envelope is for this agent alone.
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
        // What it does not know it does not say.
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
