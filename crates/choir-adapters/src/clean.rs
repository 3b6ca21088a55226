//! Rules for copying texts of a trace: names and short explanations are copied without credentials. Contents
//! are not, neither arguments nor passages nor messages, however short their field's name makes them look.

use super::node::Node;
use super::secrets::MASKED;

/// The longest explanation, in characters. Longer texts are contents, whatever their field is called.
const LONGEST_EXPLANATION: usize = 300;
const LONGEST_NAME: usize = 200;
/// The longest name of a voice, in characters. Task descriptions are longer.
const LONGEST_VOICE: usize = 100;
/// The longest label of a span or an event, in bytes.
const LONGEST_LABEL: usize = 64;
/// The maximum number of words in a title. Passages have more.
const LONGEST_TITLE: usize = 12;

/// Returns a short explanation: one line of prose without data.
pub(super) fn explanation(node: &Node) -> Option<&str> {
    let Node::Text(text) = node else { return None };
    let said = node.text()?.trim();
    let short = text.whole && said.chars().count() <= LONGEST_EXPLANATION;
    (short && is_line(said)).then_some(said)
}

/// Returns a name from a field for names: a URL, a path, an id or a title.
pub(super) fn name(node: &Node) -> Option<&str> {
    let Node::Text(text) = node else { return None };
    let said = node.text()?.trim();
    (text.whole && said.chars().count() <= LONGEST_NAME && is_line(said)).then_some(said)
}

/// Returns a name from a field that may also hold a passage, such as a list of sources. Only texts that cannot
/// be a sentence are accepted: a URL, a file or an id. A passage is never a name, however short it is.
pub(super) fn identifier(node: &Node) -> Option<&str> {
    let said = name(node)?;
    if said.contains("://") {
        return (!said.contains(char::is_whitespace)).then_some(said);
    }
    let digit = said.contains(|sign: char| sign.is_ascii_digit());
    let mark = said.contains('_') || said.starts_with('/') || said.matches('/').count() > 1;
    let letter = said.contains(|sign: char| sign.is_ascii_alphabetic());
    let is_file = said.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty()
            && (1..=5).contains(&end.len())
            && end.chars().all(|sign| sign.is_ascii_alphanumeric())
    });
    (is_code(said) && letter && (digit || mark || is_file)).then_some(said)
}

/// Returns the label of something that may be called by any text: its first word, if that looks like an
/// identifier of a program.
pub(super) fn label(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let first = words.next().filter(|word| word.len() <= LONGEST_LABEL && is_code(word))?;
    let is_alone = words.next().is_none();
    // Accepted are "GET /x", "chat gpt" and "execute_tool look"; a person's name begins with a single capital.
    let small = first.starts_with(|sign: char| sign.is_ascii_lowercase());
    let large = first.len() > 1 && !first.contains(|sign: char| sign.is_ascii_lowercase());
    (is_alone || small || large).then_some(first)
}

/// Returns `true` for letters, digits and the separators that programs use.
fn is_code(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-' | '.' | ':' | '/' | '#'))
}

/// Returns a title from a field for names. A sentence is not a title.
pub(super) fn title(node: &Node) -> Option<&str> {
    let said = name(node)?;
    let words = said.split_whitespace().count();
    let is_sentence = words > 1 && said.ends_with(['.', '!', '?', ':', ';']);
    (words <= LONGEST_TITLE && !is_sentence).then_some(said)
}

/// Returns `true` if a text can be the name of a voice. CrewAI uses the whole description as the name of an
/// unnamed task.
pub(super) fn is_voice(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().count() <= LONGEST_VOICE && is_line(text)
}

/// Returns `true` for a single line that is neither JSON nor Python.
fn is_line(text: &str) -> bool {
    !text.contains(['\n', '\r']) && !text.starts_with(['{', '[', '('])
}

