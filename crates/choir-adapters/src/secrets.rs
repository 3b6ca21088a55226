//! Credentials that a trace itself names by its members. Their values are not copied; if one also occurs in
//! another text, such as an error about a key, it is masked there, whatever its form.

/// The replacement for a credential.
pub(super) const MASKED: &str = "[redacted]";

/// The maximum number of credentials that are remembered.
const MOST: usize = 64;
/// The minimum length of a remembered credential, in bytes. Shorter ones occur in texts by chance.
const SHORTEST: usize = 8;
/// The maximum length of a credential, in bytes. Longer values are certificates and the like.
pub(super) const LONGEST: usize = 512;

/// The credentials seen in a trace.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    seen: bool,
    texts: Vec<String>,
}

impl Secrets {
    /// Notes the value of a member whose name denotes a credential.
    pub(super) fn note(&mut self, value: &[u8]) {
        // The value is masked already or a placeholder.
        if value.len() <= 3 || value.iter().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X')) {
            return;
        }
        self.seen = true;
        let Ok(text) = std::str::from_utf8(value) else { return };
        // The word before the credential is a scheme, as in `Bearer …`.
        let text = text.rsplit(' ').next().unwrap_or(text);
        let is_new = !self.texts.iter().any(|known| known == text);
        if is_new && self.texts.len() < MOST && text.len() >= SHORTEST {
            self.texts.push(text.to_owned());
        }
    }

    /// Returns `true` if there are any.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Masks the credentials in a text.
    pub(super) fn mask(&self, text: &mut String) {
        for secret in &self.texts {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), MASKED);
            }
        }
    }
}
