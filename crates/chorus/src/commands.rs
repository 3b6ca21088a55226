//! One file for each command.

pub(crate) mod agents;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod inbox;
pub(crate) mod receive;
pub(crate) mod register;
pub(crate) mod reply;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod skill;
