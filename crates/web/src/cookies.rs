//! The cookies of browsers: of one that is signed in, and of one in which the operator has shown the key.

use axum::http::{HeaderMap, HeaderValue, header};
use chorus_app::{App, Error};

/// The name of the cookie of a browser that is signed in.
pub const SESSION_COOKIE: &str = "chorus_session";

/// The secret of a browser's session.
pub fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, SESSION_COOKIE)
}

/// A cookie of this name.
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

/// The cookie of a browser that is signed in, for so many seconds.
pub fn new_cookie(app: &App, secret: &str, seconds: i64) -> Result<HeaderValue, Error> {
    set(app, &format!("{SESSION_COOKIE}={secret}; HttpOnly; SameSite=Lax; Path=/; Max-Age={seconds}"))
}

/// The cookie that replaces the one of a browser that is signed out.
pub fn no_cookie(app: &App) -> Result<HeaderValue, Error> {
    new_cookie(app, "", 0)
}

/// A cookie that goes over TLS only where the hub is reached by it.
pub(crate) fn set(app: &App, cookie: &str) -> Result<HeaderValue, Error> {
    let secure = if app.config.public_url.starts_with("https:") { "; Secure" } else { "" };
    HeaderValue::from_str(&format!("{cookie}{secure}")).map_err(Error::internal)
}
