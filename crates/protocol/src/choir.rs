//! The Choir Protocol 0.1: Scores declare an ensemble, evidence records a run, receipts certify both.

pub mod answers;
pub mod evidence;
pub mod receipt;
pub mod score;
