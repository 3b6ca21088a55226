//! Extractors for pages: path, query and body. A request that cannot be parsed gets an error page.

use crate::page::Fault;
use axum::body::{Body, HttpBody};
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use chorus_node::limits::body_budget::BodyLease;
use chorus_node::{App, Error};
use chorus_protocol::code::Code;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

/// The path parameters of a request.
pub(crate) struct Path<T>(pub(crate) T);

/// The query parameters of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        match read {
            Ok(axum::extract::Path(parts)) => Ok(Self(parts)),
            // A route that lacks its handler's parameters is a bug of ours.
            Err(refused) if refused.status() == StatusCode::INTERNAL_SERVER_ERROR => {
                Err(Error::internal(refused).into())
            }
            Err(_) => Err(Error::validation("there is no such address").into()),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        let unread = |_| Error::validation("what stands behind the ? of this address cannot be read");
        Ok(read.map(|axum::extract::Query(query)| Self(query)).map_err(unread)?)
    }
}

/// Reads the whole body of a request, at most `limit` bytes.
///
/// The bytes are first reserved in the [budget](chorus_node::limits::body_budget) of all bodies: the declared length,
/// or else each frame as it arrives. Memory grows with the bytes received, not with the declared length.
pub async fn read_body(app: &App, parts: &Parts, body: Body, limit: usize) -> Result<Bytes, Error> {
    let lease =
        parts.extensions.get::<BodyLease>().ok_or_else(|| Error::internal("a request without a lease"))?;
    let declared = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    lease.resize(declared.unwrap_or(0))?;
    let read = collect(body, lease, declared, limit);
    let late = |_| Error::new(Code::RequestTimeout, "the body did not arrive in time");
    tokio::time::timeout(app.config.times.body, read).await.map_err(late)?
}

/// Collects the body into one buffer. Each frame is copied at once, because a frame of one byte would keep the
/// connection's whole buffer alive.
async fn collect(
    mut body: Body,
    lease: &BodyLease,
    declared: Option<usize>,
    limit: usize,
) -> Result<Bytes, Error> {
    let mut read = vec![];
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::validation("the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = read.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if length > read.capacity() {
            let capacity = length.max((2 * read.capacity()).min(declared.unwrap_or(limit)));
            lease.resize(capacity.max(declared.unwrap_or(0)))?;
            read.reserve_exact(capacity - read.len());
        }
        read.extend_from_slice(&data);
    }
    Ok(read.into())
}

fn too_large(limit: usize) -> Error {
    Error::new(Code::TooLarge, format_args!("the body must be at most {limit} bytes"))
}
