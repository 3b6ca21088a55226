//! The session cookie of a signed-in browser, and helpers for reading and setting cookies.

use axum::http::{HeaderMap, HeaderValue, header};
use chorus_node::{App, Error};

/// The name of the session cookie.
pub const SESSION_COOKIE: &str = "chorus_session";

/// Returns the session secret from the request's cookies.
pub fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, SESSION_COOKIE)
}

/// Returns the value of the cookie named `wanted`.
pub(crate) fn cookie<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find(|(name, _)| *name == wanted)
        .map(|(_, secret)| secret)
}

/// Returns the header that sets the session cookie for `seconds`.
pub fn new_cookie(app: &App, secret: &str, seconds: i64) -> Result<HeaderValue, Error> {
    set(app, &format!("{SESSION_COOKIE}={secret}; HttpOnly; SameSite=Lax; Path=/; Max-Age={seconds}"))
}

/// Returns the header that deletes the session cookie.
pub fn no_cookie(app: &App) -> Result<HeaderValue, Error> {
    new_cookie(app, "", 0)
}

/// Builds a `Set-Cookie` header. It is marked `Secure` when the hub is reached over HTTPS.
pub(crate) fn set(app: &App, cookie: &str) -> Result<HeaderValue, Error> {
    let secure = if app.config.public_url.starts_with("https:") { "; Secure" } else { "" };
    HeaderValue::from_str(&format!("{cookie}{secure}")).map_err(Error::internal)
}
