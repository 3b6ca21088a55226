//! One file for each command.

pub(crate) mod account;
pub(crate) mod adapt;
pub(crate) mod agent;
pub(crate) mod agent_url;
pub(crate) mod agents;
#[expect(clippy::disallowed_methods, reason = "benchmarks measure")]
pub(crate) mod bench;
pub(crate) mod c2a_stdio;
pub(crate) mod canonicalize;
pub(crate) mod channel;
pub(crate) mod completions;
pub(crate) mod deliveries;
pub(crate) mod demo;
pub(crate) mod dm;
pub(crate) mod doctor;
pub(crate) mod document;
pub(crate) mod hash;
pub(crate) mod inbox;
pub(crate) mod invitations;
pub(crate) mod invite;
pub(crate) mod merge;
pub(crate) mod operator;
pub(crate) mod receipt;
pub(crate) mod receive;
pub(crate) mod register;
pub(crate) mod rehearse;
pub(crate) mod reply;
pub(crate) mod score;
pub(crate) mod search;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod sign;
pub(crate) mod skill;
pub(crate) mod token;
pub(crate) mod unregister;
pub(crate) mod verify;
