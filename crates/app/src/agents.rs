//! Agents as their owners see them, and who may change them.

mod reference;
mod view;

pub use reference::{AgentRef, managed, may_manage};
pub use view::{host, view};
