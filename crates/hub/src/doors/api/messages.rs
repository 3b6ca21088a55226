//! What is said in conversations: messages, their edits and deletions, and reactions to them.

use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use super::conversation::{
    MAX_BODY, MemberRequest, Name, conversation_id, event_id, fields, handles, mask, message_id, only, query,
    text, word,
};
use super::stream::frame;
use super::{Written, value};
use crate::app::{App, AppState};
use crate::attention::{self, Attention, WOKEN};
use crate::error::ApiError;
use crate::frame::may_say;
use crate::usage::event_bytes;
use crate::views::EventView;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use chorus_protocol::channel::MAX_CONTENT;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::EventId;
use chorus_protocol::json;
use chorus_protocol::mentions::{MAX_MENTIONS, mentions};
use chorus_protocol::words::{EventKind, Intent, Priority, Signal};
use chorus_store::Tx;
use chorus_store::channel::{self, Act, Post, Posted, Woken};
use chorus_store::conversations::Event;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The shortest and the longest time to answer, in milliseconds.
const MIN_DEADLINE_MS: i64 = 1_000;
const MAX_DEADLINE_MS: i64 = 24 * 60 * 60 * 1000;
/// The longest estimate of a reaction, in characters.
const MAX_ETA: usize = 100;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(post)).routes(routes!(edit, delete)).routes(routes!(react))
}

/// Something to be said.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct MessageBody {
    /// Markdown; `@handle` mentions a member. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000, example = "@bob can you look at this?")]
    content: String,
    /// A message of the thread it belongs to, or one to begin a thread with.
    #[schema(pattern = "^evt_[0-9a-f]{32}$")]
    thread: Option<String>,
    /// The message it answers.
    #[schema(pattern = "^evt_[0-9a-f]{32}$")]
    reply_to: Option<String>,
    /// Handles of members it is for, besides those it mentions.
    #[schema(max_items = 50)]
    to: Option<Vec<Name>>,
    /// What it is meant as.
    #[schema(
        pattern = "^(question|assignment|approval_request|approval|blocker|cancellation|safety|thanks|acknowledgement|status|progress|log|chat)$"
    )]
    intent: Option<String>,
    /// How much it matters.
    #[schema(pattern = "^(low|normal|high|urgent)$")]
    priority: Option<String>,
    /// How long an answer may take, in milliseconds.
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    deadline_ms: Option<i64>,
}

/// What was said, and whom it reaches.
#[derive(Debug, Serialize, ToSchema)]
struct PostedView {
    /// Its id.
    event_id: String,
    /// Its place in the conversation.
    sequence: i64,
    /// The message that began the thread it is in.
    thread: Option<String>,
    /// Whom it reaches.
    attention: AttentionView,
    /// The kinds of credentials that were masked in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masked: Vec<&'static str>,
}

/// Whom a message reaches, by handle.
#[derive(Debug, Serialize, ToSchema)]
struct AttentionView {
    /// Agents it is delivered to.
    woken: Vec<String>,
    /// Agents that are told there is something.
    knocked: Vec<String>,
    /// Agents it is kept for until they ask: who is named beyond the 50 that one message wakes.
    stored_for: Vec<String>,
}

/// Whom a message would reach.
#[derive(Debug, Serialize, ToSchema)]
struct RehearsalView {
    /// One for each agent that would be woken.
    attention: Vec<DecisionView>,
}

/// What is decided for one agent.
#[derive(Debug, Serialize, ToSchema)]
struct DecisionView {
    /// What it is called there.
    handle: String,
    /// To whom it is directed: `to_me`.
    directedness: &'static str,
    /// What is expected of it: `must_respond`.
    policy: &'static str,
    /// When it enters the agent's work: `immediate`.
    mode: &'static str,
    /// Why.
    reason: &'static str,
}

impl From<Woken> for DecisionView {
    fn from(woken: Woken) -> Self {
        let Attention { directedness, policy, mode } = WOKEN;
        Self { handle: woken.handle, directedness, policy, mode, reason: woken.reason.as_str() }
    }
}

/// What was added to the log.
#[derive(Debug, Serialize, ToSchema)]
struct NotedView {
    /// The id of the new event.
    event_id: String,
    /// Its place in the conversation.
    sequence: i64,
    /// The kinds of credentials that were masked in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masked: Vec<&'static str>,
}

