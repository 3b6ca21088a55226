//! Codes of errors that MCP adds to those of JSON-RPC.

/// What revisions up to 2025-11-25 call a resource that is not there.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The headers do not say what the body says.
pub const HEADER_MISMATCH: i64 = -32020;
/// It needs something that the client did not say it can do.
pub const MISSING_CAPABILITY: i64 = -32021;
/// This revision is not spoken here.
pub const UNSUPPORTED_VERSION: i64 = -32022;
