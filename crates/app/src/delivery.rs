//! Getting what is committed to where it belongs: `reader` is the way of one connection through its inbox, `handed` writes down how
//! far it got, `bridge` says the same thing in the language of each way and `c2a` in that of harnesses, `job` and `job_result` do so
//! for the market, `service` is how the hub shows itself there, `harness` is what is said to harnesses that are POSTed to by the `agreement` with them, and
//! `challenge` asks an endpoint whether it wants to be called. What carries it is in [`transport`](crate::transport); when it is
//! POSTed, and how often, is the business of [`reconcilers`](crate::reconcilers).

pub mod agreement;
pub mod bridge;
pub mod c2a;
pub mod challenge;
pub mod handed;
pub mod harness;
pub mod job;
pub mod job_result;
pub mod reader;
pub mod service;

pub use chorus_attention::deadline::REDELIVERY_MS;
