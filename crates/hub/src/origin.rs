//! Against web pages that reach a hub which is not meant for them, above all one on the reader's own machine.
//!
//! Every request must ask for this hub by a name of its own, or a page could make one that leads here (DNS rebinding).
//! What changes something, C2A and MCP are refused from other sites' pages. They may still `GET`, and cannot read the answer: no
//! CORS header is ever sent. Programs say neither and are not touched.

use crate::error::ApiError;
use crate::route::Route;
use axum::extract::Request;
use axum::http::{Version, header};
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
    let (harmless, page) = (request.method().is_safe() && !route.own_pages_only, names.page(headers));
    checked
        .and_then(|()| if !harmless && page == Page::Elsewhere { Err(NotForUs::Origin) } else { Ok(page) })
        .map_err(|why| ApiError::new(Code::Forbidden, why))
}
