//! Against web pages that reach a hub which is not meant for them, above all one on the reader's own machine.
//!
//! Every request must ask for this hub by a name of its own, or a page could make one that leads here (DNS rebinding).
//! What changes something, C2A and MCP are refused from other sites' pages. They may still `GET`, and cannot read the answer.
//! Only what is public anyway and takes no credentials answers them as it answers programs, with CORS headers. Programs say neither
//! and are not touched.

use crate::error::ApiError;
use crate::route::{ForeignPages, Route};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Version, header};
use chorus_app::Config;
use chorus_mcp::guard::{Names, NotForUs, Page};
use chorus_protocol::code::Code;
use url::Url;

/// The names of a hub that listens for this machine only, or for others.
pub(crate) fn names(config: &Config, on_loopback: bool) -> Names {
    Names {
        public: Url::parse(&config.public_url).ok(),
        allowed: config.allowed_hosts.clone(),
        addresses: !on_loopback,
        any: config.any_host,
    }
}

/// Whether a request is meant for this hub and comes from where it may, and from which page. Before anything is done for it.
pub(crate) fn check(names: &Names, route: Route, request: &Request) -> Result<Page, ApiError> {
    let headers = request.headers();
    // The first HTTP had no such header, and monitors still speak it; browsers do not.
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

/// Whether a browser asks before it lets a page of another site call.
pub(crate) fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Tells a browser that pages of every site may call, with any header, and read the answer, errors too.
pub(crate) fn allow_every_page(headers: &mut HeaderMap) {
    let any = HeaderValue::from_static("*");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, any.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
}
