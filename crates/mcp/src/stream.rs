//! Streams of messages: messages that precede a result, and notices.

use crate::service::{Notices, Service};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response as HttpResponse};
use bytes::Bytes;
use chorus_protocol::rpc::{Id, Notification, Response};
use chorus_protocol::sse;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::convert::Infallible;

/// Encodes a message as a server-sent event.
pub(crate) fn frame(message: &impl Serialize) -> Bytes {
    sse::encode("message", None, &text(message)).into()
}

/// Serializes a message. Messages built here always serialize.
fn text(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}

pub(crate) fn event_stream(body: Body) -> HttpResponse {
    (StatusCode::OK, sse::STREAM_HEADERS, body).into_response()
}

/// Builds the stream of a session, or of the `subscriptions/listen` request with this id.
pub(crate) fn notice_stream<S: Service>(
    service: &S,
    notices: Notices,
    listening: Option<Id>,
) -> HttpResponse {
    let subscription = |meta: &mut Map<String, Value>, id: &Id| {
        meta.insert("_meta".into(), json!({"io.modelcontextprotocol/subscriptionId": id}));
    };
    let first = match &listening {
        Some(id) => {
            let mut params = Map::from_iter([("notifications".to_owned(), notices.accepted)]);
            subscription(&mut params, id);
            frame(&Notification { method: "notifications/subscriptions/acknowledged".into(), params })
        }
        // The comment shows the client at once that the stream is open.
        None => Bytes::from_static(sse::PING),
    };
    let last = listening.as_ref().map(|id| {
        let mut result = Map::from_iter([("resultType".to_owned(), json!("complete"))]);
        subscription(&mut result, id);
        frame(&Response { id: Some(id.clone()), outcome: Ok(result.into()) })
    });
    let (ping, stopping) = (service.ping(), service.stopping());
    let rest = stream::unfold((notices.stream, false), move |(mut stream, over)| {
        let (stopping, listening, last) = (stopping.clone(), listening.clone(), last.clone());
        async move {
            if over {
                return None;
            }
            let next = tokio::select! {
                biased;
                () = stopping.cancelled() => None,
                next = stream.next() => next,
                () = tokio::time::sleep(ping) => return Some((Bytes::from_static(sse::PING), (stream, false))),
            };
            let Some(mut notice) = next else { return last.map(|last| (last, (stream, true))) };
            if let Some(id) = &listening {
                subscription(&mut notice.params, id);
            }
            let message = Notification { method: notice.method.to_owned(), params: notice.params };
            // Streams of the stateless revision have no ids, because they cannot be resumed.
            let place = notice.id.filter(|_| listening.is_none());
            Some((sse::encode("message", place, &text(&message)).into(), (stream, false)))
        }
    });
    let frames = stream::once(std::future::ready(first)).chain(rest).map(Ok::<_, Infallible>);
    event_stream(Body::from_stream(frames))
}
