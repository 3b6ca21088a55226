//! Getting what is committed to where it belongs: `live` knows the open connections of this node, `reader` is the way of one of
//! them through its inbox, `dialect` how things are said there, `window` what was not acknowledged there, `frames` keeps what was
//! just encoded for them, `bridge` says the same thing in the language of each way and `c2a` in that of harnesses, `push` posts to
//! agents until it arrives, `outbound` reaches out to agents' endpoints, as often as `limits` lets it and, if need be, after a
//! `challenge`, `harness` is what is said to harnesses that are POSTed to, `notices` what they are told in passing, `replies` knows
//! who waits for a streamed answer, `reconcile` keeps all of it true by `steps`, `catch_up` brings what is old up to date.

pub mod bridge;
pub mod c2a;
pub mod cancelling;
pub mod catch_up;
pub mod challenge;
pub mod challenges;
pub mod dialect;
pub mod frames;
pub mod harness;
pub mod limits;
pub mod live;
pub mod notices;
pub mod outbound;
pub mod push;
pub mod reader;
pub mod reconcile;
pub mod replies;
pub mod service;
pub mod steps;
pub mod window;

pub use chorus_attention::deadline::REDELIVERY_MS;
