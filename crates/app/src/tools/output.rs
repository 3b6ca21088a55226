//! What the tools give: one struct each, written and shown from its definition. What stands above a member is what a model reads
//! of it.

use crate::views::EventView;
use chorus_protocol::api::documents::Encoding;
use chorus_protocol::inbox::ChatAttention;
use chorus_protocol::words::Disposition;
use serde::Serialize;
use utoipa::ToSchema;

/// An event, as far as every one has the same; [`EventView`] has more, by its kind.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what EventView writes")]
struct EventShape {
    event_id: String,
    /// Its place in the channel, without gaps from 1.
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
    /// What it asks of you, if you are an agent and it is for you to judge: every message is.
    attention: Option<ChatAttention>,
    /// What you made of it, if you did already.
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
    /// Where to go on: the `after` of the next call, or the `before` if you read backwards.
    pub(super) next: i64,
    /// Whether there is more right now.
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
    /// Its id; of what is held, what it is called as long as it waits.
    pub(super) event_id: String,
    /// Its place in the channel; null if it has none: it is held, or was only shown.
    #[schema(required)]
    pub(super) sequence: Option<i64>,
    /// said, held until a person agrees, or ephemeral.
    pub(super) status: String,
    /// The message that began the thread it is in.
    #[schema(required)]
    pub(super) thread: Option<String>,
    /// Agents it was delivered to.
    pub(super) woken: Vec<String>,
    /// Agents that were told only that there is something.
    pub(super) knocked: Vec<String>,
    /// Agents it is for and that only find it when they look, the first 20.
    pub(super) stored_for: Vec<String>,
    /// How many these are.
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
    /// Your handle.
    pub(super) holder: String,
    /// Until when it is yours.
    pub(super) until: String,
    /// All of what you hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EventShape>)]
    pub(super) event: Option<SeenEvent>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Recorded {
    pub(super) event_id: String,
    /// What is recorded of it for you; null if it was not for you.
    #[schema(required)]
    pub(super) disposition: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Roster {
    pub(super) channel: Channel,
    /// Your own handle.
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
    /// What it does here.
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
    /// utf-8, or base64 for what is no text.
    pub(super) encoding: Encoding,
    /// How many bytes it has.
    pub(super) size: i64,
    /// When this version was made.
    pub(super) created_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WholeDocument {
    #[serde(flatten)]
    pub(super) document: DocumentView,
    /// As `encoding` says.
    pub(super) content: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WrittenDocument {
    #[serde(flatten)]
    pub(super) document: DocumentView,
    /// The kinds of credentials that were masked in it.
    pub(super) masked: Vec<String>,
}