/// Removes credentials that have no recognisable form: URLs lose user names, passwords, queries with a token
/// or signature, and secret paths; a value named as a key or password is masked, and so is a text that can
/// only be one. Returns `None` if nothing was removed.
pub(super) fn without_credentials(text: &str) -> Option<String> {
    let (mut words, mut told) = (Vec::new(), false);
    for word in text.split(' ') {
        let is_said = std::mem::take(&mut told) && word.len() >= 4;
        told = word.strip_suffix(':').is_some_and(is_secret_name);
        words.push(if is_said || is_aws_secret(word) {
            MASKED.to_owned()
        } else if word.contains("://") {
            address(word)
        } else {
            assigned(word)
        });
    }
    let clean = words.join(" ");
    (clean != text).then_some(clean)
}

/// Masks the values of assignments such as `api_key=…;` and `AccountKey=…`.
fn assigned(word: &str) -> String {
    let parts = word.split_inclusive([';', '&', ',']).map(|part| match part.split_once('=') {
        Some((name, value)) if value.len() >= 4 && is_secret_name(name) => {
            let end = part.chars().last().filter(|sign| matches!(sign, ';' | '&' | ','));
            format!("{name}={MASKED}{}", end.map(String::from).unwrap_or_default())
        }
        _ => part.to_owned(),
    });
    parts.collect()
}

/// Returns `true` if a name denotes a credential.
fn is_secret_name(name: &str) -> bool {
    const BEGINNINGS: [&str; 7] = ["token", "secret", "passw", "credential", "signature", "apikey", "pwd"];
    let is_one = |token: &String| {
        BEGINNINGS.iter().any(|word| token.starts_with(word))
            || matches!(token.as_str(), "key" | "sig" | "auth" | "jwt")
    };
    tokens(name).iter().any(is_one)
}

/// Returns `true` for the secret half of an AWS key, which is recognisable only by its length and its mix of
/// characters.
fn is_aws_secret(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'', '(', ')', ',', ';', '.', ':']);
    let count = |such: fn(&u8) -> bool| word.bytes().filter(such).count();
    word.len() == 40
        && word.bytes().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, b'/' | b'+'))
        && count(u8::is_ascii_uppercase) >= 6
        && count(u8::is_ascii_lowercase) >= 6
        && count(u8::is_ascii_digit) >= 1
}

