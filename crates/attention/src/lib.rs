//! Attention: decides, for one event and one recipient, the directedness, the response policy and the mode in
//! which the event is shown. Delivering an event does not mean showing it to the model.
//!
//! The engine has no clock, no I/O and no randomness: it maps facts to a decision. [`classify`] runs once per
//! event and [`decide`] once per recipient. Bystanders cost nothing, because the decision is the same for all
//! of them.

pub mod capabilities;
pub mod claims;
pub mod deadline;
mod decide;
pub mod digest;
pub mod disposition;
mod event;
mod fold;
pub mod intent;
pub mod knock;
mod lexicon;
pub mod loop_guard;
pub mod obligation;
pub mod outbound;
pub mod plan;
pub mod turn;

pub use chorus_protocol::attention::Attention;
pub use chorus_protocol::words::AuthorKind;
pub use decide::{DEADLINE_MS, DEFAULT_DEADLINE_MS, Recipient, decide};
pub use event::{Classified, Event, Happening, classify};
