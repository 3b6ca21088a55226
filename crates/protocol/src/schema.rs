//! Bodies from one definition: what the OpenAPI document says of a type is what is checked before it is read.
//!
//! [`read`] holds a value against the schema that `utoipa` derives for a type, notes every fault at once, and only then lets
//! `serde` read it. It knows the part of JSON Schema that our types use; what it does not know does not hold anybody up.
//! Of several schemas (`oneOf`) that one counts whose required members are there. A few types have rules that a schema
//! cannot say, or not in words: theirs are held against them instead. `null` counts as absent, as most JSON writers mean it,
//! and `1.0` is an integer. A schema's `title` completes the
//! sentence "must be …" where a pattern alone would say little.

use crate::faults::{Faults, kind};
use crate::ids::UUID_PATTERN;
use crate::json;
use crate::market::Credits;
use crate::relay::{check_card, check_endpoint};
use regex_lite::Regex;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::any::TypeId;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use utoipa::openapi::Required;
use utoipa::openapi::path::ParameterIn;
use utoipa::{IntoParams, ToSchema};

/// Reads a value of this type, or says everything that is wrong with it.
pub fn read<T: ToSchema + DeserializeOwned + 'static>(mut value: Value) -> Result<T, Faults> {
    let mut faults = Faults::new();
    Checked::of::<T>().root.check(&mut value, "", &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    // What the schema lets through is what the type takes; if they ever differ, this says where.
    serde_json::from_value(value).map_err(|error| Faults::one("body", error))
}

/// Where a value has members that this type does not know, at most so many: they are no fault, but a misspelt one should not
/// vanish without a word. Those that begin with `$`, `_` or `x-` are somebody's own.
pub fn unknown_members<T: ToSchema + 'static>(value: &Value) -> Vec<String> {
    let mut found = vec![];
    Checked::of::<T>().root.find_unknown(value, "", &mut found);
    found
}

/// The same of a body whose numbers are read from their text, such as amounts: what a parser makes of them is checked, and
/// then what was sent is read.
pub fn read_exact<T: ToSchema + DeserializeOwned + 'static>(body: &[u8]) -> Result<T, Faults> {
    let mut value = json::parse(body).map_err(|error| Faults::one("body", error))?;
    let mut faults = Faults::new();
    Checked::of::<T>().root.check(&mut value, "", &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    serde_json::from_slice(body).map_err(|error| Faults::one("body", error))
}

/// Reads what a query says, or everything that is wrong with it. Of several of one name the last counts; an empty text
/// is absent where a text may be empty.
pub fn read_query<'a, T: IntoParams + DeserializeOwned + 'static>(
    pairs: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<T, Faults> {
    let (checked, mut faults, mut query) = (Checked::of_query::<T>(), Faults::new(), Map::new());
    for (name, text) in pairs {
        let Some((_, _, schema)) = checked.root.properties.iter().find(|(known, ..)| *known == name) else {
            continue;
        };
        match schema.of_text(&text) {
            Ok(Value::Null) => drop(query.remove(&*name)),
            Ok(value) => drop(query.insert(name.into_owned(), value)),
            Err(what) => faults.add(&name, what),
        }
    }
    checked.root.check_members(&mut query, "", &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    serde_json::from_value(query.into()).map_err(|error| Faults::one("query", error))
}

/// A schema, ready to be held against values.
struct Checked {
    root: Schema,
}

/// Each type's is made once.
static KNOWN: LazyLock<Mutex<HashMap<TypeId, Arc<Checked>>>> = LazyLock::new(Mutex::default);

impl Checked {
    fn of<T: ToSchema + 'static>() -> Arc<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = known.entry(TypeId::of::<T>()).or_insert_with(|| {
            let mut named = vec![];
            T::schemas(&mut named);
            let named = named.into_iter().map(|(name, schema)| (name, serde_json::json!(schema))).collect();
            Arc::new(Self { root: Schema::new(&serde_json::json!(T::schema()), &named, 0) })
        });
        Arc::clone(checked)
    }

    fn of_query<T: IntoParams + 'static>() -> Arc<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = known.entry(TypeId::of::<T>()).or_insert_with(|| {
            let (mut root, named) = (Schema::default(), HashMap::new());
            for parameter in T::into_params(|| Some(ParameterIn::Query)) {
                let schema = serde_json::json!(parameter.schema);
                let required = parameter.required == Required::True;
                root.properties.push((parameter.name, required, Schema::new(&schema, &named, 0)));
            }
            Arc::new(Self { root })
        });
        Arc::clone(checked)
    }
}

/// What JSON Schema's `\s` stands for inside a class: all white space of Unicode, where the regular expressions here know
/// that of ASCII.
const SPACES: &str = r"\s\u{85}\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
/// As many members are named that a type does not know.
const MAX_UNKNOWN: usize = 1000;
/// No type of ours refers to others deeper than this; one that refers to itself is not looked into further.
const MAX_REFERENCES: usize = 8;

