//! The HTTP faces of the protocols: parse, call an act, render what it returns.
//!
//! Invariants live in the acts and their transactions, not here. A door knows no other door: what several need stands beside
//! this folder.

pub(crate) mod api;
pub(crate) mod channel;
pub(crate) mod hub;
pub(crate) mod mcp;
pub(crate) mod pages;
pub(crate) mod reference;
pub(crate) mod relay;
pub(crate) mod signin;
pub(crate) mod skill;
pub(crate) mod tokens;
