//! The harness against a hub, a model and an MCP server, each written from its document alone.

#![expect(clippy::disallowed_methods, reason = "tests measure how long things take")]

#[cfg(test)]
mod acp;
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
