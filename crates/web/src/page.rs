//! Page responses: security headers, and error pages for people.

use crate::assets;
use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use chorus_node::Error;
use chorus_protocol::code::Code;
use serde::Deserialize;

/// Marks an error response that is already rendered for its door, so that the middleware passes it on
/// unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Rendered;

/// Allows scripts, styles and images from this hub only; forbids inline code and framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Renders a page with its security headers.
pub(crate) fn page(template: &impl Template) -> Result<Response, Fault> {
    let html = template.render().map_err(Error::internal)?;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // Other hosts get no referrer. With `no-referrer`, browsers would omit the origin of our own forms
        // too.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    Ok((headers, Html(html)).into_response())
}

/// Renders an error page.
pub(crate) fn fault_page(status: StatusCode, template: &impl Template) -> Result<Response, Fault> {
    let mut response = page(template)?;
    *response.status_mut() = status;
    response.extensions_mut().insert(Rendered);
    Ok(response)
}

/// The query of a settings page after a change was saved.
#[derive(Deserialize)]
pub(crate) struct Saved {
    told: Option<String>,
}

impl Saved {
    pub(crate) fn is_told(&self) -> bool {
        self.told.is_some()
    }
}

/// Returns the status and the message with which a form is shown again. An error that the visitor cannot fix
/// gets its own page.
pub(crate) fn refused(error: Error) -> Result<(StatusCode, String), Fault> {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_server_error() || error.code == Code::Unauthorized {
        return Err(error.into());
    }
    Ok((status, sentence(&error.message)))
}

/// An error, rendered as a page. A visitor who is not signed in is redirected to the sign-in page.
#[derive(Debug)]
pub struct Fault(Error);

impl<E: Into<Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

#[derive(Template)]
#[template(path = "fault.html")]
struct FaultPage {
    style: &'static str,
    mark: &'static str,
    title: &'static str,
    message: String,
}

fn title(code: Code) -> &'static str {
    match code.status() {
        404 => "There is nothing here",
        403 => "This is not for you",
        429 => "Too fast",
        409 => "It is not so any more",
        status if status >= 500 => "The hub could not do this",
        _ => "This cannot be done so",
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if error.code == Code::Unauthorized {
            return Redirect::to("/signin").into_response();
        }
        if let Some(cause) = error.cause.as_ref().filter(|_| error.code == Code::Internal) {
            tracing::error!(error = &**cause as &dyn std::error::Error, "a page failed");
        }
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let (style, mark) = (assets::style(), assets::mark());
        let shown = FaultPage { style, mark, title: title(error.code), message: sentence(&error.message) };
        let mut response = match fault_page(status, &shown) {
            Ok(response) => response,
            Err(_) => (status, error.message).into_response(),
        };
        if let Some(ms) = error.retry_after_ms {
            response.headers_mut().insert(header::RETRY_AFTER, ((ms.max(1) as u64).div_ceil(1000)).into());
        }
        response
    }
}

/// Builds a link's query from the parts that are not empty.
pub(crate) fn query(parts: &[(&str, &str)]) -> String {
    let said = parts.iter().filter(|(_, value)| !value.is_empty());
    format!("?{}", url::form_urlencoded::Serializer::new(String::new()).extend_pairs(said).finish())
}

/// Turns an API message into a sentence with a capital letter and a full stop.
pub(crate) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    first.chain(letters).chain(end.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn a_message_becomes_a_sentence() {
        assert_eq!(sentence("name: must be one line"), "Name: must be one line.");
        assert_eq!(sentence("Really?"), "Really?");
        assert_eq!(sentence(""), ".");
    }
}
