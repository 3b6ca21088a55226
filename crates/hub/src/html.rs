//! Pages for people: server-rendered, every asset embedded, a strict Content-Security-Policy, no internet needed.

use crate::error::ApiError;
use crate::middleware::ForPeople;
use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The style sheet of every page.
pub(crate) const STYLE: &str = include_str!("../assets/chorus.css");
/// Scripts, styles and images from ourselves only, none inline, no framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The style sheet's name changes with its content, so that it can be cached for ever.
pub(crate) static STYLE_NAME: LazyLock<String> = LazyLock::new(|| {
    let hash = HEXLOWER.encode(&Sha256::digest(STYLE)[..6]);
    format!("chorus-{hash}.css")
});

/// What every page names its style sheet.
pub(crate) fn style() -> &'static str {
    &STYLE_NAME
}

/// A page, guarded.
pub(crate) fn page(template: &impl Template) -> Result<Response, ApiError> {
    let html = template.render().map_err(ApiError::internal)?;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // To nobody else. Without any, browsers would not say either that a form was sent from our own page.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    Ok((headers, Html(html)).into_response())
}

/// A page that is an error, and says so to a person.
pub(crate) fn fault_page(status: StatusCode, template: &impl Template) -> Result<Response, ApiError> {
    let mut response = page(template)?;
    *response.status_mut() = status;
    response.extensions_mut().insert(ForPeople);
    Ok(response)
}
