//! Runs work whose duration depends on its size without blocking other requests.

use tokio::runtime::{Handle, RuntimeFlavor};

/// More bytes than this take long.
pub const LONG: usize = 32 * 1024;

/// Runs work on this many bytes. If it is large and the runtime has several threads, other threads take over
/// the tasks of this one.
pub fn block_in_place_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let others = Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > LONG && others { tokio::task::block_in_place(work) } else { work() }
}
