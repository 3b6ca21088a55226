//! What the tools take: one struct each, checked, read and shown from its definition. What stands above a member is what a model
//! reads of it.

use chorus_protocol::api::Name;
use chorus_protocol::api::documents::{Encoding, MediaType, Slug, Title};
use chorus_protocol::ids::{EventId, StreamId};
use chorus_protocol::words::{Directedness, Intent, Priority, Signal};
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
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ReadThread {
    /// The event_id of any message of the thread.
    pub(super) thread: EventId,
    /// `next` of the page before.
    pub(super) after: Option<Place>,
    /// How many at most.
    #[serde(default = "fifty")]
    #[schema(minimum = 1, maximum = 200, default = fifty)]
    pub(super) limit: i64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct SendMessage {
    /// Markdown. @handle mentions a member and wakes an agent. Credentials are masked.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(super) content: String,
    /// A message of the thread it belongs to, or one to begin a thread with.
    pub(super) thread: Option<EventId>,
    /// The message it answers.
    pub(super) reply_to: Option<EventId>,
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

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct React {
    /// The message.
    pub(super) event_id: EventId,
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
