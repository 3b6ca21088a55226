//! The part of JSON Schema that is checked: `type`, `properties`, `required`, `items`, `enum`, `const`, `minimum`, `maximum`,
//! `minLength`, `maxLength`, `pattern` and `additionalProperties`; `title`, `description` and `$schema` say nothing about data.

use super::simple::is_integer;
use super::{Check, MAX_DEPTH};
use chorus_protocol::faults::{Faults, kind};
use regex_lite::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How large a pattern may become when it is compiled: about a hundred states.
const PATTERN_BYTES: usize = 8 * 1024;
/// How many patterns a schema may have: each is compiled for each check.
const MOST_PATTERNS: usize = 32;
/// What a check costs: each value, and each character that is held against a pattern.
const STEPS_OF_VALUE: usize = 10;
const STEPS_OF_CHARACTER: usize = 100;

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

/// One schema.
#[derive(Debug, Default)]
pub struct Subset {
    types: Vec<&'static str>,
    properties: BTreeMap<String, Subset>,
    required: Vec<String>,
    items: Option<Box<Subset>>,
    words: Option<Vec<Value>>,
    constant: Option<Value>,
    /// How much there is to compare with.
    comparing: usize,
    range: (Option<f64>, Option<f64>),
    length: (Option<u64>, Option<u64>),
    pattern: Option<Regex>,
    additional: Additional,
}

/// What is said of members that are not named.
#[derive(Debug, Default)]
enum Additional {
    #[default]
    Allowed,
    Forbidden,
    Each(Box<Subset>),
}

impl Subset {
    /// Reads a whole schema.
    pub(super) fn read(declared: &Value, path: &str, faults: &mut Faults) -> Option<Self> {
        let schema = Self::read_part(declared, path, 0, faults)?;
        if schema.patterns() > MOST_PATTERNS {
            faults.add(path, format_args!("must have at most {MOST_PATTERNS} patterns"));
        }
        Some(schema)
    }

    fn patterns(&self) -> usize {
        let each = match &self.additional {
            Additional::Each(each) => Some(&**each),
            Additional::Allowed | Additional::Forbidden => None,
        };
        let parts = self.properties.values().chain(self.items.as_deref()).chain(each);
        usize::from(self.pattern.is_some()) + parts.map(Self::patterns).sum::<usize>()
    }

    fn read_part(declared: &Value, path: &str, depth: usize, faults: &mut Faults) -> Option<Self> {
        let Value::Object(members) = declared else {
            faults.add(path, format_args!("must be a schema, not {}", kind(declared)));
            return None;
        };
        if depth == MAX_DEPTH {
            faults.add(path, format_args!("must not be deeper than {MAX_DEPTH} schemas"));
            return None;
        }
        let mut schema = Self::default();
        for (keyword, value) in members {
            let at = format!("{path}.{keyword}");
            if let Err(wrong) = schema.keyword(keyword, value, &at, depth, faults) {
                faults.add(&at, wrong);
            }
        }
        Some(schema)
    }

