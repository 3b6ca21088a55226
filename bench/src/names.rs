//! The names of the agents of a load, all of the same length, so that a request can be changed in place.

/// The number of digits of a sender's number.
pub(crate) const SENDER: usize = 6;
/// The number of digits of a receiver's number.
pub(crate) const RECEIVER: usize = 6;

/// Returns the name of the `n`-th sender of a run.
pub(crate) fn sender_name(run: &str, n: usize) -> String {
    format!("bench-{run}-s{n:0SENDER$}")
}

/// Returns the name of the `n`-th receiver of a run.
pub(crate) fn receiver_name(run: &str, n: usize) -> String {
    format!("bench-{run}-r{n:0RECEIVER$}")
}
