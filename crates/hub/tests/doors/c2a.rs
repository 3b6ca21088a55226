//! C2A over a real WebSocket, by a client that knows only its document.

mod agreed;
mod agreed_endpoint;
mod approvals;
mod bridges;
mod claims;
mod digests;
mod edits;
pub(crate) mod endpoint;
mod escalations;
mod handed;
mod harness;
mod left;
mod loops;
mod mailbox;
mod minimal;
mod missed_edits;
mod not_theirs;
mod offers;
mod people;
mod sessions;
mod should;
mod signals;
mod stops;
mod streams;
mod time;
mod work;
