//! The chat tools as C2A lists and calls them: what they are is said by the one table of tools, what they do by the acts that every
//! door calls.

use super::{Harness, answering, reading, refusing};
use crate::attention::claiming::Standing;
use crate::conversation::{self, conversation_id};
use crate::error::Error;
use crate::once::Once;
use crate::tools::{self as table, Effect};
use crate::work_streams::stream_id;
use chorus_attention::claims::Request;
use chorus_protocol::api::messages::{NewMessage, NewReaction, Sent as Became};
use chorus_protocol::c2a::{
    Addressee, Call, CallFault, ChatTool, Claim, Claimed, Defer, ListEvents, Reached, React, ReadThread,
    Recorded, Resolve, SendMessage, Sent, Time, ToolCall, ToolHints, ToolInfo, ToolList, ToolResult, WireId,
};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId};
use chorus_protocol::rpc::RpcError;
use chorus_protocol::words::{ClaimState, ConversationKind, Visibility};
use chorus_store::conversations;
use chorus_store::{StoreError, Tx, obligations};
use serde::Serialize;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// The tools, made once.
static LISTED: LazyLock<Value> = LazyLock::new(|| {
    let tools = ChatTool::ALL.iter().filter_map(|tool| info(*tool)).collect();
    serde_json::to_value(ToolList { tools }).unwrap_or_default()
});

/// The answer to `tools/list`.
pub(super) fn listed() -> Value {
    LISTED.clone()
}

fn info(tool: ChatTool) -> Option<ToolInfo> {
    let known = table::find(&tool.underscored())?;
    let schema = match tool {
        ChatTool::ListEvents => table::schema_of::<ListEvents>(),
        ChatTool::ReadThread => table::schema_of::<ReadThread>(),
        ChatTool::SendMessage => table::schema_of::<SendMessage>(),
        ChatTool::React => table::schema_of::<React>(),
        ChatTool::Claim => table::schema_of::<Claim>(),
        ChatTool::Defer => table::schema_of::<Defer>(),
        ChatTool::Resolve => table::schema_of::<Resolve>(),
    };
    let reads = known.effect == Effect::Reads;
    // A message has a key of its own.
    let idempotent = reads || known.effect == Effect::Replaces || tool == ChatTool::SendMessage;
    Some(ToolInfo {
        name: tool.as_str().to_owned(),
        description: known.description.to_owned(),
        input_schema: schema.as_object().cloned(),
        annotations: Some(ToolHints { read_only_hint: reads, idempotent_hint: idempotent }),
    })
}

/// Calls one. What it refuses is its result.
pub(super) async fn call(harness: &Harness, call: ToolCall) -> Result<Value, RpcError> {
    let name = call.name.clone();
    let called = match Call::read(call) {
        Ok(called) => called,
        Err(CallFault::UnknownTool) => {
            let what = format_args!("there is no tool {name:?}; tools/list tells them");
            return Err(RpcError::params(what));
        }
        Err(CallFault::Arguments(faults)) => return written(refusing::result(&Error::validation(faults))),
    };
    harness.app.metrics.tool_called(called.tool().as_str());
    let done = match called {
        Call::ListEvents(asked) => done(reading::list_events(harness, asked).await),
        Call::ReadThread(asked) => done(reading::read_thread(harness, asked).await),
        Call::SendMessage(message) => done(send(harness, message).await),
        Call::React(reaction) => done(react(harness, reaction).await),
        Call::Claim(asked) => done(claim(harness, asked).await),
        Call::Defer(asked) => done(defer(harness, asked).await),
        Call::Resolve(asked) => done(resolve(harness, asked).await),
    };
    written(done)
}

fn done<T: Serialize>(result: Result<T, Error>) -> Result<ToolResult, serde_json::Error> {
    match result {
        Ok(result) => ToolResult::done(&result),
        Err(error) => refusing::result(&error),
    }
}

fn written(result: Result<ToolResult, serde_json::Error>) -> Result<Value, RpcError> {
    let value = result.and_then(serde_json::to_value);
    value.map_err(|error| refusing::rpc(&Error::internal(error)))
}

