//! What pages take of an address, and of what is sent to them. What cannot be read is a page that says so.

use crate::page::Fault;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use chorus_app::{App, Error};
use chorus_protocol::code::Code;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

/// The parts of an address.
pub(crate) struct Path<T>(pub(crate) T);

/// What stands behind its question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        match read {
            Ok(axum::extract::Path(parts)) => Ok(Self(parts)),
            // A route without the parts that its handler takes is our own mistake.
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

/// The whole body of a request, if it is at most `limit` bytes.
pub async fn read_body(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Error> {
    let too_large = || Error::new(Code::TooLarge, format_args!("the body must be at most {limit} bytes"));
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    match tokio::time::timeout(app.config.times.body, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Error::validation("the body broke off")),
        Err(_) => Err(Error::new(Code::RequestTimeout, "the body did not arrive in time")),
    }
}
