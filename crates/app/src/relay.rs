//! What can be done by the relay: registering, finding and unregistering agents. One file for each.

mod find;
mod register;
mod tell_owner;
mod unregister;

pub use find::{find, list};
pub use register::{Saved, may_register_others, register, register_by_operator};
pub use unregister::unregister;
