//! The destination of mail, and the check of addresses.

use lettre::Address;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use url::{Host, Url};

/// The longest address, in characters.
pub const MAX_ADDRESS: usize = 254;

/// The destination of mail.
#[derive(Clone, PartialEq, Eq)]
pub enum Mail {
    /// Into the log, links and all.
    Log,
    /// One file a mail.
    Folder(PathBuf),
    /// An SMTP server.
    Server(Url),
}

impl Mail {
    /// The accepted forms of the setting.
    pub const FORM: &str = "log, dir:PATH, smtp://[USER:PASSWORD@]HOST[:PORT] or smtps://…, with ?from=ADDRESS if you like, and \
         tls=required, tls=opportunistic or tls=off";

    /// Reads a setting. A server is spoken to with TLS, or nothing is sent, unless it is near; `tls=required`,
    /// `tls=opportunistic` or `tls=off` in the address decides otherwise. Certificates are verified in any case.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "log" {
            return Some(Self::Log);
        }
        if let Some(path) = text.strip_prefix("dir:") {
            return (!path.is_empty()).then(|| Self::Folder(path.into()));
        }
        let mut url = Url::parse(text).ok()?;
        let known = matches!(url.scheme(), "smtp" | "smtps") && url.has_host();
        if !known || sender(&url).is_some_and(|from| from.parse::<Address>().is_err()) {
            return None;
        }
        let says = url.query_pairs().find(|(name, _)| name == "tls").map(|(_, tls)| tls.into_owned());
        match says.as_deref() {
            Some("required" | "opportunistic") => {}
            // The SMTP client takes a URL without `tls` as this.
            Some("off") if url.scheme() == "smtp" => {
                let kept: Vec<_> = url.query_pairs().into_owned().filter(|(name, _)| name != "tls").collect();
                url.set_query(None);
                if !kept.is_empty() {
                    url.query_pairs_mut().extend_pairs(kept);
                }
            }
            Some(_) => return None,
            None if url.scheme() == "smtp" && !is_near(&url) => {
                url.query_pairs_mut().append_pair("tls", "required");
            }
            None => {}
        }
        Some(Self::Server(url))
    }
}

impl fmt::Debug for Mail {
    /// Formats the destination without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log => f.write_str("log"),
            Self::Folder(path) => write!(f, "dir:{}", path.display()),
            Self::Server(url) => write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default()),
        }
    }
}

/// The address that mails come from, if the server's address says.
pub fn sender(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == "from").map(|(_, from)| from.into_owned())
}

/// Returns whether the server is on this machine or has a private address. A host name does not prove that.
fn is_near(url: &Url) -> bool {
    let near = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    };
    // Not a scheme the parser knows, so an IPv4 address comes as a name.
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.parse().is_ok_and(near),
        Some(Host::Ipv4(address)) => near(address.into()),
        Some(Host::Ipv6(address)) => near(address.into()),
        None => false,
    }
}

/// Checks the syntax of an address, without sending anything to it.
pub fn check_address(text: &str) -> Result<(), &'static str> {
    if text.chars().count() > MAX_ADDRESS {
        return Err("must be at most 254 characters");
    }
    let plain = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    match text.split_once('@') {
        Some((local, host)) if plain && !local.is_empty() && !host.is_empty() && !host.contains('@') => {
            Ok(())
        }
        _ => Err("must be an email address: name@host, without spaces"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_simply() {
        for good in ["a@b", "Ann.Lee+x@mail.example", "用户@例子.测试", &format!("{}@b", "a".repeat(252))]
        {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a@b@c",
            "a b@c",
            "a@b\r\nBcc: x@y",
            "a@b\u{a0}",
            &format!("{}@b", "a".repeat(253)),
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn where_mail_goes() {
        assert_eq!(Mail::parse("log"), Some(Mail::Log));
        assert_eq!(Mail::parse("dir:/var/mail"), Some(Mail::Folder("/var/mail".into())));
        for wrong in [
            "",
            "dir:",
            "maybe",
            "http://a.example",
            "smtp:",
            "smtp://a.example?from=nobody",
            "smtps://",
            "smtp://a.example?tls=no",
            "smtps://a.example?tls=off",
        ] {
            assert_eq!(Mail::parse(wrong), None, "{wrong}");
        }
        for (text, kept) in [
            ("smtp://127.0.0.1:2525", "smtp://127.0.0.1:2525"),
            ("smtp://u:p@localhost", "smtp://u:p@localhost"),
            ("smtp://10.0.0.1", "smtp://10.0.0.1"),
            ("smtp://[fd00::1]:25", "smtp://[fd00::1]:25"),
            ("smtp://[::1]", "smtp://[::1]"),
            ("smtp://192.0.2.1", "smtp://192.0.2.1?tls=required"),
            ("smtp://mail.example", "smtp://mail.example?tls=required"),
            ("smtp://127.0.0.1?tls=required", "smtp://127.0.0.1?tls=required"),
            ("smtp://mail.example?tls=opportunistic", "smtp://mail.example?tls=opportunistic"),
            ("smtp://mail.example?tls=off", "smtp://mail.example"),
            ("smtp://mail.example?tls=off&from=a@b.example", "smtp://mail.example?from=a%40b.example"),
            ("smtp://u:p@mail.example:587", "smtp://u:p@mail.example:587?tls=required"),
            (
                "smtp://u:p@mail.example?from=hub@a.example",
                "smtp://u:p@mail.example?from=hub@a.example&tls=required",
            ),
            ("smtps://u:p@mail.example", "smtps://u:p@mail.example"),
        ] {
            let Some(Mail::Server(url)) = Mail::parse(text) else { panic!("{text}") };
            assert_eq!(url.as_str(), kept);
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let mail = Mail::parse("smtps://ann:secret@mail.example").unwrap();
        assert_eq!(format!("{mail:?}"), "smtps://mail.example");
    }
}
