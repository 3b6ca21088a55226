//! Extractors of handlers: the caller, the body, and the idempotency key.
//!
//! A handler's signature says who may call it: [`Known`], [`Member`], [`Person`], [`Agent`] or [`Operator`]
//! stand before the body, so that the body of other callers is not read.

use crate::body;
use crate::error::ApiError;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use chorus_node::audit::RequestContext;
use chorus_node::caller;
use chorus_node::caller::{Caller, Identity};
use chorus_node::idempotency::{Done, Once};
use chorus_node::source::rate_key;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{App, AppState, Error};
use chorus_protocol::ids::Principal;
use chorus_protocol::{canonical, json, schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use utoipa::{IntoParams, ToSchema};

/// Any caller, as authenticated by the middleware.
pub(crate) struct By(pub(crate) Caller);

/// A caller with a valid key, token or session.
pub(crate) struct Known(pub(crate) Caller);

/// A caller that can be a member of conversations.
pub(crate) struct Member(pub(crate) Principal);

/// A caller that is a person.
pub(crate) struct Person(pub(crate) caller::Person);

/// A caller that is an agent.
pub(crate) struct Agent(pub(crate) Identity);

/// A caller that is the operator.
pub(crate) struct Operator;

/// A person or the operator.
pub(crate) struct PersonOrOperator(pub(crate) Caller);

/// A person, or the holder of a Score's edit link.
pub(crate) struct Holder(pub(crate) Caller);

/// A caller with a valid key, or the holder of a Score's edit link.
pub(crate) struct KnownOrHolder(pub(crate) Caller);

/// A caller who may create a Score on this hub.
pub(crate) struct Composer(pub(crate) Caller);

/// The id and origin of the request.
pub(crate) struct Context(pub(crate) RequestContext);

/// Returns a request extension that the middleware has set.
fn found<T: Clone + Send + Sync + 'static>(parts: &Parts, what: &str) -> Result<T, ApiError> {
    let found = parts.extensions.get().cloned();
    found.ok_or_else(|| ApiError::internal(format!("a request without {what}")))
}

fn caller_of(parts: &Parts) -> Result<Caller, ApiError> {
    found(parts, "a caller")
}

macro_rules! from_parts {
    ($($name:ty: |$parts:ident| $read:expr;)+) => {$(
        impl<S: Sync> FromRequestParts<S> for $name {
            type Rejection = ApiError;

            async fn from_request_parts($parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
                $read
            }
        }
    )+};
}

from_parts! {
    By: |parts| caller_of(parts).map(Self);
    Known: |parts| caller_of(parts).and_then(|caller| Ok(caller.known().map(|()| Self(caller))?));
    Member: |parts| Ok(Self(caller_of(parts)?.principal()?));
    Person: |parts| Ok(Self(caller_of(parts)?.person()?.clone()));
    Agent: |parts| Ok(Self(caller_of(parts)?.agent()?.clone()));
    Operator: |parts| Ok(caller_of(parts)?.operator().map(|()| Self)?);
    PersonOrOperator: |parts| {
        let caller = caller_of(parts)?;
        if caller != Caller::Operator {
            caller.person()?;
        }
        Ok(Self(caller))
    };
    Holder: |parts| {
        let caller = caller_of(parts)?;
        if !matches!(caller, Caller::EditLink(_)) {
            caller.person()?;
        }
        Ok(Self(caller))
    };
    KnownOrHolder: |parts| {
        let caller = caller_of(parts)?;
        if !matches!(caller, Caller::EditLink(_)) {
            caller.known()?;
        }
        Ok(Self(caller))
    };
    Context: |parts| found(parts, "a context").map(Self);
}

impl FromRequestParts<AppState> for Composer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let caller = caller_of(parts)?;
        if caller != Caller::Nobody || !app.config.anonymous_scores {
            caller.person()?;
        }
        Ok(Self(caller))
    }
}

/// A checked body, and the idempotency key of the request.
pub(crate) struct Sent<T> {
    pub(crate) body: T,
    pub(crate) once: Once,
}

/// A body as a JSON value in canonical form, for hashing. The act checks its content.
pub(crate) struct Hashable {
    pub(crate) body: Value,
    pub(crate) once: Once,
}

