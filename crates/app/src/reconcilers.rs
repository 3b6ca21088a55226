//! Background work as reconcilers: what brings the database to where it should be, whatever happened before.
//!
//! What is done is in `steps`, and when, in `ticks`; `push` POSTs to agents until it arrives, and `catch_up` brings what is old up to
//! date. They stand above the acts, and no act knows of them: what makes something due leaves a hint and no more.

pub mod catch_up;
pub mod push;
pub mod steps;
pub mod ticks;
