//! Detection and masking of credentials in texts.
//!
//! Credentials of the hub and of well-known providers are recognised by their prefixes; each becomes
//! `[redacted: NAME]`. Masking is idempotent and linear in the length of the text. It is a safety net and
//! cannot find every secret: a password in a sentence looks like any other word. Identifiers in programs share
//! prefixes with credentials, so the rest of the word must also look random.

mod forms;
mod masked;

pub use masked::{Masked, MaskedContent, MaskedText, masked};

use forms::{
    Form, GENERIC, PROVIDERS, Rest, base64, base64url, bearer, follows_bearer, has_digit, is_word, jwt, own,
    pem_cut_off, pem_end, pem_label, run,
};

/// A text after masking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text with its credentials replaced.
    pub text: String,
    /// The names of the masked kinds, without repetition, in order of appearance.
    pub masked: Vec<&'static str>,
}

/// Masks all credentials in a text. Returns `None` if there is none.
pub fn redact(text: &str) -> Option<Redacted> {
    // The most specific forms come first: Stripe's keys begin like the hub's, and any credential may follow
    // `Bearer`.
    scan(text, PROVIDERS.into_iter().chain(own()).chain(GENERIC))
}

/// The number of trailing bytes held back from a growing text, because a credential may begin there. No
/// credential is longer.
const LONGEST: usize = 16 * 1024;

/// Returns the length of the prefix of a growing text that can be masked now. The rest may be a part of a
/// credential: the last word, with `Bearer` before it, or a PEM key that has not ended.
pub fn whole_until(text: &str) -> usize {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let word = text.trim_end_matches(|c: char| c.is_ascii_graphic()).len();
    let before = &text[..word];
    let word = if follows_bearer(before) { before.trim_ascii_end().len() - "bearer".len() } else { word };
    let end = text.rfind(END).map(|at| at + END.len());
    let ended = end.and_then(|label| Some(label + pem_label(&text[label..])?)).unwrap_or(0);
    let pem = text[ended..].match_indices(BEGIN).map(|(at, _)| ended + at).find(|at| {
        let label = &text[at + BEGIN.len()..];
        pem_label(label).is_some() || !label.contains("-----")
    });
    let is_near = |at: &usize| text.len() - at <= LONGEST;
    pem.filter(is_near).or(Some(word.max(ended))).filter(is_near).unwrap_or(text.len())
}

/// A form with the places known not to match it.
struct Tried {
    form: Form,
    /// The form matches nowhere before this position.
    unfit: usize,
    /// No PEM key that begins later has an end.
    endless: bool,
}

/// The forms that can begin with each byte, as bits by index. Most positions are skipped by this lookup.
struct Beginnings([u64; 256]);

impl Beginnings {
    fn of(forms: &[Tried]) -> Self {
        let mut bits = [0; 256];
        for (index, tried) in forms.iter().enumerate() {
            for prefix in tried.form.prefixes {
                match prefix.as_bytes().first() {
                    Some(first) => bits[usize::from(*first)] |= 1 << index,
                    None => bits.iter_mut().for_each(|bits| *bits |= 1 << index),
                }
            }
        }
        Self(bits)
    }

    /// Iterates over the indexes of the forms that can begin with this byte.
    fn with(&self, first: u8) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.0[usize::from(first)];
        std::iter::from_fn(move || {
            let index = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (index < u64::BITS).then_some(index as usize)
        })
    }
}

fn scan(text: &str, forms: impl Iterator<Item = Form>) -> Option<Redacted> {
    let mut forms: Vec<_> = forms.map(|form| Tried { form, unfit: 0, endless: false }).collect();
    let beginnings = Beginnings::of(&forms);
    let bytes = text.as_bytes();
    let mut redacted = Redacted { text: String::new(), masked: Vec::new() };
    // The last masked credential ends at `done`; the scan never returns to the text before it.
    let (mut done, mut place) = (0, 0);
    while place < bytes.len() {
        let inside_word = place > done && is_word(bytes[place - 1]) && is_word(bytes[place]);
        // Every credential begins with one of these bytes.
        let candidate = base64(bytes[place]) && !inside_word;
        let found = candidate
            .then(|| beginnings.with(bytes[place]).find_map(|index| forms[index].at(text, done, place)));
        let Some((name, end)) = found.flatten() else {
            place += 1;
            continue;
        };
        for part in [&text[done..place], "[redacted: ", name, "]"] {
            redacted.text.push_str(part);
        }
        if !redacted.masked.contains(&name) {
            redacted.masked.push(name);
        }
        (done, place) = (end, end);
    }
    redacted.text.push_str(&text[done..]);
    (!redacted.masked.is_empty()).then_some(redacted)
}