#[derive(Debug, Default)]
struct Schema {
    /// What completes "must be …".
    title: Option<String>,
    types: Vec<String>,
    words: Vec<Value>,
    length: (Option<u64>, Option<u64>),
    range: (Option<i64>, Option<i64>),
    count: (Option<u64>, Option<u64>),
    pattern: Option<Pattern>,
    /// Whether it says something in a form of its own, such as a time: whoever reads it knows that.
    has_format: bool,
    items: Option<Box<Schema>>,
    properties: Vec<(String, bool, Schema)>,
    /// Of these it must be exactly one.
    alternatives: Vec<Schema>,
    /// What is held against it instead of all this but its type.
    rule: Option<Rule>,
}

/// What a text must look like.
#[derive(Debug)]
struct Pattern {
    regex: Regex,
    /// Ids are in nearly everything that is read, and sooner looked at than matched.
    is_uuid: bool,
}

impl Pattern {
    fn new(text: &str) -> Option<Self> {
        let is_uuid = text.strip_prefix('^').and_then(|text| text.strip_suffix('$')) == Some(UUID_PATTERN);
        Some(Self { regex: Regex::new(&text.replace(r"\s", SPACES)).ok()?, is_uuid })
    }

    fn is_match(&self, text: &str) -> bool {
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

/// Notes what is wrong with the value at a path.
type Rule = fn(&Value, &str, &mut Faults);

/// The rule of a type that a schema cannot say.
fn rule_of(name: &str) -> Option<Rule> {
    match name {
        "AgentCard" => Some(check_card),
        "Credits" => Some(Credits::check),
        "EndpointUrl" => Some(|value, path, faults| {
            if let Some(Err(what)) = value.as_str().map(check_endpoint) {
                faults.add(path, what);
            }
        }),
        _ => None,
    }
}

impl Schema {
    fn new(schema: &Value, named: &HashMap<String, Value>, depth: usize) -> Self {
        if depth > MAX_REFERENCES {
            return Self::default();
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default();
            let found = named.get(name).map(|schema| Self::new(schema, named, depth + 1));
            return Self { rule: rule_of(name), ..found.unwrap_or_default() };
        }
        // An optional reference is one of nothing and the reference.
        if let Some(any) = schema["oneOf"].as_array() {
            let any = any.iter().filter(|one| one["type"] != "null");
            let mut any: Vec<_> = any.map(|one| Self::new(one, named, depth)).collect();
            return match any.len() {
                1 => any.remove(0),
                _ => Self { types: vec!["object".into()], alternatives: any, ..Self::default() },
            };
        }
        let (int, size) = (|name: &str| json::whole(&schema[name]), |name: &str| schema[name].as_u64());
        let types = match &schema["type"] {
            Value::Array(types) => {
                types.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
            }
            Value::String(name) => vec![&**name],
            _ => vec![],
        };
        let required =
            |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let properties = schema["properties"].as_object().into_iter().flatten();
        Self {
            title: schema["title"].as_str().map(str::to_owned),
            types: types.into_iter().map(str::to_owned).collect(),
            words: schema["enum"].as_array().cloned().unwrap_or_default(),
            length: (size("minLength"), size("maxLength")),
            range: (int("minimum"), int("maximum")),
            count: (size("minItems"), size("maxItems")),
            has_format: schema["format"].is_string(),
            pattern: schema["pattern"].as_str().and_then(Pattern::new),
            items: schema.get("items").map(|items| Box::new(Self::new(items, named, depth))),
            properties: properties
                .map(|(name, schema)| (name.clone(), required(name), Self::new(schema, named, depth)))
                .collect(),
            alternatives: vec![],
            rule: None,
        }
    }

    /// Notes what is wrong with a value, and brings it into the form that `serde` reads.
    fn check(&self, value: &mut Value, path: &str, faults: &mut Faults) {
        let wrong = |faults: &mut Faults, what: &str| {
            faults.add(if path.is_empty() { "body" } else { path }, what);
        };
        if let Some(expected) = self.expected(value) {
            return wrong(faults, &format!("must be {expected}, not {}", kind(value)));
        }
        if let Some(rule) = self.rule {
            return rule(value, path, faults);
        }
        if !self.alternatives.is_empty() {
            let mut fitting = self.alternatives.iter().filter(|one| one.has_required(value));
            return match (fitting.next(), fitting.next()) {
                (Some(one), None) => one.check(value, path, faults),
                _ => wrong(faults, &format!("must have either {}", self.required_names().join(" or "))),
            };
        }
        match value {
            Value::String(text) => self.check_text(text, &wrong, faults),
            Value::Number(_) if self.is("integer") => match json::whole(value) {
                Some(whole) if within(whole, self.range) => *value = whole.into(),
                _ => wrong(faults, &format!("must be an integer{}", from_to(self.range))),
            },
            Value::Array(items) => {
                if !within(items.len() as u64, self.count) {
                    let count = items.len();
                    return wrong(faults, &format!("must be {}, not of {count}", self.array()));
                }
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.check(item, &format!("{path}[{index}]"), faults);
                    }
                }
            }
            Value::Object(members) => self.check_members(members, path, faults),
            _ => {}
        }
    }

