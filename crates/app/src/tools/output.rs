//! The results of the tools: one struct each, from which they are written and described. A member's doc
//! comment is its description for models.

use crate::views::EventView;
use chorus_protocol::api::documents::Encoding;
use chorus_protocol::inbox::ChatAttention;
use chorus_protocol::words::Disposition;
use serde::Serialize;
use utoipa::ToSchema;

/// The members that every event has. [`EventView`] has more, by its kind.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what EventView writes")]
struct EventShape {
    event_id: String,
    /// Its sequence number in the channel, from 1 without gaps.
    sequence: i64,
    kind: String,
    author: AuthorShape,
    #[schema(required)]
    content: Option<String>,
    #[schema(required)]
    thread: Option<String>,
    #[schema(required)]
    reply_to: Option<String>,
    created_at: String,
    /// The attention it asks of you, if you are an agent: every message has one.
    attention: Option<ChatAttention>,
    /// Your disposition of it, if you recorded one.
    disposition: Option<Disposition>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what EventView writes")]
struct AuthorShape {
    id: String,
    kind: String,
    #[schema(required)]
    handle: Option<String>,
}

/// An event as one member sees it.
#[derive(Debug, Serialize)]
pub(super) struct SeenEvent {
    #[serde(flatten)]
    pub(super) event: EventView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attention: Option<ChatAttention>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disposition: Option<Disposition>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventPage {
    #[schema(value_type = Vec<EventShape>)]
    pub(super) events: Vec<SeenEvent>,
    /// The cursor: the `after` of the next call, or the `before` if you read backwards.
    pub(super) next: i64,
    /// True if there is more right now.
    pub(super) more: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Found {
    #[schema(value_type = Vec<EventShape>)]
    pub(super) events: Vec<EventView>,
    /// The `before` of the next page; null on the last.
    #[schema(required)]
    pub(super) next: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sent {
    /// Its id. For a held message, the id under which it waits.
    pub(super) event_id: String,
    /// Its sequence number in the channel; null if it is held or ephemeral.
    #[schema(required)]
    pub(super) sequence: Option<i64>,
    /// said, held until a person approves it, or ephemeral.
    pub(super) status: String,
    /// The message that began the thread it is in.
    #[schema(required)]
    pub(super) thread: Option<String>,
    /// Agents it was delivered to.
    pub(super) woken: Vec<String>,
    /// Agents that were only notified that there is something.
    pub(super) knocked: Vec<String>,
    /// Agents it is for that find it only when they look, the first 20.
    pub(super) stored_for: Vec<String>,
    /// The number of such agents.
    pub(super) stored_count: i64,
    /// The kinds of credentials that were masked in it.
    pub(super) masked: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Added {
    pub(super) event_id: String,
    pub(super) sequence: i64,
    /// The kinds of credentials that were masked in it.
    pub(super) masked: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Claimed {
    pub(super) event_id: String,
    /// held, released, resolved or expired.
    pub(super) state: String,
    /// Your own handle in this channel.
    pub(super) holder: String,
    /// The time at which the claim ends.
    pub(super) until: String,
    /// The whole event that you claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EventShape>)]
    pub(super) event: Option<SeenEvent>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Recorded {
    pub(super) event_id: String,
    /// The disposition recorded for you; null if it was not for you.
    #[schema(required)]
    pub(super) disposition: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Roster {
    pub(super) channel: Channel,
    /// The handle of the caller.
    pub(super) you: String,
    pub(super) members: Vec<RosterMember>,
    /// The `after` of the next page; null on the last.
    #[schema(required)]
    pub(super) next: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Channel {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) name: String,
    #[schema(required)]
    pub(super) context: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MemberKind {
    Agent,
    Account,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RosterMember {
    pub(super) handle: String,
    pub(super) kind: MemberKind,
    pub(super) id: String,
    /// Its roles in this channel.
    pub(super) roles: Vec<String>,
    pub(super) lead: bool,
    pub(super) joined_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Documents {
    pub(super) artifacts: Vec<DocumentView>,
    /// The `after` of the next page; null on the last.
    #[schema(required)]
    pub(super) next: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DocumentView {
    pub(super) slug: String,
    /// Its address as a resource.
    pub(super) uri: String,
    pub(super) version: i64,
    pub(super) title: String,
    pub(super) content_type: String,
    /// utf-8, or base64 for binary content.
    pub(super) encoding: Encoding,
    /// The size in bytes.
    pub(super) size: i64,
    /// The creation time of this version.
    pub(super) created_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WholeDocument {
    #[serde(flatten)]
    pub(super) document: DocumentView,
    /// The content, in this `encoding`.
    pub(super) content: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WrittenDocument {
    #[serde(flatten)]
    pub(super) document: DocumentView,
    /// The kinds of credentials that were masked in it.
    pub(super) masked: Vec<String>,
}
