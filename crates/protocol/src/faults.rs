//! Validation that reports every fault at once, as `path: description`, joined by `; `.
//!
//! [`Fields`] reads the members of one JSON object and notes missing members and wrong types. A validator is a
//! list of reads followed by one check of the [`Faults`].

use serde_json::{Map, Value};
use std::fmt;

/// The maximum number of faults listed in a message; further faults are only counted, so that a response stays
/// small.
const MAX_LISTED: usize = 20;

/// The faults of an input. An empty list means that the input is valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    listed: Vec<String>,
    more: usize,
}

impl Faults {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a list with one fault.
    pub fn one(path: &str, what: impl fmt::Display) -> Self {
        let mut faults = Self::new();
        faults.add(path, what);
        faults
    }

    /// Adds a fault of the value at `path`.
    pub fn add(&mut self, path: &str, what: impl fmt::Display) {
        if self.listed.len() < MAX_LISTED {
            self.listed.push(format!("{path}: {what}"));
        } else {
            self.more += 1;
        }
    }

    /// Adds the faults of another list.
    pub fn extend(&mut self, found: Self) {
        let room = MAX_LISTED.saturating_sub(self.listed.len());
        self.more += found.more + found.listed.len().saturating_sub(room);
        self.listed.extend(found.listed.into_iter().take(room));
    }

    /// Returns `true` if the value at exactly this path has a fault.
    pub fn is_about(&self, path: &str) -> bool {
        self.listed.iter().any(|fault| fault.strip_prefix(path).is_some_and(|rest| rest.starts_with(": ")))
    }

    /// Returns `true` if there is no fault.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.listed.join("; "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for Faults {}

/// A reader of the members of one JSON object that notes every fault.
///
/// `null` counts as absent, as most JSON writers intend.
pub struct Fields<'v, 'f> {
    map: &'v Map<String, Value>,
    /// The prefix of every path noted here: empty, or ending with a dot.
    prefix: String,
    faults: &'f mut Faults,
}

impl<'v, 'f> Fields<'v, 'f> {
    /// Reads `value` as an object, or notes a fault. `path` is empty for the body itself.
    pub fn of(value: &'v Value, path: &str, faults: &'f mut Faults) -> Option<Self> {
        let Value::Object(map) = value else {
            let (path, found) = (if path.is_empty() { "body" } else { path }, kind(value));
            faults.add(path, format_args!("must be an object, not {found}"));
            return None;
        };
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        Some(Self { map, prefix, faults })
    }

    /// Returns a member that is present and not `null`.
    pub fn get(&self, name: &str) -> Option<&'v Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Adds a fault of the member `name`.
    pub fn fault(&mut self, name: &str, what: impl fmt::Display) {
        self.faults.add(&format!("{}{name}", self.prefix), what);
    }

    /// Returns the path of a member, for validators of nested values.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns the list of faults, for validators of nested values.
    pub fn faults(&mut self) -> &mut Faults {
        self.faults
    }

    /// Reads a member, or notes a fault if it is absent.
    pub fn required(&mut self, name: &str) -> Option<&'v Value> {
        let value = self.get(name);
        if value.is_none() {
            self.fault(name, "is required");
        }
        value
    }

    /// Reads an optional text.
    pub fn optional_text(&mut self, name: &str) -> Option<&'v str> {
        let value = self.get(name)?;
        if value.as_str().is_none() {
            self.fault(name, format_args!("must be a string, not {}", kind(value)));
        }
        value.as_str()
    }

    /// Reads a required text.
    pub fn required_text(&mut self, name: &str) -> Option<&'v str> {
        self.required(name)?;
        self.optional_text(name)
    }

    /// Notes a fault unless the text has `min` to `max` Unicode code points.
    pub fn check_length(&mut self, name: &str, text: &str, min: usize, max: usize) {
        let length = text.chars().count();
        if !(min..=max).contains(&length) {
            self.fault(name, format_args!("must be {min} to {max} characters, not {length}"));
        }
    }

    /// Reads a boolean; `false` if absent.
    pub fn flag(&mut self, name: &str) -> bool {
        let Some(value) = self.get(name) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.fault(name, format_args!("must be true or false, not {}", kind(value)));
            false
        })
    }
}

/// Names the type of a JSON value, with its article.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_faults_at_once_with_paths() {
        let body = json!({"a": 1, "b": "", "d": "yes", "e": null});
        let mut faults = Faults::new();
        let mut fields = Fields::of(&body, "outer", &mut faults).unwrap();
        fields.required_text("a");
        let b = fields.required_text("b").unwrap();
        fields.check_length("b", b, 1, 3);
        fields.required_text("c");
        fields.flag("d");
        fields.required("e");
        assert_eq!(
            faults.to_string(),
            "outer.a: must be a string, not a number; outer.b: must be 1 to 3 characters, not 0; \
             outer.c: is required; outer.d: must be true or false, not a string; outer.e: is required"
        );
    }

    #[test]
    fn the_list_is_bounded() {
        let mut faults = Faults::new();
        for n in 0..100 {
            faults.add("x", n);
        }
        assert!(faults.to_string().ends_with("x: 19; and 80 more"));
    }

    #[test]
    fn lengths_are_code_points() {
        let body = json!({"t": "下午"});
        let mut faults = Faults::new();
        let mut fields = Fields::of(&body, "", &mut faults).unwrap();
        fields.check_length("t", "下午", 2, 2);
        assert!(faults.is_empty());
    }
}
