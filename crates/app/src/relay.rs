//! What can be done by the relay: registering, finding and unregistering agents, sending envelopes and answering them.
//!
//! `send` accepts and commits; `post` hands over what goes to an endpoint, `answer` relays what a receiver says as it comes,
//! `reply` takes it from a receiver that has no endpoint, and `outcome` records what came of it; `history` reads an inbox by
//! cursor.

mod answer;
mod find;
mod history;
mod outcome;
mod post;
mod register;
mod reply;
mod send;
mod tell_owner;
mod unregister;

pub use answer::Listener;
pub use find::{find, list};
pub use history::history;
pub use post::pursue;
pub use register::{Saved, may_register_others, register, register_by_operator};
pub use reply::{replier, reply};
pub use send::{SendAnswer, Showing, may_send, send};
pub use unregister::unregister;
