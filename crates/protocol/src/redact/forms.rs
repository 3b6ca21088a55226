//! The kinds of credentials and their patterns.

use crate::credentials::SecretKind;

/// The pattern of a kind of credential.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) prefixes: &'static [&'static str],
    pub(super) rest: Rest,
}

/// The pattern after the prefix. If it does not match at a place, it matches no part of that place either, so
/// the scan never looks twice and masking stays idempotent.
pub(super) enum Rest {
    /// The longest run of an alphabet, of a minimum length, that satisfies a test.
    Signs(fn(u8) -> bool, usize, fn(&[u8]) -> bool),
    /// A run in a URL after `/inbox/`, where even a short one is a secret. The number is the minimum length.
    Inbox(usize),
    /// A run after the word `Bearer`. The number is the minimum length.
    Bearer(usize),
    /// This exact number of upper-case letters and digits.
    Exactly(usize),
    /// Three parts of base64url, of which the second is JSON too.
    Jwt,
    /// A PEM key, from its first line to its last.
    Pem,
}

const fn form(name: &'static str, prefixes: &'static [&'static str], rest: Rest) -> Form {
    Form { name, prefixes, rest }
}

/// Returns the patterns of all credentials that the hub mints.
pub(super) fn own() -> impl Iterator<Item = Form> {
    let minted = SecretKind::all().map(|kind| {
        let alphabet = if kind == SecretKind::WebhookSecret { base64 } else { base64url };
        own_form(kind, Rest::Signs(alphabet, 16, is_random))
    });
    let in_urls = [SecretKind::CallbackToken, SecretKind::ConnectionString];
    minted.chain(in_urls.map(|kind| own_form(kind, Rest::Inbox(8))))
}

fn own_form(kind: SecretKind, rest: Rest) -> Form {
    let described = kind.description();
    form(described.name, std::slice::from_ref(&described.prefix), rest)
}

pub(super) const PROVIDERS: [Form; 22] = [
    form("Anthropic key", &["sk-ant-"], Rest::Signs(base64url, 16, is_random)),
    form("OpenAI key", &["sk-"], Rest::Signs(base64url, 20, is_random)),
    form("GitHub token", &["ghp_", "gho_", "ghs_", "ghu_", "ghr_"], Rest::Signs(alphanumeric, 20, any)),
    form("GitHub token", &["github_pat_"], Rest::Signs(base64url, 20, is_random)),
    form(
        "Slack token",
        &["xoxa-", "xoxb-", "xoxp-", "xoxo-", "xoxs-", "xoxr-"],
        Rest::Signs(base64url, 10, has_digit),
    ),
    form("AWS access key id", &["AKIA", "ASIA"], Rest::Exactly(16)),
    form("Google API key", &["AIza"], Rest::Signs(base64url, 35, any)),
    form(
        "Stripe key",
        &["sk_live_", "rk_live_", "pk_live_", "sk_test_", "rk_test_"],
        Rest::Signs(alphanumeric, 16, any),
    ),
    form("npm token", &["npm_"], Rest::Signs(alphanumeric, 30, any)),
    form("PyPI token", &["pypi-"], Rest::Signs(base64url, 32, is_random)),
    form("Hugging Face token", &["hf_"], Rest::Signs(alphanumeric, 20, is_random)),
    form("GitLab token", &["glpat-", "gldt-", "glrt-", "glptt-"], Rest::Signs(base64url, 16, is_random)),
    form("Groq key", &["gsk_"], Rest::Signs(alphanumeric, 20, is_random)),
    form("LangSmith key", &["lsv2_pt_", "lsv2_sk_"], Rest::Signs(base64url, 16, is_random)),
    form("Tavily key", &["tvly-"], Rest::Signs(base64url, 16, is_random)),
    form("xAI key", &["xai-"], Rest::Signs(alphanumeric, 20, is_random)),
    form("SendGrid key", &["SG."], Rest::Signs(base64url_and_dots, 40, is_random)),
    form("Docker token", &["dckr_pat_"], Rest::Signs(base64url, 16, is_random)),
    form("NVIDIA key", &["nvapi-"], Rest::Signs(base64url, 20, is_random)),
    form("Replicate token", &["r8_"], Rest::Signs(alphanumeric, 30, is_random)),
    form("JWT", &["eyJ"], Rest::Jwt),
    form("private key", &["-----BEGIN "], Rest::Pem),
];

pub(super) const GENERIC: [Form; 1] = [form("bearer token", &[""], Rest::Bearer(20))];

/// Returns `true` if a text ends with the word `Bearer` and whitespace.
pub(super) fn follows_bearer(text: &str) -> bool {
    if !text.ends_with([' ', '\t']) {
        return false;
    }
    let words = text.trim_end_matches([' ', '\t']).as_bytes();
    let (rest, word) = words.split_at(words.len().saturating_sub(6));
    word.eq_ignore_ascii_case(b"bearer") && !rest.last().copied().is_some_and(is_word)
}

/// Returns the length of a bearer token. Trailing dots belong to the sentence.
pub(super) fn bearer(bytes: &[u8], least: usize) -> Option<usize> {
    let length = run(bytes, |byte| base64(byte) || matches!(byte, b'.' | b'~'));
    let dots = bytes[..length].iter().rev().take_while(|byte| **byte == b'.').count();
    let token = &bytes[..length - dots];
    let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
    (token.len() >= least && (digits >= 4 || is_random(token))).then_some(token.len())
}

/// Returns the length of the rest of a JWT after `eyJ`.
pub(super) fn jwt(bytes: &[u8]) -> Option<usize> {
    let header = run(bytes, base64url);
    let payload = bytes[header..].strip_prefix(b".eyJ")?;
    let payload_length = run(payload, base64url);
    let signature = payload[payload_length..].strip_prefix(b".")?;
    let signature_length = run(signature, base64url);
    let good = header >= 8 && payload_length >= 4 && signature_length >= 16;
    good.then_some(header + 4 + payload_length + 1 + signature_length)
}

/// Returns the length of a private key's label with the dashes after it, which ends the first and the last
/// line.
pub(super) fn pem_label(text: &str) -> Option<usize> {
    let length =
        run(text.as_bytes(), |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ');
    let good = length <= 40 && text[..length].contains("PRIVATE KEY") && text[length..].starts_with("-----");
    good.then_some(length + 5)
}

/// Returns the end of a PEM key, including its last line.
pub(super) fn pem_end(text: &str, first_line: usize) -> Option<usize> {
    const END: &str = "-----END ";
    text[first_line..].match_indices(END).find_map(|(place, _)| {
        let label = first_line + place + END.len();
        pem_label(&text[label..]).map(|length| label + length)
    })
}

/// Returns the end of a PEM key without a last line: the end of its last full line, if it has any.
pub(super) fn pem_cut_off(text: &str, first_line: usize) -> Option<usize> {
    let (mut end, mut rest) = (None, &text[first_line..]);
    loop {
        // JSON and shells may write line ends as escape sequences.
        let line = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        if let Some(after) = line.strip_prefix("\\n").or_else(|| line.strip_prefix("\\r")) {
            rest = after;
            continue;
        }
        let length = run(line.as_bytes(), base64);
        if length < 16 {
            return end;
        }
        rest = &line[length..];
        end = Some(text.len() - rest.len());
    }
}

/// Returns `true` if a text looks random: letters of both cases with digits, or one long word that is not just
/// letters of one case.
fn is_random(bytes: &[u8]) -> bool {
    let long = |word: &[u8]| word.len() >= 16 && (has_digit(word) || has_both_cases(word));
    (has_digit(bytes) && has_both_cases(bytes)) || bytes.split(|byte| !byte.is_ascii_alphanumeric()).any(long)
}

fn has_both_cases(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_uppercase) && bytes.iter().any(u8::is_ascii_lowercase)
}

pub(super) fn has_digit(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_digit)
}

fn any(_: &[u8]) -> bool {
    true
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(super) fn base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn base64url_and_dots(byte: u8) -> bool {
    base64url(byte) || byte == b'.'
}

/// Accepts both alphabets of base64, with padding.
pub(super) fn base64(byte: u8) -> bool {
    base64url(byte) || matches!(byte, b'+' | b'/' | b'=')
}

/// Returns `true` for characters that a prefix may not follow. Non-ASCII characters are excluded, since some
/// scripts write no spaces.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Counts the leading bytes for which `such` is true.
pub(super) fn run(bytes: &[u8], such: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| such(**byte)).count()
}
