//! Error codes that MCP adds to those of JSON-RPC.

/// The resource does not exist, in revisions up to 2025-11-25.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The headers contradict the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that the client did not declare.
pub const MISSING_CAPABILITY: i64 = -32021;
/// The server does not support this revision.
pub const UNSUPPORTED_VERSION: i64 = -32022;
