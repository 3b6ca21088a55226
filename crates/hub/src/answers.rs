//! Responses that several doors share, in both formats: errors as the OpenAPI document describes them, the
//! relay's success envelope, and an event of a stream. The module `error` renders the errors themselves.

pub(crate) mod own;
pub(crate) mod relay;

/// One event of a server-sent event stream.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct ServerSentEvent {
    /// The kind of the event.
    event: String,
    /// The position of the event in the inbox or log. Absent for events that are not stored.
    id: Option<String>,
    /// The payload, as JSON text.
    data: String,
}
