//! Attention: for one event and one recipient, whether it is aimed at it, what is expected of it, and how it gets to
//! see it. Delivery is not injection.
//!
//! An engine: no clock, no I/O, no randomness; what is known comes in, a decision comes out. [`classify`] looks at an
//! event once, [`decide`] at each recipient, so that who is not concerned costs nothing: the decision for a bystander
//! is the same for all of them.

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
pub mod outbound;
pub mod turn;

pub use chorus_protocol::attention::Attention;
pub use chorus_protocol::words::AuthorKind;
pub use decide::{DEADLINE_MS, DEFAULT_DEADLINE_MS, Recipient, decide};
pub use event::{Classified, Event, Happening, classify};
