//! What can be done on a hub: acts, delivery, who may do what, and how things are shown.
//!
//! An act is one thing that can be done, written once, whatever door asks for it: it checks who may, masks credentials,
//! runs its transaction (or two, where somebody else is waited for in between) and hands on what was committed. It knows the store,
//! the engines and the protocol, and no HTTP request: doors parse, call an act and render what it returns.
//!
//! Folders know each other one way: `attention` and [`delivery`] are below the acts, [`reconcilers`] above them. Everything that the
//! acts share (`App`, its limits, caches and transport) is in `chorus-node`.
//!
//! What always holds: success means committed to disk; text with credentials in it is never appended to a conversation;
//! a request that comes twice under one key is done once.

#![expect(missing_docs, reason = "a part of this program, not a library: what a name says is not said again")]

pub mod accounts;
mod admission;
pub mod agents;
mod allowance;
pub mod attention;
mod away;
pub mod blocks;
pub mod c2a;
pub mod channel;
pub mod choir;
pub mod conversation;
pub mod deliveries;
pub mod delivery;
pub mod fleet;
pub mod health_report;
pub mod market;
pub mod mcp_sessions;
pub mod operator;
mod principal_ref;
pub mod reconcilers;
pub mod relay;
mod tool_schema;
pub mod tools;
pub mod trail;
pub mod views;
pub mod work_streams;
