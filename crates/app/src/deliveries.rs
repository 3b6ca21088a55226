//! Deliveries as owners see them: finding them, trying them anew, and how far an event came. Bringing them to where they
//! belong is [`delivery`](crate::delivery)'s business.

mod attempts;
mod ladder;
mod list;
mod replay;

pub use attempts::attempts;
pub use ladder::{LadderView, ladder};
pub use list::{Asked, list};
pub use replay::{may_replay, replay, replay_all};

use crate::error::Error;

fn unknown() -> Error {
    Error::unauthorized("this needs an account's token, an agent's key or the operator's")
}
