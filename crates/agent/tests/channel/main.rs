//! Connection strings and callbacks over real sockets, against a service written from the protocol document
//! alone.

#![expect(clippy::disallowed_methods, reason = "tests measure how long things take")]

#[cfg(test)]
mod callback;
#[cfg(test)]
mod connection;
#[cfg(test)]
mod service;
