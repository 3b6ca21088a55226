//! Against pages that reach a hub through a name of their own (DNS rebinding): whom a request was meant for, and from
//! which page it came.
//!
//! `Host` must be a name of ours: that of the public address, this machine itself, or the very address the connection
//! came in by. `Origin`, which browsers send, must be the public address's, or the one that was asked. Ports are not
//! compared in `Host`: a page that is served from another port is told by its `Origin`.

use axum::http::{HeaderMap, header};
use std::net::IpAddr;
use url::{Host, Url};

/// Why a request is not for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotForUs {
    /// The name that was asked for is not ours.
    #[error("the Host header does not name this hub; ask for it by its public address")]
    Host,
    /// Another site's page sent it.
    #[error("requests from other sites' pages are refused; the Origin must be this hub's")]
    Origin,
}

/// Checks `Host` and `Origin`; `local` is the address the connection came in by.
pub fn check(headers: &HeaderMap, public_url: &str, local: Option<IpAddr>) -> Result<(), NotForUs> {
    let public = Url::parse(public_url).ok();
    let host = single(headers, header::HOST).ok_or(NotForUs::Host)?;
    // A host and a port, and nothing that a URL could have besides.
    let asked = Url::parse(&format!("http://{host}")).map_err(|_| NotForUs::Host)?;
    let plain =
        asked.path() == "/" && asked.query().is_none() && asked.username().is_empty() && !host.ends_with('/');
    let name = asked.host().filter(|_| plain).ok_or(NotForUs::Host)?;
    let ours = public.as_ref().and_then(Url::host).is_some_and(|public| public == name);
    if !ours && !is_local(&name, local) {
        return Err(NotForUs::Host);
    }
    if !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let origin =
        single(headers, header::ORIGIN).and_then(|origin| Url::parse(origin).ok()).ok_or(NotForUs::Origin)?;
    let own = public.is_some_and(|public| public.origin() == origin.origin());
    if own || origin.origin() == asked.origin() { Ok(()) } else { Err(NotForUs::Origin) }
}

fn single(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is_local(name: &Host<&str>, local: Option<IpAddr>) -> bool {
    let is = |ip: IpAddr| {
        ip.to_canonical().is_loopback() || local.map(|local| local.to_canonical()) == Some(ip.to_canonical())
    };
    match name {
        Host::Domain(domain) => domain.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        Host::Ipv4(ip) => is(IpAddr::V4(*ip)),
        Host::Ipv6(ip) => is(IpAddr::V6(*ip)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_for_us() {
        let local = Some("192.168.1.5".parse().unwrap());
        for (host, origin, expected) in [
            ("chorus.example", None, Ok(())),
            ("CHORUS.example:8443", None, Ok(())),
            ("localhost:8787", None, Ok(())),
            ("127.0.0.1:8787", None, Ok(())),
            ("[::1]:8787", None, Ok(())),
            ("192.168.1.5:8787", None, Ok(())),
            ("chorus.example", Some("https://chorus.example"), Ok(())),
            ("localhost:8787", Some("http://localhost:8787"), Ok(())),
            ("127.0.0.1:8787", Some("http://127.0.0.1:8787"), Ok(())),
            ("evil.example", None, Err(NotForUs::Host)),
            ("evil.example:8787", Some("http://evil.example:8787"), Err(NotForUs::Host)),
            ("chorus.example.evil.example", None, Err(NotForUs::Host)),
            ("localhost.evil.example", None, Err(NotForUs::Host)),
            ("evil.example@chorus.example", None, Err(NotForUs::Host)),
            ("chorus.example/x", None, Err(NotForUs::Host)),
            ("10.0.0.1", None, Err(NotForUs::Host)),
            ("", None, Err(NotForUs::Host)),
            ("chorus.example", Some("http://chorus.example:81"), Err(NotForUs::Origin)),
            ("chorus.example", Some("https://evil.example"), Err(NotForUs::Origin)),
            ("localhost:8787", Some("http://localhost:3000"), Err(NotForUs::Origin)),
            ("localhost:8787", Some("null"), Err(NotForUs::Origin)),
            ("localhost:8787", Some("file://"), Err(NotForUs::Origin)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(check(&headers, "https://chorus.example", local), expected, "{host} {origin:?}");
        }
        assert_eq!(check(&HeaderMap::new(), "https://chorus.example", local), Err(NotForUs::Host));
    }
}
