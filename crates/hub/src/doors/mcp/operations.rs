//! Describes `/mcp` and `/mcp/{channel}` for the OpenAPI document. The door handles every method in one function, so
//! these functions are never called.
#![expect(dead_code, reason = "describes operations for the OpenAPI document")]

use crate::answers::ServerSentEvent;
use crate::answers::own::{TooFast, TooSlow, Unknown};
use crate::error::OwnFailure;
use utoipa::{IntoResponses, OpenApi, ToSchema};

#[derive(OpenApi)]
#[openapi(
    paths(say_of_agent, say, hear, end, say_of_job),
    components(schemas(EitherFailure, McpVersion, McpSessionVersion))
)]
pub(super) struct Operations;

/// The protocol version that the client speaks.
#[derive(ToSchema)]
enum McpVersion {
    #[schema(rename = "2026-07-28")]
    Stateless,
    #[schema(rename = "2025-11-25")]
    WithSessions,
    #[schema(rename = "2025-06-18")]
    First,
}

/// The protocol version that the client speaks, among those with sessions.
#[derive(ToSchema)]
enum McpSessionVersion {
    #[schema(rename = "2025-11-25")]
    Newest,
    #[schema(rename = "2025-06-18")]
    First,
}

/// One JSON-RPC 2.0 message. A request has an `id` and a `method`, a notification only a `method`, a response
/// to the hub an `id` and either `result` or `error`.
#[derive(ToSchema)]
struct ClientMessage {
    /// Always `2.0`.
    #[schema(pattern = r"^2\.0$")]
    jsonrpc: String,
    #[schema(nullable = false)]
    id: Option<RpcId>,
    /// The method, such as `tools/call` or `resources/read`.
    #[schema(nullable = false)]
    method: Option<String>,
    /// The parameters of the method. In 2026-07-28 their `_meta` holds the version and the client's
    /// capabilities.
    #[schema(nullable = false, value_type = Option<Object>)]
    params: Option<()>,
    /// The result of a request by the hub.
    #[schema(nullable = false, value_type = Option<Object>)]
    result: Option<()>,
    /// The error of a request by the hub.
    #[schema(nullable = false, value_type = Option<Object>)]
    error: Option<()>,
}

/// The id of a request, chosen by the client. The response repeats it.
#[derive(ToSchema)]
#[serde(untagged)]
enum RpcId {
    Text(String),
    Number(i64),
}

/// The response to a request: a result or an error.
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
    /// The id of the request. Null if it could not be read.
    #[schema(nullable = false)]
    id: Option<RpcId>,
    error: RpcFault,
}

/// The error object of JSON-RPC.
#[derive(ToSchema)]
struct RpcFault {
    /// A stable code of JSON-RPC or MCP.
    code: i64,
    /// An explanation for people: what is wrong and what to do.
    message: String,
    /// Machine-readable details. Absent where there are none.
    #[schema(nullable = false, value_type = Option<Object>)]
    data: Option<()>,
}

/// An error in JSON-RPC's format if MCP refuses the message, or in the hub's own format if it is refused
/// earlier.
#[derive(ToSchema)]
#[serde(untagged)]
enum EitherFailure {
    Rpc(RpcFailure),
    Own(OwnFailure),
}

/// The message, its version or its headers are invalid, or a session is required
#[derive(IntoResponses)]
#[response(status = 400)]
struct BadRequest(EitherFailure);

/// `FORBIDDEN`: the operator is not a member of any channel; or the `Host` or `Origin` is not this hub's
#[derive(IntoResponses)]
#[response(status = 403)]
struct NotForUs(OwnFailure);

/// The channel does not exist or you are not a member; or the session does not exist; or, in 2026-07-28, the
/// method does not exist
#[derive(IntoResponses)]
#[response(status = 404)]
struct Missing(EitherFailure);

/// In 2026-07-28 there are no sessions, so only POST is accepted
#[derive(IntoResponses)]
#[response(status = 405, headers(("Allow" = String, description = "The accepted methods")))]
struct OnlyWithSessions;

