//! How host and harness begin: versions, what each can do, and the glyphs of signals.
//!
//! What either may use is what both can do. Which mode takes the place of one that a harness does not have is the
//! engine's to say.

use super::{ChatTool, WireId};
use crate::words::Signal;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Map;
use std::collections::BTreeMap;
use utoipa::openapi::schema::{ObjectBuilder, Schema};
use utoipa::openapi::{RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

/// The version we speak if it is up to us.
pub const PROTOCOL_VERSION: &str = "2026-06-02";

/// Every version we speak.
pub const PROTOCOL_VERSIONS: &[&str] = &[PROTOCOL_VERSION];

/// The code that a WebSocket is closed with when another connection of the same agent has its place. Who comes back all the
/// same takes it in turn, without end.
pub const TAKEN_OVER: u16 = 4001;

/// The version to answer with: the one that was asked for if we speak it, else ours.
pub fn negotiate_version(asked: &str) -> &'static str {
    PROTOCOL_VERSIONS.iter().find(|version| **version == asked).copied().unwrap_or(PROTOCOL_VERSION)
}

/// `initialize`: what a harness says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    /// The version it would like to speak.
    #[schema(min_length = 1, max_length = 64, example = "2026-06-02")]
    pub protocol_version: String,
    /// What it is.
    pub client_info: Program,
    /// What it can do. Of a group that is named it can do what is said; of how events enter its work nothing else is believed.
    #[serde(default = "Capabilities::unsaid")]
    #[schema(nullable)]
    pub capabilities: Capabilities,
}

/// What the host answers. Of another's answer only the version and the capabilities are certain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The version that is spoken from now on.
    #[schema(min_length = 1, max_length = 64)]
    pub protocol_version: String,
    /// What the host is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Program>,
    /// What both can do.
    pub capabilities: Capabilities,
    /// How signals are shown.
    #[serde(default)]
    #[schema(nullable)]
    pub glyphs: Glyphs,
    /// How they are shown in conversations of the agent's that show them otherwise, by their ids; some of them. What is delivered
    /// from there says it too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(nullable)]
    pub conversation_glyphs: BTreeMap<String, Glyphs>,
    /// Where deliveries go on.
    #[serde(default)]
    #[schema(nullable)]
    pub resume: Resume,
}

/// A program at one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Program {
    /// What it is called.
    #[schema(min_length = 1, max_length = 256, example = "pear-chat-adapter")]
    pub name: String,
    /// Its version.
    #[schema(max_length = 64, example = "0.1.0")]
    pub version: String,
}

/// Where deliveries go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// The last event up to which everything was acknowledged; none if nothing was.
    pub last_acked_event_id: Option<WireId>,
}

/// Makes a struct of things that an end can do, and what of them two ends can.
macro_rules! capabilities {
    ($($(#[$attribute:meta])* pub struct $name:ident { $($(#[$doc:meta])* $can:ident,)+ })+) => {
        $(
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
            #[serde(default)]
            $(#[$attribute])*
            pub struct $name { $($(#[$doc])* #[schema(nullable)] pub $can: bool,)+ }

            impl $name {
                /// All of it.
                pub const ALL: Self = Self { $($can: true,)+ };

                /// What both can do.
                #[must_use]
                pub fn intersect(self, other: Self) -> Self {
                    Self { $($can: self.$can && other.$can,)+ }
                }
            }
        )+
    };
}

capabilities! {
    /// What can be done about deliveries.
    pub struct DeliveryCapabilities {
        /// They are acknowledged.
        ack,
        /// They come again until they are.
        redelivery,
        /// What comes again is known by its key.
        idempotency,
    }

    /// How events can enter an agent's work, by the names of the modes.
    pub struct InjectionCapabilities {
        /// At once.
        immediate,
        /// Together with what belongs to it.
        buffered,
        /// As a knock.
        notify,
        /// By looking.
        tool_mailbox,
        /// Summed up.
        digest,
        /// Even while a turn is under way.
        interrupt,
    }

    /// Which chat tools there are.
    #[serde(rename_all = "camelCase")]
    pub struct ChatToolCapabilities {
        /// `chat.read_thread`, and `chat.list_events` with it.
        read_thread,
        /// `chat.send_message`.
        send_message,
        /// `chat.react`.
        react,
        /// Reactions are signals, not pictures.
        reaction_signals,
        /// `chat.claim`.
        claim,
        /// `chat.defer`.
        defer,
        /// `chat.resolve`.
        resolve,
    }

    /// What else there is.
    pub struct UtilityCapabilities {
        /// `notifications/progress`.
        progress,
        /// `notifications/cancelled`.
        cancellation,
        /// `notifications/message`.
        logging,
    }
}

impl DeliveryCapabilities {
    /// Whether something may be sent once more that may have arrived already: who cannot tell takes it twice.
    pub const fn takes_again(self) -> bool {
        self.redelivery && self.idempotency
    }
}

impl ChatToolCapabilities {
    /// Whether this tool is among them.
    pub const fn has(self, tool: ChatTool) -> bool {
        match tool {
            ChatTool::ListEvents | ChatTool::ReadThread => self.read_thread,
            ChatTool::SendMessage => self.send_message,
            // What it sends is a signal, and nothing else.
            ChatTool::React => self.react && self.reaction_signals,
            ChatTool::Claim => self.claim,
            ChatTool::Defer => self.defer,
            ChatTool::Resolve => self.resolve,
        }
    }
}

/// What one end can do, or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default = "Capabilities::unsaid", rename_all = "camelCase")]
pub struct Capabilities {
    /// About deliveries.
    #[schema(nullable)]
    pub delivery: DeliveryCapabilities,
    /// How events can enter an agent's work.
    #[schema(nullable)]
    pub injection: InjectionCapabilities,
    /// Which chat tools there are.
    #[schema(nullable)]
    pub chat_tools: ChatToolCapabilities,
    /// What else.
    #[schema(nullable)]
    pub utilities: UtilityCapabilities,
}

impl Capabilities {
    /// All of it.
    pub const ALL: Self = Self {
        delivery: DeliveryCapabilities::ALL,
        injection: InjectionCapabilities::ALL,
        chat_tools: ChatToolCapabilities::ALL,
        utilities: UtilityCapabilities::ALL,
    };

    /// What an end can do that says nothing of it.
    fn unsaid() -> Self {
        Self { injection: InjectionCapabilities::default(), ..Self::ALL }
    }

    /// What both can do.
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

/// How each signal is shown. What is not said otherwise is shown as usual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Glyphs(BTreeMap<Signal, String>);

impl Default for Glyphs {
    fn default() -> Self {
        Self(Signal::ALL.iter().map(|signal| (*signal, default_glyph(*signal).to_owned())).collect())
    }
}

impl Glyphs {
    /// How a signal is shown.
    pub fn of(&self, signal: Signal) -> &str {
        self.0.get(&signal).map_or(default_glyph(signal), |glyph| glyph)
    }

    /// The same, but one signal is shown otherwise.
    #[must_use]
    pub fn with(mut self, signal: Signal, glyph: impl Into<String>) -> Self {
        self.0.insert(signal, glyph.into());
        self
    }
}

impl<'de> Deserialize<'de> for Glyphs {
    /// Signals are fixed: what is said of others is ignored.
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

/// How a signal is shown unless somebody said otherwise.
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
    }
}
