//! What handlers take of a request: who calls, what was sent, and under which key it may come again.
//!
//! Who may call is in a handler's signature: [`Known`], [`Member`], [`Person`], [`Agent`] or [`Operator`] stand before the
//! body, so that nothing is read of others.

use crate::body;
use crate::error::ApiError;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use chorus_app::audit::RequestContext;
use chorus_app::caller::{self, Caller, Identity};
use chorus_app::once::{Done, Once};
use chorus_app::rate::rate_key;
use chorus_app::{App, AppState, Error, long_work};
use chorus_protocol::ids::Principal;
use chorus_protocol::{canonical, json, schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use utoipa::{IntoParams, ToSchema};

/// Who calls, as the middleware found out before any door was reached.
pub(crate) struct By(pub(crate) Caller);

/// Whoever showed a key, a token or a session that is good.
pub(crate) struct Known(pub(crate) Caller);

/// Whoever can be a member of conversations.
pub(crate) struct Member(pub(crate) Principal);

/// A person.
pub(crate) struct Person(pub(crate) caller::Person);

/// An agent.
pub(crate) struct Agent(pub(crate) Identity);

/// The operator.
pub(crate) struct Operator;

/// A person or the operator.
pub(crate) struct PersonOrOperator(pub(crate) Caller);

/// A person, or whoever holds the edit link of a Score.
pub(crate) struct Holder(pub(crate) Caller);

/// Anybody with a valid key, or with the edit link of a Score.
pub(crate) struct KnownOrHolder(pub(crate) Caller);

/// Whoever may make a Score on this hub.
pub(crate) struct Composer(pub(crate) Caller);

/// Which request this is, and from where.
pub(crate) struct Context(pub(crate) RequestContext);

/// What the middleware put into a request.
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

/// What was sent, checked, and the key under which it may come again.
pub(crate) struct Sent<T> {
    pub(crate) body: T,
    pub(crate) once: Once,
}

/// What was sent as a value that has a canonical form: it will be hashed. The act checks what it says.
pub(crate) struct Hashable {
    pub(crate) body: Value,
    pub(crate) once: Once,
}

/// The same where nothing need be sent: an empty body and `null` are as good as none.
pub(crate) struct MaybeSent<T> {
    pub(crate) body: Option<T>,
    pub(crate) once: Once,
}

/// What was sent, checked and then read from its own text: numbers that are amounts are never rounded.
pub(crate) struct Exact<T>(pub(crate) T, pub(crate) Once);

/// A request to do something that has no body, or one that says nothing.
pub(crate) struct Bare(pub(crate) Once);

/// The largest body of a request, in bytes, unless its route says otherwise.
pub(crate) const MAX_BODY: usize = 256 * 1024;

/// Those who show no key share one namespace of idempotency keys, and a result may hold a secret: it is given again to the source
/// that asked for it, and only under a key that nobody guesses, as long as the digits of a random UUID.
const UNGUESSABLE: usize = 32;

/// How large the body of a request may be, where a route says so: put into the request by a layer of the route.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) fn(&App) -> usize);

async fn read(app: &App, request: Request) -> Result<(bytes::Bytes, Once), ApiError> {
    let (parts, body) = request.into_parts();
    let limit = parts.extensions.get::<BodyLimit>().map_or(MAX_BODY, |BodyLimit(limit)| limit(app));
    let bytes = body::read(app, &parts.headers, body, limit).await?;
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
        let body = long_work(bytes.len(), read)?;
        Ok(Self { body, once })
    }
}

impl FromRequest<AppState> for Hashable {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (bytes, once) = read(app, request).await?;
        let body = long_work(bytes.len(), || canonical::parse(&bytes)).map_err(ApiError::validation)?;
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
        Ok(Self(long_work(bytes.len(), || schema::read_exact(&bytes))?, once))
    }
}

impl FromRequest<AppState> for Bare {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        Ok(Self(read(app, request).await?.1))
    }
}

/// What a query says, checked.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: IntoParams + DeserializeOwned + 'static> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(schema::read_query(query(&parts.uri))?))
    }
}

/// The parts of a query in order, for what no document says of it.
pub(crate) fn query(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}

/// The answer to an act with this status; one that was done before says so.
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

/// The header of a request that may come again.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes a header for the OpenAPI document")]
pub(crate) struct Idempotent {
    /// The same for every retry of the same request. Without a key as bearer only one of 32 characters or more is remembered, and
    /// only for the address it came from: else whoever guesses it would be given the answer
    #[param(
        rename = "Idempotency-Key",
        nullable = false,
        max_length = 255,
        pattern = r"^[!-~]([\t -~]*[!-~])?$"
    )]
    key: Option<String>,
}
