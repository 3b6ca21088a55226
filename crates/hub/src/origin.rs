//! Protects the hub from foreign web pages, above all a hub on the reader's own machine.
//!
//! Every request must name this hub by one of its own host names, which prevents DNS rebinding. Requests that
//! change something, C2A and MCP are refused from other sites' pages. Such pages may still `GET`, but cannot
//! read the response. Only public routes without credentials answer them with CORS headers. Programs send
//! neither `Origin` nor fetch metadata and are not affected.

use crate::error::ApiError;
use crate::route::{ForeignPages, Route};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Version, header};
use chorus_mcp::guard::{Names, NotForUs, Page};
use chorus_node::Config;
use chorus_protocol::code::Code;
use url::Url;

/// Returns the host names of the hub, which depend on whether it listens on the loopback interface only.
pub(crate) fn names(config: &Config, on_loopback: bool) -> Names {
    Names {
        public: Url::parse(&config.public_url).ok(),
        allowed: config.allowed_hosts.clone(),
        addresses: !on_loopback,
        any: config.any_host,
    }
}

/// Checks the host name and the origin of a request before anything is done for it. Returns the kind of page
/// it comes from.
pub(crate) fn check(names: &Names, route: Route, request: &Request) -> Result<Page, ApiError> {
    let headers = request.headers();
    // HTTP/1.0 has no `Host` header, and monitors still use it; browsers do not.
    let nameless = request.version() < Version::HTTP_11 && !headers.contains_key(header::HOST);
    let checked = if nameless { Ok(()) } else { names.check_host(headers) };
    let page = names.page(headers);
    let welcome = page != Page::Elsewhere
        || match route.foreign_pages {
            ForeignPages::Refused => false,
            ForeignPages::Unread => request.method().is_safe(),
            ForeignPages::Allowed => true,
        };
    let welcomed = if welcome { Ok(page) } else { Err(NotForUs::Origin) };
    checked.and(welcomed).map_err(|why| ApiError::new(Code::Forbidden, why))
}

/// Returns whether the request is a CORS preflight.
pub(crate) fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Allows pages of every site to call with any header and to read the response, including errors.
pub(crate) fn allow_every_page(headers: &mut HeaderMap) {
    let any = HeaderValue::from_static("*");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, any.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
}
