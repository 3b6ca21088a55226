//! The arguments of the tools: one struct each, from which they are checked, parsed and described. A member's
//! doc comment is its description for models.
//!
//! Names from the C2A document are accepted as well, in snake_case, with the same meaning.

use chorus_node::Error;
use chorus_protocol::api::Name;
use chorus_protocol::api::documents::{Encoding, MediaType, Slug, Title};
use chorus_protocol::c2a::Time;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId, StreamId};
use chorus_protocol::words::{Directedness, Intent, Policy, Priority, Signal, Visibility};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

fn twenty() -> i64 {
    20
}

fn fifty() -> i64 {
    50
}

fn hundred() -> i64 {
    100
}

fn half_a_minute() -> i64 {
    30_000
}

/// A position in the log: an integer that every JSON reader keeps exactly.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
pub(super) struct Place(pub(super) i64);

/// A kind of event. An unknown kind matches nothing.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(title = "a kind of event, such as message", pattern = "^[a-z_]{1,32}$")]
pub(super) struct Kind(pub(super) String);

/// A key that identifies a call which may be repeated.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 255)]
pub(super) struct IdempotencyKey(pub(super) String);

/// Returns an argument that has two names, given under either, or under both with the same value.
pub(super) fn either<T: PartialEq>(
    (name, one): (&str, Option<T>),
    (same, other): (&str, Option<T>),
) -> Result<Option<T>, Error> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => {
            Err(Faults::one(same, format_args!("means the same as {name}, and says something else")).into())
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// Does the same for a required argument.
pub(super) fn required<T: PartialEq>(
    (name, one): (&str, Option<T>),
    (same, other): (&str, Option<T>),
) -> Result<T, Error> {
    let missing = || Faults::one(name, format_args!("is required, or {same}, which means the same"));
    Ok(either((name, one), (same, other))?.ok_or_else(missing)?)
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ListEvents {
    /// Only events after this sequence number; 0 for the beginning.
    pub(super) after: Option<Place>,
    /// Only events before this sequence number. Not together with `after`.
    pub(super) before: Option<Place>,
    /// The maximum number of events.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
    /// Only this kind: message, edit, delete, reaction, status, tool_call, tool_result, error, lifecycle,
    /// join, leave, change or artifact.
    pub(super) kind: Option<Kind>,
    /// Only events that ask this of you, such as must_respond. For agents.
    pub(super) policy: Option<Policy>,
    /// Only messages of this work stream.
    pub(super) stream_id: Option<StreamId>,
    /// Only events from this time on.
    pub(super) since: Option<Time>,
    /// Only events before this time.
    pub(super) until: Option<Time>,
    /// This channel: there is no other here.
    pub(super) conversation_id: Option<ConversationId>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ReadThread {
    /// The event_id of any message of the thread. Needed, as `thread` or as `thread_id`.
    pub(super) thread: Option<EventId>,
    /// The same as `thread`.
    pub(super) thread_id: Option<EventId>,
    /// This channel: there is no other here.
    pub(super) conversation_id: Option<ConversationId>,
    /// `next` of the page before.
    pub(super) after: Option<Place>,
    /// The maximum number of events.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct SendMessage {
    /// Markdown. @handle mentions a member and wakes an agent. Credentials are masked. Needed, as `content` or as `text`.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(super) content: Option<String>,
    /// The same as `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100_000)]
    pub(super) text: Option<String>,
    /// A message of the thread it belongs to, or one to begin a thread with.
    pub(super) thread: Option<EventId>,
    /// The message it answers.
    pub(super) reply_to: Option<EventId>,
    /// The same as `reply_to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_reply_to: Option<EventId>,
    /// The destination: its members mean the same as `thread` and `stream`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<Destination>,
    /// The audience: all members by default. `ephemeral` is the same as the argument of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) visibility: Option<Visibility>,
    /// The work stream it belongs to. By default that of its thread, or the only one here.
    pub(super) stream: Option<StreamId>,
    /// Handles of members it is for, besides those it mentions.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub(super) to: Vec<Name>,
    /// The intent of the message.
    pub(super) intent: Option<Intent>,
    /// The priority of the message.
    pub(super) priority: Option<Priority>,
    /// The time within which you need an answer, in milliseconds.
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub(super) deadline_ms: Option<i64>,
    /// The directedness, as the recipient sees it. It can lower what the mentions say, but not raise it.
    pub(super) directedness: Option<Directedness>,
    /// Hold it back until a person here approves it. Nobody else sees it before; after a day it is discarded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub(super) requires_approval: bool,
    /// Show it only to those who are looking right now: it wakes nobody and is in no history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub(super) ephemeral: bool,
    /// The same value for every retry of the same message; a new value only for a new one. Kept for 24 hours.
    pub(super) idempotency_key: Option<IdempotencyKey>,
}

/// The destination of a message.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the document calls them so")]
pub(super) struct Destination {
    /// This channel: there is no other here.
    pub(super) conversation_id: Option<ConversationId>,
    /// The thread in it.
    pub(super) thread_id: Option<EventId>,
    /// The work stream it belongs to.
    pub(super) stream_id: Option<StreamId>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct React {
    /// The message. Needed, as `event_id` or as `in_reply_to`.
    pub(super) event_id: Option<EventId>,
    /// The same as `event_id`.
    pub(super) in_reply_to: Option<EventId>,
    /// Your reaction to the message.
    pub(super) signal: Signal,
    /// The time of the next update, in words: "in 10 minutes".
    #[schema(min_length = 1, max_length = 100)]
    pub(super) eta: Option<String>,
    /// Remove the reaction.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) removed: bool,
}

fn five_minutes() -> i64 {
    300_000
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Claim {
    /// The id of the message.
    pub(super) event_id: EventId,
    /// The duration of the claim, in milliseconds. Claiming again before it ends renews it.
    #[serde(default = "five_minutes")]
    #[schema(minimum = 10_000, maximum = 86_400_000, default = five_minutes)]
    pub(super) ttl_ms: i64,
    /// Release the claim instead.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) release: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Defer {
    /// The id of the message.
    pub(super) event_id: EventId,
    /// The reason for the delay.
    #[schema(min_length = 1, max_length = 1_000)]
    pub(super) reason: String,
    /// The time of the next update, in words: "in 10 minutes".
    #[schema(min_length = 1, max_length = 100)]
    pub(super) eta: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Resolve {
    /// The id of the message.
    pub(super) event_id: EventId,
    /// The result, in words.
    #[schema(max_length = 1_000)]
    pub(super) reason: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct WaitForEvents {
    /// `next` of the last answer. Without it the wait begins now.
    pub(super) after: Option<Place>,
    /// The maximum wait in milliseconds; 0 returns at once.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 0, maximum = 60_000, default = half_a_minute)]
    pub(super) wait_ms: i64,
    /// The maximum number of events.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
    /// Only this kind: message, edit, delete, reaction, status, tool_call, tool_result, error, lifecycle,
    /// join, leave, change or artifact.
    pub(super) kind: Option<Kind>,
    /// Return your own events as well.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) include_own: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct GetRoster {
    /// `next` of the page before.
    #[schema(max_length = 64)]
    pub(super) after: Option<String>,
    /// The maximum number of entries.
    #[serde(default = "hundred")]
    #[schema(minimum = 1, maximum = 200, default = hundred)]
    pub(super) limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct SetStatus {
    /// Your current activity; empty to clear it.
    #[schema(max_length = 1_000)]
    pub(super) status: String,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Search {
    /// Words that must all be in the message.
    #[schema(min_length = 1, max_length = 200)]
    pub(super) query: String,
    /// `next` of the page before.
    pub(super) before: Option<EventId>,
    /// The maximum number of messages.
    #[serde(default = "twenty")]
    #[schema(minimum = 1, maximum = 50, default = twenty)]
    pub(super) limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ArtifactList {
    /// `next` of the page before.
    #[schema(max_length = 64)]
    pub(super) after: Option<String>,
    /// The maximum number of documents.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ArtifactRead {
    /// The document's name: lower-case letters, digits and dashes.
    pub(super) slug: Slug,
    /// The newest by default.
    #[schema(minimum = 1, maximum = 999_999_999)]
    pub(super) version: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct ArtifactCreate {
    /// The document's name: lower-case letters, digits and dashes.
    pub(super) slug: Slug,
    /// The title for people. Its slug by default.
    pub(super) title: Option<Title>,
    /// The whole document, at most 1 MiB. Credentials in it are masked.
    #[schema(max_length = 1_398_104)]
    pub(super) content: String,
    /// The encoding of `content`: utf-8 by default, or base64 for an image or another binary file.
    pub(super) encoding: Option<Encoding>,
    /// The media type, such as image/png. text/markdown by default.
    pub(super) content_type: Option<MediaType>,
    /// The same value for every retry of the same document; a new value only for a new one. Kept for 24 hours.
    pub(super) idempotency_key: Option<IdempotencyKey>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct ArtifactEdit {
    /// The document's name: lower-case letters, digits and dashes.
    pub(super) slug: Slug,
    /// The version you read and changed.
    #[schema(minimum = 1, maximum = 999_999_999)]
    pub(super) base_version: i64,
    /// The whole document, at most 1 MiB. Credentials in it are masked.
    #[schema(max_length = 1_398_104)]
    pub(super) content: String,
    /// The encoding of `content`: utf-8 by default, or base64 for an image or another binary file.
    pub(super) encoding: Option<Encoding>,
    /// The title for people. Unchanged by default.
    pub(super) title: Option<Title>,
    /// The media type. Unchanged by default.
    pub(super) content_type: Option<MediaType>,
    /// The same value for every retry of the same edit; a new value only for a new one. Kept for 24 hours.
    pub(super) idempotency_key: Option<IdempotencyKey>,
}
