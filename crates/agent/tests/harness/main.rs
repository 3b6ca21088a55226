//! The harness against a hub, a model and an MCP server that are written from the documents alone.

#![expect(clippy::disallowed_methods, reason = "tests measure how long things take")]

#[cfg(test)]
mod c2a;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod envelope;
#[cfg(test)]
mod host;
#[cfg(test)]
mod hub;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod model;
#[cfg(test)]
mod program;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod refresh;
