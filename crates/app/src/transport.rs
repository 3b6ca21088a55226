//! What carries things to agents, on this node: `live` knows the open connections, `dialect` how things are said there, `frames`
//! keeps what was just encoded for them, `window` what was not acknowledged there, `replies` knows who waits for a streamed answer;
//! `outbound` reaches out to agents' endpoints, as often as `limits` lets it, `challenges` counts how often these were asked whether
//! they want that, and `notices` keeps what harnesses that are POSTed to are told in passing.
//!
//! All of it is a node's own, in memory and bounded; it knows no act and no store.

pub mod challenges;
pub mod dialect;
pub mod frames;
pub mod limits;
pub mod live;
pub mod notices;
pub mod outbound;
pub mod replies;
pub mod window;
