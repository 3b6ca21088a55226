//! The handshake of host and harness: protocol versions, capabilities, and the glyphs of signals.
//!
//! A session uses the capabilities that both sides have. The engine chooses the substitute for a mode that a
//! harness lacks.

use super::{ChatTool, WireId};
use crate::words::Signal;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Map;
use std::collections::BTreeMap;
use utoipa::openapi::schema::{ObjectBuilder, Schema};
use utoipa::openapi::{RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

/// The preferred protocol version.
pub const PROTOCOL_VERSION: &str = "2026-06-02";

/// All supported protocol versions.
pub const PROTOCOL_VERSIONS: &[&str] = &[PROTOCOL_VERSION];

/// The WebSocket close code for a connection that another connection of the same agent has replaced. A client
/// that reconnects anyway starts an endless exchange of takeovers.
pub const TAKEN_OVER: u16 = 4001;

/// Returns the requested version if it is supported, else the preferred one.
pub fn negotiate_version(asked: &str) -> &'static str {
    PROTOCOL_VERSIONS.iter().find(|version| **version == asked).copied().unwrap_or(PROTOCOL_VERSION)
}

/// The params of `initialize`, sent by the harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    /// The version that the harness prefers.
    #[schema(min_length = 1, max_length = 64, example = "2026-06-02")]
    pub protocol_version: String,
    /// The name and version of the harness.
    pub client_info: Program,
    /// The capabilities of the harness. In a group that is present, missing members are `false`. If
    /// `injection` is absent all its members are `false`; other absent groups are fully supported.
    #[serde(default = "Capabilities::unsaid")]
    #[schema(nullable)]
    pub capabilities: Capabilities,
}

/// The host's response to `initialize`. Responses of other hosts are only required to hold the version and the
/// capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The version used in this session.
    #[schema(min_length = 1, max_length = 64)]
    pub protocol_version: String,
    /// The name and version of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Program>,
    /// The capabilities that both sides have.
    pub capabilities: Capabilities,
    /// The glyphs for signals.
    #[serde(default)]
    #[schema(nullable)]
    pub glyphs: Glyphs,
    /// The glyphs of some of the agent's conversations that differ from `glyphs`, by conversation id.
    /// Deliveries from these conversations carry them too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(nullable)]
    pub conversation_glyphs: BTreeMap<String, Glyphs>,
    /// The position at which deliveries resume.
    #[serde(default)]
    #[schema(nullable)]
    pub resume: Resume,
}

/// The program on one side of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Program {
    /// The program's name.
    #[schema(min_length = 1, max_length = 256, example = "pear-chat-adapter")]
    pub name: String,
    /// The program's version.
    #[schema(max_length = 64, example = "0.1.0")]
    pub version: String,
}

/// The position at which deliveries resume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// The last event up to which everything was acknowledged; `null` if nothing was.
    pub last_acked_event_id: Option<WireId>,
}

