//! Handles one request to a connection string: reads it, checks it, hands it to the program, answers with a
//! status.
//!
//! The JSON body of an error explains it to the service's developers; the protocol ignores it. Without the
//! secret every request is answered 404, so that strangers learn nothing else.

use super::secret::Digest;
use super::{Letter, Shared};
use crate::receive::{Busy, Refusal, json_answer, read_body};
use crate::seen::message_name;
use crate::{Network, Reach};
use bytes::Bytes;
use chorus_protocol::channel::{MAX_BODY, Post};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, ORIGIN};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use std::iter;
use std::net::IpAddr;
use url::Url;

pub(super) async fn answer(
    shared: &Shared,
    from: IpAddr,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    match take(shared, from, request).await {
        Ok(()) => json_answer(StatusCode::OK, None, &json!({})),
        Err(refusal) => refusal.answer(),
    }
}

async fn take(shared: &Shared, from: IpAddr, request: Request<Incoming>) -> Result<(), Refusal> {
    let options = &shared.options;
    let (head, body) = request.into_parts();
    // The body is read first, so that no service is cut off while it writes.
    let body = read_body(body, MAX_BODY, options.body_limit).await;
    if !Network::admit(&options.sources, from) {
        let message = "requests from this address are not taken";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    if !knows_secret(shared, head.uri.path()) {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path"));
    }
    if head.method != Method::POST {
        let message = "messages come by POST";
        let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        return Err(refusal.with(ALLOW, "POST"));
    }
    if head.headers.contains_key(ORIGIN) {
        // Services do not send this header, but browsers always do. No web page may write to the agent of a
        // person who views it.
        let message = "messages do not come from web pages";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    let body = body.map_err(|fault| {
        let status = fault.status();
        let code = if status == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "invalid" };
        Refusal::new(status, code, fault)
    })?;
    let now = options.environment.now();
    let verified = options.signature.as_ref().map(|secret| secret.verify(&head.headers, &body, now));
    let webhook_id = verified
        .transpose()
        .map_err(|fault| Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", fault))?;
    let post =
        Post::read(&body).map_err(|faults| Refusal::new(StatusCode::BAD_REQUEST, "invalid", faults))?;
    check_addresses(&options.reach, &post).await?;
    hand_over(shared, Letter { post, received_at: now, webhook_id }).await
}

/// Refuses a message whose addresses must not be called, because it could not be answered. Tool servers that
/// are not used anyway are not checked.
async fn check_addresses(reach: &Reach, post: &Post) -> Result<(), Refusal> {
    let servers = post.mcp.iter().map(|server| ("mcp.url", &server.url));
    for (place, text) in iter::once(("callback", &post.callback)).chain(servers) {
        // An invalid URL was refused before.
        let Ok(url) = Url::parse(text) else { continue };
        if place == "callback" || reach.takes_tools_from(&url) {
            let blocked = |blocked| format!("{place}: {blocked}");
            let checked = reach.check(&url).await.map_err(blocked);
            checked.map_err(|message| Refusal::new(StatusCode::BAD_REQUEST, "invalid", message))?;
        }
    }
    Ok(())
}

/// Checks whether a path is that of the connection string.
fn knows_secret(shared: &Shared, path: &str) -> bool {
    let given = Digest::of(path.strip_prefix("/inbox/").unwrap_or_default());
    shared.secret.matches(given)
}

/// Hands the message to the program, once, and waits for its decision.
async fn hand_over(shared: &Shared, letter: Letter) -> Result<(), Refusal> {
    let name = message_name(&letter.post.channel.id, &letter.post.message.id);
    match shared.desk.hand_over(letter, Some(name), shared.options.answer_limit).await {
        // Accepted now, or earlier.
        Ok(None | Some(None)) => Ok(()),
        Ok(Some(Some(status))) => {
            let status = StatusCode::from_u16(status).ok();
            let status = status.filter(|status| status.is_client_error() || status.is_server_error());
            let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Err(Refusal::new(status, "refused", "the agent cannot process this message"))
        }
        Err(Busy::Pending) => Err(Refusal::busy("busy", "this message is being taken; ask again")),
        Err(Busy::Full) => Err(Refusal::busy("busy", "too many messages wait for this agent; try again")),
        Err(Busy::Late) => Err(Refusal::busy("busy", "the agent did not take it; try again")),
    }
}
