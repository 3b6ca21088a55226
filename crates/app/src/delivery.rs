//! Delivers committed events. `reader` is a connection's position in its inbox and `handed` records its
//! watermark. `bridge` renders an event for each route, `c2a` for harnesses, `job` and `job_result` for the
//! market. `service` is the hub's identity there. `harness` talks to harnesses that get POSTs, by the
//! `agreement` with them. `challenge` asks an endpoint whether it wants requests. The connections are in
//! [`transport`](chorus_node::transport); the schedule of POSTs is in [`reconcilers`](crate::reconcilers).

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
