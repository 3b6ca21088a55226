//! C2A at `/c2a`: a WebSocket that carries JSON-RPC both ways, and POST for single calls. The methods
//! themselves are in `chorus_app`.
//!
//! A session is the agent's inbox in another dialect: the later connection takes over, whichever dialect it
//! speaks. A POST has no session: it needs no `initialize` and receives no deliveries.

mod counted_stream;
mod session;
mod upgrade;

use crate::answers::own::{Forbidden, Overloaded, TooFast, TooLarge, TooSlow, Unknown};
use crate::body;
use crate::credentials::bearer;
use crate::error::{ApiError, OwnFailure};
use crate::extract::Agent;
use crate::route::{ForeignPages, Route};
use crate::routes::Routes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::c2a::{self, Harness};
use chorus_node::AppState;
use chorus_node::caller::{Identity, key_hash};
use chorus_protocol::c2a::{Capabilities, Method};
use chorus_protocol::rpc::{Message, Notification, Request as Call, Response as Answer, RpcError};
use chorus_web::Rendered;
use serde::Serialize;
use utoipa_axum::routes;

/// The largest message in bytes, by either transport.
pub(crate) const MAX_MESSAGE: usize = 1024 * 1024;

/// Opening a session takes over another one, although it is a GET. Pages of other sites are therefore refused.
const C2A: Route = Route { foreign_pages: ForeignPages::Refused, ..Route::API };

pub(crate) fn routes() -> Routes {
    Routes::default().at(C2A, routes!(open, call)).under("/c2a/", C2A)
}

fn harness(app: &AppState, identity: Identity, headers: &HeaderMap) -> Result<Harness, ApiError> {
    let key = bearer(headers)?.map(key_hash).unwrap_or_default();
    Ok(Harness { app: app.clone(), identity, key, can: Capabilities::ALL, bound: None })
}

/// Open a C2A session
///
/// A WebSocket of JSON-RPC 2.0, one message per text frame. Send `initialize` first, then acknowledge each
/// `chat/deliver` once you have stored it. The session is your inbox in another dialect: only one is open at a
/// time, and a later one takes over.
#[utoipa::path(get, path = "/c2a", operation_id = "c2a_open", tag = "c2a", security(("key" = [])),
    params(("Upgrade" = String, Header, description = "`websocket`"),
           ("Sec-WebSocket-Key" = String, Header, description = "Sixteen bytes in base64"),
           ("Sec-WebSocket-Version" = String, Header, description = "`13`")),
    responses((status = 101, description = "The WebSocket"),
              (status = 400, description = "`VALIDATION`: the request is not a WebSocket handshake", body = OwnFailure),
              Unknown, Forbidden, TooFast, Overloaded))]
async fn open(
    State(app): State<AppState>,
    Agent(identity): Agent,
    mut request: Request,
) -> Result<Response, ApiError> {
    let harness = harness(&app, identity, request.headers())?;
    let lease = body::lease(request.extensions())?;
    let (response, upgraded) = upgrade::accept(&mut request)?;
    app.tasks.tracker.spawn(async move {
        if let Some(socket) = upgrade::open(upgraded, lease).await {
            session::run(harness, socket).await;
        }
    });
    Ok(response)
}

/// Make one C2A call
///
/// One JSON-RPC 2.0 message: `tools/list`, `tools/call`, or a notification, which is answered with 202. There
/// is no session.
#[utoipa::path(post, path = "/c2a", operation_id = "c2a_call", tag = "c2a", security(("key" = [])),
    request_body(content = Object, description = "A request or a notification"),
    responses((status = 200, description = "The response, with a result or an error of JSON-RPC", body = Object),
              (status = 202, description = "The notification was accepted"),
              (status = 400, description = "A JSON-RPC error: the body is not a message", body = Object),
              Unknown, Forbidden, TooSlow, TooLarge, TooFast, Overloaded))]
async fn call(
    State(app): State<AppState>,
    Agent(identity): Agent,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let harness = harness(&app, identity, &parts.headers)?;
    let body = body::read(&app, &parts, body, MAX_MESSAGE).await?;
    Ok(match Message::read(&body) {
        Err(unreadable) => written(StatusCode::BAD_REQUEST, &Answer::from(unreadable)),
        Ok(Message::Request(Call { id, method, params })) => {
            let outcome = if method == Method::Initialize.as_str() {
                Err(RpcError::new(
                    RpcError::INVALID_REQUEST,
                    "a single call needs no session; open a WebSocket for one",
                ))
            } else {
                c2a::call(&harness, &method, params).await
            };
            written(StatusCode::OK, &Answer { id: Some(id), outcome })
        }
        Ok(Message::Notification(Notification { method, params })) => {
            match c2a::tell(&harness, &method, params).await {
                Ok(()) => StatusCode::ACCEPTED.into_response(),
                Err(error) => written(StatusCode::BAD_REQUEST, &Answer { id: None, outcome: Err(error) }),
            }
        }
        Ok(Message::Response(_)) => {
            let error = RpcError::new(RpcError::INVALID_REQUEST, "nothing was asked here");
            written(StatusCode::BAD_REQUEST, &Answer { id: None, outcome: Err(error) })
        }
    })
}

/// Renders a response of this protocol. Its errors are already in their own format.
fn written(status: StatusCode, answer: &impl Serialize) -> Response {
    let body = serde_json::to_vec(answer).unwrap_or_default();
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    response.extensions_mut().insert(Rendered);
    response
}
