//! What is delivered, in the language of C2A: the params of `chat/deliver`, and an event as the chat tools show it.
//!
//! Pure. A knock is made of what the hub itself knows: what was said is not in it. Which mode something has was decided
//! before.

use crate::app::App;
use crate::views::EventView;
use chorus_attention::knock::{self, Subject};
use chorus_attention::{self as engine, classify};
use chorus_protocol::attention::Attention;
use chorus_protocol::c2a::{
    Addressee, Author, ChatTool, Content, Conversation as Place, Delivery, Event, Exposure, Header,
    IdempotencyKey, Knock, Part, Reliability, ShownMode, Source, Target, Time, Timing, WireId,
};
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_protocol::inbox::DigestBody;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{
    AuthorKind, ConversationKind, Directedness, Disposition, EventKind, Intent, Signal, WireConversationKind,
};
use chorus_store::conversations::{Conversation, UNPLACED};
use chorus_store::deliveries::Entry;
use serde_json::{Map, Value};

/// What of a conversation is shown with what was said in it.
const THREAD_WINDOW: &str = "thread_window";

/// Something that was said, as it is told to one agent.
pub struct Told<'a> {
    pub conversation: &'a Conversation,
    pub agent: AgentId,
    /// What the agent is called there.
    pub handle: Option<&'a str>,
    pub attention: Attention,
    /// Whom it names, `agent:bob role:ops`.
    pub mentions: &'a str,
    pub supersedes: Option<EventId>,
    /// How often the agent was sent it, this time included.
    pub sent: i64,
    pub event: EventView,
}

/// The params that bring it to the agent.
pub fn chat(app: &App, told: &Told<'_>) -> Result<String, serde_json::Error> {
    let header = header(app, told, None);
    let exposure = match ShownMode::of(told.attention.mode) {
        None => Exposure::Knock(knock_of(told)),
        Some(mode) => Exposure::Shown {
            mode,
            context: (told.conversation.kind == ConversationKind::Channel).then(|| THREAD_WINDOW.to_owned()),
            role: Some("user".to_owned()),
            content: content(&told.event),
        },
    };
    let event = EventId::parse(&told.event.event_id).unwrap_or(EventId(uuid::Uuid::nil()));
    let reliability =
        Reliability { attempt: told.sent, idempotency_key: IdempotencyKey::of_delivery(event, told.agent) };
    serde_json::to_string(&Delivery { header, exposure, reliability })
}

/// The whole event, for an agent that asked for it.
pub fn event(app: &App, told: &Told<'_>, disposition: Option<Disposition>) -> Event {
    Event { header: header(app, told, disposition), content: content(&told.event) }
}

fn header(app: &App, told: &Told<'_>, disposition: Option<Disposition>) -> Header {
    let event = &told.event;
    let thread = event.thread.as_deref().and_then(EventId::parse);
    let recipient = told.handle.filter(|_| told.attention.directedness == Directedness::ToMe);
    Header {
        event_id: WireId(event.event_id.clone()),
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
        supersedes: told.supersedes.map(WireId::from),
        // What a change is about, it takes the place of. An agent knows what waited by the name it waited under.
        in_reply_to: event
            .reply_to
            .clone()
            .or_else(|| event.more.get("approval").and_then(Value::as_str).map(str::to_owned))
            .or_else(|| event.target.clone())
            .map(WireId)
            .filter(|_| told.supersedes.is_none()),
        disposition,
    }
}

fn author_kind(event: &EventView) -> AuthorKind {
    // What became of a message that waited for a person is told by the hub, unless a person decided.
    let undecided = ["expired", "ended"].map(Value::from);
    let by_itself = event.more.get("outcome").is_some_and(|outcome| undecided.contains(outcome));
    if event.kind.known() == Some(EventKind::Escalation) || by_itself {
        return AuthorKind::System;
    }
    if event.author.is_agent() { AuthorKind::Agent } else { AuthorKind::Human }
}

