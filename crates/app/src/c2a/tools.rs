//! The chat tools as C2A lists and calls them. Their names are in `ChatTool`. The MCP server of an agent calls
//! the same functions, and shows the same descriptions in its own spelling.

use super::harness::Harness;
use super::{answering, mailbox, outside, reading, refusing};
use crate::conversation::{self, conversation_id};
use crate::tool_schema::schema_of;
use crate::work_streams::stream_id;
use chorus_attention::claims::Request;
use chorus_attention::disposition::Cause;
use chorus_attention::plan::ClaimStatus;
use chorus_node::Error;
use chorus_node::idempotency::Once;
use chorus_node::telemetry::tool_log;
use chorus_protocol::api::messages::{NewMessage, NewReaction, Sent as Became};
use chorus_protocol::c2a::{
    Addressee, Call, CallFault, ChatTool, Claim, Claimed, Cursor, Defer, EventPage, ListEvents, Reached,
    React, ReadThread, Recorded, Resolve, SendMessage, Sent, Time, ToolCall, ToolHints, ToolInfo, ToolList,
    ToolResult, WireId,
};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId};
use chorus_protocol::rpc::RpcError;
use chorus_protocol::words::{ClaimState, Visibility};
use chorus_store::attention::newest_version;
use chorus_store::conversation::ConversationError;
use chorus_store::{StoreError, Tx, obligations};
use serde::Serialize;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// The tools with their descriptions and schemas, computed once.
static LISTED: LazyLock<Vec<(ChatTool, ToolInfo)>> =
    LazyLock::new(|| ChatTool::ALL.iter().map(|tool| (*tool, info(*tool))).collect());

/// Answers `tools/list` with the tools that were agreed on.
pub(super) fn listed(harness: &Harness) -> Result<Value, RpcError> {
    let agreed = LISTED.iter().filter(|(tool, _)| harness.can.chat_tools.has(*tool));
    let list = ToolList { tools: agreed.map(|(_, info)| info.clone()).collect() };
    serde_json::to_value(list).map_err(|error| refusing::rpc(&Error::internal(error)))
}

fn info(tool: ChatTool) -> ToolInfo {
    let (description, schema) = described(tool);
    let reads = matches!(tool, ChatTool::ListEvents | ChatTool::ReadThread);
    ToolInfo {
        name: tool.as_str().to_owned(),
        description: description.to_owned(),
        input_schema: schema.as_object().cloned(),
        // Repeating a call changes nothing: a message carries an idempotency key.
        annotations: Some(ToolHints { read_only_hint: reads, idempotent_hint: true }),
    }
}

/// Returns a tool's description for a model, and the schema of its arguments.
pub(crate) fn described(tool: ChatTool) -> (&'static str, Value) {
    match tool {
        ChatTool::ListEvents => (
            "List what is there for you, with what each event asks of you. Without `conversationId` and `streamId` it is your mailbox: \
             what was delivered to you anywhere, and what was said where you are and is for others or for nobody. `policy`, \
             `since` and `until` pick out of it. Pass `next` as `after` for what follows; it holds for good. Wakes nobody.",
            schema_of::<ListEvents>(true),
        ),
        ChatTool::ReadThread => (
            "Read a conversation, or one thread of it if you give `threadId`: the newest, or what follows `after`. This is how you see \
             what a knock is about. Wakes nobody.",
            schema_of::<ReadThread>(true),
        ),
        ChatTool::SendMessage => (
            "Say something. `inReplyTo` is the event you answer; an answer to an envelope goes back as one, an answer to another service to \
             its callback. `text` is markdown; it WAKES the agents that it mentions with @handle, unless `directedness` lowers that. Give \
             `idempotencyKey`: the same for every retry of the same message. What policy forbids, or another has claimed, is refused.",
            schema_of::<SendMessage>(true),
        ),
        ChatTool::React => (
            "Say what becomes of the event `inReplyTo` without a text: `signal` is seen, agree, working, queued, claimed, done, declined, \
             blocked, unclear, or stop, which ends the work on a message that you asked for. The polite way to stay silent. The same again changes nothing. Wakes nobody.",
            schema_of::<React>(true),
        ),
        ChatTool::Claim => (
            "Take on the event `eventId`, such as one that mentions a role, before you work on it: while you hold it nobody else answers, and \
             you get all of it. The first claim wins; it holds for `ttlMs`, and calling again renews it. `release` gives it back. \
             claimed_by_other means that somebody else answers: stay silent. Wakes nobody.",
            schema_of::<Claim>(true),
        ),
        ChatTool::Defer => (
            "Record that the event `eventId`, which you must answer, has to wait, and the `reason`. You stay responsible: after an hour it is \
             open again. Wakes nobody.",
            schema_of::<Defer>(true),
        ),
        ChatTool::Resolve => (
            "Mark the event `eventId` as dealt with, without a text: what it asked for is done. It ends your claim on it. Wakes nobody.",
            schema_of::<Resolve>(true),
        ),
    }
}

