//! Risks in the settings of a hub that others can reach, each with a remedy.
//!
//! The check is pure: it looks only at the settings. Most risks do not apply to a hub that serves only its own
//! machine.

use crate::config::mail::Mail;
use crate::config::quotas::OFF;
use crate::config::{Config, Signup};
use chorus_protocol::api::operator::Danger;
use std::net::IpAddr;
use url::{Host, Url};

/// All that is dangerous, the worst first.
pub fn dangers(config: &Config, on_loopback: bool) -> Vec<Danger> {
    let url = Url::parse(&config.public_url).ok();
    let public = url.as_ref().is_some_and(|url| !is_loopback(url));
    let encrypted = url.as_ref().is_some_and(|url| url.scheme() == "https");
    let others = public || !on_loopback;
    let limited = [config.quotas.agent_bytes, config.quotas.account_bytes, config.quotas.documents];
    let rows = [
        (
            others && !encrypted,
            "no_tls",
            "keys and messages travel in the clear: the hub speaks HTTP, and others reach it without a proxy that encrypts",
            "listen on 127.0.0.1 behind a proxy with TLS, and set CHORUS_PUBLIC_URL=https://…",
        ),
        (
            config.any_host,
            "any_host",
            "the hub answers to every name, so that web pages can reach it by theirs, and its links may lead nowhere",
            "set CHORUS_PUBLIC_URL to where others reach it",
        ),
        (
            others && config.rate_limit.is_none(),
            "no_limits",
            "there are no limits of requests, registrations, mails and connections",
            "set CHORUS_RATE_LIMIT to a number",
        ),
        (
            others && limited.contains(&OFF),
            "no_quotas",
            "anybody may store as much as the disk holds",
            "set CHORUS_QUOTA_AGENT_BYTES, CHORUS_QUOTA_ACCOUNT_BYTES and CHORUS_QUOTA_DOCUMENTS to numbers",
        ),
        (
            others && config.signup == Signup::Open,
            "open_signup",
            "anybody who reaches this hub may register agents and sign in",
            "unless that is meant, set CHORUS_SIGNUP=invite or closed",
        ),
        (
            others && !config.outbound.allow.is_empty(),
            "private_endpoints",
            "endpoints may lead into private networks, whoever registers them",
            "leave CHORUS_ALLOW_PRIVATE_ENDPOINTS empty, or let nobody register unasked",
        ),
        (
            others && !config.endpoint_challenge,
            "unproven_endpoints",
            "endpoints are called as they are registered, also those of servers that never asked for it",
            "set CHORUS_ENDPOINT_CHALLENGE=on, if all your agents can answer it",
        ),
        (
            others && config.mail == Mail::Log,
            "mail_in_log",
            "sign-in links are written to the log, where whoever reads it can use them, and nobody gets a mail",
            "set CHORUS_MAIL to a mail server",
        ),
        (
            public && encrypted && config.trusted_proxies.is_empty(),
            "unknown_proxy",
            "whoever comes through the proxy that encrypts counts as one address, and shares its limits",
            "set CHORUS_TRUSTED_PROXIES to the proxy's address",
        ),
        (
            config.master_key.previous().is_some(),
            "former_key",
            "the master key is being replaced: the former one is still good",
            "take CHORUS_MASTER_KEY_PREVIOUS away once the log says that nothing is sealed with it any more",
        ),
    ];
    let found = rows.into_iter().filter(|(is_so, ..)| *is_so);
    let danger = |(_, code, message, advice): (bool, &str, &str, &str)| Danger {
        code: code.to_owned(),
        message: message.to_owned(),
        advice: advice.to_owned(),
    };
    found.map(danger).collect()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).to_canonical().is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::key_hash;
    use crate::config::proxies::TrustedProxies;
    use crate::config::quotas::Quotas;
    use crate::secrets::MasterKey;

    fn config(public_url: &str) -> Config {
        let new = Config::new(uuid::Uuid::nil(), "hub", key_hash("co_1"), MasterKey::new([7; 32]));
        Config { public_url: public_url.into(), ..new }
    }

    fn codes(config: &Config, on_loopback: bool) -> Vec<String> {
        dangers(config, on_loopback).into_iter().map(|danger| danger.code).collect()
    }

    #[test]
    fn a_hub_for_its_own_machine_has_nothing_to_fear() {
        for url in
            ["http://127.0.0.1:8787", "http://localhost:8787", "http://[::1]:1", "http://hub.localhost"]
        {
            assert_eq!(codes(&config(url), true), [] as [&str; 0], "{url}");
        }
    }

    #[test]
    fn each_setting_that_is_dangerous_is_named() {
        let open = ["open_signup", "unproven_endpoints", "mail_in_log"];
        let found = codes(&config("http://10.1.2.3:8787"), false);
        assert_eq!(found, [&["no_tls"], &open[..]].concat());
        let found = codes(&config("https://hub.example"), true);
        assert_eq!(found, [&open[..], &["unknown_proxy"]].concat());
        let bad = Config {
            any_host: true,
            rate_limit: None,
            quotas: Quotas { agent_bytes: OFF, ..Quotas::default() },
            outbound: crate::transport::outbound::Policy { allow: vec!["10.0.0.0/8".parse().unwrap()] },
            master_key: MasterKey::new([7; 32]).replacing([8; 32]),
            ..config("http://10.1.2.3")
        };
        for code in ["any_host", "no_limits", "no_quotas", "private_endpoints", "former_key"] {
            assert!(codes(&bad, false).iter().any(|found| found == code), "{code}");
        }
        let good = Config {
            signup: Signup::Invite,
            endpoint_challenge: true,
            mail: Mail::Folder("mails".into()),
            trusted_proxies: TrustedProxies::parse("127.0.0.1").unwrap(),
            ..config("https://hub.example")
        };
        assert_eq!(codes(&good, true), [] as [&str; 0]);
        assert_eq!(codes(&good, false), [] as [&str; 0], "in a container, behind a proxy elsewhere");
    }
}
