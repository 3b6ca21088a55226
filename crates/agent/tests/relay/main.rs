//! The client and the inbox against a scripted hub, the receiver against peers. One program, because linking
//! is the main cost.

#![expect(clippy::disallowed_methods, reason = "tests measure how long things take")]

#[cfg(test)]
mod client;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod receive;
#[cfg(test)]
mod support;
