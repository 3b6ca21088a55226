//! The hub: the server that joins the doors, the store and the delivery of what is committed.
//!
//! [`run`] takes a listener, a store, a configuration and a signal to stop, so that whoever calls it (the binary, a
//! test) owns all four. Inside, a request passes the `server`'s accept loop, the `frame` around every request
//! (who calls, how often, how long, in which format errors go out), a door, one store transaction; then `delivery`
//! hands on what was committed.

mod app;
mod attention;
mod audit;
mod budget;
mod caller;
mod config;
mod connections;
mod dangers;
pub mod delivery;
mod descriptors;
mod doors;
mod error;
mod fingerprint;
mod frame;
mod health;
mod look_ups;
mod mail;
mod mail_limits;
mod metrics;
mod origin;
mod proxies;
pub mod quotas;
mod rate;
mod registrations;
mod router;
mod sealing;
mod searches;
mod secrets;
mod server;
mod sources;
mod stall;
mod to_the_end;
mod unread;
mod usage;
mod views;
mod webhooks;

pub use caller::{key_hash, operator_key_hash};
pub use config::{Config, Signup, TimeLimits};
pub use doors::signin::first_link;
pub use fingerprint::{FINGERPRINT, FingerprintError, check_fingerprint, keep_fingerprint};
pub use mail::Mail;
pub use proxies::TrustedProxies;
pub use router::openapi;
pub use secrets::MasterKey;
pub use server::{StartError, run};
pub use sources::Sources;
