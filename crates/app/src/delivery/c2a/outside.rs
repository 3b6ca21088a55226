//! Items from outside any conversation of this hub, in C2A: envelopes, posts of other services, jobs, their
//! results, and digests.

use crate::attention::{FOREIGN, envelopes};
use chorus_attention::{self as engine, capabilities::Capabilities};
use chorus_node::App;
use chorus_protocol::attention::Attention;
use chorus_protocol::c2a::{
    Addressee, Author, Content, Conversation as Place, Delivery, Event, Exposure, Header, IdempotencyKey,
    Part, Reliability, ShownMode, Source, Target, Time, Timing, WireId,
};
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_protocol::inbox::DigestBody;
use chorus_protocol::relay::EnvelopeText;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{
    AuthorKind, ConversationKind, Directedness, Intent, Policy, Reason, WireConversationKind,
};
use chorus_store::deliveries::Entry;
use chorus_store::obligations::Obligation;
use serde_json::{Map, Value};

/// Characters of a sender's name from another service that are shown.
const MAX_NAME: usize = 256;
/// Bytes of a job's input that are included in the text. The structured data always contains it.
const MAX_INPUT: usize = 16 * 1024;

/// An item for one agent alone.
pub struct Brought {
    event: EventId,
    header: Header,
    mode: ShownMode,
    content: Content,
}

impl Brought {
    /// Returns the params of the delivery for this attempt.
    pub fn params(self, receiver: AgentId, attempt: i64) -> Result<String, serde_json::Error> {
        let Self { event, header, mode, content } = self;
        let role = (mode != ShownMode::Digest).then(|| "user".to_owned());
        let exposure = Exposure::Shown { mode, context: None, role, content };
        let idempotency_key = IdempotencyKey::of_delivery(event, receiver);
        let reliability = Reliability { attempt, idempotency_key };
        serde_json::to_string(&Delivery { header, exposure, reliability })
    }

    /// Returns the event for an agent that asks for it, with its disposition.
    pub fn event(self, known: Option<&Obligation>) -> Event {
        let Self { mut header, content, .. } = self;
        if let Some(known) = known {
            let intent = header.attention.intent;
            header.attention = chorus_protocol::c2a::Attention { intent, ..known.attention.into() };
            header.disposition = known.disposition;
        }
        Event { header, content }
    }
}

/// A relay envelope for delivery.
pub struct Envelope<'a> {
    pub event: EventId,
    pub conversation: ConversationId,
    pub sender: &'a str,
    /// The envelope as it was received.
    pub body: &'a str,
    pub created_at: i64,
    /// The display capabilities at the target. `None` means those of the open session.
    pub shows: Option<Capabilities>,
}

/// Renders an envelope as a direct message, with the envelope as structured data.
pub fn envelope(
    app: &App,
    receiver: AgentId,
    name: &str,
    said: &Envelope<'_>,
) -> Result<Brought, serde_json::Error> {
    let envelope: Map<String, Value> = serde_json::from_str(said.body)?;
    let text = envelope.get("original_text").and_then(Value::as_str).unwrap_or_default().to_owned();
    let shows = said.shows.or_else(|| app.transport.live.shows(receiver)).unwrap_or_default();
    let attention = envelopes::meaning(&EnvelopeText::read(said.body), shows);
    let place = Place::new(said.conversation, ConversationKind::Dm, None);
    let header = Header {
        author: Some(Author {
            id: Some(WireId(said.sender.to_owned())),
            kind: Some(AuthorKind::Agent),
            display_name: Some(said.sender.to_owned()),
        }),
        attention: attention.into(),
        ..direct(app, said.event, said.created_at, place, name)
    };
    let content = Content { parts: vec![Part::Text { text }], envelope: Some(envelope), job: None };
    let mode = ShownMode::of(attention.mode).unwrap_or(ShownMode::Immediate);
    Ok(Brought { event: said.event, header, mode, content })
}

/// Renders a post of another service.
pub fn foreign(
    app: &App,
    receiver: AgentId,
    entry: &Entry,
    posted: &str,
) -> Result<Brought, serde_json::Error> {
    // The post was validated when it arrived.
    let posted: Value = serde_json::from_str(posted)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (sender, content) = (text(&posted["message"]["sender"]), text(&posted["message"]["content"]));
    let sender: String = sender.chars().take(MAX_NAME).collect();
    let attention =
        envelopes::meaning_of_post(&content, app.transport.live.shows(receiver).unwrap_or_default());
    let header = Header {
        source: Some(Source {
            platform: "channel".into(),
            workspace_id: posted["channel"]["service"].as_str().map(str::to_owned),
        }),
        author: Some(Author {
            id: Some(WireId(sender.clone())).filter(|WireId(id)| !id.is_empty()),
            kind: Some(AuthorKind::Human),
            display_name: Some(sender),
        }),
        attention: attention.into(),
        ..direct(app, entry.event, entry.created_at, place(entry, WireConversationKind::Channel), "")
    };
    let mode = ShownMode::of(attention.mode).unwrap_or(ShownMode::Immediate);
    Ok(Brought { event: entry.event, header, mode, content: Content::text(content) })
}

