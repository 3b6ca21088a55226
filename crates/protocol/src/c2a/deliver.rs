//! `chat/deliver`: the delivery of an event to one agent.
//!
//! A delivery either shows the content or is a knock, which only announces the event. [`Exposure`] is one of
//! the two, so no delivery can be both. On the wire `injection.mode` distinguishes them.

use super::event::{Addressee, Content, Header, Part};
use super::{ChatTool, IdempotencyKey, merged};
use crate::faults::Faults;
use crate::schema;
use crate::words::{Directedness, Mode, Policy, Priority, words};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// The params of `chat/deliver`: an event and the part of it that the agent is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Delivery {
    pub header: Header,
    /// The content, or a knock.
    pub exposure: Exposure,
    /// The attempt number and the idempotency key.
    pub reliability: Reliability,
}

/// The part of an event that an agent is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Exposure {
    /// An announcement without content: mode `notify`.
    Knock(Knock),
    /// The content of the event.
    Shown {
        /// The way in which the event enters the agent's work.
        mode: ShownMode,
        /// The part of the conversation to show with it, such as `thread_window`.
        context: Option<String>,
        /// The role under which a model is shown the text, such as `user`.
        role: Option<String>,
        content: Content,
    },
}

/// The modes that show the content: every mode but `notify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownMode {
    /// The event is delivered at once.
    Immediate,
    /// The event is delivered with related ones after its author pauses.
    Buffered,
    /// The agent finds the event when it reads its mailbox.
    ToolMailbox,
    /// The event is a digest.
    Digest,
    /// The event is stored and never shown to a model.
    Silent,
}

impl ShownMode {
    /// Converts a mode. Returns `None` for `notify`, which shows no content.
    pub const fn of(mode: Mode) -> Option<Self> {
        match mode {
            Mode::Immediate => Some(Self::Immediate),
            Mode::Buffered => Some(Self::Buffered),
            Mode::Notify => None,
            Mode::ToolMailbox => Some(Self::ToolMailbox),
            Mode::Digest => Some(Self::Digest),
            Mode::Silent => Some(Self::Silent),
        }
    }
}

impl From<ShownMode> for Mode {
    fn from(mode: ShownMode) -> Self {
        match mode {
            ShownMode::Immediate => Self::Immediate,
            ShownMode::Buffered => Self::Buffered,
            ShownMode::ToolMailbox => Self::ToolMailbox,
            ShownMode::Digest => Self::Digest,
            ShownMode::Silent => Self::Silent,
        }
    }
}

/// The announcement of an event whose content the agent must request. It is built from the host's own data,
/// never from the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Knock {
    /// The author of the event.
    pub from: Addressee,
    /// The kind and name of the conversation.
    #[serde(rename = "where")]
    #[schema(min_length = 1, max_length = 256, example = "thread:deploy-migration")]
    pub place: String,
    /// The target of the event as seen by the agent.
    pub directedness: Directedness,
    /// The response expected of the agent.
    pub policy: Policy,
    /// The priority of the event.
    pub priority: Priority,
    /// The topic in a few words.
    #[schema(max_length = 256, example = "question about the rollback step")]
    pub topic: String,
    /// The tool that returns the content.
    pub pull_with: ChatTool,
}

/// The attempt number and the idempotency key of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aReliability)]
#[serde(rename_all = "camelCase")]
pub struct Reliability {
    /// The number of the attempt, from 1.
    #[serde(default = "first")]
    #[schema(nullable, minimum = 1, default = 1)]
    pub attempt: i64,
    /// The key that all attempts share.
    pub idempotency_key: IdempotencyKey,
}

fn first() -> i64 {
    1
}

/// The response to a delivery, sent after the event is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Always `accepted`.
    pub status: AcceptedStatus,
}

impl Accepted {
    /// The only possible value.
    pub const ACCEPTED: Self = Self { status: AcceptedStatus::Accepted };
}

words! {
    /// The status of a delivery at the harness.
    pub enum AcceptedStatus {
        /// The harness has stored the event.
        Accepted = "accepted",
    }
}

impl Delivery {
    /// Reads and validates the params.
    pub fn read(params: Value) -> Result<Self, Faults> {
        let member = |name: &str| params.get(name).filter(|value| !value.is_null()).map(|_| ());
        let mode = params["injection"]["mode"].as_str().and_then(Mode::parse);
        let mismatch = mode.and_then(|mode| choose(mode, member("content"), member("knock")).err());
        match schema::read::<Wire>(params) {
            Ok(wire) => wire.try_into().map_err(|Mismatch { path, what }| Faults::one(path, what)),
            Err(mut faults) => {
                if let Some(Mismatch { path, what }) = mismatch {
                    faults.add(path, what);
                }
                Err(faults)
            }
        }
    }