fn address(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    // Anyone who knows the URL of such a webhook can post to it.
    if host == "hooks.slack.com" || path.starts_with("/api/webhooks/") {
        return format!("{scheme}://{host}/{MASKED}");
    }
    let (place, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
    let telling = query
        .split(['?', '&', '#'])
        .filter_map(|pair| pair.split_once('='))
        .any(|(name, _)| is_secret_name(name) || name.eq_ignore_ascii_case("code"));
    format!("{scheme}://{host}{place}{}", if telling { "" } else { query })
}

/// Splits a name into lower-case words, at non-letters and at capitals.
pub(super) fn tokens(name: &str) -> Vec<String> {
    let mut tokens = vec![String::new()];
    let signs: Vec<char> = name.chars().take(300).collect();
    for (index, sign) in signs.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| signs[before]);
        let after = signs.get(index + 1);
        // A word begins in `HandOff` at each capital, and in `RAGSearch` at the last one.
        let begins = sign.is_uppercase()
            && (before.is_some_and(char::is_lowercase)
                || (before.is_some_and(char::is_uppercase)
                    && after.is_some_and(|after| after.is_lowercase())));
        if begins || !sign.is_alphabetic() {
            tokens.push(String::new());
        }
        if let (true, Some(token)) = (sign.is_alphabetic(), tokens.last_mut()) {
            token.extend(sign.to_lowercase());
        }
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

/// Returns `true` for a text that states an absence: "None", "no", "n/a", "No objections."
pub(super) fn is_nothing(text: &str) -> bool {
    const FIRST: [&str; 9] = ["no", "none", "n", "na", "nil", "null", "nothing", "false", "not"];
    const REST: [&str; 24] = [
        "a",
        "any",
        "applicable",
        "objection",
        "objections",
        "dissent",
        "dissents",
        "disagreement",
        "disagreements",
        "refusal",
        "issue",
        "issues",
        "concern",
        "concerns",
        "problem",
        "problems",
        "found",
        "noted",
        "raised",
        "at",
        "all",
        "to",
        "report",
        "needed",
    ];
    let tokens = tokens(text);
    let Some((first, rest)) = tokens.split_first() else { return true };
    FIRST.contains(&first.as_str()) && rest.iter().all(|token| REST.contains(&token.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Text;

    fn text(text: &str) -> Node {
        Node::Text(Text { text: text.into(), whole: true })
    }

    #[test]
    fn nothing_in_many_words() {
        for nothing in [
            "",
            " ",
            "-",
            "None",
            "none.",
            "NO",
            "n/a",
            "N/A",
            "nil",
            "No objections",
            "not applicable",
            "false",
        ] {
            assert!(is_nothing(nothing), "{nothing}");
        }
        for said in
            ["No tests", "not enough evidence", "yes", "a", "all of it", "None of the sources is dated"]
        {
            assert!(!is_nothing(said), "{said}");
        }
    }

    #[test]
    fn addresses_lose_what_lets_somebody_in() {
        for (address, clean) in [
            ("https://u:p@h/x", Some("https://h/x")),
            ("1-2@https://h/x?X-Amz-Signature=ab&y=1", Some("1-2@https://h/x")),
            ("see https://h/x?access_token=1 there", Some("see https://h/x there")),
            ("https://h/#key=1", Some("https://h/")),
            ("https://h/cb?code=4/0AX4XfWh&state=1", Some("https://h/cb")),
            ("https://hooks.slack.com/services/T0/B0/abc", Some("https://hooks.slack.com/[redacted]")),
            ("the api_key=abcdef12 was in it", Some("the api_key=[redacted] was in it")),
            ("AccountName=a;AccountKey=abc+/12==;x=1", Some("AccountName=a;AccountKey=[redacted];x=1")),
            ("its password: hunter2 is known", Some("its password: [redacted] is known")),
            ("(wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY9)", None),
            ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK99", Some("[redacted]")),
            ("3f786850e387550fdab836ed7e6dc881de23001b", None),
            ("secret:rotate", None),
            ("rate=0.5;page=2", None),
            ("https://h/x?page=2#part", None),
            ("https://h/a@b", None),
            ("no address: user@host", None),
        ] {
            assert_eq!(without_credentials(address).as_deref(), clean, "{address}");
        }
    }

    #[test]
    fn names_titles_and_contents() {
        for (said, is_title) in [
            ("handbook.pdf", true),
            ("https://h/x", true),
            ("Handbook, page 4", true),
            ("Customers may return what they bought within thirty days.", false),
            ("one two three four five six seven eight nine ten eleven twelve thirteen", false),
            ("{'title': 'B'}", false),
            ("a\nb", false),
        ] {
            assert_eq!(title(&text(said)).is_some(), is_title, "{said}");
        }
        for (said, is_one) in [
            ("handbook.pdf", true),
            ("/policies/returns", true),
            ("HIV/AIDS", false),
            ("https://h/x", true),
            ("doc_7", true),
            ("Patient Jane Doe is HIV positive", false),
            ("HIV-positive", false),
            ("Jane", false),
            ("jane@example.org", false),
            ("+49-170-1234567", false),
            ("see https://h/x there", false),
        ] {
            assert_eq!(identifier(&text(said)).is_some(), is_one, "{said}");
        }
        for (said, kept) in [
            ("ChatOpenAI.chat", Some("ChatOpenAI.chat")),
            ("GET /patients/jane", Some("GET")),
            ("execute_task triage", Some("execute_task")),
            ("Jane Doe is HIV positive", None),
            ("jane@example.org", None),
            ("", None),
        ] {
            assert_eq!(label(said), kept, "{said}");
        }
        assert_eq!(explanation(&text(&"x ".repeat(151))), None);
        assert_eq!(explanation(&text("Args: {\n \"a\": 1}")), None);
        assert_eq!(explanation(&text(" too much ")), Some("too much"));
        assert!(is_voice("Senior Writer") && !is_voice(&"Write about it. ".repeat(9)) && !is_voice("a\nb"));
    }
}