    /// Notes the members of a value that it does not know.
    fn find_unknown(&self, value: &Value, path: &str, found: &mut Vec<String>) {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(schema) = &self.items {
                schema.find_unknown(item, &format!("{path}[{index}]"), found);
            }
        }
        // What has no members of its own may have any.
        for (name, value) in value.as_object().into_iter().flatten().filter(|_| !self.properties.is_empty()) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match self.properties.iter().find(|(known, ..)| known == name) {
                Some((_, _, schema)) => schema.find_unknown(value, &path, found),
                None if name.starts_with(['$', '_']) || name.starts_with("x-") => {}
                None if found.len() < MAX_UNKNOWN => found.push(path),
                None => {}
            }
        }
    }

    /// Whether every required member is there.
    fn has_required(&self, value: &Value) -> bool {
        self.properties.iter().all(|(name, required, _)| !required || !value[name].is_null())
    }

    /// What its alternatives are known by.
    fn required_names(&self) -> Vec<&str> {
        let required = self
            .alternatives
            .iter()
            .filter_map(|one| one.properties.iter().find(|(_, required, _)| *required));
        required.map(|(name, ..)| &**name).collect()
    }

    /// The value that a text in a query stands for, or what it must be.
    fn of_text(&self, text: &str) -> Result<Value, String> {
        match text {
            text if text.contains('\0') => Err("must not contain U+0000".into()),
            text if self.is("integer") => {
                let whole: Option<i64> = text.parse().ok().filter(|whole| within(*whole, self.range));
                whole.map(Into::into).ok_or_else(|| format!("must be an integer{}", from_to(self.range)))
            }
            text if self.is("boolean") => {
                text.parse::<bool>().map(Into::into).map_err(|_| "must be true or false".into())
            }
            "" if self.admits_nothing() => Ok(Value::Null),
            text => Ok(text.into()),
        }
    }

    /// Whether a text may be empty.
    fn admits_nothing(&self) -> bool {
        let by_pattern = self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(""));
        self.words.is_empty() && !self.has_format && by_pattern && within(0, self.length)
    }

    /// What it must be, if it is something else.
    fn expected(&self, value: &Value) -> Option<String> {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) if self.is("integer") => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let first = self.types.first().filter(|_| !self.is(found))?;
        Some(match &**first {
            "string" => "a string".into(),
            "integer" => "an integer".into(),
            "number" => "a number".into(),
            "boolean" => "true or false".into(),
            "array" => self.array(),
            _ => "an object".into(),
        })
    }

    fn array(&self) -> String {
        match span(self.count) {
            none if none.is_empty() => "an array".into(),
            count => format!("an array of{count} items"),
        }
    }

    fn is(&self, name: &str) -> bool {
        self.types.iter().any(|one| one == name)
    }

    fn check_text(&self, text: &str, wrong: &dyn Fn(&mut Faults, &str), faults: &mut Faults) {
        if !self.words.is_empty() {
            if !self.words.iter().any(|word| word == text) {
                let words: Vec<_> = self.words.iter().filter_map(Value::as_str).collect();
                wrong(faults, &format!("must be one of {}", words.join(", ")));
            }
            return;
        }
        let length = text.chars().count() as u64;
        if !within(length, self.length) && self.title.is_none() {
            wrong(faults, &format!("must be{} characters, not {length}", span(self.length)));
        } else if !within(length, self.length)
            || self.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(text))
        {
            let form = self
                .title
                .clone()
                .or_else(|| self.pattern.as_ref().map(|it| format!("of the form {}", it.regex)));
            wrong(faults, &format!("must be {}", form.unwrap_or_default()));
        }
    }

    fn check_members(&self, members: &mut Map<String, Value>, path: &str, faults: &mut Faults) {
        for (name, required, schema) in &self.properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match members.get_mut(name) {
                None | Some(Value::Null) => {
                    members.remove(name);
                    // What could not be read at all is not missing.
                    if *required && !faults.is_about(&path) {
                        faults.add(&path, "is required");
                    }
                }
                Some(value) => schema.check(value, &path, faults),
            }
        }
    }
}

fn within<N: PartialOrd>(value: N, (least, most): (Option<N>, Option<N>)) -> bool {
    least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
}

/// ` from 1 to 5`, ` of 1 or more`, ` of 5 or less`, or nothing.
fn from_to((least, most): (Option<i64>, Option<i64>)) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" of {least} or more"),
        (None, Some(most)) => format!(" of {most} or less"),
        (None, None) => String::new(),
    }
}

/// ` 1 to 5`, ` at least 1`, ` at most 5`, or nothing.
fn span<N: std::fmt::Display>((least, most): (Option<N>, Option<N>)) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!(" {least} to {most}"),
        (Some(least), None) => format!(" at least {least}"),
        (None, Some(most)) => format!(" at most {most}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests;
