//! Protection against DNS rebinding and cross-site requests: checks the `Host` of a request and the page it
//! comes from.
//!
//! `Host` must be a name of the hub. Its port is not compared, because a page served from another port is
//! recognised by its `Origin`. Browsers send `Sec-Fetch-Site` or `Origin`, and pages cannot forge either. A
//! request without both does not come from a page.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The reasons for rejecting a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotForUs {
    /// The `Host` header does not name this hub.
    #[error(
        "the Host header does not name this hub; ask for it by its public address, or tell it its other names \
         (CHORUS_ALLOWED_HOSTS)"
    )]
    Host,
    /// The request comes from another site's page.
    #[error("requests from other sites' pages are refused; the Origin must be this hub's")]
    Origin,
}

/// The origin of a request, as far as the request tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// A page of the hub, or the browser's address bar.
    Ours,
    /// Another site's page, or a page without an origin.
    Elsewhere,
    /// No information: most likely the client is not a browser.
    Unsaid,
}

/// The names of the hub, in addition to those of the loopback interface.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The public address.
    pub public: Option<Url>,
    /// Further names, as configured by the operator.
    pub allowed: Vec<String>,
    /// Accepts any IP address. No attacker can use an IP address as the name of a page.
    pub addresses: bool,
    /// Accepts any name.
    pub any: bool,
}

impl Names {
    /// Checks `Host`, and rejects requests from other sites' pages.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), NotForUs> {
        self.check_host(headers)?;
        if self.page(headers) == Page::Elsewhere { Err(NotForUs::Origin) } else { Ok(()) }
    }

    pub fn check_host(&self, headers: &HeaderMap) -> Result<(), NotForUs> {
        let host = single(headers, &header::HOST).and_then(split).map(|(name, _)| name);
        if self.any || host.is_some_and(|name| self.is_ours(name)) { Ok(()) } else { Err(NotForUs::Host) }
    }

    /// Returns the page that a request comes from.
    pub fn page(&self, headers: &HeaderMap) -> Page {
        match (headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes), headers.contains_key(header::ORIGIN)) {
            // A page may hide its origin from its own site.
            (Some(b"same-origin"), _) | (Some(b"none"), false) => Page::Ours,
            // Browser extensions send `none` together with their origin.
            (None | Some(b"none"), true) if self.is_own_origin(headers) => Page::Ours,
            (None, false) => Page::Unsaid,
            _ => Page::Elsewhere,
        }
    }

    fn is_ours(&self, name: &str) -> bool {
        if let Some(address) = address(name) {
            let public = self.public.as_ref().and_then(Url::host).is_some_and(|host| match host {
                Host::Ipv4(ip) => address == ip,
                Host::Ipv6(ip) => address == ip,
                Host::Domain(_) => false,
            });
            return self.addresses || address.to_canonical().is_loopback() || public || self.allows(name);
        }
        let name = name.trim_end_matches('.');
        let local = name.len().checked_sub(".localhost".len()).and_then(|start| name.get(start..));
        name.eq_ignore_ascii_case("localhost")
            || local.is_some_and(|end| end.eq_ignore_ascii_case(".localhost"))
            || self
                .public
                .as_ref()
                .and_then(Url::host_str)
                .is_some_and(|ours| ours.eq_ignore_ascii_case(name))
            || self.allows(name)
    }

    fn allows(&self, name: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }

    /// Returns `true` if `Origin` is that of the public address or of the requested host. Behind a proxy only
    /// the operator knows the scheme of the request.
    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = single(headers, &header::ORIGIN) else { return false };
        let Ok(origin) = Url::parse(origin) else { return false };
        let asked = single(headers, &header::HOST).and_then(split).is_some_and(|(name, port)| {
            // Browsers omit the default port in both headers.
            matches!(origin.scheme(), "http" | "https")
                && origin.host_str().is_some_and(|host| host.eq_ignore_ascii_case(name))
                && origin.port() == port
        });
        asked || self.public.as_ref().is_some_and(|public| public.origin() == origin.origin())
    }
}

/// Returns the value of a header that occurs once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Splits a host into its name, with brackets if present, and its port.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    let at = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, rest) = host.split_at(at);
    let port = match rest.strip_prefix(':') {
        Some("") => None,
        Some(port) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    (!name.is_empty()).then_some((name, port))
}

