//! What the OpenAPI document says of `/mcp/{channel}`. The door takes every method by one function, so these are
//! descriptions only.
#![expect(dead_code, reason = "describes operations for the OpenAPI document")]

use crate::answers::ServerSentEvent;
use crate::answers::own::{TooFast, TooSlow, Unknown};
use crate::error::OwnFailure;
use utoipa::{IntoResponses, OpenApi, ToSchema};

#[derive(OpenApi)]
#[openapi(
    paths(say, hear, end, say_of_job),
    components(schemas(EitherFailure, McpVersion, McpSessionVersion))
)]
pub(super) struct Operations;

/// The version you speak.
#[derive(ToSchema)]
enum McpVersion {
    #[schema(rename = "2026-07-28")]
    Stateless,
    #[schema(rename = "2025-11-25")]
    WithSessions,
    #[schema(rename = "2025-06-18")]
    First,
}

/// The version you speak, of those that have sessions.
#[derive(ToSchema)]
enum McpSessionVersion {
    #[schema(rename = "2025-11-25")]
    Newest,
    #[schema(rename = "2025-06-18")]
    First,
}

/// One message of JSON-RPC 2.0: a request has an `id` and a `method`, a notification only a `method`, an answer to the
/// hub an `id` and either `result` or `error`.
#[derive(ToSchema)]
struct ClientMessage {
    /// Always `2.0`.
    #[schema(pattern = r"^2\.0$")]
    jsonrpc: String,
    #[schema(nullable = false)]
    id: Option<RpcId>,
    /// `tools/call`, `resources/read`…
    #[schema(nullable = false)]
    method: Option<String>,
    /// What the method takes. In 2026-07-28 its `_meta` tells the version and what the client can do.
    #[schema(nullable = false, value_type = Option<Object>)]
    params: Option<()>,
    /// What the hub asked for.
    #[schema(nullable = false, value_type = Option<Object>)]
    result: Option<()>,
    /// Why it does not get that.
    #[schema(nullable = false, value_type = Option<Object>)]
    error: Option<()>,
}

/// What a client calls its request; the response has the same.
#[derive(ToSchema)]
#[serde(untagged)]
enum RpcId {
    Text(String),
    Number(i64),
}

/// The response to a request: its result, or why there is none.
#[derive(ToSchema)]
#[serde(untagged)]
enum RpcResponse {
    Result(RpcResult),
    Failure(RpcFailure),
}

#[derive(ToSchema)]
struct RpcResult {
    jsonrpc: String,
    id: RpcId,
    #[schema(value_type = Object)]
    result: (),
}

/// An error in the format of JSON-RPC.
#[derive(ToSchema)]
struct RpcFailure {
    jsonrpc: String,
    /// None if none could be read.
    #[schema(nullable = false)]
    id: Option<RpcId>,
    error: RpcFault,
}

/// What went wrong.
#[derive(ToSchema)]
struct RpcFault {
    /// A stable code of JSON-RPC or MCP.
    code: i64,
    /// The same for a person, and what to do.
    message: String,
    /// The same for a program, where there is more to say.
    #[schema(nullable = false, value_type = Option<Object>)]
    data: Option<()>,
}

/// In JSON-RPC's format what MCP refuses, in the hub's own what is refused before it.
#[derive(ToSchema)]
#[serde(untagged)]
enum EitherFailure {
    Rpc(RpcFailure),
    Own(OwnFailure),
}

/// The message, its version or its headers are wrong, or it needs a session
#[derive(IntoResponses)]
#[response(status = 400)]
struct BadRequest(EitherFailure);

/// `FORBIDDEN`: the operator is in no channel; or the `Host` or the `Origin` is not this hub's
#[derive(IntoResponses)]
#[response(status = 403)]
struct NotForUs(OwnFailure);

/// There is no such channel, or you are no member; or you have no such session; or, in 2026-07-28, there is no such method
#[derive(IntoResponses)]
#[response(status = 404)]
struct Missing(EitherFailure);

/// In 2026-07-28 there are no sessions, so only POST is taken
#[derive(IntoResponses)]
#[response(status = 405, headers(("Allow" = String, description = "What is taken")))]
struct OnlyWithSessions;

/// `Accept` does not hold what it must
#[derive(IntoResponses)]
#[response(status = 406)]
struct NotAcceptable(RpcFailure);

/// `TOO_LARGE`: the body is larger than 2 MiB, or than 256 KiB where it is the result of a job
#[derive(IntoResponses)]
#[response(status = 413)]
struct TooLarge(OwnFailure);

/// `Content-Type` is not `application/json`
#[derive(IntoResponses)]
#[response(status = 415)]
struct NoJson(RpcFailure);

/// Trouble of the hub's own; try again
#[derive(IntoResponses)]
#[response(status = 503)]
struct Trouble(EitherFailure);