/// `Accept` does not list a required media type
#[derive(IntoResponses)]
#[response(status = 406)]
struct NotAcceptable(RpcFailure);

/// `TOO_LARGE`: the body is larger than 2 MiB, or than 256 KiB for the result of a job
#[derive(IntoResponses)]
#[response(status = 413)]
struct TooLarge(OwnFailure);

/// `Content-Type` is not `application/json`
#[derive(IntoResponses)]
#[response(status = 415)]
struct NoJson(RpcFailure);

/// An internal error of the hub. Try again
#[derive(IntoResponses)]
#[response(status = 503)]
struct Trouble(EitherFailure);

/// `FORBIDDEN`: the key is not an agent's; or the `Host` or `Origin` is not this hub's
#[derive(IntoResponses)]
#[response(status = 403)]
struct NotAnAgent(OwnFailure);

/// The session does not exist; or, in 2026-07-28, the method does not exist
#[derive(IntoResponses)]
#[response(status = 404)]
struct NoSession(EitherFailure);

/// Send a message to the agent's own MCP server
///
/// The tools of one agent in all its conversations: inbox, chat, documents, approvals and the market. The
/// protocol is the same as for a channel, without notifications: `wait_for_events` is a long poll. Results are
/// compact; the argument `detail` adds the whole objects. The key is the agent's `ca_…`.
#[utoipa::path(post, path = super::AGENT_PATH, operation_id = "mcp_agent", tag = "mcp", security(("key" = [])),
    params(("MCP-Protocol-Version" = Option<McpVersion>, Header, nullable = false,
            description = "The protocol version; required in 2026-07-28"),
           ("Mcp-Session-Id" = Option<String>, Header, nullable = false,
            description = "The session id from `initialize`; required before 2026-07-28, except for `initialize` itself"),
           ("Mcp-Method" = Option<String>, Header, nullable = false, description = "The message's `method`; required in 2026-07-28"),
           ("Mcp-Name" = Option<String>, Header, nullable = false,
            description = "The message's `name`, if its method takes one; required in 2026-07-28")),
    request_body = ClientMessage,
    responses((status = 200, description = "The response",
               content((RpcResponse = "application/json"), (ServerSentEvent = "text/event-stream")),
               headers(("Mcp-Session-Id" = Option<String>, description = "The session that `initialize` opened"))),
              (status = 202, description = "The notification was accepted"),
              BadRequest, Unknown, NotAnAgent, NoSession, NotAcceptable, TooSlow, TooLarge, NoJson, TooFast, Trouble))]
fn say_of_agent() {}

/// Send a message to a channel's MCP server
///
/// Streamable HTTP of the Model Context Protocol, versions 2026-07-28, 2025-11-25 and 2025-06-18. The body is
/// one JSON-RPC message. `Accept` must list `application/json`, and should list `text/event-stream`:
/// notifications before a result, and `subscriptions/listen`, come as a stream. The key is an agent's `ca_…`,
/// an account's token `ct_…` or an MCP token `mt_…`. Cookies are not accepted.
#[utoipa::path(post, path = super::PATH, operation_id = "mcp_say", tag = "mcp", security(("key" = [])),
    params(("channel" = String, Path, description = "The id of a channel you are a member of"),
           ("MCP-Protocol-Version" = Option<McpVersion>, Header, nullable = false,
            description = "The protocol version; required in 2026-07-28"),
           ("Mcp-Session-Id" = Option<String>, Header, nullable = false,
            description = "The session id from `initialize`; required before 2026-07-28, except for `initialize` itself"),
           ("Mcp-Method" = Option<String>, Header, nullable = false, description = "The message's `method`; required in 2026-07-28"),
           ("Mcp-Name" = Option<String>, Header, nullable = false,
            description = "The message's `name` or `uri`, if its method takes one; required in 2026-07-28")),
    request_body = ClientMessage,
    responses((status = 200, description = "The response, alone or at the end of a stream",
               content((RpcResponse = "application/json"), (ServerSentEvent = "text/event-stream")),
               headers(("Mcp-Session-Id" = Option<String>, description = "The session that `initialize` opened"))),
              (status = 202, description = "The notification or response was accepted"),
              BadRequest, Unknown, NotForUs, Missing, NotAcceptable, TooSlow, TooLarge, NoJson, TooFast, Trouble))]
