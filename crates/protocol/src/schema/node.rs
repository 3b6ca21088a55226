//! A compiled schema, and the one walk that checks a value against it.
//!
//! Bodies of the protocols and data of the market are compiled from different dialects; each dialect chooses
//! the words of its faults. A walk is bounded by a [`StepBudget`], because schema and value may come from
//! strangers.

use crate::faults::{Faults, kind};
use crate::ids::UUID_PATTERN;
use crate::json;
use crate::words::words;
use regex_lite::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The steps for checking one value.
const STEPS_OF_VALUE: usize = 10;
/// The steps for matching one character against a pattern.
const STEPS_OF_CHARACTER: usize = 100;

/// The number of steps left, each of a few nanoseconds.
#[derive(Debug)]
pub struct StepBudget(usize);

impl StepBudget {
    /// Creates a budget of this many steps.
    pub fn new(steps: usize) -> Self {
        Self(steps)
    }

    /// Returns a budget for values that the hub's own schemas bound.
    pub fn unlimited() -> Self {
        Self(usize::MAX)
    }

    /// Returns `true` if no steps are left.
    pub fn is_exhausted(&self) -> bool {
        self.0 == 0
    }

    /// Takes one of `shares` equal shares of the remaining steps, rounded up.
    pub fn take_share(&mut self, shares: usize) -> Self {
        let share = self.0.div_ceil(shares.max(1));
        self.0 -= share;
        Self(share)
    }

    /// Returns the unused steps of a share to the budget.
    pub fn put_back(&mut self, share: Self) {
        self.0 += share.0;
    }

    /// Takes steps. Returns `false` and exhausts the budget if there are not enough.
    pub fn spend(&mut self, steps: usize) -> bool {
        let enough = steps <= self.0;
        self.0 = if enough { self.0 - steps } else { 0 };
        enough
    }
}

/// The state of one walk: the faults found so far, and the steps left.
#[derive(Debug)]
pub struct SchemaCheck<'a> {
    pub faults: Faults,
    pub steps: &'a mut StepBudget,
    /// Set if a member that is `null` counts as absent.
    pub null_is_absent: bool,
}

impl SchemaCheck<'_> {
    fn add(&mut self, path: &str, what: &str) {
        self.faults.add(if path.is_empty() { "body" } else { path }, what);
    }
}

/// A compiled schema or subschema. Without any rule it allows everything.
#[derive(Debug, Default)]
pub struct SchemaNode {
    pub types: Vec<JsonType>,
    /// The words for the types that complete "must be …".
    pub expected: String,
    pub choices: Vec<Choices>,
    pub texts: Vec<TextRule>,
    pub range: Option<NumberRange>,
    /// The number of items.
    pub count: (Option<u64>, Option<u64>),
    pub items: Option<Box<SchemaNode>>,
    pub properties: BTreeMap<String, Property>,
    pub members: Members,
    /// The schemas of which exactly one must apply: the one whose required members are present.
    pub alternatives: Vec<SchemaNode>,
    /// A check that replaces all others but that of the type.
    pub rule: Option<ValueRule>,
}

/// A check that adds the faults of the value at a path.
pub type ValueRule = fn(&Value, &str, &mut Faults);

/// A named member.
#[derive(Debug)]
pub struct Property {
    pub required: bool,
    pub node: SchemaNode,
}

/// The values of which a value must be one.
#[derive(Debug)]
pub struct Choices {
    pub values: Vec<Value>,
    /// The steps of comparing with all of them.
    pub steps: usize,
    pub fault: String,
}

/// A rule of a text's length, its form, or first one and then the other.
#[derive(Debug, Default)]
pub struct TextRule {
    /// The number of characters.
    pub length: (Option<u64>, Option<u64>),
    /// `None` for a fault that gives the allowed length and the found one.
    pub length_fault: Option<String>,
    pub pattern: Option<TextPattern>,
    pub pattern_fault: String,
}

/// A regular expression.
#[derive(Debug)]
pub struct TextPattern {
    regex: Regex,
    /// Set for ids, which are frequent and faster to compare than to match.
    is_uuid: bool,
}