/// Calls a tool. A refusal is the tool's result.
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
    let tool = called.tool();
    if !harness.can.chat_tools.has(tool) {
        let what = format_args!("{tool} was not agreed on: ask for it in the chatTools of initialize");
        return Err(RpcError::params(what));
    }
    harness.app.telemetry.metrics.tool_called(tool.as_str());
    let about = about(&called);
    let done = match run(harness, called).await {
        Ok(result) => ToolResult::done(&result),
        Err(error) => refusing::result(&error),
    };
    let outcome = done.as_ref().ok().and_then(ToolResult::refusal);
    let (caller, outcome) = (("c2a", harness.agent().into()), outcome.unwrap_or_else(|| "done".to_owned()));
    harness.app.telemetry.tool_log.note(
        harness.app.environment.uuid_v7(),
        caller,
        tool.as_str(),
        about,
        &outcome,
    );
    written(done)
}

/// Runs a tool call, whose result is in the spelling of the protocol document.
pub(crate) async fn run(harness: &Harness, mut call: Call) -> Result<Value, Error> {
    stay_in(&mut call, harness.bound)?;
    match call {
        Call::ListEvents(asked) => told(list_events(harness, asked).await?),
        Call::ReadThread(asked) => told(read_thread(harness, asked).await?),
        Call::SendMessage(message) => told(send(harness, message).await?),
        Call::React(reaction) => told(react(harness, reaction).await?),
        Call::Claim(asked) => told(claim(harness, asked).await?),
        Call::Defer(asked) => told(defer(harness, asked).await?),
        Call::Resolve(asked) => told(resolve(harness, asked).await?),
    }
}

fn told(result: impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(Error::internal)
}

/// Checks that a harness bound to one conversation names no other. Calls that name only an event are checked
/// when the event is found.
fn stay_in(call: &mut Call, bound: Option<ConversationId>) -> Result<(), Error> {
    let Some(bound) = bound else { return Ok(()) };
    let (name, place) = match call {
        Call::ListEvents(asked) => {
            ("conversationId", asked.conversation_id.get_or_insert_with(|| bound.into()))
        }
        Call::ReadThread(asked) => ("conversationId", &mut asked.conversation_id),
        Call::SendMessage(message) => ("target.conversationId", &mut message.target.conversation_id),
        Call::React(_) | Call::Claim(_) | Call::Defer(_) | Call::Resolve(_) => return Ok(()),
    };
    if place.conversation() == Some(bound) { Ok(()) } else { Err(refusing::elsewhere(name, bound)) }
}

/// Returns the conversation and the event of a call, for the tool log.
fn about(call: &Call) -> tool_log::About {
    let (conversation, event) = match call {
        Call::ListEvents(asked) => (asked.conversation_id.as_ref(), None),
        Call::ReadThread(asked) => (Some(&asked.conversation_id), asked.thread_id.as_ref()),
        Call::SendMessage(message) => (Some(&message.target.conversation_id), message.in_reply_to.as_ref()),
        Call::React(reaction) => (None, Some(&reaction.in_reply_to)),
        Call::Claim(asked) => (None, Some(&asked.event_id)),
        Call::Defer(asked) => (None, Some(&asked.event_id)),
        Call::Resolve(asked) => (None, Some(&asked.event_id)),
    };
    tool_log::About {
        conversation: conversation.and_then(WireId::conversation),
        event: event.and_then(WireId::event),
    }
}

fn written(result: Result<ToolResult, serde_json::Error>) -> Result<Value, RpcError> {
    let value = result.and_then(serde_json::to_value);
    value.map_err(|error| refusing::rpc(&Error::internal(error)))
}

/// Lists events: of the whole mailbox, or of one conversation or work stream if the call names one.
pub(crate) async fn list_events(harness: &Harness, asked: ListEvents) -> Result<EventPage, Error> {
    if asked.stream_id.is_none() && asked.conversation_id.is_none() {
        return mailbox::list(harness, asked).await;
    }
    let ListEvents { conversation_id: place, after, limit, .. } = asked.clone();
    let listed = reading::list_events(harness, asked.clone()).await;
    let exchanged = or_exchanged(harness, listed, place.as_ref(), after.as_ref(), limit).await?;
    let events = exchanged.events.into_iter().filter(|event| reading::is_wanted(&asked, event)).collect();
    Ok(EventPage { events, ..exchanged })
}

pub(crate) async fn read_thread(harness: &Harness, asked: ReadThread) -> Result<EventPage, Error> {
    let ReadThread { conversation_id: place, after, limit, .. } = asked.clone();
    let read = reading::read_thread(harness, asked).await;
    or_exchanged(harness, read, Some(&place), after.as_ref(), limit).await
}

/// Falls back to the exchange between the agent and an outside party, if the id names no conversation of this
/// hub.
async fn or_exchanged(
    harness: &Harness,
    read: Result<EventPage, Error>,
    place: Option<&WireId>,
    after: Option<&Cursor>,
    limit: i64,
) -> Result<EventPage, Error> {
    let place = place.and_then(WireId::conversation);
    match (read, place) {
        (Err(error), Some(place)) if error.code == Code::NotFound || after.is_some() => {
            mailbox::exchange(harness, place, after, limit).await?.ok_or(error)
        }
        (read, _) => read,
    }
}

