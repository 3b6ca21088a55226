//! Work that takes long for the size of what it is about: it is done while others' requests go on.

use tokio::runtime::{Handle, RuntimeFlavor};

/// More bytes than this take long.
const LONG: usize = 32 * 1024;

/// Does work about so many bytes. Where the runtime has several threads and it is long, others take over what waits on this one.
pub fn long_work<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let others = Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > LONG && others { tokio::task::block_in_place(work) } else { work() }
}