impl Tried {
    /// Returns the name and the end of a credential of this form at `place`. The text before `done` is
    /// ignored.
    fn at(&mut self, text: &str, done: usize, place: usize) -> Option<(&'static str, usize)> {
        if place < self.unfit {
            return None;
        }
        let prefix = self.form.prefixes.iter().find(|prefix| text[place..].starts_with(**prefix))?;
        let (before, rest) = (&text[done..place], &text[place + prefix.len()..]);
        let bytes = rest.as_bytes();
        let length = match self.form.rest {
            Rest::Signs(alphabet, least, test) => {
                let signs = &bytes[..run(bytes, alphabet)];
                let good = signs.len() >= least && test(signs);
                self.unfit = if good { 0 } else { text.len() - rest.len() + signs.len() };
                good.then_some(signs.len())
            }
            Rest::Inbox(least) => {
                let length = if before.ends_with("/inbox/") { run(bytes, base64url) } else { 0 };
                (length >= least && has_digit(&bytes[..length])).then_some(length)
            }
            Rest::Bearer(least) => follows_bearer(before).then(|| bearer(bytes, least)).flatten(),
            Rest::Exactly(count) => {
                let length = run(bytes, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
                (length == count && !bytes.get(length).copied().is_some_and(is_word)).then_some(length)
            }
            Rest::Jwt => {
                let length = jwt(bytes);
                // No other beginning of the first part can match, because the same second and third parts
                // follow.
                self.unfit =
                    if length.is_some() { 0 } else { text.len() - rest.len() + run(bytes, base64url) };
                length
            }
            Rest::Pem => {
                let first_line = pem_label(rest)?;
                let end = if self.endless { None } else { pem_end(rest, first_line) };
                self.endless = end.is_none();
                end.or_else(|| pem_cut_off(rest, first_line))
            }
        };
        length.map(|length| (self.form.name, place + prefix.len() + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::{Description, SecretKind};
    use proptest::prelude::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn what_may_be_half_a_credential_waits_until_it_is_whole() {
        let long = "x".repeat(LONGEST + 1);
        for (text, whole) in [
            ("", ""),
            ("one", ""),
            ("one two", "one "),
            ("one two ", "one two "),
            ("你好sk_1", "你好"),
            ("a bearer ", "a "),
            ("a Bearer 0123", "a "),
            ("forbearer 0123", "forbearer "),
            ("a -----BEGIN RSA PRI", "a "),
            ("a -----BEGIN PRIVATE KEY-----\nMIIB\nMIIC ", "a "),
            (
                "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n ok",
                "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n ",
            ),
            ("-----BEGIN CERTIFICATE-----\nMIIB\nMIIC", "-----BEGIN CERTIFICATE-----\nMIIB\n"),
            (&long, &long),
        ] {
            assert_eq!(&text[..whole_until(text)], whole);
        }
    }

    /// A text that arrives in pieces is masked exactly as the whole text is.
    #[test]
    fn pieces_are_masked_as_the_whole_is() {
        let text = format!(
            "see ca_{HEX} and Authorization: Bearer {HEX} or\n-----BEGIN RSA PRIVATE KEY-----\n{HEX}\n{HEX}\n-----END RSA PRIVATE KEY-----\n."
        );
        let whole = redact(&text).unwrap().text;
        for size in 1..text.len() {
            let (mut masked, mut held) = (String::new(), String::new());
            for piece in text.as_bytes().chunks(size) {
                held.push_str(std::str::from_utf8(piece).unwrap());
                let rest = held.split_off(whole_until(&held));
                masked.push_str(&redact(&held).map_or(held, |redacted| redacted.text));
                held = rest;
            }
            masked.push_str(&redact(&held).map_or(held, |redacted| redacted.text));
            assert_eq!(masked, whole, "in pieces of {size}");
        }
    }

    fn masked(text: &str) -> String {
        redact(text).map_or_else(|| text.to_owned(), |redacted| redacted.text)
    }

    #[test]
    fn our_own() {
        for kind in SecretKind::all() {
            let Description { prefix, name, .. } = kind.description();
            for secret in [HEX, &HEX[..16], "aB-3_xyzaB-3_xyz", "AbCdEfGhIjKlMnOpQr"] {
                let text = format!("my key is {prefix}{secret}, keep it");
                let expected = format!("my key is [redacted: {name}], keep it");
                let redacted = redact(&text).unwrap();
                assert_eq!((redacted.text, redacted.masked), (expected, vec![*name]));
            }
        }
        assert_eq!(masked("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw+/=="), "[redacted: webhook secret]");
        assert_eq!(
            masked("https://agent.example.com/inbox/sk_a1b2c3d4e5f6"),
            "https://agent.example.com/inbox/[redacted: connection string]"
        );
        assert_eq!(masked("密钥ca_0123456789abcdef"), "密钥[redacted: agent key]");
    }

    #[test]
    fn those_of_providers() {
        // The secrets are assembled here, so that no secret scanner reports this file as a leak.
        let mixed = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
        for (secret, name) in [
            (format!("sk-{mixed}"), "OpenAI key"),
            (format!("sk-proj-{mixed}_x-{mixed}"), "OpenAI key"),
            (format!("sk-ant-{}-{mixed}", "api03"), "Anthropic key"),
            (format!("ghp_{mixed}"), "GitHub token"),
            (format!("gho_{mixed}"), "GitHub token"),
            (format!("ghs_{mixed}"), "GitHub token"),
            (format!("ghu_{mixed}"), "GitHub token"),
            (format!("ghr_{mixed}"), "GitHub token"),
            (format!("github_pat_{}_{mixed}", &mixed[..22]), "GitHub token"),
            (format!("xoxb-{}-{}", "123456789012", &mixed[..24]), "Slack token"),
            (format!("xoxp-{}", "1234567890-abc"), "Slack token"),
            (format!("AKIA{}", "IOSFODNN7EXAMPLE"), "AWS access key id"),
            (format!("ASIA{}", "IOSFODNN7EXAMPLE"), "AWS access key id"),
            (format!("AIza{}", &mixed[..35]), "Google API key"),
            (format!("sk_live_{}", &mixed[..24]), "Stripe key"),
            (format!("rk_live_{}", &mixed[..24]), "Stripe key"),
            (format!("pk_live_{}", &mixed[..24]), "Stripe key"),
            (format!("npm_{}", &mixed[..36]), "npm token"),
            (format!("pypi-{}{mixed}", "AgEIcHlwaS5vcmc"), "PyPI token"),
            (format!("hf_{}", &mixed[..34]), "Hugging Face token"),
            (format!("glpat-{}", &mixed[..20]), "GitLab token"),
            (format!("gsk_{mixed}"), "Groq key"),
            (format!("lsv2_pt_{}_{}", &HEX[..32], &HEX[..10]), "LangSmith key"),
            (format!("tvly-dev-{}", &mixed[..32]), "Tavily key"),
            (format!("xai-{mixed}{mixed}"), "xAI key"),
            (format!("SG.{}.{mixed}", &mixed[..22]), "SendGrid key"),
            (format!("dckr_pat_{}", &mixed[..27]), "Docker token"),
            (format!("nvapi-{mixed}"), "NVIDIA key"),
            (format!("r8_{}", &mixed[..37]), "Replicate token"),
            (format!("eyJ{}.eyJ{}.{mixed}", "hbGciOiJIUzI1NiJ9", "zdWIiOiIxIn0"), "JWT"),
        ] {
            for (before, after) in [("", ""), ("key=", "\n"), ("(", ")"), ("Bearer ", ", yes")] {
                let redacted = redact(&format!("{before}{secret}{after}")).unwrap();
                assert_eq!(redacted.text, format!("{before}[redacted: {name}]{after}"), "{secret}");
                assert_eq!(redacted.masked, [name]);
            }
            assert!(redact(&format!("x{secret}")).is_none(), "{secret}: a word boundary is required");
        }
    }

    #[test]
    fn bearer_tokens() {
        for (text, expected) in [
            ("Authorization: Bearer abcdefghij0123456789", "Authorization: Bearer [redacted: bearer token]"),
            ("bearer\t 550e8400-e29b-41d4-a716-446655440000.", "bearer\t [redacted: bearer token]."),
            ("BEARER aB3./+~=aB3./+~=aB3./+~=", "BEARER [redacted: bearer token]"),
            ("Bearer ca_0123456789abcdef", "Bearer [redacted: agent key]"),
            ("Bearer eyJhbGciOi...", "Bearer eyJhbGciOi..."),
            ("the bearer authentication/authorization.2", "the bearer authentication/authorization.2"),
            ("Bearer abcdefghij012345678", "Bearer abcdefghij012345678"),
            ("forbearer abcdefghij0123456789", "forbearer abcdefghij0123456789"),
            ("Bearer, abcdefghij0123456789", "Bearer, abcdefghij0123456789"),
        ] {
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn private_keys() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        for label in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
            let (begin, end) =
                (format!("-----BEGIN {label}PRIVATE KEY-----"), format!("-----END {label}PRIVATE KEY-----"));
            for text in [
                format!("{begin}\n{line}\n{line}\nx==\n{end}"),
                format!("{begin}\\n{line}\\n{end}"),
                format!("{begin}\nProc-Type: 4,ENCRYPTED\n\n{line}\n{end}"),
                format!("{begin}\r\n{line}\r\n{line}"),
                format!("{begin}\\n{line}"),
            ] {
                assert_eq!(masked(&format!("a{text} b")), "a[redacted: private key] b");
            }
        }
        let pgp = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQdGBF\n-----END PGP PRIVATE KEY BLOCK-----\n";
        assert_eq!(masked(pgp), "[redacted: private key]\n");
        for public in [
            "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOC\n-----END PUBLIC KEY-----",
            "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOC\n-----END CERTIFICATE-----",
            "it begins with -----BEGIN PRIVATE KEY----- and is long",
        ] {
            assert_eq!(redact(public), None, "{public}");
        }
    }

    #[test]
    fn several() {
        let text = "a ca_0123456789abcdef b sk_0123456789abcdef c ca_fedcba9876543210";
        let redacted = redact(text).unwrap();
        assert_eq!(
            redacted.text,
            "a [redacted: agent key] b [redacted: connection string] c [redacted: agent key]"
        );
        assert_eq!(redacted.masked, ["agent key", "connection string"]);
    }

    #[test]
    fn what_is_left_alone() {
        for text in [
            "",
            "Ordinary prose, with a bearer of good news and a task-list: sk-learn, ask_about_something_else.",
            "The weather in Oslo is 3°C and cloudy. 下午一起喝杯咖啡?",
            "550e8400-e29b-41d4-a716-446655440000 a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b fixes it",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "https://example.com/a/b?c=d&e=0123456789abcdef#sk_x",
            "https://service.example.com/channels/ch_abc123/inbox/tok_xyz789",
            "POST /inbox/sk_your_secret or /inbox/sk_{secret}",
            "evt_a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f ch_a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f msg_01HX",
            "ca_certificates_bundle_path = co_routine_of_some_kind(es_modules_interop_flag, tok_next_in_line)",
            "sk-learn-contrib-lightning and sk-something-quite-long-indeed",
            "pypi-simple-index-mirror-package-server-2 npm_config_user_agent npm_package_json_version_and_more",
            "ca_1 co_… sk_… whsec_ AKIA ASIAN AIza eyJhbGciOiJIUzI1NiJ9 ghp_short xoxb-",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
            "[redacted: agent key] and [redacted: bearer token]",
        ] {
            assert_eq!(redact(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_texts_take_no_longer_than_others() {
        for piece in [
            "sk-",
            "sk_",
            "-sk_",
            "xoxb-",
            "eyJ-",
            "eyJaaaaaaaa-eyJ.",
            "eyJaaaaaaaa.",
            "Bearer ",
            "bearer\t\t",
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\n-----END CERTIFICATE-----\n",
            "/inbox/sk_",
            "-----END PRIVATE KEY-----",
            "ghp_a-",
            " ",
            "a ",
            "-",
        ] {
            let text = piece.repeat(100_000 / piece.len());
            assert_eq!(redact(&text), None, "{piece}");
        }
    }

    /// Generates texts rich in prefixes, separators and random words.
    fn texts() -> impl Strategy<Value = String> {
        let prefixes: Vec<&str> =
            own().chain(PROVIDERS).flat_map(|form| form.prefixes.iter().copied()).collect();
        let piece = prop_oneof![
            4 => proptest::sample::select(prefixes).prop_map(str::to_owned),
            2 => "[A-Z0-9]{16}",
            4 => "[A-Za-z0-9]{1,24}",
            4 => proptest::sample::select(vec![
                " ", "-", "_", ".", ".eyJ", "/", "/inbox/", "\n", "Bearer ", "x", "é", "]", "=",
                "PRIVATE KEY-----", "-----END ", "\\n", "[redacted: JWT]", "0",
            ]).prop_map(str::to_owned),
        ];
        proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_second_time_changes_nothing(text in texts()) {
            if let Some(redacted) = redact(&text) {
                prop_assert!(!redacted.masked.is_empty());
                prop_assert_eq!(redact(&redacted.text), None);
            }
        }

        #[test]
        fn any_text(text: String) {
            redact(&text);
        }

        #[test]
        fn a_secret_never_stays(before in "[ -~]{0,20}[ .:/(]", secret in "[0-9a-f]{32}", after in "[ ,)\n][ -~]{0,20}") {
            let text = format!("{before}ca_{secret}{after}");
            prop_assert!(!masked(&text).contains(&secret));
        }
    }
}