/// Defines structs of boolean capabilities with their intersection.
macro_rules! capabilities {
    ($($(#[$attribute:meta])* pub struct $name:ident { $($(#[$doc:meta])* $can:ident,)+ })+) => {
        $(
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
            #[serde(default)]
            $(#[$attribute])*
            pub struct $name { $($(#[$doc])* #[schema(nullable)] pub $can: bool,)+ }

            impl $name {
                /// All capabilities.
                pub const ALL: Self = Self { $($can: true,)+ };

                /// Returns the capabilities that both sides have.
                #[must_use]
                pub fn intersect(self, other: Self) -> Self {
                    Self { $($can: self.$can && other.$can,)+ }
                }
            }
        )+
    };
}

capabilities! {
    /// The capabilities for deliveries.
    pub struct DeliveryCapabilities {
        /// Deliveries are acknowledged.
        ack,
        /// Unacknowledged deliveries are sent again.
        redelivery,
        /// Repeated deliveries are recognised by their key.
        idempotency,
    }

    /// The modes in which events can enter an agent's work.
    pub struct InjectionCapabilities {
        /// Delivery at once.
        immediate,
        /// Delivery with related events, after the author pauses.
        buffered,
        /// Delivery as a knock.
        notify,
        /// Reading from a mailbox.
        tool_mailbox,
        /// Delivery in a digest.
        digest,
        /// Delivery during a turn of the model.
        interrupt,
    }

    /// The available chat tools.
    #[serde(rename_all = "camelCase")]
    pub struct ChatToolCapabilities {
        /// Supports `chat.read_thread` and `chat.list_events`.
        read_thread,
        /// Supports `chat.send_message`.
        send_message,
        /// Supports `chat.react`.
        react,
        /// `chat.react` takes signals instead of emoji.
        reaction_signals,
        /// Supports `chat.claim`.
        claim,
        /// Supports `chat.defer`.
        defer,
        /// Supports `chat.resolve`.
        resolve,
    }

    /// Further capabilities.
    pub struct UtilityCapabilities {
        /// Supports `notifications/progress`.
        progress,
        /// Supports `notifications/cancelled`.
        cancellation,
        /// Supports `notifications/message`.
        logging,
    }
}

impl DeliveryCapabilities {
    /// Returns `true` if a delivery that may have arrived can safely be sent again.
    pub const fn takes_again(self) -> bool {
        self.redelivery && self.idempotency
    }
}

impl ChatToolCapabilities {
    /// Returns `true` if this tool is available.
    pub const fn has(self, tool: ChatTool) -> bool {
        match tool {
            ChatTool::ListEvents | ChatTool::ReadThread => self.read_thread,
            ChatTool::SendMessage => self.send_message,
            // `chat.react` sends signals only.
            ChatTool::React => self.react && self.reaction_signals,
            ChatTool::Claim => self.claim,
            ChatTool::Defer => self.defer,
            ChatTool::Resolve => self.resolve,
        }
    }
}

/// The capabilities of one side, or of both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default = "Capabilities::unsaid", rename_all = "camelCase")]
pub struct Capabilities {
    /// The capabilities for deliveries.
    #[schema(nullable)]
    pub delivery: DeliveryCapabilities,
    /// The modes in which events can enter an agent's work.
    #[schema(nullable)]
    pub injection: InjectionCapabilities,
    /// The available chat tools.
    #[schema(nullable)]
    pub chat_tools: ChatToolCapabilities,
    /// Further capabilities.
    #[schema(nullable)]
    pub utilities: UtilityCapabilities,
}

impl Capabilities {
    /// All capabilities.
    pub const ALL: Self = Self {
        delivery: DeliveryCapabilities::ALL,
        injection: InjectionCapabilities::ALL,
        chat_tools: ChatToolCapabilities::ALL,
        utilities: UtilityCapabilities::ALL,
    };

    /// Returns the capabilities assumed for a side that declares none.
    fn unsaid() -> Self {
        Self { injection: InjectionCapabilities::default(), ..Self::ALL }
    }

    /// Returns the capabilities that both sides have.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self {
            delivery: self.delivery.intersect(other.delivery),
            injection: self.injection.intersect(other.injection),
            chat_tools: self.chat_tools.intersect(other.chat_tools),
            utilities: self.utilities.intersect(other.utilities),
        }
    }
}

/// The glyph of each signal. Signals without an entry have the default glyph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Glyphs(BTreeMap<Signal, String>);

impl Default for Glyphs {
    fn default() -> Self {
        Self(Signal::ALL.iter().map(|signal| (*signal, default_glyph(*signal).to_owned())).collect())
    }
}

impl Glyphs {
    /// Returns the glyph of a signal.
    pub fn of(&self, signal: Signal) -> &str {
        self.0.get(&signal).map_or(default_glyph(signal), |glyph| glyph)
    }

    /// Replaces the glyph of one signal.
    #[must_use]
    pub fn with(mut self, signal: Signal, glyph: impl Into<String>) -> Self {
        self.0.insert(signal, glyph.into());
        self
    }
}

impl<'de> Deserialize<'de> for Glyphs {
    /// Reads the glyphs of known signals and ignores other names.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut glyphs = Self::default();
        for (name, glyph) in Map::deserialize(deserializer)? {
            if let Some(signal) = Signal::parse(&name)
                && !glyph.is_null()
            {
                glyphs.0.insert(signal, String::deserialize(glyph).map_err(D::Error::custom)?);
            }
        }
        Ok(glyphs)
    }
}

impl ToSchema for Glyphs {}

impl PartialSchema for Glyphs {
    fn schema() -> RefOr<Schema> {
        let glyph =
            || ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(64));
        let object = ObjectBuilder::new().schema_type(Type::Object);
        Signal::ALL.iter().fold(object, |object, signal| object.property(signal.as_str(), glyph())).into()
    }
}

/// Returns the default glyph of a signal.
pub const fn default_glyph(signal: Signal) -> &'static str {
    match signal {
        Signal::Seen => "👀",
        Signal::Agree => "👍",
        Signal::Working => "🔧",
        Signal::Queued => "🕐",
        Signal::Claimed => "✋",
        Signal::Done => "✅",
        Signal::Declined => "🙅",
        Signal::Blocked => "🚧",
        Signal::Unclear => "❓",
        Signal::Stop => "🛑",
    }
}