pub(crate) async fn send(harness: &Harness, message: SendMessage) -> Result<Sent, Error> {
    let app = &harness.app;
    let words = serde_json::to_vec(&message).map_err(Error::internal)?;
    let key = Some(message.idempotency_key.0.as_str());
    let once = Once::new(app, "c2a", &harness.agent(), "send_message", key, &words);
    let id = conversation_id(&message.target.conversation_id.0)?;
    let event = |given: &Option<WireId>| given.as_ref().map(|id| conversation::event_id(&id.0)).transpose();
    let (reply_to, thread) = (event(&message.in_reply_to)?, event(&message.target.thread_id)?);
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
        ephemeral: false,
    };
    let new = conversation::seen_by(app, id, new, message.visibility).await?;
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

/// Returns the result for a message without a sequence number and without recipients.
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

/// The event that a call refers to.
enum About {
    /// An event in a conversation.
    Said(ConversationId, EventId),
    /// An event from outside, delivered to this agent alone.
    Outside(ConversationId, EventId),
}

async fn find(harness: &Harness, id: &WireId) -> Result<About, Error> {
    let (event, agent, now) = (conversation::event_id(&id.0)?, harness.agent(), harness.app.now());
    let find = move |tx: &mut dyn Tx| {
        // An envelope shares the id of the direct conversation between the two agents, but is not part of it.
        if let Some(found) = outside::find(tx, agent, event, now)? {
            return Ok(Some(About::Outside(found.conversation, found.id)));
        }
        Ok(conversation::conversation_of(tx, agent, event)?.map(|place| About::Said(place, event)))
    };
    let found = harness.app.store.read::<_, StoreError, _>(find).await?;
    let is_known = |about: &About| match about {
        About::Said(place, _) | About::Outside(place, _) => harness.knows(*place),
    };
    Ok(found.filter(is_known).ok_or(ConversationError::NoTarget)?)
}

pub(crate) async fn react(
    harness: &Harness,
    React { in_reply_to, signal, eta, removed }: React,
) -> Result<Recorded, Error> {
    match find(harness, &in_reply_to).await? {
        About::Said(place, event) => {
            let (who, new) = (harness.agent().into(), NewReaction { signal, eta, removed });
            conversation::react(&harness.app, who, (place, event), new, Once::NO_KEY).await?;
            recorded(harness, in_reply_to, event).await
        }
        About::Outside(..) if removed => {
            let what =
                "cannot be true here: what you made of this stands until you make something else of it";
            Err(Faults::one("removed", what).into())
        }
        About::Outside(_, event) => {
            let disposition = outside::dispose(harness, event, Cause::Reacted(signal), None).await?;
            Ok(Recorded { event_id: in_reply_to, disposition })
        }
    }
}

async fn recorded(harness: &Harness, event_id: WireId, event: EventId) -> Result<Recorded, Error> {
    let agent = harness.agent();
    let find = move |tx: &mut dyn Tx| {
        let given = newest_version(tx, event, agent)?;
        obligations::disposition(tx, given, agent)
    };
    let disposition = harness.app.store.read::<_, StoreError, _>(find).await?;
    Ok(Recorded { event_id, disposition })
}

pub(crate) async fn claim(
    harness: &Harness,
    Claim { event_id, ttl_ms, release }: Claim,
) -> Result<Claimed, Error> {
    let About::Said(_, event) = find(harness, &event_id).await? else {
        let what = "was brought to you alone: there is nothing to claim. Answer it, or say what becomes of it with chat.defer, \
                    chat.resolve or chat.react";
        return Err(Faults::one("eventId", what).into());
    };
    let request = if release { Request::Release } else { Request::Take { ttl_ms: Some(ttl_ms) } };
    let (ClaimStatus { state, until }, handle) =
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

/// Joins the reason of a deferral and its estimated time, if one was given.
pub(crate) fn deferred_why(reason: String, eta: Option<String>) -> String {
    eta.map_or_else(|| reason.clone(), |eta| format!("{reason} ({eta})"))
}

pub(crate) async fn defer(
    harness: &Harness,
    Defer { event_id, reason, eta }: Defer,
) -> Result<Recorded, Error> {
    let why = deferred_why(reason, eta);
    let disposition = match find(harness, &event_id).await? {
        About::Said(_, event) => conversation::defer(&harness.app, harness.agent(), event, why).await?,
        About::Outside(_, event) => outside::dispose(harness, event, Cause::Deferred, Some(why)).await?,
    };
    Ok(Recorded { event_id, disposition })
}

pub(crate) async fn resolve(
    harness: &Harness,
    Resolve { event_id, reason }: Resolve,
) -> Result<Recorded, Error> {
    let disposition = match find(harness, &event_id).await? {
        About::Said(_, event) => conversation::resolve(&harness.app, harness.agent(), event, reason).await?,
        About::Outside(_, event) => outside::dispose(harness, event, Cause::Resolved, reason).await?,
    };
    Ok(Recorded { event_id, disposition })
}
