//! The acts of the Channel Protocol. They need no key: the address is the secret.

pub mod callback;
pub mod foreign;
