//! Deliveries as owners see them: listing and replaying them, their attempts, and the progress of an event.
//! The delivery itself is in [`delivery`](crate::delivery).

mod attempts;
mod ladder;
mod list;
mod replay;

pub use attempts::attempts;
pub(crate) use ladder::put_in_order;
pub use ladder::{LadderView, ladder};
pub use list::{Asked, list};
pub use replay::{may_replay, replay, replay_all};

use chorus_node::Error;

fn unknown() -> Error {
    Error::unauthorized("this needs an account's token, an agent's key or the operator's")
}
