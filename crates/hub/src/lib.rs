//! The hub: the server that joins the doors, the store and the delivery of what is committed.
//!
//! [`run`] takes a listener, a store, a configuration and a signal to stop, so that whoever calls it (the binary, a
//! test) owns all four. Inside, a request passes the `server`'s accept loop, the `frame` around every request
//! (who calls, how often, how long, in which format errors go out), a door, one store transaction; then `delivery`
//! hands on what was committed.

mod app;
mod attention;
mod caller;
mod config;
pub mod delivery;
mod descriptors;
mod doors;
mod error;
mod frame;
mod health;
mod mail;
mod metrics;
mod proxies;
pub mod quotas;
mod rate;
mod router;
mod secrets;
mod server;
mod sources;
mod stall;
mod to_the_end;
mod unread;
mod views;

pub use caller::{key_hash, operator_key_hash};
pub use config::{Config, Signup, TimeLimits};
pub use doors::signin::first_link;
pub use mail::Mail;
pub use proxies::TrustedProxies;
pub use router::openapi;
pub use secrets::MasterKey;
pub use server::{StartError, run};
pub use sources::Sources;