/// An optional body: an empty body and `null` count as absent.
pub(crate) struct MaybeSent<T> {
    pub(crate) body: Option<T>,
    pub(crate) once: Once,
}

/// A checked body that is deserialized from its own text, so that amounts are never rounded.
pub(crate) struct Exact<T>(pub(crate) T, pub(crate) Once);

/// A request without a body, or with an empty one.
pub(crate) struct Bare(pub(crate) Once);

/// The largest request body in bytes, unless the route sets another limit.
pub(crate) const MAX_BODY: usize = 256 * 1024;

/// The least length of an idempotency key without authentication. Anonymous callers share one namespace of
/// keys, and a result may hold a secret. It is repeated only to the same source, and only under a key that
/// cannot be guessed: as long as the digits of a random UUID.
const UNGUESSABLE: usize = 32;

/// A route's own body limit, set by a layer of the route.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) fn(&App) -> usize);

async fn read(app: &App, request: Request) -> Result<(bytes::Bytes, Once), ApiError> {
    let (parts, body) = request.into_parts();
    let limit = parts.extensions.get::<BodyLimit>().map_or(MAX_BODY, |BodyLimit(limit)| limit(app));
    let bytes = body::read(app, &parts, body, limit).await?;
    let what = format!("{} {}", parts.method, parts.uri.path());
    let mut key = body::idempotency_key(&parts.headers)?;
    let by = match caller_of(&parts)? {
        Caller::Nobody => {
            key = key.filter(|key| key.len() >= UNGUESSABLE);
            let context: RequestContext = found(&parts, "a context")?;
            format!("nobody at {:?}", rate_key(context.client))
        }
        caller => caller.actor().id().clone(),
    };
    let once = Once::new(app, "api", &by, &what, key, &bytes);
    Ok((bytes, once))
}

impl<T: ToSchema + DeserializeOwned + 'static> FromRequest<AppState> for Sent<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (bytes, once) = read(app, request).await?;
        let read = || schema::read(json::parse(&bytes).map_err(Error::validation)?).map_err(Error::from);
        let body = block_in_place_if_large(bytes.len(), read)?;
        Ok(Self { body, once })
    }
}

impl FromRequest<AppState> for Hashable {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (bytes, once) = read(app, request).await?;
        let body = block_in_place_if_large(bytes.len(), || canonical::parse(&bytes))
            .map_err(ApiError::validation)?;
        Ok(Self { body, once })
    }
}

impl<T: ToSchema + DeserializeOwned + 'static> FromRequest<AppState> for MaybeSent<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (bytes, once) = read(app, request).await?;
        let sent =
            if bytes.is_empty() { Value::Null } else { json::parse(&bytes).map_err(ApiError::validation)? };
        let body = if sent.is_null() { None } else { Some(schema::read(sent)?) };
        Ok(Self { body, once })
    }
}

impl<T: ToSchema + DeserializeOwned + 'static> FromRequest<AppState> for Exact<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (bytes, once) = read(app, request).await?;
        Ok(Self(block_in_place_if_large(bytes.len(), || schema::read_exact(&bytes))?, once))
    }
}

impl FromRequest<AppState> for Bare {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        Ok(Self(read(app, request).await?.1))
    }
}

/// Query parameters, checked against their schema.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: IntoParams + DeserializeOwned + 'static> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(schema::read_query(query(&parts.uri))?))
    }
}

/// Returns the query parameters in order, unchecked.
pub(crate) fn query(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}

/// Renders the result of an act. A repeated request gets the header `Idempotent-Replayed`.
pub(crate) fn done<T: Serialize>(status: StatusCode, done: Done<T>) -> Response {
    let mut response = match status {
        StatusCode::NO_CONTENT => status.into_response(),
        status => (status, axum::Json(done.result)).into_response(),
    };
    if done.again {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    response
}

/// The header that makes a request safe to retry.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes a header for the OpenAPI document")]
pub(crate) struct Idempotent {
    /// A key of your choice, the same for every retry of one request. Without a bearer key, only keys of 32
    /// characters or more are remembered, and only for the address they came from, because whoever guesses one
    /// would get the response
    #[param(
        rename = "Idempotency-Key",
        nullable = false,
        max_length = 255,
        pattern = r"^[!-~]([\t -~]*[!-~])?$"
    )]
    key: Option<String>,
}
