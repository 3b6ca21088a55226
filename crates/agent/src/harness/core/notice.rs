//! Messages to a C2A host: the events in a turn, its progress, their disposition, and the answer.
//!
//! Pure. An answer is a call of the tool `chat.send_message`, which the host deduplicates by its key. A claim
//! may be repeated too. Notifications are repeated only where that is harmless.

use super::post::{LAST, Outgoing, PERSISTENT, REPORTS, Receiver, To};
use super::task::Task;
use crate::harness::texts::clean;
use crate::harness::turn::{Back, SessionBack, Turn};
use chorus_protocol::c2a::{
    CLAIM_TTL_MS, ChatTool, Claim, Destination, Disposed, IdempotencyKey, Injected, Method, Progress, React,
    SendMessage, WireId,
};
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use chorus_protocol::words::{
    AuthorKind, Directedness, Disposition, EntryKind, Mode, Policy, Priority, Reason, Signal, Visibility,
    WireConversationKind,
};
use serde::Serialize;
use serde_json::{Map, Value};

/// The time to wait for another agent's claim, or for an offer to another agent, to expire.
const CLAIM_PATIENCE_MS: i64 = 60_000;

/// The longest reason or message that a host accepts, in characters.
const MAX_WORDS: usize = 1000;

/// The decision about a message before a turn is started.
pub(super) enum Attend {
    /// A turn is started.
    Work,
    /// The message must be claimed first. Its text comes with the claim.
    Claim,
    /// No turn is started.
    Leave(Disposition, &'static str),
}

/// Decides by the response policy and the injection mode.
pub(super) fn attend(turn: &Turn) -> Attend {
    match (turn.policy, turn.mode) {
        (Some(Policy::MustNotRespond), _) => Attend::Leave(Disposition::Ignored, "it is not to be answered"),
        (Some(Policy::AckOnly), _) => Attend::Leave(Disposition::Acknowledged, "it needs no answer"),
        (_, Some(Mode::ToolMailbox | Mode::Digest | Mode::Silent)) => {
            Attend::Leave(Disposition::Ignored, "it is only to be known")
        }
        _ if !turn.withheld => Attend::Work,
        (Some(Policy::MustRespond), _) => Attend::Claim,
        // A person's addition for an agent that was asked before is delivered with more than low priority.
        (_, _)
            if turn.reason == Some(Reason::ThreadParticipation)
                && turn.author == Some(AuthorKind::Human)
                && turn.priority.is_some_and(|priority| priority != Priority::Low) =>
        {
            Attend::Claim
        }
        _ if matches!(turn.reason, Some(Reason::ThreadParticipation | Reason::InboundReaction)) => {
            Attend::Leave(Disposition::Ignored, "others talk; nobody asked")
        }
        _ => Attend::Claim,
    }
}

/// Creates the notification to the host for a progress report.
pub(super) fn shown(
    task: &mut Task,
    event: &CallbackEvent,
    now_ms: i64,
    patience_ms: i64,
) -> Option<Outgoing> {
    task.shown += 1;
    let message = match event {
        CallbackEvent::Lifecycle { status: Lifecycle::Processing } => {
            return Some(notice(Method::Injected, injected(task), false, now_ms + patience_ms));
        }
        CallbackEvent::Status { status } => status.clone(),
        CallbackEvent::ToolCall { name, .. } => format!("calls {name}"),
        // The outcome is sent as a disposition. A tool's result is for the model only.
        _ => return None,
    };
    let (progress_token, progress) = (WireId(task.turn.message_id.clone()), task.shown.into());
    let message = Some(clean(&message, MAX_WORDS));
    let progress = Progress { progress_token, progress, total: None, message };
    Some(notice(Method::Progress, progress, false, now_ms + patience_ms))
}

/// Creates the notification that a turn with these messages still runs.
pub(super) fn worked_on(task: &Task) -> To {
    To::Notice { method: Method::Injected, params: object(injected(task)) }
}

fn injected(task: &Task) -> Injected {
    let event_ids = task.turns().map(|turn| WireId(turn.message_id.clone())).collect();
    Injected { event_ids, turn_id: WireId(format!("turn-{}-{}", task.number, task.turn.message_id)) }
}

/// Creates the notification of an event's disposition.
pub(super) fn disposed(
    turn: &Turn,
    disposition: Disposition,
    why: Option<&str>,
    deadline_ms: i64,
) -> Option<Outgoing> {
    // The harness may not ignore a message that requires an answer, so it stays open.
    let open = turn.policy == Some(Policy::MustRespond) && disposition == Disposition::Ignored;
    let is_told = match turn.back {
        Back::Session(_) => true,
        // An inbox has no other way to tell that a message was merged into a later one.
        Back::Callback(_) => turn.kind == EntryKind::Chat && disposition == Disposition::Superseded,
        Back::Envelope(_) => false,
    };
    if open || !is_told {
        return None;
    }
    let (event_id, reason) = (WireId(turn.message_id.clone()), why.map(|why| clean(why, MAX_WORDS)));
    Some(notice(Method::Disposition, Disposed { event_id, disposition, reason }, true, deadline_ms))
}

fn notice(method: Method, params: impl Serialize, last: bool, deadline_ms: i64) -> Outgoing {
    let to = To::Notice { method, params: object(params) };
    Outgoing::new(to, Receiver::KnowsKeys, if last { LAST } else { REPORTS }, deadline_ms)
}

/// Creates the call that sends an answer. Returns `None` if there is no conversation to answer in.
pub(super) fn answer(turn: &Turn, back: &SessionBack, text: &str, deadline_ms: i64) -> Option<Outgoing> {
    let conversation_id = WireId(back.conversation.clone()?);
    let kind = turn.place.as_ref().and_then(|place| place.kind.as_deref());
    let visibility = match (&back.thread, kind.and_then(WireConversationKind::parse)) {
        (Some(_), _) => Visibility::Thread,
        (None, Some(WireConversationKind::Dm)) => Visibility::Dm,
        _ => Visibility::Channel,
    };
    let message = SendMessage {
        target: Destination { conversation_id, thread_id: back.thread.clone().map(WireId), stream_id: None },
        in_reply_to: Some(WireId(turn.message_id.clone())),
        idempotency_key: IdempotencyKey(turn.answer_key()),
        visibility,
        // The answer is addressed to the agents and people mentioned in the text.
        directedness: Directedness::ToMe,
        text: text.to_owned(),
        intent: None,
        priority: None,
        deadline_ms: None,
        requires_approval: false,
    };
    let to = To::Tool { tool: ChatTool::SendMessage, arguments: object(message) };
    Some(Outgoing::new(to, Receiver::KnowsKeys, PERSISTENT, deadline_ms))
}

/// Checks whether a message from a hub requires an answer.
pub(super) fn is_to_be_answered(turn: &Turn) -> bool {
    let by_hub = match turn.back {
        Back::Session(_) => true,
        Back::Callback(_) => turn.kind == EntryKind::Chat,
        Back::Envelope(_) => false,
    };
    by_hub && turn.policy == Some(Policy::MustRespond)
}

/// Creates the reaction `seen`. Repeating it changes nothing.
pub(super) fn seen(turn: &Turn, deadline_ms: i64) -> Outgoing {
    let in_reply_to = WireId(turn.message_id.clone());
    let reaction = React { in_reply_to, signal: Signal::Seen, eta: None, removed: false };
    let to = To::Tool { tool: ChatTool::React, arguments: object(reaction) };
    Outgoing::new(to, Receiver::KnowsKeys, LAST, deadline_ms)
}

/// Creates the claim of an event.
pub(super) fn claim(turn: &Turn, now_ms: i64) -> Outgoing {
    let event_id = WireId(turn.message_id.clone());
    let claim = Claim { event_id, ttl_ms: CLAIM_TTL_MS, release: false };
    let to = To::Tool { tool: ChatTool::Claim, arguments: object(claim) };
    Outgoing::new(to, Receiver::KnowsKeys, PERSISTENT, now_ms + CLAIM_PATIENCE_MS)
}

/// Creates the release of the claim that a turn had. An event that was not claimed stays as it is.
pub(super) fn released(turn: &Turn, deadline_ms: i64) -> Option<Outgoing> {
    if !matches!(turn.back, Back::Session(_)) || turn.kind != EntryKind::Chat {
        return None;
    }
    let event_id = WireId(turn.message_id.clone());
    let claim = Claim { event_id, ttl_ms: CLAIM_TTL_MS, release: true };
    let to = To::Tool { tool: ChatTool::Claim, arguments: object(claim) };
    Some(Outgoing::new(to, Receiver::KnowsKeys, REPORTS, deadline_ms))
}

fn object(value: impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
