//! C2A over a real WebSocket, by a client that knows only its document.

mod bridges;
mod claims;
mod digests;
mod edits;
mod harness;
mod minimal;
mod sessions;
mod streams;
mod time;
