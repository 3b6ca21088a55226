//! Acts of the relay: registering, finding and unregistering agents, sending envelopes and answering them.
//!
//! `send` accepts and commits. `post` POSTs to endpoints, `answer` relays a streamed answer, `answer_envelope`
//! turns an answer from another door into an envelope, `reply` accepts a streamed reply from a receiver
//! without an endpoint, and `outcome` records the outcome. `history` reads an inbox by cursor, `sent` shows
//! senders the state of their envelopes, `session` lets a browser open an inbox, and `tell_owner` notifies an
//! agent's owner that its key was replaced.

mod answer;
mod answer_envelope;
mod find;
mod history;
mod outcome;
mod post;
mod register;
mod reply;
mod send;
mod sent;
mod session;
mod tell_owner;
mod unregister;

pub use answer::Listener;
pub use answer_envelope::{EnvelopeAnswer, answer_envelope, say_to_listener};
pub use find::{find, list};
pub use history::{Part, history};
pub use post::pursue;
pub use register::{Saved, may_register_others, register, register_by_operator};
pub use reply::{replier, reply};
pub use send::{SendAnswer, Showing, may_send, send};
pub use sent::{sender_of, sent, sent_one};
pub use session::{open_session, session_agent, session_holder};
pub use unregister::unregister;
