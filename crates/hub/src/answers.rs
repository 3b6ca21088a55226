//! Answers that several doors give, in each of the two formats: refusals as the OpenAPI document describes them, the relay's
//! success, and an event of a stream. What a refusal says is `error`'s.

pub(crate) mod own;
pub(crate) mod relay;

/// One event of a stream.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct ServerSentEvent {
    /// Its kind.
    event: String,
    /// Its place in the inbox.
    id: Option<String>,
    /// JSON.
    data: String,
}