async fn send(harness: &Harness, message: SendMessage) -> Result<Sent, Error> {
    let app = &harness.app;
    let words = serde_json::to_vec(&message).map_err(Error::internal)?;
    let key = Some(message.idempotency_key.0.as_str());
    let once = Once::new(app, "c2a", &harness.agent(), "send_message", key, &words);
    let id = conversation_id(&message.target.conversation_id.0)?;
    let event = |given: &Option<WireId>| given.as_ref().map(|id| conversation::event_id(&id.0)).transpose();
    let (reply_to, mut thread) = (event(&message.in_reply_to)?, event(&message.target.thread_id)?);
    if let Some(sent) = answering::from_outside(harness, reply_to).await? {
        if sent.conversation != id {
            return Err(Faults::one("target.conversationId", "must be where inReplyTo was said").into());
        }
        if message.requires_approval || message.visibility == Visibility::Ephemeral {
            let what = "is answered outside of this hub: it neither waits for a person nor passes by";
            return Err(Faults::one("inReplyTo", what).into());
        }
        return answering::answer(harness, sent, &message, once, &words).await;
    }
    match message.visibility {
        Visibility::Thread => thread = thread.or(reply_to),
        Visibility::Dm => is_of_two(harness, id).await?,
        Visibility::Channel | Visibility::Ephemeral => {}
    }
    if message.visibility == Visibility::Thread && thread.is_none() {
        return Err(Faults::one("target.threadId", "is required for a message in a thread").into());
    }
    let stream = message.target.stream_id.as_ref().map(|id| stream_id(&id.0)).transpose()?;
    let new = NewMessage {
        content: message.text,
        thread,
        reply_to,
        stream,
        to: vec![],
        intent: message.intent,
        priority: message.priority,
        deadline_ms: message.deadline_ms,
        directedness: Some(message.directedness),
        requires_approval: message.requires_approval,
        ephemeral: message.visibility == Visibility::Ephemeral,
    };
    let sent = conversation::send(app, harness.agent().into(), id, new, once).await?;
    Ok(match sent.result {
        Became::Said(said) => {
            let reached = said.attention;
            let attention = Reached {
                woken: reached.woken,
                knocked: reached.knocked,
                stored_for: reached.stored_for,
                stored_count: reached.stored_count,
            };
            let thread_id = said.thread.map(Into::into);
            let sequence = Some(said.sequence);
            Sent { sequence, thread_id, attention, ..unplaced(said.event_id.into(), said.masked) }
        }
        Became::Held(held) => {
            let unknown = held.unknown;
            Sent {
                awaits_approval: true,
                unknown,
                ..unplaced(WireId(held.approval.to_string()), held.masked)
            }
        }
        Became::Shown(shown) => {
            let thread_id = shown.thread.map(Into::into);
            Sent { ephemeral: true, thread_id, ..unplaced(shown.event_id.into(), shown.masked) }
        }
    })
}

/// What became of a message that has no place, and reaches nobody.
fn unplaced(event_id: WireId, masked: Vec<String>) -> Sent {
    Sent {
        event_id,
        sequence: None,
        thread_id: None,
        attention: Reached::default(),
        delivery: None,
        awaits_approval: false,
        ephemeral: false,
        masked,
        unknown: vec![],
    }
}

/// Refuses a direct message to where more than two are. Of a conversation that is not there it is said where it is looked up.
async fn is_of_two(harness: &Harness, id: ConversationId) -> Result<(), Error> {
    let find = move |tx: &mut dyn Tx| conversations::by_id(tx, id);
    let found = harness.app.store.read::<_, StoreError, _>(find).await?;
    if found.is_some_and(|found| found.kind == ConversationKind::Channel) {
        return Err(Faults::one("visibility", "must be channel or thread in a channel").into());
    }
    Ok(())
}

/// The event that a call is about, and where it was said.
async fn find(harness: &Harness, id: &WireId) -> Result<(ConversationId, EventId), Error> {
    let (event, agent) = (conversation::event_id(&id.0)?, harness.agent());
    let find = move |tx: &mut dyn Tx| conversation::conversation_of(tx, agent, event);
    let found = harness.app.store.read::<_, StoreError, _>(find).await?;
    let found = found.ok_or(chorus_store::conversation::ConversationError::NoTarget)?;
    Ok((found, event))
}

async fn react(
    harness: &Harness,
    React { in_reply_to, signal, eta, removed }: React,
) -> Result<Recorded, Error> {
    let target = find(harness, &in_reply_to).await?;
    let (who, new) = (harness.agent().into(), NewReaction { signal, eta, removed });
    conversation::react(&harness.app, who, target, new, Once::NO_KEY).await?;
    recorded(harness, in_reply_to, target.1).await
}

async fn recorded(harness: &Harness, event_id: WireId, event: EventId) -> Result<Recorded, Error> {
    let agent = harness.agent();
    let find = move |tx: &mut dyn Tx| obligations::disposition(tx, event, agent);
    let disposition = harness.app.store.read::<_, StoreError, _>(find).await?;
    Ok(Recorded { event_id, disposition })
}

async fn claim(harness: &Harness, Claim { event_id, ttl_ms, release }: Claim) -> Result<Claimed, Error> {
    let (_, event) = find(harness, &event_id).await?;
    let request = if release { Request::Release } else { Request::Take { ttl_ms: Some(ttl_ms) } };
    let (Standing { state, until, .. }, handle) =
        conversation::claim(&harness.app, harness.agent(), event, request).await?;
    let (app, agent, now) = (Arc::clone(&harness.app), harness.agent(), harness.app.now());
    let show = move |tx: &mut dyn Tx| reading::one(tx, &app, agent, event, now);
    let shown = harness.app.store.read::<_, Error, _>(show).await?;
    let holds = state == ClaimState::Held;
    Ok(Claimed {
        event_id,
        state,
        holder: Addressee::agent(handle),
        until: holds.then(|| Time::at(until)),
        event: shown.filter(|_| holds).map(Box::new),
    })
}

async fn defer(harness: &Harness, Defer { event_id, .. }: Defer) -> Result<Recorded, Error> {
    let (_, event) = find(harness, &event_id).await?;
    let disposition = conversation::defer(&harness.app, harness.agent(), event).await?;
    Ok(Recorded { event_id, disposition })
}

async fn resolve(harness: &Harness, Resolve { event_id, .. }: Resolve) -> Result<Recorded, Error> {
    let (_, event) = find(harness, &event_id).await?;
    let disposition = conversation::resolve(&harness.app, harness.agent(), event).await?;
    Ok(Recorded { event_id, disposition })
}
