//! Comparison of names without regard to case, Unicode composition and surrounding whitespace.
//!
//! It is used for matching only. Hashed and displayed names keep their original bytes.

use chorus_protocol::choir::score::{Score, Voice};
use chorus_protocol::faults::Faults;
use std::collections::HashMap;
use unicode_normalization::UnicodeNormalization as _;

/// Returns the key that all spellings of a name share.
pub fn key(name: &str) -> String {
    // Converting to upper and then to lower case folds letters with several lower-case forms, such as ß and
    // final sigma.
    let folded = name.trim().nfc().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.collect::<String>().nfc().collect()
}

/// Returns `true` if two names are equal by their keys.
pub fn same(one: &str, other: &str) -> bool {
    one == other || key(one) == key(other)
}

/// The voices of a Score, indexed by name and alias.
pub struct Voices<'s> {
    all: &'s [Voice],
    by_key: HashMap<String, usize>,
}

impl<'s> Voices<'s> {
    /// Indexes the voices. If two claim one name the first has it; [`check`] rejects such a Score.
    pub fn of(voices: &'s [Voice]) -> Self {
        let mut by_key = HashMap::new();
        for (index, voice) in voices.iter().enumerate() {
            for name in std::iter::once(&voice.name).chain(&voice.aliases) {
                by_key.entry(key(name)).or_insert(index);
            }
        }
        Self { all: voices, by_key }
    }

    /// Returns the voice with this name or alias.
    pub fn find(&self, name: &str) -> Option<&'s Voice> {
        self.place(name).map(|index| &self.all[index])
    }

    /// Returns the index of a voice in the Score.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.by_key.get(&key(name)).copied()
    }

    /// Returns the declared name of a voice, or the given name if there is none.
    pub fn spelled(&self, name: &str) -> String {
        self.find(name).map_or_else(|| name.trim().to_owned(), |voice| voice.name.0.clone())
    }
}

/// Checks a Score for duplicate names and ids, and for pairs that do not name two voices.
pub fn check(score: &Score) -> Result<(), Faults> {
    let mut faults = Faults::new();
    let mut taken = HashMap::new();
    for (index, voice) in score.voices.iter().enumerate() {
        let names = std::iter::once((format!("voices[{index}].name"), &voice.name)).chain(
            voice
                .aliases
                .iter()
                .enumerate()
                .map(|(at, name)| (format!("voices[{index}].aliases[{at}]"), name)),
        );
        for (path, name) in names {
            match taken.insert(key(name), index) {
                Some(other) if other != index => {
                    let other_name = &*score.voices[other].name;
                    faults.add(&path, format_args!("{} is {other_name} already", name.0));
                }
                _ => {}
            }
        }
    }
    let mut ids = HashMap::new();
    for (index, scenario) in score.scenarios.iter().enumerate() {
        if let Some(other) = ids.insert(key(&scenario.id), index) {
            faults.add(
                &format!("scenarios[{index}].id"),
                format_args!("scenarios[{other}] has this id already"),
            );
        }
    }
    for (index, pair) in score.conflicting_mandates.iter().enumerate() {
        if pair.len() != 2 || same(&pair[0], &pair[1]) {
            faults.add(&format!("conflicting_mandates[{index}]"), "must name two different voices");
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name() {
        for (one, other) in [
            ("Policy Voice", " policy voice"),
            ("Büro", "BU\u{308}RO"),
            ("Straße", "STRASSE"),
            ("ΟΔΟΣ", "οδος"),
        ] {
            assert!(same(one, other), "{one} {other}");
        }
        assert!(!same("Policy", "Polcy"));
    }
}
