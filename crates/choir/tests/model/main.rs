//! The assurance model: the worked numbers, every rule, and what must hold of any input. Tests name the section of the
//! Choir Protocol that they hold the engine to.

#![expect(clippy::unwrap_used, reason = "tests")]

mod ideas;
mod observed;
mod properties;
mod receipts;
mod structural;
mod support;
mod translators;
mod worked;
