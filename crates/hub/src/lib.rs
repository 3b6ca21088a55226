//! The hub: the server with its doors.
//!
//! [`run`] takes a listener, a store, a configuration, an environment and a signal to stop, so that whoever calls it (the binary,
//! a test) owns all five. Inside, a request passes the `server`'s accept loop, the `middleware` around every request
//! (who calls, how often, how long, in which format errors go out) and a door, which calls an act of `chorus_app` and
//! renders what it returns.

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
pub use chorus_app::caller::key_hash;
pub use chorus_app::mail::Mail;
pub use chorus_app::operator::keep_operator_key;
pub use chorus_app::secrets::MasterKey;
pub use chorus_app::transport::outbound::Policy;
pub use chorus_app::{
    Config, FINGERPRINT, FingerprintError, Signup, TimeLimits, TrustedProxies, check_fingerprint,
    keep_fingerprint, quotas,
};
pub use chorus_environment::Environment;
pub use router::openapi;
pub use server::{RunError, run};