impl From<Regex> for TextPattern {
    fn from(regex: Regex) -> Self {
        let inner = regex.as_str().strip_prefix('^').and_then(|text| text.strip_suffix('$'));
        Self { is_uuid: inner == Some(UUID_PATTERN), regex }
    }
}

impl TextPattern {
    pub fn is_match(&self, text: &str) -> bool {
        if !self.is_uuid {
            return self.regex.is_match(text);
        }
        let fits = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        text.len() == 36 && text.bytes().enumerate().all(fits)
    }
}

/// The range of a number.
#[derive(Debug)]
pub struct NumberRange {
    /// Set if the number must be an integer, which `1.0` is too.
    pub whole: bool,
    pub bounds: (Option<f64>, Option<f64>),
    pub fault: String,
}

impl NumberRange {
    pub(super) fn allows(&self, value: &Value) -> bool {
        let is_below = |number: f64| self.bounds.0.is_some_and(|least| number < least);
        let is_above = |number: f64| self.bounds.1.is_some_and(|most| number > most);
        (!self.whole || json::whole(value).is_some())
            && !value.as_f64().is_some_and(|number| is_below(number) || is_above(number))
    }
}

/// The members of an object that are looked at.
#[derive(Debug, Default)]
pub enum Members {
    /// The named ones, in the order of their names.
    #[default]
    Named,
    /// The required ones, and then all that are there, in the order in which they are there.
    All { required: Vec<String>, additional: Additional },
}

/// The rule for members that are not named.
#[derive(Debug, Default)]
pub enum Additional {
    #[default]
    Allowed,
    /// Each is this fault.
    Forbidden(&'static str),
    Each(Box<SchemaNode>),
}

words! {
    /// A type of JSON values, as JSON Schema spells it.
    pub enum JsonType {
        String = "string",
        Number = "number",
        Integer = "integer",
        Boolean = "boolean",
        Array = "array",
        Object = "object",
        Null = "null",
    }
}

impl JsonType {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Integer => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
            Self::Null => value.is_null(),
        }
    }
}

