//! Credentials of a request: a bearer key or a browser's cookie. `chorus_app` looks up their meaning.

use crate::error::ApiError;
use axum::http::{HeaderMap, Method, header};
use chorus_mcp::guard::Page;
use chorus_node::caller::Shown;
use chorus_protocol::code::Code;
use chorus_web::cookies::session_cookie;

/// Returns the bearer key of a request, if there is one.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    const FORM: &str = "the Authorization header must be: Bearer KEY";
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| ApiError::unauthorized(FORM))?;
    let (scheme, key) = value.split_once(' ').unwrap_or((value, ""));
    let key = key.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || key.is_empty() {
        return Err(ApiError::unauthorized(FORM));
    }
    Ok(Some(key))
}

/// Returns the credential of a request, if there is one. A bearer key takes precedence over a cookie. On a
/// request that changes something, a cookie is accepted only from our own pages; a request that does not tell
/// its page is refused.
pub(crate) fn shown(headers: &HeaderMap, method: &Method, page: Page) -> Result<Option<Shown>, ApiError> {
    if let Some(key) = bearer(headers)? {
        return Ok(Some(Shown::key(key)));
    }
    let Some(session) = session_cookie(headers) else { return Ok(None) };
    if !method.is_safe() && page != Page::Ours {
        return Err(ApiError::new(
            Code::Forbidden,
            "a browser's session is good for requests from this hub's own pages only",
        ));
    }
    Ok(Some(Shown::session(session)))
}