/// Who said it; what the hub tells has no author but the hub.
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
    let name = Some(&told.conversation.name).filter(|name| !name.is_empty()).cloned();
    let stream_id = told.event.more.get("stream").and_then(Value::as_str).map(|id| WireId(id.to_owned()));
    let place = Place::new(told.conversation.id, told.conversation.kind, thread);
    let place = Place { name, stream_id, ..place };
    if author_kind(&told.event) == AuthorKind::System {
        return Place { kind: WireConversationKind::System, ..place };
    }
    place
}

/// What was said, as it stands. What has no words says in a few what it is.
fn content(event: &EventView) -> Content {
    let text = match (&event.content, event.deleted) {
        (_, true) => "(this message was deleted)".to_owned(),
        (Some(text), false) if !text.is_empty() => text.clone(),
        _ => event
            .more
            .get("signal")
            .and_then(Value::as_str)
            .map_or_else(|| format!("({})", event.kind), |signal| format!("({}: {signal})", event.kind)),
    };
    Content::text(text)
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
    // A signal is a word of the hub's own.
    let signal = event.more.get("signal").and_then(Value::as_str).and_then(Signal::parse);
    let topic = signal.map_or(topic, |signal| format!("reaction {signal} to your message"));
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

/// Where, by ids: names are what people wrote.
fn place(told: &Told<'_>) -> String {
    match (&told.event.thread, told.conversation.kind) {
        (Some(thread), _) => format!("thread:{thread}"),
        (None, ConversationKind::Dm) => format!("dm:{}", told.conversation.id),
        (None, ConversationKind::Channel) => format!("channel:{}", told.conversation.id),
    }
}

/// A relay envelope on its way.
pub struct Envelope<'a> {
    pub event: EventId,
    pub conversation: ConversationId,
    /// The sender's address.
    pub sender: &'a str,
    /// As it was received.
    pub body: &'a str,
    pub created_at: i64,
    pub attempt: i64,
}

/// The params that bring an envelope: a direct message, with the envelope beside its text.
pub fn envelope(
    app: &App,
    receiver: AgentId,
    name: &str,
    said: &Envelope<'_>,
) -> Result<String, serde_json::Error> {
    let envelope: Map<String, Value> = serde_json::from_str(said.body)?;
    let text = envelope.get("original_text").and_then(Value::as_str).unwrap_or_default().to_owned();
    let header = Header {
        author: Some(Author {
            id: None,
            kind: Some(AuthorKind::Agent),
            display_name: Some(said.sender.to_owned()),
        }),
        ..direct(
            app,
            said.event,
            said.created_at,
            Place::new(said.conversation, ConversationKind::Dm, None),
            name,
        )
    };
    let content = Content { parts: vec![Part::Text { text }], envelope: Some(envelope), job: None };
    serde_json::to_string(&shown(header, content, said.event, receiver, said.attempt))
}

/// The params that bring what another service posted.
pub fn foreign(
    app: &App,
    receiver: AgentId,
    entry: &Entry,
    posted: &str,
    attempt: i64,
) -> Result<String, serde_json::Error> {
    // It was checked when it came.
    let posted: Value = serde_json::from_str(posted)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().chars().collect::<String>();
    let (sender, content) = (text(&posted["message"]["sender"]), text(&posted["message"]["content"]));
    let place = Place {
        id: Some(entry.conversation.into()),
        kind: WireConversationKind::Channel,
        stream_id: None,
        thread_id: None,
        name: None,
    };
    let header = Header {
        source: Some(Source {
            platform: "channel".into(),
            workspace_id: posted["channel"]["service"].as_str().map(str::to_owned),
        }),
        author: Some(Author { id: None, kind: None, display_name: Some(sender) }),
        ..direct(app, entry.event, entry.created_at, place, "")
    };
    serde_json::to_string(&shown(header, Content::text(content), entry.event, receiver, attempt))
}

