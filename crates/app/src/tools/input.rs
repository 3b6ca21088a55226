//! What the tools take: one struct each, checked, read and shown from its definition. What stands above a member is what a model
//! reads of it.
//!
//! What C2A's document calls otherwise is known by that name too, in snake_case: both mean the same, and need not be told apart.

use crate::error::Error;
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

/// A place in the log: an integer that every JSON reader keeps exactly.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
pub(super) struct Place(pub(super) i64);

/// A kind of event. A word that is none finds nothing.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(title = "a kind of event, such as message", pattern = "^[a-z_]{1,32}$")]
pub(super) struct Kind(pub(super) String);

/// What a call is named by that may be sent again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 255)]
pub(super) struct IdempotencyKey(pub(super) String);

/// What is known by two names, said under either, or under both alike.
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

/// The same for what must be said.
pub(super) fn required<T: PartialEq>(
    (name, one): (&str, Option<T>),
    (same, other): (&str, Option<T>),
) -> Result<T, Error> {
    let missing = || Faults::one(name, format_args!("is required, or {same}, which means the same"));
    Ok(either((name, one), (same, other))?.ok_or_else(missing)?)
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ListEvents {
    /// Only what came after this sequence number; 0 for the beginning.
    pub(super) after: Option<Place>,
    /// Only what came before this sequence number. Not together with `after`.
    pub(super) before: Option<Place>,
    /// How many at most.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
    /// Only this kind: message, edit, delete, reaction, status, tool_call, tool_result, error, lifecycle, join, leave, change or
    /// artifact.
    pub(super) kind: Option<Kind>,
    /// Only what asks this of you, such as must_respond. For agents.
    pub(super) policy: Option<Policy>,
    /// Only messages of this work stream.
    pub(super) stream_id: Option<StreamId>,
    /// Only from this time on.
    pub(super) since: Option<Time>,
    /// Only before this time.
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
    /// How many at most.
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
    /// Where to: its members mean the same as `thread` and `stream`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<Destination>,
    /// Who sees it: unless said, all members. `ephemeral` is the same as the argument of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) visibility: Option<Visibility>,
    /// The work stream it belongs to; unless said, that of its thread, or the only one here.
    pub(super) stream: Option<StreamId>,
    /// Handles of members it is for, besides those it mentions.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub(super) to: Vec<Name>,
    /// What it is meant as.
    pub(super) intent: Option<Intent>,
    /// How much it matters.
    pub(super) priority: Option<Priority>,
    /// How long an answer may take.
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub(super) deadline_ms: Option<i64>,
    /// At whom it is aimed, seen from who gets it. It lowers what its mentions say, and never raises it.
    pub(super) directedness: Option<Directedness>,
    /// Keep it back until a person here agrees: then it is in the log. Nobody else sees it before; after a day it is forgotten.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub(super) requires_approval: bool,
    /// Show it only to whoever looks right now: it wakes nobody and is in no history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub(super) ephemeral: bool,
    /// The same value for every retry of the same message; a new value only for a new one. Kept for 24 hours.
    pub(super) idempotency_key: Option<IdempotencyKey>,
}

/// Where a message goes to.
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
    /// What you make of it.
    pub(super) signal: Signal,
    /// When there will be more, in words: "in 10 minutes".
    #[schema(min_length = 1, max_length = 100)]
    pub(super) eta: Option<String>,
    /// Take the reaction back.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) removed: bool,
}

fn five_minutes() -> i64 {
    300_000
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Claim {
    /// The message.
    pub(super) event_id: EventId,
    /// How long it is to be yours, in milliseconds; again before it ends renews it.
    #[serde(default = "five_minutes")]
    #[schema(minimum = 10_000, maximum = 86_400_000, default = five_minutes)]
    pub(super) ttl_ms: i64,
    /// Give it back instead.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) release: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Defer {
    /// The message.
    pub(super) event_id: EventId,
    /// Why it has to wait.
    #[schema(min_length = 1, max_length = 1_000)]
    pub(super) reason: String,
    /// When there will be more, in words: "in 10 minutes".
    #[schema(min_length = 1, max_length = 100)]
    pub(super) eta: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Resolve {
    /// The message.
    pub(super) event_id: EventId,
    /// How it ended.
    #[schema(max_length = 1_000)]
    pub(super) reason: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct WaitForEvents {
    /// `next` of the last answer; without it the wait begins now.
    pub(super) after: Option<Place>,
    /// How long to wait at most, in milliseconds; 0 only looks.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 0, maximum = 60_000, default = half_a_minute)]
    pub(super) wait_ms: i64,
    /// How many at most.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
    /// Only this kind: message, edit, delete, reaction, status, tool_call, tool_result, error, lifecycle, join, leave, change or
    /// artifact.
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
    /// How many at most.
    #[serde(default = "hundred")]
    #[schema(minimum = 1, maximum = 200, default = hundred)]
    pub(super) limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct SetStatus {
    /// What you are doing; empty to take it back.
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
    /// How many at most.
    #[serde(default = "twenty")]
    #[schema(minimum = 1, maximum = 50, default = twenty)]
    pub(super) limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ArtifactList {
    /// `next` of the page before.
    #[schema(max_length = 64)]
    pub(super) after: Option<String>,
    /// How many at most.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ArtifactRead {
    /// The document's name: lower-case letters, digits and dashes.
    pub(super) slug: Slug,
    /// The newest, unless said.
    #[schema(minimum = 1, maximum = 999_999_999)]
    pub(super) version: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct ArtifactCreate {
    /// The document's name: lower-case letters, digits and dashes.
    pub(super) slug: Slug,
    /// What people call it; its slug, unless said.
    pub(super) title: Option<Title>,
    /// The whole document, at most 1 MiB. Credentials in it are masked.
    #[schema(max_length = 1_398_104)]
    pub(super) content: String,
    /// How `content` carries it: utf-8, unless said, or base64 for a picture or another file that is no text.
    pub(super) encoding: Option<Encoding>,
    /// What it is made of, such as image/png; text/markdown, unless said.
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
    /// How `content` carries it: utf-8, unless said, or base64 for a picture or another file that is no text.
    pub(super) encoding: Option<Encoding>,
    /// What people call it; as before, unless said.
    pub(super) title: Option<Title>,
    /// What it is made of; as before, unless said.
    pub(super) content_type: Option<MediaType>,
    /// The same value for every retry of the same edit; a new value only for a new one. Kept for 24 hours.
    pub(super) idempotency_key: Option<IdempotencyKey>,
}
