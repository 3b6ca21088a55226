//! Renders deliveries in C2A: the params of `chat/deliver`, and events as the chat tools show them.
//!
//! `outside` renders items from outside any conversation of this hub.
//!
//! The functions are pure. A knock contains only facts of the hub itself, never the content. The mode was
//! decided before.

mod outside;

pub use outside::{Brought, Envelope, digest, envelope, foreign, job, quote, result};

use crate::views::{self, EventView};
use chorus_attention::knock::{self, Subject};
use chorus_attention::{self as engine, classify};
use chorus_node::App;
use chorus_protocol::attention::Attention;
use chorus_protocol::c2a::{
    Addressee, Author, ChatTool, Content, Conversation as Place, Delivery, Event, Exposure, Header,
    IdempotencyKey, Knock, Part, Reliability, ShownMode, Source, Target, Time, Timing, WireId,
};
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{
    AuthorKind, ConversationKind, Directedness, Disposition, EventKind, Intent, Signal, WireConversationKind,
};
use chorus_store::conversations::{Conversation, UNPLACED};
use serde_json::Value;

/// The part of a conversation that is shown with an event.
const THREAD_WINDOW: &str = "thread_window";

/// An event for one agent.
pub struct Told<'a> {
    /// The id of the delivery: the message's own, or that of a change to it.
    pub id: EventId,
    pub conversation: &'a Conversation,
    pub agent: AgentId,
    /// The agent's handle in the conversation.
    pub handle: Option<&'a str>,
    pub attention: Attention,
    /// The mentions, such as `agent:bob role:ops`.
    pub mentions: &'a str,
    pub supersedes: Option<EventId>,
    /// The number of times the agent was sent it, including this one.
    pub sent: i64,
    pub event: EventView,
    /// The unanswered message of an escalation, if the agent may read it.
    pub about: Option<EventView>,
}

/// Returns the params of the delivery.
pub fn chat(app: &App, told: &Told<'_>) -> Result<String, serde_json::Error> {
    let header = header(app, told, None);
    let exposure = match ShownMode::of(told.attention.mode) {
        None => Exposure::Knock(knock_of(told)),
        Some(mode) => Exposure::Shown {
            mode,
            context: (told.conversation.kind == ConversationKind::Channel).then(|| THREAD_WINDOW.to_owned()),
            role: Some("user".to_owned()),
            content: content(told),
        },
    };
    let idempotency_key = IdempotencyKey::of_delivery(told.id, told.agent);
    let reliability = Reliability { attempt: told.sent, idempotency_key };
    serde_json::to_string(&Delivery { header, exposure, reliability })
}

/// Returns the whole event, for an agent that asked for it.
pub fn event(app: &App, told: &Told<'_>, disposition: Option<Disposition>) -> Event {
    Event { header: header(app, told, disposition), content: content(told) }
}

fn header(app: &App, told: &Told<'_>, disposition: Option<Disposition>) -> Header {
    let event = &told.event;
    let thread = event.thread.as_deref().and_then(EventId::parse);
    // An escalation is about a message and does not supersede it.
    let supersedes = told.supersedes.filter(|_| event.kind.known() != Some(EventKind::Escalation));
    let recipient = told.handle.filter(|_| told.attention.directedness == Directedness::ToMe);
    Header {
        event_id: told.id.into(),
        source: Some(Source::hub(&app.config.host_name)),
        conversation: place_of(told, thread),
        author: Some(author(event)),
        target: Target {
            mentions: told
                .mentions
                .split(' ')
                .filter(|one| !one.is_empty())
                .map(|one| Addressee(one.into()))
                .collect(),
            recipient: recipient.map(Addressee::agent),
            directedness: told.attention.directedness,
        },
        timing: Some(Timing {
            created_at: parse_rfc3339(&event.created_at).map(Time::at),
            sequence: Some(event.sequence).filter(|place| *place != UNPLACED),
        }),
        attention: chorus_protocol::c2a::Attention {
            intent: event.more.get("intent").and_then(Value::as_str).and_then(Intent::parse),
            ..told.attention.into()
        },
        supersedes: supersedes.map(WireId::from),
        // A change supersedes the message it is about. An agent knows a message that was held by the id under
        // which it waited.
        in_reply_to: event
            .reply_to
            .clone()
            .or_else(|| event.more.get("approval").and_then(Value::as_str).map(str::to_owned))
            .or_else(|| event.target.clone())
            .map(WireId)
            .filter(|_| supersedes.is_none()),
        disposition,
    }
}

