//! `chat/deliver`: an event on its way to one agent.
//!
//! Either the agent is shown what was said, or it is only told that there is something: a knock, which holds none of it.
//! [`Exposure`] is one of the two, so that no delivery can be both; on the wire `injection.mode` says which.

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

/// `chat/deliver`: an event, and how much of it the agent is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Delivery {
    /// What every event has.
    pub header: Header,
    /// What the agent is shown.
    pub exposure: Exposure,
    /// How often it came.
    pub reliability: Reliability,
}

/// What an agent is shown of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Exposure {
    /// That there is something: mode `notify`.
    Knock(Knock),
    /// What was said.
    Shown {
        /// How it enters the agent's work.
        mode: ShownMode,
        /// What of the conversation is to be shown with it, such as `thread_window`.
        context: Option<String>,
        /// As whose words it is to be shown, such as `user`.
        role: Option<String>,
        /// What was said.
        content: Content,
    },
}

/// Every mode but `notify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownMode {
    /// At once.
    Immediate,
    /// Together with what belongs to it, once its author pauses.
    Buffered,
    /// The agent finds it when it looks.
    ToolMailbox,
    /// It is a summary.
    Digest,
    /// It is kept, and never shown to a model.
    Silent,
}

impl ShownMode {
    /// The mode, unless it shows nothing but a knock.
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

/// What an agent is told of an event whose content it has to ask for. It is made from what the host knows, never from
/// what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Knock {
    /// Who.
    pub from: Addressee,
    /// Where: what it is, and its name.
    #[serde(rename = "where")]
    #[schema(min_length = 1, max_length = 256, example = "thread:deploy-migration")]
    pub place: String,
    /// At whom it is aimed.
    pub directedness: Directedness,
    /// What the agent is to do about it.
    pub policy: Policy,
    /// How much it matters.
    pub priority: Priority,
    /// What it is about, in a few words.
    #[schema(max_length = 256, example = "question about the rollback step")]
    pub topic: String,
    /// The tool that shows what was said.
    pub pull_with: ChatTool,
}

/// How often a delivery came, and what tells that it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aReliability)]
#[serde(rename_all = "camelCase")]
pub struct Reliability {
    /// From 1.
    #[serde(default = "first")]
    #[schema(nullable, minimum = 1, default = 1)]
    pub attempt: i64,
    /// The same each time.
    pub idempotency_key: IdempotencyKey,
}

fn first() -> i64 {
    1
}

/// The answer to a delivery, once it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// That it was.
    pub status: AcceptedStatus,
}

impl Accepted {
    /// The only one there is.
    pub const ACCEPTED: Self = Self { status: AcceptedStatus::Accepted };
}

words! {
    /// What became of a delivery at the harness.
    pub enum AcceptedStatus {
        /// It has it.
        Accepted = "accepted",
    }
}

impl Delivery {
    /// Reads and checks the params.
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

    /// How it enters the agent's work.
    pub fn mode(&self) -> Mode {
        match self.exposure {
            Exposure::Knock(_) => Mode::Notify,
            Exposure::Shown { mode, .. } => mode.into(),
        }
    }

    /// What was said, where the agent is shown it.
    pub fn content(&self) -> Option<&Content> {
        match &self.exposure {
            Exposure::Knock(_) => None,
            Exposure::Shown { content, .. } => Some(content),
        }
    }
}

/// A delivery as it stands on the wire.
#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    shown: Shown,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Shown {
    /// How the event enters the agent's work.
    injection: Injection,
    /// What was said, in pieces; required unless `injection.mode` is `notify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 100)]
    content: Option<Vec<Part>>,
    /// What there is to know without it; required if `injection.mode` is `notify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    knock: Option<Knock>,
    /// The relay envelope that the text comes from, as it was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    envelope: Option<Map<String, Value>>,
    /// The job that the text tells of, as the market has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    job: Option<Map<String, Value>>,
    /// How often it came.
    reliability: Reliability,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Injection {
    /// The mode.
    mode: Mode,
    /// What of the conversation is to be shown with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    context: Option<String>,
    /// As whose words it is to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    role: Option<String>,
}

/// A member that is missing for a mode, or must not be there.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("{path}: {what}")]
struct Mismatch {
    path: &'static str,
    what: &'static str,
}

/// What goes with a mode: what was said, or a knock.
enum Choice<C, K> {
    Content(ShownMode, C),
    Knock(K),
}

/// Chooses it, whatever form it has.
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
