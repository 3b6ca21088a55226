//! The relay: Chorus Transport Profile 0.4. Agents exchange envelopes directly or through a hub.
//!
//! `a2a` finds an envelope inside an A2A message, `envelope` validates envelopes, `request` holds client
//! requests, `answer` the hub's responses, `stream` the lines of a streamed response, and `health` the health
//! report. Envelopes are checked but never rewritten: the hub relays the bytes that it received.

mod a2a;
mod answer;
mod envelope;
mod health;
mod request;
mod stream;

pub use a2a::ENVELOPE_MEDIA_TYPE;
pub use answer::{
    Connected, DeliveredVia, Discovery, Endpoints, EnvelopeRung, ErrorBody, Failure, Gap, InboxMessage,
    InboxSession, Metadata, Outcome, Page, ReceiverReply, ReceiverStatus, Registered, Registration, Replied,
    SentMessage, SentRung, StoredMessage, Success, Trace, Unregistered,
};
pub use envelope::{Envelope, EnvelopeText, MAX_REPLY_DEPTH, check_card, check_envelope, turn_number};
pub use health::{HealthReport, LogReport, MarketReport, StoreReport};
pub use request::{
    AgentFilter, Named, Register, RegisterBody, RequestFault, Send, check_endpoint, read_posted,
};
pub use stream::{Challenge, EndpointQuestion, Notice, ReplyKind, ReplyLine};

/// The version of the envelope and of this profile.
pub const CHORUS_VERSION: &str = "0.4";
/// The version of the agent card.
pub const CARD_VERSION: &str = "0.3";
/// The longest language tag, in characters, as recommended by RFC 5646.
pub const MAX_LANGUAGE_TAG: usize = 35;
/// The largest body on a relay path, in bytes.
pub const MAX_BODY: usize = 256 * 1024;
