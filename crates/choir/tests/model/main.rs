//! Tests of the assurance model: worked examples, every rule, and properties of any input. Test names give the
//! section of the Choir Protocol that they check.

#![expect(clippy::unwrap_used, reason = "tests")]

mod claims;
mod ideas;
mod observed;
mod properties;
mod receipts;
mod structural;
mod support;
mod worked;
