//! What a request shows of its caller: a bearer key, or a browser's cookie. What it means is looked up by `chorus_app`.
//! And the cookie that a browser is given.

use crate::error::ApiError;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use chorus_app::App;
use chorus_app::caller::Shown;
use chorus_mcp::guard::Page;
use chorus_protocol::relay::Code;

/// The name of the cookie of a browser that is signed in.
pub(crate) const SESSION_COOKIE: &str = "chorus_session";

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

/// The secret of a browser's session.
pub(crate) fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find(|(name, _)| *name == SESSION_COOKIE)
        .map(|(_, secret)| secret)
}

/// The cookie of a browser that is signed in, for so many seconds.
pub(crate) fn new_cookie(app: &App, secret: &str, seconds: i64) -> Result<HeaderValue, ApiError> {
    let secure = if app.config.public_url.starts_with("https:") { "; Secure" } else { "" };
    let text =
        format!("{SESSION_COOKIE}={secret}; HttpOnly; SameSite=Lax; Path=/; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).map_err(ApiError::internal)
}

/// The cookie that replaces the one of a browser that is signed out.
pub(crate) fn no_cookie(app: &App) -> Result<HeaderValue, ApiError> {
    new_cookie(app, "", 0)
}
