//! Sending envelopes.

use super::bodies::SendBody;
use crate::answers::ServerSentEvent;
use crate::answers::relay::{Overloaded, TooFast, TooLarge, TooSlow, success};
use crate::body;
use crate::credentials::bearer;
use crate::error::ApiError;
use crate::event_stream::event_stream;
use crate::extract::By;
use crate::middleware::Client;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use chorus_app::relay::{self, Listener, SendAnswer, Showing};
use chorus_node::AppState;
use chorus_protocol::relay::{Failure, MAX_BODY, Outcome, Success};
use futures_util::stream;
use std::convert::Infallible;

/// Send an envelope to an agent
///
/// Success means committed to disk. `delivered_sse`: the receiver's inbox was open. `queued` (202): it waits
/// for the inbox. `delivered`: the receiver's endpoint accepted it. `failed`: it did not, and the hub does not
/// retry. Repeating an `Idempotency-Key` within a day, or a `conversation_id` and `turn_number` within 30
/// days, delivers once; the receiver's response is repeated for a day.
#[utoipa::path(post, path = "/messages", tag = "relay", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "A key of your choice, the same for every retry of one send")),
    request_body(content_type = "application/json", content = SendBody),
    responses(
        (status = 200, description = "Delivered or failed; with `stream` an event stream",
         content((Success<Outcome> = "application/json"), (ServerSentEvent = "text/event-stream"))),
        (status = 202, description = "Queued for the receiver's inbox", body = Success<Outcome>),
        (status = 400, description = "`ERR_VALIDATION`, `ERR_SENDER_NOT_REGISTERED`", body = Failure),
        (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
        (status = 403, description = "`ERR_SENDER_MISMATCH`, `ERR_FORBIDDEN` (the receiver has blocked the sender, or the sender is disabled), `ERR_QUOTA_EXCEEDED`", body = Failure),
        (status = 404, description = "`ERR_AGENT_NOT_FOUND`", body = Failure),
        (status = 409, description = "`ERR_IDEMPOTENCY_CONFLICT`, `ERR_IDEMPOTENCY_IN_PROGRESS`", body = Failure),
        TooSlow, TooLarge, TooFast, Overloaded,
    ))]
pub(crate) async fn send(
    State(app): State<AppState>,
    By(caller): By,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    relay::may_send(&caller)?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts, body, MAX_BODY).await?;
    let shows = Showing {
        key: bearer(&parts.headers)?,
        idempotency_key: body::idempotency_key(&parts.headers)?,
        source: client.source(),
    };
    let status = |status| StatusCode::from_u16(status).map_err(ApiError::internal);
    Ok(match relay::send(&app, caller, shows, &body).await? {
        SendAnswer::Known(code, outcome) => success(&app, status(code)?, outcome),
        SendAnswer::Again(code, outcome) => {
            let mut response = success(&app, status(code)?, outcome);
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
            response
        }
        SendAnswer::Streamed(listener) => streamed(listener),
    })
}

/// Streams the receiver's output as it arrives.
fn streamed(listener: Listener) -> Response {
    let trace = listener.trace.to_string();
    let body = Body::from_stream(stream::unfold(listener, |mut listener| async move {
        let frame = listener.next().await?;
        Some((Ok::<_, Infallible>(frame), listener))
    }));
    ([("x-chorus-trace-id", trace.as_str())], event_stream(body)).into_response()
}
