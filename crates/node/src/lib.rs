//! One node of a hub: everything that acts share and that is not an act.
//!
//! [`App`] is the root. Its fields are the store, the settings, the clock, and five groups of state in memory:
//! [`limits`], [`transport`], [`caches`], [`telemetry`] and [`tasks`]. All of it is bounded, and a restart loses nothing that was acknowledged.
//!
//! [`authentication`], [`idempotency`], [`audit`] and [`page`] are the steps that most acts begin or end with. This crate knows no act:
//! the acts of `chorus-app` are above it.

mod app;
pub mod audit;
pub mod authentication;
pub mod caches;
pub mod caller;
pub mod config;
mod error;
pub mod idempotency;
pub mod limits;
pub mod page;
pub mod secrets;
pub mod source;
pub mod tasks;
pub mod telemetry;
pub mod transport;

pub use app::{App, AppState};
pub use config::{Config, Signup, TimeLimits};
pub use error::{Error, Refused};
