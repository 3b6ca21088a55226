//! Background work as reconcilers, which bring the database to its desired state whatever happened before.
//!
//! `steps` holds the steps and `ticks` their schedule. `push` POSTs to agents, `catch_up` updates old rows,
//! and `skill_words` indexes the skills of the market. Reconcilers stand above the acts, and no act calls
//! them: an act that makes something due only leaves a hint.

pub mod catch_up;
pub mod push;
pub mod reseal;
pub mod skill_words;
pub mod steps;
pub mod ticks;
