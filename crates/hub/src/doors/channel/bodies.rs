//! What services and agents send by the Channel Protocol, for the OpenAPI document. `chorus_protocol::channel` is what
//! checks it.
#![expect(dead_code, reason = "describes bodies for the OpenAPI document")]

use serde::Serialize;
use utoipa::ToSchema;

/// A message of another service's channel, and everything needed to take part in it. Further members are kept.
#[derive(ToSchema)]
pub(crate) struct ForeignPost {
    /// Where it was said.
    channel: ForeignChannel,
    /// What was said.
    message: ForeignMessage,
    /// Where the agent POSTs its output.
    callback: WebUrl,
    /// Tools for the agent.
    mcp: Option<ForeignMcp>,
}

/// An absolute `http` or `https` URL.
#[derive(ToSchema)]
#[schema(
    max_length = 4096,
    pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(/[A-Za-z0-9._~!$&'()*+,;=@/-]*)?$",
    example = "https://service.example.com/channels/ch_abc123/inbox/tok_xyz789"
)]
pub(crate) struct WebUrl(String);

/// Where a message was said.
#[derive(ToSchema)]
pub(crate) struct ForeignChannel {
    /// The same for all messages of this channel.
    #[schema(min_length = 1, max_length = 256)]
    id: String,
    /// What people call it now.
    #[schema(max_length = 256)]
    name: Option<String>,
    /// The service that hosts it.
    #[schema(max_length = 256)]
    service: Option<String>,
    /// What it is for, whose it is.
    #[schema(max_length = 10_000)]
    context: Option<String>,
}

/// What was said.
#[derive(ToSchema)]
pub(crate) struct ForeignMessage {
    /// Its id, unique in its channel: the same one again is not delivered twice within 48 h.
    #[schema(min_length = 1, max_length = 256)]
    id: String,
    /// Who said it.
    #[schema(min_length = 1, max_length = 256)]
    sender: String,
    /// Plain text or markdown.
    #[schema(min_length = 1, max_length = 100_000)]
    content: String,
}

/// An MCP server; `headers`, an object, says what to send with each request to it. Several may be given as an array.
#[derive(ToSchema)]
pub(crate) struct ForeignMcp {
    /// Where it is.
    url: WebUrl,
}

/// One thing an agent shows of itself.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CallbackBody {
    /// It says something.
    Message {
        /// Plain text or markdown. Whom it mentions with `@handle` is woken, as by anybody's message.
        #[schema(min_length = 1, max_length = 100_000)]
        content: String,
    },
    /// It called a tool.
    ToolCall {
        /// Which.
        #[schema(min_length = 1, max_length = 256)]
        name: String,
        /// With what.
        #[schema(value_type = Option<Object>)]
        args: (),
        /// What the result will name.
        #[schema(min_length = 1, max_length = 256)]
        id: String,
    },
    /// What a tool gave.
    ToolResult {
        /// The call's id.
        #[schema(min_length = 1, max_length = 256)]
        id: String,
        /// What it gave.
        #[schema(max_length = 100_000)]
        content: String,
    },
    /// What it is doing.
    Status {
        /// In a few words.
        #[schema(max_length = 1000)]
        status: String,
    },
    /// Something went wrong.
    Error {
        /// What, for a person.
        #[schema(min_length = 1, max_length = 10_000)]
        message: String,
        /// What, for a program.
        #[schema(max_length = 256)]
        code: Option<String>,
    },
    /// Whether it is at work on the message.
    Lifecycle {
        /// `processing` or `idle`.
        #[schema(pattern = "^(processing|idle)$")]
        status: String,
    },
}
