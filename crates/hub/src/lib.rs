//! The hub: the HTTP server with its doors.
//!
//! [`run`] takes a listener, a store, a configuration, an environment and a stop signal, so that its caller
//! (the binary, or a test) owns all five. A request passes the accept loop of `server`, the `middleware`
//! (authentication, rate limits, timeouts, error format) and a door, which calls an act of `chorus_app` and
//! renders its result.

mod answers;
mod body;
mod connections;
mod credentials;
mod cursors;
mod descriptors;
mod doors;
mod error;
mod event_stream;
mod extract;
mod http_errors;
mod middleware;
mod origin;
mod payloads;
mod route;
mod router;
mod routes;
mod server;
mod stall;
mod unread;

pub use chorus_app::accounts::first_link;
pub use chorus_app::choir::log_integrity::{LogRepair, LogRepairError, repair as repair_log};
pub use chorus_app::operator::keep_operator_key;
pub use chorus_environment::Environment;
pub use chorus_node::caller::key_hash;
pub use chorus_node::config::mail::Mail;
pub use chorus_node::config::proxies::TrustedProxies;
pub use chorus_node::config::quotas;
pub use chorus_node::secrets::MasterKey;
pub use chorus_node::secrets::fingerprint::{
    FINGERPRINT, FingerprintError, check_fingerprint, keep_fingerprint,
};
pub use chorus_node::transport::outbound::Policy;
pub use chorus_node::{Config, Signup, TimeLimits};
pub use router::openapi;
pub use server::{RunError, run};