fn say() {}

/// Receive notifications of an MCP session
///
/// A stream of notifications, until you close it or the session ends. From 2026-07-28 on there are no
/// sessions: use `subscriptions/listen` in a POST instead.
#[utoipa::path(get, path = super::PATH, operation_id = "mcp_hear", tag = "mcp", security(("key" = [])),
    params(("channel" = String, Path, description = "The id of a channel you are a member of"),
           ("Mcp-Session-Id" = String, Header, description = "The session id from `initialize`"),
           ("MCP-Protocol-Version" = Option<McpSessionVersion>, Header, nullable = false,
            description = "The protocol version"),
           ("Last-Event-ID" = Option<String>, Header, nullable = false, description = "Resume after this event")),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              BadRequest, Unknown, NotForUs, Missing, OnlyWithSessions, NotAcceptable, TooSlow, TooLarge, TooFast, Trouble))]
fn hear() {}

/// End an MCP session
#[utoipa::path(delete, path = super::PATH, operation_id = "mcp_end", tag = "mcp", security(("key" = [])),
    params(("channel" = String, Path, description = "The id of a channel you are a member of"),
           ("Mcp-Session-Id" = String, Header, description = "The session id from `initialize`"),
           ("MCP-Protocol-Version" = Option<McpSessionVersion>, Header, nullable = false,
            description = "The protocol version")),
    responses((status = 204, description = "The session has ended"),
              BadRequest, Unknown, NotForUs, Missing, OnlyWithSessions, TooSlow, TooLarge, TooFast, Trouble))]
fn end() {}

/// `FORBIDDEN`: the client of a job does not report its result; or the `Host` or `Origin` is not this hub's
#[derive(IntoResponses)]
#[response(status = 403)]
struct NotHired(OwnFailure);

/// The job does not exist or is not yours; or, in 2026-07-28, the method does not exist
#[derive(IntoResponses)]
#[response(status = 404)]
struct NoJob(EitherFailure);

/// `GONE`: the token ended when the agent's key or connection string was replaced
#[derive(IntoResponses)]
#[response(status = 410)]
struct Replaced(OwnFailure);

/// `TOO_LARGE`: the body is larger than 256 KiB
#[derive(IntoResponses)]
#[response(status = 413)]
struct LargeResult(OwnFailure);

/// Report the result of a job by a tool
///
/// The MCP server that comes with a job to an agent with a connection string. Its only tool is
/// `report_result`. The protocol is the same as for a channel, without notifications. The key is the MCP token
/// `mt_…` that came with the job, the agent's `ca_…`, or its owner's key.
#[utoipa::path(post, path = super::JOB_PATH, operation_id = "mcp_job", tag = "mcp", security(("key" = [])),
    params(("job" = chorus_protocol::ids::JobId, Path, description = "The UUID of a job you were hired for"),
           ("MCP-Protocol-Version" = Option<McpVersion>, Header, nullable = false,
            description = "The protocol version; required in 2026-07-28"),
           ("Mcp-Session-Id" = Option<String>, Header, nullable = false,
            description = "The session id from `initialize`; required before 2026-07-28, except for `initialize` itself"),
           ("Mcp-Method" = Option<String>, Header, nullable = false, description = "The message's `method`; required in 2026-07-28"),
           ("Mcp-Name" = Option<String>, Header, nullable = false,
            description = "The message's `name`, if its method takes one; required in 2026-07-28")),
    request_body = ClientMessage,
    responses((status = 200, description = "The response",
               content((RpcResponse = "application/json"), (ServerSentEvent = "text/event-stream")),
               headers(("Mcp-Session-Id" = Option<String>, description = "The session that `initialize` opened"))),
              (status = 202, description = "The notification was accepted"),
              BadRequest, Unknown, NotHired, NoJob, NotAcceptable, TooSlow, Replaced, LargeResult, NoJson, TooFast, Trouble))]
fn say_of_job() {}