/// Renders a digest: counts and ids of the hub itself, and no member's text.
pub fn digest(app: &App, entry: &Entry) -> Result<Brought, serde_json::Error> {
    let told: DigestBody = serde_json::from_str(&entry.body)?;
    let place = Place {
        id: told.conversation.map(Into::into),
        kind: WireConversationKind::System,
        name: None,
        stream_id: told.stream.as_ref().map(|id| WireId(id.to_string())),
        thread_id: None,
        glyphs: None,
    };
    let mut header =
        Header { author: Some(by_hub()), ..direct(app, entry.event, entry.created_at, place, "") };
    header.target.directedness = Directedness::Ambient;
    header.attention = engine::digest::attention(false).into();
    let content = Content::text(told.to_text());
    Ok(Brought { event: entry.event, header, mode: ShownMode::Digest, content })
}

/// Renders a job as an assignment until its deadline, with the job request as structured data.
pub fn job(app: &App, name: &str, entry: &Entry, job: &str) -> Result<Brought, serde_json::Error> {
    let job: Map<String, Value> = serde_json::from_str(job)?;
    let skill = job.get("skill_name").and_then(Value::as_str).unwrap_or_default();
    let input = job.get("input_data").map(Value::to_string).filter(|input| input.len() <= MAX_INPUT);
    let input = input.map_or_else(|| "is in `job`".to_owned(), |input| format!("is {input}"));
    let text = format!(
        "A job that needs your skill {skill}. Its input {input}. Answer this with its output, an object in JSON or a text; or with \
         the whole result, {{\"job_id\", \"status\", \"output_data\", \"error_message\"}}, whose status is FAILURE if you cannot do it; or \
         POST that to the callback_url in `job`."
    );
    let deadline = job.get("deadline_at").and_then(Value::as_str).and_then(parse_rfc3339);
    let deadline_ms = deadline.map(|deadline| (deadline - entry.created_at).max(0));
    let attention = Attention { reason: Reason::Assignment, deadline_ms, ..FOREIGN };
    Ok(work(app, name, entry, WorkItem { intent: Intent::Assignment, text, data: job }, attention))
}

/// Renders a question for a quote.
pub fn quote(app: &App, name: &str, entry: &Entry) -> Result<Brought, serde_json::Error> {
    let asked: Map<String, Value> = serde_json::from_str(&entry.body)?;
    let member = |name: &str| asked.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = format!(
        "What would you do a job of your skill {} for? Answer this with the price, or POST {{\"price\", \"expected_ms\"}} to \
         /market/quotes/{}/offer, or let it be: then your listed price counts.",
        member("skill_name"),
        member("quote_id")
    );
    let attention = Attention { reason: Reason::Assignment, policy: Policy::MayRespond, ..FOREIGN };
    Ok(work(app, name, entry, WorkItem { intent: Intent::Question, text, data: asked }, attention))
}

/// Renders the result of a job that the agent hired for. It asks for nothing.
pub fn result(
    app: &App,
    name: &str,
    entry: &Entry,
    told: Option<&str>,
) -> Result<Brought, serde_json::Error> {
    let told: Map<String, Value> = told.map_or(Ok(Map::new()), serde_json::from_str)?;
    let status = told.get("status").and_then(Value::as_str).unwrap_or("not kept any more");
    let text = format!("What came of a job you hired for: {status}.");
    let attention = Attention { reason: Reason::StatusBroadcast, policy: Policy::MayRespond, ..FOREIGN };
    Ok(work(app, name, entry, WorkItem { intent: Intent::Status, text, data: told }, attention))
}

/// Something about a job, as text and as data.
struct WorkItem {
    intent: Intent,
    text: String,
    data: Map<String, Value>,
}

fn work(
    app: &App,
    name: &str,
    entry: &Entry,
    WorkItem { intent, text, data }: WorkItem,
    attention: Attention,
) -> Brought {
    let place = place(entry, WireConversationKind::Tool);
    let mut header = Header {
        author: Some(by_hub()),
        attention: attention.into(),
        ..direct(app, entry.event, entry.created_at, place, name)
    };
    header.attention.intent = Some(intent);
    let content = Content { parts: vec![Part::Text { text }], envelope: None, job: Some(data) };
    Brought { event: entry.event, header, mode: ShownMode::Immediate, content }
}

fn by_hub() -> Author {
    Author { id: None, kind: Some(AuthorKind::System), display_name: None }
}

fn place(entry: &Entry, kind: WireConversationKind) -> Place {
    let id = Some(entry.conversation.into());
    Place { id, kind, stream_id: None, thread_id: None, name: None, glyphs: None }
}

/// Returns the header of an item for this agent alone.
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
        attention: FOREIGN.into(),
        supersedes: None,
        in_reply_to: None,
        disposition: None,
    }
}
