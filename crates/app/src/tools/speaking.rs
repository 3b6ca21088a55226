//! Tools that post: messages, reactions and statuses.

use super::context::Context;
use super::input::{Destination, React, SendMessage, SetStatus, either, required};
use super::output::{Added, Sent};
use crate::conversation;
use chorus_node::Error;
use chorus_node::idempotency::Once;
use chorus_protocol::api::messages::{NewMessage, NewReaction, Noted, Sent as Became};
use chorus_protocol::code::Code;
use chorus_protocol::ids::EventId;
use chorus_protocol::words::Visibility;

pub(super) async fn send_message(context: Context, message: SendMessage) -> Result<Sent, Error> {
    let message = under_one_name(&context, message)?;
    let once = context.once("chat_send_message", message.idempotency_key.as_ref(), &message)?;
    let visibility = message.visibility.unwrap_or(Visibility::Channel);
    let SendMessage { content, thread, reply_to, stream, to, intent, priority, deadline_ms, .. } = message;
    let SendMessage { directedness, requires_approval, ephemeral, .. } = message;
    let new = NewMessage {
        content: content.unwrap_or_default(),
        thread,
        reply_to,
        stream,
        to,
        intent,
        priority,
        deadline_ms,
        directedness,
        requires_approval,
        ephemeral,
    };
    let new = conversation::seen_by(&context.app, context.conversation, new, visibility).await?;
    let sent = conversation::send(&context.app, context.who, context.conversation, new, once);
    Ok(match sent.await.map_err(too_fast)?.result {
        Became::Said(said) => Sent {
            event_id: said.event_id.to_string(),
            sequence: Some(said.sequence),
            status: "said".to_owned(),
            thread: said.thread.map(|thread| thread.to_string()),
            woken: said.attention.woken,
            knocked: said.attention.knocked,
            stored_for: said.attention.stored_for,
            stored_count: said.attention.stored_count,
            masked: said.masked,
        },
        Became::Held(held) => unsaid(held.approval.to_string(), held.status, None, held.masked),
        Became::Shown(shown) => unsaid(shown.event_id.to_string(), shown.status, shown.thread, shown.masked),
    })
}

/// Converts a message to the tools' original argument names, so that both spellings share one idempotency key.
fn under_one_name(context: &Context, message: SendMessage) -> Result<SendMessage, Error> {
    let SendMessage { content, text, reply_to, in_reply_to, thread, stream, target, .. } = message;
    let Destination { conversation_id, thread_id, stream_id } = target.unwrap_or_default();
    context.is_here("target.conversation_id", conversation_id)?;
    Ok(SendMessage {
        content: Some(required(("content", content), ("text", text))?),
        reply_to: either(("reply_to", reply_to), ("in_reply_to", in_reply_to))?,
        thread: either(("thread", thread), ("target.thread_id", thread_id))?,
        stream: either(("stream", stream), ("target.stream_id", stream_id))?,
        text: None,
        in_reply_to: None,
        target: None,
        ..message
    })
}

/// Returns the result for a message that is not in the log, because it is held or ephemeral.
fn unsaid(event_id: String, status: String, thread: Option<EventId>, masked: Vec<String>) -> Sent {
    let thread = thread.map(|thread| thread.to_string());
    let (woken, knocked, stored_for) = (vec![], vec![], vec![]);
    Sent { event_id, sequence: None, status, thread, woken, knocked, stored_for, stored_count: 0, masked }
}

/// Adds the retry delay to the message of a rate limit error, because a model does not see the header.
fn too_fast(error: Error) -> Error {
    if error.code != Code::RateLimited {
        return error;
    }
    let seconds = (error.retry_after_ms.unwrap_or(1000) + 999) / 1000;
    let message =
        format!("nothing was said: you say too much here too fast; wait {seconds} s, or say more at once");
    Error { message, ..error }
}

fn added(noted: Noted) -> Added {
    Added { event_id: noted.event_id.to_string(), sequence: noted.sequence, masked: noted.masked }
}

pub(super) async fn react(context: Context, reaction: React) -> Result<Added, Error> {
    let React { event_id, in_reply_to, signal, eta, removed } = reaction;
    let event_id = required(("event_id", event_id), ("in_reply_to", in_reply_to))?;
    let (target, new) = ((context.conversation, event_id), NewReaction { signal, eta, removed });
    let reacted = conversation::react(&context.app, context.who, target, new, Once::NO_KEY).await?;
    Ok(added(reacted.result))
}

pub(super) async fn set_status(context: Context, SetStatus { status }: SetStatus) -> Result<Added, Error> {
    let told = conversation::set_status(&context.app, context.who, context.conversation, &status).await?;
    Ok(added(told))
}
