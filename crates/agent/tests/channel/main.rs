//! Connection strings and callbacks over real sockets, against a service that knows the document and nothing of us.

#[cfg(test)]
mod callback;
#[cfg(test)]
mod connection;
#[cfg(test)]
mod service;
