//! One file for each command.

pub(crate) mod agent;
pub(crate) mod agent_url;
pub(crate) mod agents;
#[expect(clippy::disallowed_methods, reason = "benchmarks measure")]
pub(crate) mod bench;
pub(crate) mod channel;
pub(crate) mod completions;
pub(crate) mod deliveries;
pub(crate) mod doctor;
pub(crate) mod inbox;
pub(crate) mod invitations;
pub(crate) mod market;
pub(crate) mod operator;
pub(crate) mod receive;
pub(crate) mod register;
pub(crate) mod reply;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod skill;
