//! The HTTP faces of the protocols: parse, authorize, one store transaction, answer.
//!
//! Invariants live in the store's transactions, not here.

pub(crate) mod answers;
pub(crate) mod body;
pub(crate) mod hub;
pub(crate) mod pages;
pub(crate) mod reference;
pub(crate) mod relay;
pub(crate) mod skill;
