//! Validation and schema of the URLs that a service gives.

use super::MAX_URL;
use url::Url;

// The pattern covers host names whose last label begins with a letter (a label that begins with a digit may be
// read as a number) and IPv4 addresses, followed by a port and printable ASCII. [`WebUrl::check`] accepts all
// of these except labels with the `xn--` prefix that are not Punycode, which a pattern cannot detect. It also
// accepts literal IPv6 addresses, user names and passwords.
/// An absolute `http` or `https` URL. A label of its host that begins with `xn--` must be Punycode.
#[derive(utoipa::ToSchema)]
#[schema(
    max_length = 4096,
    pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://(([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?\.)*[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9_])?|((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9]))(:([0-9]{1,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?([/?#][!-~]*)?$",
    example = "https://service.example.com/channels/ch_abc123/inbox/tok_xyz789"
)]
pub struct WebUrl(pub String);

impl WebUrl {
    /// Checks a URL, or returns the fault.
    pub(super) fn check(text: &str) -> Result<(), String> {
        // A URL parser would silently drop these characters.
        let blank = |c: char| c.is_whitespace() || c.is_control();
        let url = Url::parse(text).ok().filter(|_| !text.contains(blank));
        if !url.is_some_and(|url| matches!(url.scheme(), "http" | "https")) {
            return Err("must be an absolute http or https URL".into());
        }
        if text.len() > MAX_URL {
            return Err(format!("must be at most {MAX_URL} bytes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::string::string_regex;
    use serde_json::json;
    use utoipa::PartialSchema as _;

    fn pattern_of_urls() -> String {
        json!(WebUrl::schema())["pattern"].as_str().unwrap().to_owned()
    }

    #[test]
    fn urls_are_described_as_they_are_read() {
        let pattern = regex_lite::Regex::new(&pattern_of_urls()).unwrap();
        for url in [
            json!(WebUrl::schema())["example"].as_str().unwrap(),
            "http://s/cb",
            "http://localhost:7777/channels/1/inbox/tok_1",
            "https://HUB.example.com:8443",
            "https://hub.example.com/cb?token=a%20b&x=1#top",
            "https://hub.example.com?x",
            "http://127.0.0.1:65535/cb",
            "http://203.0.113.9/~a/b.c/[x]",
            "https://my_service.4you.example/",
            "https://xn--bcher-kva.example/cb",
        ] {
            assert!(pattern.is_match(url), "{url} is not described");
            WebUrl::check(url).unwrap();
        }
        // These match the pattern, but not the rule that the doc comment states.
        for url in ["https://xn--a.example/cb", "https://hub.XN--1/"] {
            assert!(pattern.is_match(url) && has_punycode(url), "{url}");
            WebUrl::check(url).unwrap_err();
        }
        for url in [
            "",
            "s/cb",
            "//hub.example.com/cb",
            "ftp://hub.example.com/cb",
            "https:/hub.example.com",
            "https://",
            "https:///cb",
            "https://:80/",
            "https://hub.example.com:65536/",
            "https://hub.example.com:http/",
            "https://hub .example.com/",
            "https://hub.example.com/a b",
            "https://hub.example.com/\n",
            "https://256.0.0.1/",
            "https://1.2.3.4.5/",
            "https://hub%00/",
            " https://hub.example.com/",
        ] {
            assert!(!pattern.is_match(url), "{url:?} is described");
        }
    }

    /// Returns `true` if a label of the host begins with `xn--`.
    fn has_punycode(url: &str) -> bool {
        let host = url.split(['/', '?', '#', ':']).nth(3).unwrap_or_default();
        let begins = |part: &str| part.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("xn--"));
        host.split('.').any(begins)
    }

    proptest! {
        #[test]
        fn what_is_described_as_a_url_is_taken(url in string_regex(pattern_of_urls().trim_matches(['^', '$'])).unwrap()) {
            prop_assert!(WebUrl::check(&url).is_ok() || has_punycode(&url), "{url}");
        }
    }
}