impl SchemaNode {
    /// Adds the faults of the value at a path, which is empty for a whole body. Stops when the steps are used
    /// up.
    pub fn check(&self, value: &Value, path: &str, check: &mut SchemaCheck<'_>) {
        if !check.steps.spend(STEPS_OF_VALUE + self.choices.iter().map(|one| one.steps).sum::<usize>()) {
            return;
        }
        if !self.types.is_empty() && !self.types.iter().any(|one| one.fits(value)) {
            return check.add(path, &format!("must be {}, not {}", self.expected, kind(value)));
        }
        if let Some(rule) = self.rule {
            return rule(value, path, &mut check.faults);
        }
        if !self.alternatives.is_empty() {
            return match self.alternative(value) {
                Some(one) => one.check(value, path, check),
                None => check.add(path, &format!("must have either {}", self.required_names().join(" or "))),
            };
        }
        for choices in &self.choices {
            if !choices.values.iter().any(|one| is_same(one, value)) {
                check.add(path, &choices.fault);
            }
        }
        match value {
            Value::String(text) => self.check_text(text, path, check),
            Value::Number(_) => {
                if let Some(range) = self.range.as_ref().filter(|range| !range.allows(value)) {
                    check.add(path, &range.fault);
                }
            }
            Value::Array(items) => self.check_items(items, path, check),
            Value::Object(members) => self.check_members(members, path, check),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_text(&self, text: &str, path: &str, check: &mut SchemaCheck<'_>) {
        let length = text.chars().count() as u64;
        for rule in &self.texts {
            if !within(length, rule.length) {
                let counted = || format!("must be{} characters, not {length}", span(rule.length));
                check.add(path, &rule.length_fault.clone().unwrap_or_else(counted));
            } else if let Some(pattern) = &rule.pattern
                && check.steps.spend(text.len().saturating_mul(STEPS_OF_CHARACTER))
                && !pattern.is_match(text)
            {
                check.add(path, &rule.pattern_fault);
            }
        }
    }

    fn check_items(&self, items: &[Value], path: &str, check: &mut SchemaCheck<'_>) {
        if !within(items.len() as u64, self.count) {
            return check.add(path, &format!("must be {}, not of {}", self.expected, items.len()));
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(node) = &self.items {
                node.check(item, &format!("{path}[{index}]"), check);
            }
        }
    }

    fn check_members(&self, members: &Map<String, Value>, path: &str, check: &mut SchemaCheck<'_>) {
        match &self.members {
            Members::Named => {
                for (name, property) in &self.properties {
                    property.check(members.get(name), &join(path, name), check);
                }
            }
            Members::All { required, additional } => {
                for name in required.iter().filter(|name| !members.contains_key(*name)) {
                    check.add(&join(path, name), "is required");
                }
                for (name, value) in members {
                    let path = join(path, name);
                    match (self.properties.get(name), additional) {
                        (Some(property), _) => property.node.check(value, &path, check),
                        (None, Additional::Allowed) => {}
                        (None, Additional::Forbidden(fault)) => check.add(&path, fault),
                        (None, Additional::Each(node)) => node.check(value, &path, check),
                    }
                }
            }
        }
    }

    /// Returns the only alternative whose required members are present.
    fn alternative(&self, value: &Value) -> Option<&Self> {
        let mut fitting = self.alternatives.iter().filter(|one| one.has_required(value));
        fitting.next().filter(|_| fitting.next().is_none())
    }

    fn has_required(&self, value: &Value) -> bool {
        self.properties.iter().all(|(name, property)| !property.required || !value[name].is_null())
    }

    /// Returns the first required member of each alternative.
    fn required_names(&self) -> Vec<&str> {
        let first =
            self.alternatives.iter().filter_map(|one| one.properties.iter().find(|(_, it)| it.required));
        first.map(|(name, _)| &**name).collect()
    }

    /// Removes named members that are `null` and writes integers as integers, as `serde` reads them.
    pub(super) fn normalise(&self, value: &mut Value) {
        if self.rule.is_some() {
            return;
        }
        if let Some(one) = self.alternative(value) {
            return one.normalise(value);
        }
        match value {
            Value::Number(_) if self.range.as_ref().is_some_and(|range| range.whole) => {
                if let Some(whole) = json::whole(value) {
                    *value = whole.into();
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.items.iter().for_each(|node| node.normalise(item));
                }
            }
            Value::Object(members) => {
                for (name, property) in &self.properties {
                    match members.get_mut(name) {
                        Some(Value::Null) => drop(members.remove(name)),
                        Some(value) => property.node.normalise(value),
                        None => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Collects the paths of the members that are not named, at most `limit`.
    pub(super) fn find_unknown(&self, value: &Value, path: &str, limit: usize, found: &mut Vec<String>) {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(node) = &self.items {
                node.find_unknown(item, &format!("{path}[{index}]"), limit, found);
            }
        }
        // A schema without properties allows any member.
        for (name, value) in value.as_object().into_iter().flatten().filter(|_| !self.properties.is_empty()) {
            let path = join(path, name);
            match self.properties.get(name) {
                Some(property) => property.node.find_unknown(value, &path, limit, found),
                None if name.starts_with(['$', '_']) || name.starts_with("x-") => {}
                None if found.len() < limit => found.push(path),
                None => {}
            }
        }
    }
}

impl Property {
    /// Adds the faults of the member at a path.
    pub(super) fn check(&self, value: Option<&Value>, path: &str, check: &mut SchemaCheck<'_>) {
        match value.filter(|value| !check.null_is_absent || !value.is_null()) {
            Some(value) => self.node.check(value, path, check),
            // A member that could not be parsed already has a fault and is not missing.
            None if self.required && !check.faults.is_about(path) => check.add(path, "is required"),
            None => {}
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

pub(super) fn within<N: PartialOrd>(value: N, (least, most): (Option<N>, Option<N>)) -> bool {
    least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
}

/// Returns `true` if two values are equal by JSON Schema, where `1` equals `1.0`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has =
                |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

/// Formats a span as ` 1 to 5`, ` at least 1`, ` at most 5`, or nothing.
pub fn span<N: std::fmt::Display>((least, most): (Option<N>, Option<N>)) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!(" {least} to {most}"),
        (Some(least), None) => format!(" at least {least}"),
        (None, Some(most)) => format!(" at most {most}"),
        (None, None) => String::new(),
    }
}
