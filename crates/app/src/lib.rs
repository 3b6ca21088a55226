//! What can be done on a hub: acts, delivery, who may do what, and how things are shown.
//!
//! An act is one thing that can be done, written once, whatever door asks for it: it checks who may, masks credentials,
//! runs its one transaction and hands on what was committed. It knows the store, the engines and the protocol, and no HTTP
//! request: doors parse, call an act and render what it returns.
//!
//! What always holds: success means committed to disk; text with credentials in it is never appended to a conversation;
//! a request that comes twice under one key is done once.

#![expect(missing_docs, reason = "a part of this program, not a library: what a name says is not said again")]

pub mod accounts;
mod admission;
pub mod agents;
mod app;
pub mod attention;
pub mod audit;
pub mod authenticate;
mod away;
mod background;
pub mod blocks;
mod budget;
pub mod c2a;
pub mod caller;
pub mod callers;
pub mod channel;
pub mod charge;
pub mod choir;
mod config;
pub mod conversation;
pub mod dangers;
pub mod deliveries;
pub mod delivery;
mod error;
mod fingerprint;
pub mod finish_detached;
pub mod fleet;
mod harness_log;
mod health;
pub mod health_report;
pub mod lines;
mod long_work;
pub mod look_ups;
pub mod mail;
pub mod mail_limits;
mod mailer;
pub mod market;
pub mod mcp_sessions;
pub mod metrics;
pub mod once;
pub mod open;
pub mod operator;
pub mod page;
mod proxies;
pub mod quotas;
pub mod rate;
mod registrations;
pub mod relay;
pub mod sealing;
pub mod secrets;
mod tool_log;
pub mod tools;
pub mod trail;
pub mod turns;
mod turns_saved;
pub mod usage;
pub mod views;
pub mod webhooks;
mod whom;
pub mod work_streams;

pub use app::{App, AppState};
pub use caller::key_hash;
pub use config::{Config, Signup, TimeLimits};
pub use error::{Error, Refused};
pub use fingerprint::{FINGERPRINT, FingerprintError, check_fingerprint, keep_fingerprint};
pub use long_work::long_work;
pub use proxies::TrustedProxies;
pub use secrets::MasterKey;
