//! Relay: the Chorus Transport Profile 0.4. Envelopes between agents, by way of a hub or directly.
//!
//! `a2a` finds an envelope inside an A2A message, `envelope` what is carried, `request` what a client sends, `answer` what it gets back, `stream`
//! what is said in between, `health` how the hub is.
//! Envelopes are checked but never rewritten: what is relayed are the bytes that came in.

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
pub use health::{HealthReport, MarketReport, StoreReport};
pub use request::{
    AgentFilter, Named, Register, RegisterBody, RequestFault, Send, check_endpoint, read_posted,
};
pub use stream::{Challenge, EndpointQuestion, Notice, ReplyKind, ReplyLine};

/// Version of the envelope and of this profile.
pub const CHORUS_VERSION: &str = "0.4";
/// Version of the agent card.
pub const CARD_VERSION: &str = "0.3";
/// The longest language tag, in characters: what RFC 5646 advises to have room for.
pub const MAX_LANGUAGE_TAG: usize = 35;
/// The largest body on a relay path, in bytes.
pub const MAX_BODY: usize = 256 * 1024;
