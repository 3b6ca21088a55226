//! Avatars. An agent has five bars derived from a hash of its id; a person has initials. They differ in shape
//! as well as colour.

use askama::filters::HtmlSafe;
use sha2::{Digest, Sha256};
use std::fmt;

/// The state of a member, as pages show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Working,
    Blocked,
    Failing,
    Idle,
    Offline,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Blocked => "blocked",
            Self::Failing => "failing",
            Self::Idle => "idle",
            Self::Offline => "offline",
        }
    }

    /// The name of the state as a heading above its members.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Working => "Working",
            Self::Blocked => "Blocked",
            Self::Failing => "Failing",
            Self::Idle => "Idle",
            Self::Offline => "Offline",
        }
    }

    /// Returns a shape that is unique to the state, so that colour alone carries no meaning.
    fn shape(self) -> &'static str {
        match self {
            Self::Working => {
                r#"<path class="arc" d="M6 1.2A4.8 4.8 0 1 1 1.2 6" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round"/>"#
            }
            Self::Blocked => r#"<path d="M6 1 11.5 11H.5Z" fill="currentColor"/>"#,
            Self::Failing => {
                r#"<rect x="1" y="1" width="10" height="10" rx="2" fill="currentColor"/><path d="m4 4 4 4m0-4-4 4" stroke="white" stroke-width="1.4"/>"#
            }
            Self::Idle => r#"<circle cx="6" cy="6" r="4.6" fill="currentColor"/>"#,
            Self::Offline => {
                r#"<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.8"/>"#
            }
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, shape) = (self.word(), self.shape());
        write!(
            f,
            r#"<svg class="is-{word}" viewBox="0 0 12 12" width="12" height="12" role="img" aria-label="{word}">{shape}</svg>"#
        )
    }
}
impl HtmlSafe for State {}

/// The avatar of an agent or a person.
#[derive(Debug, Clone)]
pub(crate) struct Face {
    hue: u8,
    /// The heights of an agent's bars, or a person's initials.
    look: Look,
    size: &'static str,
    state: Option<State>,
}

#[derive(Debug, Clone)]
enum Look {
    Bars([u8; 5]),
    Initials(String),
}

impl Face {
    /// Returns the avatar of an agent, derived from its id.
    pub(crate) fn agent(id: &str) -> Self {
        let hash = Sha256::digest(id);
        let bars = [0, 1, 2, 3, 4].map(|n| 4 + hash[n] % 11);
        Self { hue: hash[8] % 8, look: Look::Bars(bars), size: "", state: None }
    }

    pub(crate) fn person(id: &str, name: &str) -> Self {
        let hash = Sha256::digest(id);
        Self { hue: hash[8] % 8, look: Look::Initials(initials(name)), size: "", state: None }
    }

    pub(crate) fn of(is_agent: bool, id: &str, name: &str) -> Self {
        if is_agent { Self::agent(id) } else { Self::person(id, name) }
    }

    pub(crate) fn small(mut self) -> Self {
        self.size = " s";
        self
    }

    pub(crate) fn medium(mut self) -> Self {
        self.size = " m";
        self
    }

    pub(crate) fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }
}

/// Returns the first letters of the first and the last word. Only letters and digits pass, so the result needs
/// no escaping.
fn initials(name: &str) -> String {
    let mut words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next().and_then(|word| word.chars().next());
    let last = words.next_back().and_then(|word| word.chars().next());
    first.into_iter().chain(last).flat_map(char::to_uppercase).filter(|c| c.is_alphanumeric()).collect()
}

impl fmt::Display for Face {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self.look, Look::Bars(_)) { "agent" } else { "person" };
        write!(f, r#"<span class="face {kind} hue{}{}" aria-hidden="true">"#, self.hue, self.size)?;
        match &self.look {
            Look::Bars(bars) => {
                f.write_str(r#"<svg viewBox="0 0 20 20" fill="currentColor">"#)?;
                for (n, height) in bars.iter().enumerate() {
                    let (x, y) = (n * 4 + 1, f64::from(20 - height) / 2.0);
                    write!(f, r#"<rect x="{x}" y="{y}" width="2" height="{height}" rx="1"/>"#)?;
                }
                f.write_str("</svg>")?;
            }
            Look::Initials(initials) => f.write_str(initials)?,
        }
        if let Some(state) = self.state {
            write!(f, r#"<span class="state">{state}</span>"#)?;
        }
        f.write_str("</span>")
    }
}
impl HtmlSafe for Face {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initials_are_letters_and_nothing_else() {
        assert_eq!(initials("Mara Lind"), "ML");
        assert_eq!(initials("<script>"), "S");
        assert_eq!(initials("\"&'"), "");
        assert_eq!(initials("łukasz von der Ärzte"), "ŁÄ");
    }

    #[test]
    fn a_voice_stays_the_same() {
        let face = Face::agent("0190a3c4").to_string();
        assert_eq!(face, Face::agent("0190a3c4").to_string());
        assert_ne!(face, Face::agent("0190a3c5").to_string());
        assert_eq!(face.matches("<rect").count(), 5);
    }
}
