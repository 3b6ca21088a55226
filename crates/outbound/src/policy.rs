//! The rules for addresses that may be called. They are pure, except for resolving a name.

use crate::network::Network;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::sync::Semaphore;
use url::{Host, Url};

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum number of concurrent lookups of given names. Each occupies a thread while a resolver hangs, and
/// actual requests need those threads.
const LOOK_UPS: usize = 8;
static LOOKING_UP: Semaphore = Semaphore::const_new(LOOK_UPS);

/// The error for an address that must not be called. It names the address or name as given, and not the
/// address that a name resolves to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given} is {what}; only public addresses are called")]
pub struct Blocked {
    given: String,
    what: &'static str,
}

impl Blocked {
    /// Replaces the address with the name that resolves to it. The kind of address is dropped, because it
    /// would tell something about the hub's own network.
    #[must_use]
    pub fn by_name(self, name: &str) -> Self {
        Self { given: name.to_owned(), what: "no name of a public address" }
    }
}

/// The rules for addresses that may be called.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The private networks that are allowed.
    pub allow: Vec<Network>,
}

impl Policy {
    /// Checks that an address may be called.
    pub fn check(&self, address: IpAddr) -> Result<(), Blocked> {
        // IPv4-mapped IPv6 addresses such as `::ffff:127.0.0.1` count as IPv4.
        let address = address.to_canonical();
        if self.allow.iter().any(|network| network.contains(address)) {
            return Ok(());
        }
        let what = match address {
            IpAddr::V4(address) => special_v4(address),
            IpAddr::V6(address) => special_v6(address),
        };
        what.map_or(Ok(()), |what| Err(Blocked { given: address.to_string(), what }))
    }

    /// Checks a URL without a request: a literal address, or a name that resolves now. A name that does not
    /// resolve is accepted, since it is checked again when it is used.
    pub async fn check_url(&self, url: &Url) -> Result<(), Blocked> {
        let port = url.port_or_known_default().unwrap_or(443);
        match url.host() {
            // This name is always the local machine (RFC 6761), whatever the resolver returns.
            Some(Host::Domain(name)) if is_localhost(name) => {
                self.check(Ipv4Addr::LOCALHOST.into()).map_err(|blocked| blocked.by_name(name))
            }
            Some(Host::Domain(name)) => {
                // With too many lookups under way, the name is checked when it is used, like one that does not
                // resolve yet.
                let Ok(permit) = LOOKING_UP.try_acquire() else { return Ok(()) };
                let asked = name.to_owned();
                // The lookup runs in its own task, which holds the permit until the resolver is done.
                let look_up = tokio::spawn(async move {
                    let found = tokio::net::lookup_host((asked.as_str(), port)).await;
                    drop(permit);
                    found.map(|found| found.map(|found| found.ip()).collect::<Vec<_>>())
                });
                match tokio::time::timeout(RESOLVE_TIMEOUT, look_up).await {
                    Ok(Ok(Ok(found))) => {
                        let checked = found.into_iter().try_for_each(|found| self.check(found));
                        checked.map_err(|blocked| blocked.by_name(name))
                    }
                    _ => Ok(()),
                }
            }
            _ => self.check_literal(url),
        }
    }

    /// Checks a URL with a literal address. Names are accepted.
    pub fn check_literal(&self, url: &Url) -> Result<(), Blocked> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "an address of \"this network\"",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "a private address",
        (100, 64..=127, _) => "a carrier's shared address",
        (127, ..) => "a loopback address",
        (169, 254, _) => "a link-local address",
        (192, 0, 0) => "a protocol assignment",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "a documentation address",
        (192, 88, 99) => "a 6to4 relay",
        (198, 18..=19, _) => "a benchmarking address",
        (224..=239, ..) => "a multicast address",
        (240..=255, ..) => "a reserved address",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => "the unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "the loopback address",
        [0, 0, 0, 0, 0, 0, ..] => "an IPv4-compatible address",
        [0x0064, 0xff9b, ..] => "a NAT64 address",
        [0x0100, 0, 0, 0, ..] => "a discard address",
        [0x2001, 0x0000, ..] => "a Teredo address",
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => "a documentation address",
        [0x2001, 0..=0x01ff, ..] => "a protocol assignment",
        [0x2002, ..] => "a 6to4 address",
        [0x5f00, ..] => "a segment routing address",
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] => "a site-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        // All public unicast addresses lie in 2000::/3.
        [first, ..] if first & 0xe000 != 0x2000 => "a reserved address",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn verdict(url: &str) -> bool {
        Policy::default().check_url(&Url::parse(url).unwrap()).await.is_ok()
    }

    #[tokio::test]
    async fn private_addresses_in_every_spelling() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://0x7f000001/",
            "http://127.0.0.1.:80/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://localhost/",
            "http://LOCALHOST/",
            "http://localhost./",
            "http://any.localhost/",
            "http://0.0.0.0/",
            "http://0/",
            "http://10.0.0.1/",
            "http://172.16.0.1/",
            "http://172.31.255.255/",
            "http://192.168.1.1/",
            "http://169.254.169.254/",
            "http://100.64.0.1/",
            "http://192.0.0.1/",
            "http://192.0.2.1/",
            "http://192.88.99.1/",
            "http://198.18.0.1/",
            "http://198.51.100.1/",
            "http://203.0.113.1/",
            "http://224.0.0.1/",
            "http://240.0.0.1/",
            "http://255.255.255.255/",
            "http://[::]/",
            "http://[fe80::1]/",
            "http://[fc00::1]/",
            "http://[fd12:3456::1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[64:ff9b:1::1]/",
            "http://[2002:7f00:1::]/",
            "http://[100::1]/",
            "http://[2001:db8::1]/",
            "http://[3fff::1]/",
            "http://[5f00::1]/",
            "http://[ff02::1]/",
            "http://[::127.0.0.1]/",
            "http://[2001::1]/",
            "http://[fec0::1]/",
            "http://１２７.0.0.1/",
            "http://127。0。0。1/",
        ] {
            assert!(!verdict(url).await, "{url}");
        }
    }

    #[tokio::test]
    async fn public_addresses_and_unknown_names_pass() {
        for url in [
            "https://1.1.1.1/",
            "http://[2606:4700::1111]/",
            "https://alice.invalid/receive",
            "http://172.32.0.1/",
        ] {
            assert!(verdict(url).await, "{url}");
        }
    }

    #[test]
    fn what_the_operator_allows_passes() {
        let policy = Policy { allow: vec!["127.0.0.0/8".parse().unwrap()] };
        assert!(policy.check("127.0.0.1".parse().unwrap()).is_ok());
        assert!(policy.check("::ffff:127.0.0.1".parse().unwrap()).is_ok());
        assert!(policy.check("10.0.0.1".parse().unwrap()).is_err());
    }

    #[test]
    fn a_refusal_says_which_rule() {
        let blocked = Policy::default().check("169.254.169.254".parse().unwrap()).unwrap_err();
        assert_eq!(
            blocked.to_string(),
            "169.254.169.254 is a link-local address; only public addresses are called"
        );
        // For a name, the kind of address would reveal the hub's network.
        assert_eq!(
            blocked.by_name("db").to_string(),
            "db is no name of a public address; only public addresses are called"
        );
    }
}