/// Parses an IP address in the form that browsers use.
fn address(name: &str) -> Option<IpAddr> {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => name.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => name.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>, site: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        origin.map(|origin| headers.insert(header::ORIGIN, origin.parse().unwrap()));
        site.map(|site| headers.insert(SEC_FETCH_SITE, site.parse().unwrap()));
        headers
    }

    fn names() -> Names {
        Names { public: Url::parse("https://chorus.example").ok(), ..Names::default() }
    }

    #[test]
    fn only_what_is_meant_for_us() {
        for (host, ours) in [
            ("chorus.example", true),
            ("CHORUS.example.:8443", true),
            ("localhost:8787", true),
            ("a.localhost:8787", true),
            ("127.0.0.1:8787", true),
            ("127.9.9.9", true),
            ("[::1]:8787", true),
            ("[::ffff:127.0.0.1]", true),
            ("evil.example", false),
            ("evil.example:8787", false),
            ("chorus.example.evil.example", false),
            ("localhost.evil.example", false),
            ("evillocalhost", false),
            ("evil.example@chorus.example", false),
            ("chorus.example/x", false),
            ("chorus.example:x", false),
            ("192.168.1.5:8787", false),
            ("127.1", false),
            ("[::1", false),
            ("[2001:db8::1]", false),
            ("", false),
        ] {
            let found = names().check_host(&headers(host, None, None));
            assert_eq!(found.is_ok(), ours, "{host}");
        }
        assert_eq!(names().check_host(&HeaderMap::new()), Err(NotForUs::Host));
        let mut twice = headers("localhost", None, None);
        twice.append(header::HOST, "chorus.example".parse().unwrap());
        assert_eq!(names().check_host(&twice), Err(NotForUs::Host));
    }

    #[test]
    fn who_listens_elsewhere_has_more_names() {
        let host = |names: &Names, host| names.check_host(&headers(host, None, None)).is_ok();
        let open = Names { addresses: true, allowed: vec!["hub".into()], ..names() };
        assert!(host(&open, "192.168.1.5:8787") && host(&open, "[2001:db8::1]:1") && host(&open, "HUB:8787"));
        assert!(!host(&open, "evil.example") && !host(&open, "hub.evil.example"));
        assert!(host(&Names { any: true, ..Names::default() }, "evil.example"));
        let by_address = Names { public: Url::parse("http://10.0.0.7:8787").ok(), ..Names::default() };
        assert!(host(&by_address, "10.0.0.7:8787") && !host(&by_address, "10.0.0.8:8787"));
    }

    #[test]
    fn from_where_it_comes() {
        for (host, origin, site, expected) in [
            ("chorus.example", None, None, Page::Unsaid),
            ("chorus.example", Some("https://chorus.example"), None, Page::Ours),
            ("localhost:8787", Some("http://localhost:8787"), None, Page::Ours),
            ("127.0.0.1:8787", Some("http://127.0.0.1:8787"), None, Page::Ours),
            ("127.0.0.1:8787", Some("https://chorus.example"), None, Page::Ours),
            ("chorus.example", Some("http://chorus.example:81"), None, Page::Elsewhere),
            ("chorus.example", Some("https://evil.example"), None, Page::Elsewhere),
            ("localhost:8787", Some("http://localhost:3000"), None, Page::Elsewhere),
            ("localhost:8787", Some("http://localhost"), None, Page::Elsewhere),
            ("localhost:8787", Some("null"), None, Page::Elsewhere),
            ("localhost:8787", Some("file://"), None, Page::Elsewhere),
            ("localhost:8787", None, Some("same-origin"), Page::Ours),
            ("localhost:8787", None, Some("none"), Page::Ours),
            ("localhost:8787", Some("null"), Some("same-origin"), Page::Ours),
            ("localhost:8787", Some("null"), Some("none"), Page::Elsewhere),
            ("localhost:8787", Some("chrome-extension://abc"), Some("none"), Page::Elsewhere),
            ("localhost:8787", None, Some("same-site"), Page::Elsewhere),
            ("localhost:8787", None, Some("cross-site"), Page::Elsewhere),
            ("localhost:8787", Some("http://localhost:8787"), Some("cross-site"), Page::Elsewhere),
        ] {
            assert_eq!(names().page(&headers(host, origin, site)), expected, "{host} {origin:?} {site:?}");
        }
    }
}
