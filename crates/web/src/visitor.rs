//! Who looks at a page, as the hub's middleware found out.

use crate::cookies::session_cookie;
use crate::page::Fault;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use chorus_app::audit::RequestContext;
use chorus_app::authenticate::of_browser;
use chorus_app::caller::{Caller, Person, Shown};
use chorus_app::{App, Error};
use chorus_protocol::ids::Principal;

/// Whether a request says that it comes from one of our own pages: put into it by the hub.
#[derive(Debug, Clone, Copy)]
pub struct OwnPage(pub bool);

/// A person who is signed in.
pub(crate) struct SignedIn {
    pub(crate) person: Person,
    pub(crate) caller: Caller,
    pub(crate) context: RequestContext,
}

impl SignedIn {
    /// As a member of conversations.
    pub(crate) fn who(&self) -> Principal {
        self.person.id.into()
    }
}

/// Which request this is, and from where.
pub(crate) struct Context(pub(crate) RequestContext);

/// Whoever asks, known or not.
pub(crate) struct Asking(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        Ok(Self(found(parts, "a caller")?))
    }
}

/// What the hub put into a request.
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

/// The person whose browser this is, for pages that everybody may see.
pub(crate) async fn person(app: &App, headers: &HeaderMap) -> Result<Option<Person>, Error> {
    match session_cookie(headers) {
        Some(session) => of_browser(app, &Shown::session(session)).await,
        None => Ok(None),
    }
}