/// The params that bring a digest: counts and ids, all of them the hub's own, and nothing that anybody wrote.
pub fn digest(
    app: &App,
    receiver: AgentId,
    entry: &Entry,
    attempt: i64,
) -> Result<String, serde_json::Error> {
    let told: DigestBody = serde_json::from_str(&entry.body)?;
    let place = Place {
        id: told.conversation.map(Into::into),
        kind: WireConversationKind::System,
        name: None,
        stream_id: told.stream.as_ref().map(|id| WireId(id.to_string())),
        thread_id: None,
    };
    let mut header = Header {
        author: Some(Author { id: None, kind: Some(AuthorKind::System), display_name: None }),
        ..direct(app, entry.event, entry.created_at, place, "")
    };
    header.target.directedness = Directedness::Ambient;
    header.attention = engine::digest::attention(false).into();
    let content = Content::text(told.to_text());
    let exposure = Exposure::Shown { mode: ShownMode::Digest, context: None, role: None, content };
    let reliability =
        Reliability { attempt, idempotency_key: IdempotencyKey::of_delivery(entry.event, receiver) };
    serde_json::to_string(&Delivery { header, exposure, reliability })
}

/// The params that bring a job: an assignment, with the job as its worker reads it beside a sentence.
pub fn job(
    app: &App,
    receiver: AgentId,
    name: &str,
    entry: &Entry,
    job: &str,
    attempt: i64,
) -> Result<String, serde_json::Error> {
    let job: Map<String, Value> = serde_json::from_str(job)?;
    let skill = job.get("skill_name").and_then(Value::as_str).unwrap_or_default();
    let text = format!("A job that needs your skill {skill}. POST its result to the callback_url in it.");
    work(app, receiver, name, entry, (Intent::Assignment, text, job), attempt)
}

/// The params that bring a question what a job would cost.
pub fn quote(
    app: &App,
    receiver: AgentId,
    name: &str,
    entry: &Entry,
    attempt: i64,
) -> Result<String, serde_json::Error> {
    let asked: Map<String, Value> = serde_json::from_str(&entry.body)?;
    let member = |name: &str| asked.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = format!(
        "What would you do a job of your skill {} for? POST {{\"price\", \"expected_ms\"}} to /market/quotes/{}/offer, or let it be: \
         then your listed price counts.",
        member("skill_name"),
        member("quote_id")
    );
    work(app, receiver, name, entry, (Intent::Question, text, asked), attempt)
}

fn work(
    app: &App,
    receiver: AgentId,
    name: &str,
    entry: &Entry,
    (intent, text, job): (Intent, String, Map<String, Value>),
    attempt: i64,
) -> Result<String, serde_json::Error> {
    let place = Place {
        id: Some(entry.conversation.into()),
        kind: WireConversationKind::Tool,
        stream_id: None,
        thread_id: None,
        name: None,
    };
    let mut header = Header {
        author: Some(Author { id: None, kind: Some(AuthorKind::System), display_name: None }),
        ..direct(app, entry.event, entry.created_at, place, name)
    };
    header.attention.intent = Some(intent);
    let content = Content { parts: vec![Part::Text { text }], envelope: None, job: Some(job) };
    serde_json::to_string(&shown(header, content, entry.event, receiver, attempt))
}

/// The header of something that is for this agent alone.
fn direct(app: &App, event: EventId, created_at: i64, place: Place, name: &str) -> Header {
    Header {
        event_id: event.into(),
        source: Some(Source::hub(&app.config.host_name)),
        conversation: place,
        author: None,
        target: Target {
            mentions: vec![],
            recipient: (!name.is_empty()).then(|| Addressee::agent(name)),
            directedness: Directedness::ToMe,
        },
        timing: Some(Timing { created_at: Some(Time::at(created_at)), sequence: None }),
        attention: crate::attention::FOREIGN.into(),
        supersedes: None,
        in_reply_to: None,
        disposition: None,
    }
}

fn shown(header: Header, content: Content, event: EventId, agent: AgentId, attempt: i64) -> Delivery {
    let exposure =
        Exposure::Shown { mode: ShownMode::Immediate, context: None, role: Some("user".to_owned()), content };
    let reliability = Reliability { attempt, idempotency_key: IdempotencyKey::of_delivery(event, agent) };
    Delivery { header, exposure, reliability }
}
