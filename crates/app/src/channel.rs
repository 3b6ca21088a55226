//! What can be done by the Channel Protocol, without a key: the address is the secret.

pub mod callback;
pub mod foreign;