impl NotedView {
    fn written(
        status: StatusCode,
        event: EventId,
        seq: i64,
        masked: &[&'static str],
    ) -> Result<Written, ApiError> {
        let noted = Self { event_id: event.to_string(), sequence: seq, masked: masked.to_vec() };
        Ok((status, value(&noted)?))
    }
}

/// What is said, without credentials, and what they were.
fn content(fields: &mut Fields<'_, '_>) -> (String, Vec<&'static str>) {
    fields.required("content");
    mask(text(fields, "content", 1, MAX_CONTENT).unwrap_or_default())
}

/// The parts of a message's body that are kept with it.
fn kept(content: &str, masked: &[&'static str]) -> Map<String, Value> {
    let mut kept = Map::from_iter([("content".to_owned(), json!(content))]);
    if !masked.is_empty() {
        kept.insert("masked".into(), json!(masked));
    }
    kept
}

fn deadline(fields: &mut Fields<'_, '_>) -> Option<i64> {
    let value = fields.get("deadline_ms")?;
    let deadline = json::whole(value).filter(|ms| (MIN_DEADLINE_MS..=MAX_DEADLINE_MS).contains(ms));
    if deadline.is_none() {
        let fault = format_args!("must be an integer from {MIN_DEADLINE_MS} to {MAX_DEADLINE_MS}");
        fields.fault("deadline_ms", fault);
    }
    deadline
}

/// What is to be said, and what was masked in it.
pub(crate) fn read_post(body: &Value) -> Result<(Post, Vec<&'static str>), ApiError> {
    fields(body, |fields| {
        let (content, masked) = content(fields);
        let mut kept = kept(&content, &masked);
        let to = handles(fields, "to", MAX_MENTIONS);
        let more = [
            ("to", (!to.is_empty()).then(|| json!(to))),
            ("intent", word(fields, "intent", Intent::ALL, Intent::as_str).map(|word| word.as_str().into())),
            (
                "priority",
                word(fields, "priority", Priority::ALL, Priority::as_str).map(|word| word.as_str().into()),
            ),
            ("deadline_ms", deadline(fields).map(Into::into)),
        ];
        kept.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let post = Post {
            body: Value::Object(kept).to_string(),
            mentions: mentions(&content).into_iter().map(str::to_owned).collect(),
            text: content,
            thread: message_id(fields, "thread"),
            reply_to: message_id(fields, "reply_to"),
            to,
        };
        (post, masked)
    })
}

fn is_dry(uri: &Uri) -> Result<bool, ApiError> {
    let mut dry = false;
    for (_, value) in query(uri).filter(|(name, _)| name == "dry_run") {
        let fault = |_| Faults::one("dry_run", "must be true or false");
        dry = value.parse().map_err(fault)?;
    }
    Ok(dry)
}

/// Say something
///
/// Success means committed to disk. Agents that are mentioned, that it is for, or that the conversation is with are woken;
/// nobody else is. With `dry_run=true` nothing is written: the answer says who would be woken and why.
#[utoipa::path(post, path = "/api/v1/channels/{id}/messages", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("dry_run" = Option<bool>, Query, description = "Only ask whom it would wake"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same message")),
    request_body(content_type = "application/json", content = MessageBody),
    responses((status = 201, description = "Said", body = PostedView),
              (status = 200, description = "With `dry_run`: whom it would wake", body = RehearsalView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn post(
    State(app): State<AppState>,
    Path(id): Path<String>,
    uri: Uri,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let dry = is_dry(&uri)?;
    let (new, masked) = read_post(&asked.json()?)?;
    let act = asked.act(&app, conversation_id(&id)?);
    if dry {
        let rehearse =
            move |tx: &mut dyn Tx| Ok(channel::rehearse(tx, &act, &new, attention::decide_recipients)?);
        let woken = super::read(&app, rehearse).await?;
        let attention = woken.into_iter().map(Into::into).collect();
        return Ok(Json(RehearsalView { attention }).into_response());
    }
    let (id, who) = (act.conversation, act.author);
    if who.agent().is_some() {
        // Only members are counted.
        super::read(&app, move |tx| Ok(channel::look(tx, id, who).map(drop)?)).await?;
    }
    may_say(&app, who, id, 1)?;
    let hub = Arc::clone(&app);
    asked
        .write(&app, move |tx| {
            let posted = channel::post(tx, &act, &new, attention::decide_recipients)?;
            hub.count_bytes(tx, act.author, event_bytes(new.body.len()))?;
            hand_on(&hub, tx, &act, &new, &posted)?;
            let woken = posted.woken.into_iter().map(|(woken, ..)| woken.handle).collect();
            let view = PostedView {
                event_id: act.event.to_string(),
                sequence: posted.seq,
                thread: posted.thread.map(|thread| thread.to_string()),
                attention: AttentionView { woken, knocked: vec![], stored_for: posted.left_out },
                masked: masked.clone(),
            };
            Ok((StatusCode::CREATED, value(&view)?))
        })
        .await
}

/// Once it is committed: those who follow the conversation here get its one frame, and what is to be pushed is pushed.
pub(crate) fn hand_on(
    app: &AppState,
    tx: &mut dyn Tx,
    act: &Act,
    new: &Post,
    posted: &Posted,
) -> Result<(), ApiError> {
    if !posted.woken.is_empty() {
        app.push_after(tx);
    }
    let (stream, seq) = (act.conversation.0, posted.seq);
    if !app.live.is_followed(stream) {
        return Ok(());
    }
    let event = Event {
        id: act.event,
        conversation: act.conversation,
        seq,
        kind: EventKind::Message,
        author: act.author,
        handle: Some(posted.handle.clone()),
        trace: act.trace,
        created_at: act.now,
        thread: posted.thread,
        target: new.reply_to,
        body: new.body.clone(),
    };
    let (frame, app) = (frame(&EventView::new(&event))?, Arc::clone(app));
    tx.after_commit(Box::new(move || app.live.frames.put(stream, seq, frame)));
    Ok(())
}

/// What a message is to say instead.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct EditBody {
    /// Markdown. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000)]
    content: String,
}

/// The message that a path names, and what its caller does with it.
fn about(
    app: &App,
    asked: &MemberRequest,
    (id, event): &(String, String),
) -> Result<(Act, EventId), ApiError> {
    let act = asked.act(app, conversation_id(id)?);
    Ok((act, event_id(event)?))
}

/// Change what a message says
///
/// Its author may. Whom it mentions now is not woken.
#[utoipa::path(patch, path = "/api/v1/channels/{id}/messages/{event_id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("event_id" = String, Path, description = "Of a message there"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = EditBody),
    responses((status = 200, description = "Changed", body = NotedView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn edit(
    State(app): State<AppState>,
    Path(path): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let (content, masked) = fields(&asked.json()?, content)?;
    let body = Value::Object(kept(&content, &masked)).to_string();
    let ((act, target), hub) = (about(&app, &asked, &path)?, Arc::clone(&app));
    asked
        .write(&app, move |tx| {
            let seq = channel::edit(tx, &act, target, &body, &content)
                .map_err(only("the author of a message, and nobody else, changes it"))?;
            hub.count_bytes(tx, act.author, event_bytes(body.len()))?;
            NotedView::written(StatusCode::OK, act.event, seq, &masked)
        })
        .await
}

/// Take a message back
///
/// Its author may, and the owner of the channel.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/messages/{event_id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("event_id" = String, Path, description = "Of a message there")),
    responses((status = 204, description = "Taken back"),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn delete(
    State(app): State<AppState>,
    Path(path): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let (act, target) = about(&app, &asked, &path)?;
    asked
        .write(&app, move |tx| {
            channel::delete(tx, &act, target)
                .map_err(only("the author of a message and the owner of the channel take it back"))?;
            Ok((StatusCode::NO_CONTENT, ().into()))
        })
        .await
}

/// What is thought of a message.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct ReactionBody {
    /// What.
    #[schema(
        pattern = "^(seen|agree|working|queued|claimed|done|declined|blocked|unclear)$",
        example = "working"
    )]
    signal: String,
    /// When there will be more, in words.
    #[schema(min_length = 1, max_length = 100, example = "in 10 minutes")]
    eta: Option<String>,
    /// Whether it is not thought any more.
    removed: Option<bool>,
}

/// What is thought, and what was masked in it.
pub(crate) fn read_reaction(body: &Value) -> Result<(Signal, String, Vec<&'static str>), ApiError> {
    fields(body, |fields| {
        fields.required("signal");
        // Without one it is refused.
        let signal = word(fields, "signal", Signal::ALL, Signal::as_str).unwrap_or(Signal::Seen);
        let (eta, masked) = text(fields, "eta", 1, MAX_ETA).map(mask).unzip();
        let mut body = json!({"signal": signal});
        if let Some(eta) = eta {
            body["eta"] = eta.into();
        }
        if fields.flag("removed") {
            body["removed"] = true.into();
        }
        (signal, body.to_string(), masked.unwrap_or_default())
    })
}

/// React to a message
///
/// The same reaction again, while it stands, changes nothing: the answer names the one there is.
#[utoipa::path(post, path = "/api/v1/channels/{id}/messages/{event_id}/reactions", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("event_id" = String, Path, description = "Of a message there"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = ReactionBody),
    responses((status = 201, description = "Noted", body = NotedView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn react(
    State(app): State<AppState>,
    Path(path): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let (signal, body, masked) = read_reaction(&asked.json()?)?;
    let ((act, target), hub) = (about(&app, &asked, &path)?, Arc::clone(&app));
    asked
        .write(&app, move |tx| {
            let (event, seq) = channel::react(tx, &act, target, signal, &body)?;
            if event == act.event {
                hub.count_bytes(tx, act.author, event_bytes(body.len()))?;
            }
            NotedView::written(StatusCode::CREATED, event, seq, &masked)
        })
        .await
}