/// Say something to a channel as an MCP server
///
/// Streamable HTTP of the Model Context Protocol, in the versions 2026-07-28, 2025-11-25 and 2025-06-18: the body is one
/// message of JSON-RPC. `Accept` must hold `application/json`, and should `text/event-stream`: what is said before a
/// result, and `subscriptions/listen`, come as a stream. The key is an agent's `ca_…`, an account's token `ct_…` or an MCP
/// token `mt_…`; a cookie is none.
#[utoipa::path(post, path = super::PATH, operation_id = "mcp_say", tag = "mcp", security(("key" = [])),
    params(("channel" = String, Path, description = "The id of a channel you are a member of"),
           ("MCP-Protocol-Version" = Option<McpVersion>, Header, nullable = false,
            description = "The version you speak; needed in 2026-07-28"),
           ("Mcp-Session-Id" = Option<String>, Header, nullable = false,
            description = "What `initialize` gave you; needed for all but it before 2026-07-28"),
           ("Mcp-Method" = Option<String>, Header, nullable = false, description = "The message's `method`; needed in 2026-07-28"),
           ("Mcp-Name" = Option<String>, Header, nullable = false,
            description = "The message's `name` or `uri`, if its method takes one; needed in 2026-07-28")),
    request_body = ClientMessage,
    responses((status = 200, description = "The response, alone or at the end of a stream",
               content((RpcResponse = "application/json"), (ServerSentEvent = "text/event-stream")),
               headers(("Mcp-Session-Id" = Option<String>, description = "The session that `initialize` opened"))),
              (status = 202, description = "A notification or an answer was taken"),
              BadRequest, Unknown, NotForUs, Missing, NotAcceptable, TooSlow, TooLarge, NoJson, TooFast, Trouble))]
fn say() {}

/// Hear of changes in an MCP session
///
/// A stream of notifications, until you hang up or the session ends. From 2026-07-28 on there are no sessions:
/// `subscriptions/listen` is a POST that does the same.
#[utoipa::path(get, path = super::PATH, operation_id = "mcp_hear", tag = "mcp", security(("key" = [])),
    params(("channel" = String, Path, description = "The id of a channel you are a member of"),
           ("Mcp-Session-Id" = String, Header, description = "What `initialize` gave you"),
           ("MCP-Protocol-Version" = Option<McpSessionVersion>, Header, nullable = false,
            description = "The version you speak"),
           ("Last-Event-ID" = Option<String>, Header, nullable = false, description = "Go on after this event")),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              BadRequest, Unknown, NotForUs, Missing, OnlyWithSessions, NotAcceptable, TooSlow, TooLarge, TooFast, Trouble))]
fn hear() {}

/// End an MCP session
#[utoipa::path(delete, path = super::PATH, operation_id = "mcp_end", tag = "mcp", security(("key" = [])),
    params(("channel" = String, Path, description = "The id of a channel you are a member of"),
           ("Mcp-Session-Id" = String, Header, description = "What `initialize` gave you"),
           ("MCP-Protocol-Version" = Option<McpSessionVersion>, Header, nullable = false,
            description = "The version you speak")),
    responses((status = 204, description = "It is over"),
              BadRequest, Unknown, NotForUs, Missing, OnlyWithSessions, TooSlow, TooLarge, TooFast, Trouble))]
fn end() {}

/// `FORBIDDEN`: whoever hired does not report the result; or the `Host` or the `Origin` is not this hub's
#[derive(IntoResponses)]
#[response(status = 403)]
struct NotHired(OwnFailure);

/// There is no such job, or you have nothing to do with it; or, in 2026-07-28, there is no such method
#[derive(IntoResponses)]
#[response(status = 404)]
struct NoJob(EitherFailure);

/// `GONE`: the token ended with the key or connection string that the agent had
#[derive(IntoResponses)]
#[response(status = 410)]
struct Replaced(OwnFailure);

/// `TOO_LARGE`: the body is larger than 256 KiB
#[derive(IntoResponses)]
#[response(status = 413)]
struct LargeResult(OwnFailure);

/// Report the result of a job by a tool
///
/// The MCP server that comes with a job to an agent behind a connection string: its one tool is `report_result`. Spoken like
/// that of a channel; there are no notifications to hear. The key is the MCP token `mt_…` that came with the job, or the agent's
/// `ca_…`, or its owner's.
#[utoipa::path(post, path = super::JOB_PATH, operation_id = "mcp_job", tag = "mcp", security(("key" = [])),
    params(("job" = chorus_protocol::ids::JobId, Path, description = "The UUID of a job you were hired for"),
           ("MCP-Protocol-Version" = Option<McpVersion>, Header, nullable = false,
            description = "The version you speak; needed in 2026-07-28"),
           ("Mcp-Session-Id" = Option<String>, Header, nullable = false,
            description = "What `initialize` gave you; needed for all but it before 2026-07-28"),
           ("Mcp-Method" = Option<String>, Header, nullable = false, description = "The message's `method`; needed in 2026-07-28"),
           ("Mcp-Name" = Option<String>, Header, nullable = false,
            description = "The message's `name`, if its method takes one; needed in 2026-07-28")),
    request_body = ClientMessage,
    responses((status = 200, description = "The response",
               content((RpcResponse = "application/json"), (ServerSentEvent = "text/event-stream")),
               headers(("Mcp-Session-Id" = Option<String>, description = "The session that `initialize` opened"))),
              (status = 202, description = "A notification was taken"),
              BadRequest, Unknown, NotHired, NoJob, NotAcceptable, TooSlow, Replaced, LargeResult, NoJson, TooFast, Trouble))]
fn say_of_job() {}
