//! Arguments that are common to the tools of an agent.

use chorus_protocol::api::Name;
use chorus_protocol::c2a::{self, Cursor, IdempotencyKey, Snake, Time, WireId};
use chorus_protocol::ids::ApprovalId;
use chorus_protocol::words::{Directedness, Intent, Priority, Visibility};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The arguments of a C2A tool in snake_case, and the choice of a detailed result.
pub(super) struct WithDetail<T> {
    pub(super) asked: T,
    pub(super) detail: bool,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for WithDetail<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let detail = value.as_object_mut().and_then(|members| members.remove("detail"));
        let Snake(asked) = serde_json::from_value(value).map_err(D::Error::custom)?;
        Ok(Self { asked, detail: detail == Some(Value::Bool(true)) })
    }
}

impl<T: ToSchema> PartialSchema for WithDetail<T> {
    fn schema() -> RefOr<Schema> {
        let mut schema = Snake::<T>::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let detail = ObjectBuilder::new().schema_type(Type::Boolean).description(Some(DETAIL));
            object.properties.insert("detail".to_owned(), detail.into());
        }
        schema
    }
}

impl<T: ToSchema> ToSchema for WithDetail<T> {
    fn name() -> Cow<'static, str> {
        format!("{}WithDetail", Snake::<T>::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Snake::<T>::schemas(schemas);
    }
}

const DETAIL: &str = "Add the whole object, as the hub's API shows it.";

fn twenty() -> i64 {
    20
}

fn half_a_minute() -> i64 {
    30_000
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct InboxQuery {
    /// `next` of the page before.
    pub(super) after: Option<Cursor>,
    /// Only events from this time on. Without `after` and `since`, the last seven days.
    pub(super) since: Option<Time>,
    /// The maximum number of events.
    #[serde(default = "twenty")]
    #[schema(minimum = 1, maximum = 100, default = twenty)]
    pub(super) limit: i64,
    /// Add the whole object, as the hub's API shows it.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) detail: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct InboxWait {
    /// `next` of the last answer, also of `inbox`. Without it the wait begins now.
    pub(super) after: Option<Cursor>,
    /// The maximum wait in milliseconds; 0 returns at once.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 0, maximum = 60_000, default = half_a_minute)]
    pub(super) wait_ms: i64,
    /// The maximum number of events.
    #[serde(default = "twenty")]
    #[schema(minimum = 1, maximum = 100, default = twenty)]
    pub(super) limit: i64,
    /// Add the whole object, as the hub's API shows it.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) detail: bool,
}

/// A message of the agent. It is C2A's message, with defaults for what a model need not say.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct OwnMessage {
    /// The conversation, as `inbox` and `channel_list` name it.
    pub(super) conversation_id: WireId,
    /// Markdown. @handle mentions a member and wakes an agent. Credentials are masked.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(super) text: String,
    /// The event that the message answers.
    pub(super) in_reply_to: Option<WireId>,
    /// The thread, by any of its messages.
    pub(super) thread_id: Option<WireId>,
    /// The work stream. By default that of its thread, or the only one there.
    pub(super) stream_id: Option<WireId>,
    /// The intent of the message.
    pub(super) intent: Option<Intent>,
    /// The priority of the message.
    pub(super) priority: Option<Priority>,
    /// The time within which you need an answer, in milliseconds.
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub(super) deadline_ms: Option<i64>,
    /// The readers: all members by default.
    pub(super) visibility: Option<Visibility>,
    /// The directedness, as the recipient sees it. It can lower what the mentions say, but not raise it.
    pub(super) directedness: Option<Directedness>,
    /// Hold it back until a person there approves it.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) requires_approval: bool,
    /// The same value for every retry of the same message; a new value only for a new one. Kept for 24 hours.
    pub(super) idempotency_key: Option<IdempotencyKey>,
    /// Add the whole object, as the hub's API shows it.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) detail: bool,
}

impl OwnMessage {
    /// Returns the message in the form of C2A. A message without a key gets a new one.
    pub(super) fn complete(self, new_key: impl FnOnce() -> String) -> c2a::SendMessage {
        let Self { conversation_id, thread_id, stream_id, .. } = self;
        c2a::SendMessage {
            target: c2a::Destination { conversation_id, thread_id, stream_id },
            in_reply_to: self.in_reply_to,
            idempotency_key: self.idempotency_key.unwrap_or_else(|| IdempotencyKey(new_key())),
            visibility: self.visibility.unwrap_or(Visibility::Channel),
            directedness: self.directedness.unwrap_or(Directedness::ToMe),
            text: self.text,
            intent: self.intent,
            priority: self.priority,
            deadline_ms: self.deadline_ms,
            requires_approval: self.requires_approval,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ApprovalsQuery {
    /// Only those of this conversation.
    pub(super) conversation_id: Option<chorus_protocol::ids::ConversationId>,
    /// `next` of the page before.
    pub(super) after: Option<ApprovalId>,
    /// The maximum number of approvals.
    #[serde(default = "twenty")]
    #[schema(minimum = 1, maximum = 100, default = twenty)]
    pub(super) limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct OneApproval {
    /// The id of the approval.
    pub(super) id: ApprovalId,
}

/// A question for a person's approval.
#[derive(Debug, serde::Serialize, Deserialize, ToSchema)]
pub(super) struct ApprovalQuestion {
    /// The conversation, as `inbox` and `channel_list` name it.
    pub(super) conversation_id: chorus_protocol::ids::ConversationId,
    /// The handle of the person who decides.
    pub(super) to: Name,
    /// The thing to approve, in markdown, with everything that the decision needs.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(super) text: String,
    /// The thread, by any of its messages.
    pub(super) thread_id: Option<chorus_protocol::ids::EventId>,
    /// The time within which you need the decision, in milliseconds.
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub(super) deadline_ms: Option<i64>,
    /// The same value for every retry of the same question; a new value only for a new one. Kept for 24 hours.
    pub(super) idempotency_key: Option<IdempotencyKey>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ChannelsQuery {
    /// `next` of the page before.
    pub(super) after: Option<chorus_protocol::ids::ConversationId>,
    /// The maximum number of conversations.
    #[serde(default = "twenty")]
    #[schema(minimum = 1, maximum = 100, default = twenty)]
    pub(super) limit: i64,
    /// Only archived conversations.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) archived: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct OwnStatusQuery {
    /// Add the agent's whole record and its quotas.
    #[serde(default)]
    #[schema(default = false)]
    pub(super) detail: bool,
}