    /// Returns the mode of the delivery.
    pub fn mode(&self) -> Mode {
        match self.exposure {
            Exposure::Knock(_) => Mode::Notify,
            Exposure::Shown { mode, .. } => mode.into(),
        }
    }

    /// Returns the content, or `None` for a knock.
    pub fn content(&self) -> Option<&Content> {
        match &self.exposure {
            Exposure::Knock(_) => None,
            Exposure::Shown { content, .. } => Some(content),
        }
    }
}

/// The wire form of a delivery.
#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    shown: Shown,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Shown {
    /// The way in which the event enters the agent's work.
    injection: Injection,
    /// The parts of the content; required unless `injection.mode` is `notify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 100)]
    content: Option<Vec<Part>>,
    /// The announcement; required if `injection.mode` is `notify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    knock: Option<Knock>,
    /// The relay envelope that the text comes from, as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    envelope: Option<Map<String, Value>>,
    /// The market job that the text describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    job: Option<Map<String, Value>>,
    /// The attempt number and the idempotency key.
    reliability: Reliability,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Injection {
    /// The mode of delivery.
    mode: Mode,
    /// The part of the conversation to show with the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    context: Option<String>,
    /// The role under which a model is shown the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    role: Option<String>,
}

/// A member that a mode requires or forbids.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("{path}: {what}")]
struct Mismatch {
    path: &'static str,
    what: &'static str,
}

/// The member that goes with a mode: content or a knock.
enum Choice<C, K> {
    Content(ShownMode, C),
    Knock(K),
}

/// Picks the member that goes with the mode, or returns the mismatch.
fn choose<C, K>(mode: Mode, content: Option<C>, knock: Option<K>) -> Result<Choice<C, K>, Mismatch> {
    let wrong = |path, what| Err(Mismatch { path, what });
    match (ShownMode::of(mode), content, knock) {
        (Some(mode), Some(content), _) => Ok(Choice::Content(mode, content)),
        (Some(_), None, _) => wrong("content", "is required unless injection.mode is notify"),
        (None, Some(_), _) => wrong("content", "must not be there if injection.mode is notify"),
        (None, None, Some(knock)) => Ok(Choice::Knock(knock)),
        (None, None, None) => wrong("knock", "is required if injection.mode is notify"),
    }
}

impl TryFrom<Wire> for Delivery {
    type Error = Mismatch;

    fn try_from(Wire { header, shown }: Wire) -> Result<Self, Mismatch> {
        let Injection { mode, context, role } = shown.injection;
        let exposure = match choose(mode, shown.content, shown.knock)? {
            Choice::Knock(knock) => Exposure::Knock(knock),
            Choice::Content(mode, parts) => {
                let content = Content { parts, envelope: shown.envelope, job: shown.job };
                Exposure::Shown { mode, context, role, content }
            }
        };
        Ok(Self { header, exposure, reliability: shown.reliability })
    }
}

impl From<Delivery> for Wire {
    fn from(Delivery { header, exposure, reliability }: Delivery) -> Self {
        let shown = match exposure {
            Exposure::Knock(knock) => Shown {
                injection: Injection { mode: Mode::Notify, context: None, role: None },
                content: None,
                knock: Some(knock),
                envelope: None,
                job: None,
                reliability,
            },
            Exposure::Shown { mode, context, role, content } => Shown {
                injection: Injection { mode: mode.into(), context, role },
                content: Some(content.parts),
                knock: None,
                envelope: content.envelope,
                job: content.job,
                reliability,
            },
        };
        Self { header, shown }
    }
}

impl PartialSchema for Wire {
    fn schema() -> RefOr<Schema> {
        merged([Header::schema(), Shown::schema()])
    }
}

impl ToSchema for Wire {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Header::schemas(schemas);
        Shown::schemas(schemas);
    }
}

impl PartialSchema for Delivery {
    fn schema() -> RefOr<Schema> {
        Wire::schema()
    }
}

impl ToSchema for Delivery {
    fn name() -> Cow<'static, str> {
        "C2aDelivery".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Wire::schemas(schemas);
    }
}
