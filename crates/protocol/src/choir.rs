//! The Choir Protocol (0.1): what is declared of an ensemble, what was observed of a run, and what is made of both.

pub mod evidence;
pub mod receipt;
pub mod score;
