//! The visitor of a page, as authenticated by the hub's middleware.

use crate::cookies::session_cookie;
use crate::page::Fault;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use chorus_node::audit::RequestContext;
use chorus_node::authentication::of_browser;
use chorus_node::caller::{Caller, Person, Shown};
use chorus_node::{App, Error};
use chorus_protocol::ids::Principal;

/// True if the request comes from one of our own pages. The hub's middleware sets it.
#[derive(Debug, Clone, Copy)]
pub struct OwnPage(pub bool);

pub(crate) struct SignedIn {
    pub(crate) person: Person,
    pub(crate) caller: Caller,
    pub(crate) context: RequestContext,
}

impl SignedIn {
    /// Returns the person as a conversation member.
    pub(crate) fn who(&self) -> Principal {
        self.person.id.into()
    }
}

/// The id and origin of the request.
pub(crate) struct Context(pub(crate) RequestContext);

/// The caller, authenticated or not.
pub(crate) struct Asking(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        Ok(Self(found(parts, "a caller")?))
    }
}

/// Returns a request extension that the middleware has set.
fn found<T: Clone + Send + Sync + 'static>(parts: &Parts, what: &str) -> Result<T, Error> {
    parts.extensions.get().cloned().ok_or_else(|| Error::internal(format!("a request without {what}")))
}

impl<S: Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let caller: Caller = found(parts, "a caller")?;
        let person = caller.person()?.clone();
        Ok(Self { person, caller, context: found(parts, "a context")? })
    }
}

impl<S: Sync> FromRequestParts<S> for Context {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        Ok(Self(found(parts, "a context")?))
    }
}

/// Returns the person signed in to this browser, for public pages.
pub(crate) async fn person(app: &App, headers: &HeaderMap) -> Result<Option<Person>, Error> {
    match session_cookie(headers) {
        Some(session) => of_browser(app, &Shown::session(session)).await,
        None => Ok(None),
    }
}