fn author_kind(event: &EventView) -> AuthorKind {
    // The hub reports the outcome of a held message, whoever decided it.
    let ends_wait = event.more.contains_key("outcome");
    if event.kind.known() == Some(EventKind::Escalation) || ends_wait {
        return AuthorKind::System;
    }
    if event.author.is_agent() { AuthorKind::Agent } else { AuthorKind::Human }
}

/// Returns the author. An event of the hub itself has the hub as its author.
fn author(event: &EventView) -> Author {
    let kind = author_kind(event);
    let by_somebody = kind != AuthorKind::System;
    Author {
        id: by_somebody.then(|| WireId(event.author.id.clone())),
        kind: Some(kind),
        display_name: event.author.handle.clone().filter(|_| by_somebody),
    }
}

fn place_of(told: &Told<'_>, thread: Option<EventId>) -> Place {
    let name = Some(told.conversation.name.to_string()).filter(|name| !name.is_empty());
    let stream_id = told.event.more.get("stream").and_then(Value::as_str).map(|id| WireId(id.to_owned()));
    let place = Place::new(told.conversation.id, told.conversation.kind, thread);
    let glyphs = views::glyphs(told.conversation);
    let place = Place { name, stream_id, glyphs, ..place };
    if author_kind(&told.event) == AuthorKind::System {
        return Place { kind: WireConversationKind::System, ..place };
    }
    place
}

/// Returns the content in its current state, with the unanswered message of an escalation.
fn content(told: &Told<'_>) -> Content {
    let mut content = Content::text(words(&told.event));
    if let Some(about) = &told.about {
        content.parts.push(Part::Text { text: words_about(about) });
    }
    content
}

/// Returns the text of a message that another event is about.
pub fn words_about(about: &EventView) -> String {
    let who = about.author.handle.as_deref().unwrap_or("somebody");
    format!("{who} said in {}:\n{}", about.event_id, words(about))
}

/// Returns the text of an event. An event without text gets a short description.
pub fn words(event: &EventView) -> String {
    match (&event.content, event.deleted) {
        (_, true) => "(this message was deleted)".to_owned(),
        (Some(text), false) if !text.is_empty() => text.clone(),
        _ => event
            .more
            .get("signal")
            .and_then(Value::as_str)
            .map_or_else(|| format!("({})", event.kind), |signal| format!("({}: {signal})", event.kind)),
    }
}

fn knock_of(told: &Told<'_>) -> Knock {
    let event = &told.event;
    let said = engine::Event {
        text: event.content.as_deref().unwrap_or_default(),
        author: author_kind(event),
        intent: event.more.get("intent").and_then(Value::as_str).and_then(Intent::parse),
        names_somebody: !told.mentions.is_empty(),
        conversation: told.conversation.kind,
        ..engine::Event::EMPTY
    };
    let classified = classify(said);
    let handle = event.author.handle.as_deref().unwrap_or("nobody");
    let from = match author_kind(event) {
        AuthorKind::Agent => Addressee::agent(handle),
        AuthorKind::Human => Addressee::human(handle),
        AuthorKind::System => Addressee(AuthorKind::System.as_str().to_owned()),
    };
    let place = place(told);
    let channel = (told.conversation.kind == ConversationKind::Channel).then_some(&*told.conversation.name);
    let made = knock::Knock::new(&from.0, &place, &told.attention, &Subject::new(&classified, channel, &[]));
    let knock::Knock { directedness, policy, priority, topic, .. } = made;
    // A signal is a fixed word of the hub and not a member's text.
    let signal = event.more.get("signal").and_then(Value::as_str).and_then(Signal::parse);
    let topic = signal.map_or(topic, |signal| format!("reaction {signal} to your message"));
    let is_stop = event.kind.known() == Some(EventKind::Stop);
    let topic = if is_stop { "work that you asked for was stopped".to_owned() } else { topic };
    Knock {
        from,
        place: place.clone(),
        directedness,
        policy,
        priority,
        topic,
        pull_with: ChatTool::ReadThread,
    }
}

/// Returns the place by ids, because names are text of members.
fn place(told: &Told<'_>) -> String {
    match (&told.event.thread, told.conversation.kind) {
        (Some(thread), _) => format!("thread:{thread}"),
        (None, ConversationKind::Dm) => format!("dm:{}", told.conversation.id),
        (None, ConversationKind::Channel) => format!("channel:{}", told.conversation.id),
    }
}
