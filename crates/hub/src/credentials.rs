//! What a request shows of its caller: a bearer key, or a browser's cookie. What it means is looked up by `chorus_app`.

use crate::error::ApiError;
use axum::http::{HeaderMap, Method, header};
use chorus_app::caller::Shown;
use chorus_mcp::guard::Page;
use chorus_protocol::code::Code;
use chorus_web::cookies::session_cookie;

/// The bearer key of a request, if there is one.
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

/// What a request shows, if anything. A key goes before a cookie: who sends one means it. A cookie that a browser sends on its
/// own is good for requests from our own pages only; who says nothing of where it comes from is refused.
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
