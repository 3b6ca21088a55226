//! Credentials that a trace itself calls so, by the names of its members. Their values are read nowhere; and where one stands
//! in another text as well, as in what an error says of a key, it is masked there, whatever it looks like.

/// What stands where a credential was.
pub(super) const MASKED: &str = "[redacted]";

/// So many are known by their values; that there are more is known of all.
const MOST: usize = 64;
/// What is shorter stands in too many texts by chance.
const SHORTEST: usize = 8;
/// Longer values are no keys, but certificates and the like.
pub(super) const LONGEST: usize = 512;

/// What was seen of them.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    seen: bool,
    texts: Vec<String>,
}

impl Secrets {
    /// The value of a member whose name promises a credential.
    pub(super) fn note(&mut self, value: &[u8]) {
        // Masked by whoever wrote it, or a placeholder.
        if value.len() <= 3 || value.iter().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X')) {
            return;
        }
        self.seen = true;
        let Ok(text) = std::str::from_utf8(value) else { return };
        // The word before it is a scheme's: `Bearer …`.
        let text = text.rsplit(' ').next().unwrap_or(text);
        let is_new = !self.texts.iter().any(|known| known == text);
        if is_new && self.texts.len() < MOST && text.len() >= SHORTEST {
            self.texts.push(text.to_owned());
        }
    }

    /// Whether there are any.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Masks them in a text that is copied.
    pub(super) fn mask(&self, text: &mut String) {
        for secret in &self.texts {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), MASKED);
            }
        }
    }
}