    /// Takes one keyword, or says what it must be.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
        faults: &mut Faults,
    ) -> Result<(), &'static str> {
        let number = || value.as_f64().ok_or("must be a number");
        let size = || value.as_u64().ok_or("must be an integer of 0 or more");
        match keyword {
            "type" => self.types = types(value)?,
            "properties" => {
                let Value::Object(properties) = value else { return Err("must be an object") };
                for (name, declared) in properties {
                    let read = Self::read_part(declared, &format!("{path}.{name}"), depth + 1, faults);
                    self.properties.extend(read.map(|read| (name.clone(), read)));
                }
            }
            "required" => self.required = names(value).ok_or("must be an array of names")?,
            "items" => self.items = Self::read_part(value, path, depth + 1, faults).map(Box::new),
            "enum" => {
                self.words = Some(value.as_array().cloned().ok_or("must be an array")?);
                self.comparing += value.to_string().len();
            }
            "const" => {
                self.constant = Some(value.clone());
                self.comparing += value.to_string().len();
            }
            "minimum" => self.range.0 = Some(number()?),
            "maximum" => self.range.1 = Some(number()?),
            "minLength" => self.length.0 = Some(size()?),
            "maxLength" => self.length.1 = Some(size()?),
            "pattern" => self.pattern = Some(pattern(value)?),
            "additionalProperties" => {
                self.additional = match value {
                    Value::Bool(true) => Additional::Allowed,
                    Value::Bool(false) => Additional::Forbidden,
                    schema => Self::read_part(schema, path, depth + 1, faults)
                        .map_or(Additional::Allowed, |each| Additional::Each(Box::new(each))),
                }
            }
            "title" | "description" | "$schema" => drop(value.as_str().ok_or("must be a string")?),
            _ => return Err("is a keyword that this hub does not check; leave it out"),
        }
        Ok(())
    }

    pub(super) fn check(&self, data: &Value, path: &str, check: &mut Check) {
        if !check.spend(STEPS_OF_VALUE + self.comparing) {
            return;
        }
        if !self.types.is_empty() && !self.types.iter().any(|name| fits(name, data)) {
            let types = self.types.join(" or ");
            return check.faults.add(path, format_args!("must be {types}, not {}", kind(data)));
        }
        if self.words.as_ref().is_some_and(|words| !words.iter().any(|word| same(word, data))) {
            check.faults.add(path, "must be one of the values that the skill declares");
        }
        if self.constant.as_ref().is_some_and(|constant| !same(constant, data)) {
            check.faults.add(path, "must be the value that the skill declares");
        }
        match data {
            Value::String(text) => self.check_text(text, path, check),
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                if self.range.0.is_some_and(|least| number < least)
                    || self.range.1.is_some_and(|most| number > most)
                {
                    check.faults.add(path, format_args!("must be{}", span(self.range)));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.check(item, &format!("{path}[{index}]"), check);
                    }
                }
            }
            Value::Object(members) => self.check_members(members, path, check),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_text(&self, text: &str, path: &str, check: &mut Check) {
        let length = text.chars().count() as u64;
        if self.length.0.is_some_and(|least| length < least)
            || self.length.1.is_some_and(|most| length > most)
        {
            check.faults.add(path, format_args!("must be{} characters, not {length}", span(self.length)));
        }
        if let Some(pattern) = &self.pattern
            && check.spend(text.len().saturating_mul(STEPS_OF_CHARACTER))
            && !pattern.is_match(text)
        {
            check.faults.add(path, "must match the pattern that the skill declares");
        }
    }

    fn check_members(&self, members: &Map<String, Value>, path: &str, check: &mut Check) {
        for name in self.required.iter().filter(|name| !members.contains_key(*name)) {
            check.faults.add(&format!("{path}.{name}"), "is required");
        }
        for (name, value) in members {
            let path = format!("{path}.{name}");
            match (self.properties.get(name), &self.additional) {
                (Some(schema), _) => schema.check(value, &path, check),
                (None, Additional::Allowed) => {}
                (None, Additional::Forbidden) => check.faults.add(&path, "is not declared by the skill"),
                (None, Additional::Each(schema)) => schema.check(value, &path, check),
            }
        }
    }
}

fn types(value: &Value) -> Result<Vec<&'static str>, &'static str> {
    let names = match value {
        Value::String(name) => vec![&**name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let known: Vec<_> =
        names.iter().filter_map(|name| TYPES.into_iter().find(|known| known == name)).collect();
    let all = value.as_array().map_or(1, Vec::len);
    if known.is_empty() || known.len() != all {
        return Err("must be string, number, integer, boolean, array, object or null, or an array of these");
    }
    Ok(known)
}

fn names(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

fn pattern(value: &Value) -> Result<Regex, &'static str> {
    let text = value.as_str().ok_or("must be a string")?;
    let compiled = RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
    compiled.map_err(|_| "must be a regular expression without back-references, and not too large")
}

fn fits(name: &str, data: &Value) -> bool {
    match name {
        "string" => data.is_string(),
        "number" => data.is_number(),
        "integer" => is_integer(data),
        "boolean" => data.is_boolean(),
        "array" => data.is_array(),
        "object" => data.is_object(),
        _ => data.is_null(),
    }
}

/// Whether two values are the same to JSON Schema, to which `1` and `1.0` are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has =
                |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

/// ` 1 to 5`, ` at least 1`, ` at most 5`.
fn span<N: std::fmt::Display>((least, most): (Option<N>, Option<N>)) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!(" {least} to {most}"),
        (Some(least), None) => format!(" at least {least}"),
        (None, Some(most)) => format!(" at most {most}"),
        (None, None) => String::new(),
    }
}
