//! The supported subset of JSON Schema: `type`, `properties`, `required`, `items`, `enum`, `const`, `minimum`,
//! `maximum`, `minLength`, `maxLength`, `pattern` and `additionalProperties`. `title`, `description` and
//! `$schema` are accepted and have no effect.

use super::MAX_DEPTH;
use chorus_protocol::faults::{Faults, kind};
use chorus_protocol::schema::{
    Additional, Choices, JsonType, Members, NumberRange, Property, SchemaNode, TextPattern, TextRule, span,
};
use regex_lite::RegexBuilder;
use serde_json::Value;

/// The maximum size of a compiled pattern in bytes: about a hundred states.
pub(super) const PATTERN_BYTES: usize = 8 * 1024;
/// The maximum number of patterns in a schema.
const MOST_PATTERNS: usize = 32;

/// Compiles a whole schema.
pub(super) fn read(declared: &Value, path: &str, faults: &mut Faults) -> Option<SchemaNode> {
    let mut reader = Reader { faults, patterns: 0 };
    let node = reader.schema(declared, path, 0)?;
    let patterns = reader.patterns;
    if patterns > MOST_PATTERNS {
        faults.add(path, format_args!("must have at most {MOST_PATTERNS} patterns"));
    }
    Some(node)
}

/// The state of reading one schema.
struct Reader<'f> {
    faults: &'f mut Faults,
    patterns: usize,
}

/// The keywords of one subschema, as far as they are read.
#[derive(Default)]
struct Keywords {
    node: SchemaNode,
    required: Vec<String>,
    additional: Additional,
    words: Option<Choices>,
    constant: Option<Choices>,
    range: (Option<f64>, Option<f64>),
    length: (Option<u64>, Option<u64>),
    pattern: Option<TextPattern>,
}

impl Reader<'_> {
    fn schema(&mut self, declared: &Value, path: &str, depth: usize) -> Option<SchemaNode> {
        let Value::Object(members) = declared else {
            self.faults.add(path, format_args!("must be a schema, not {}", kind(declared)));
            return None;
        };
        if depth == MAX_DEPTH {
            self.faults.add(path, format_args!("must not be deeper than {MAX_DEPTH} schemas"));
            return None;
        }
        let mut keywords = Keywords::default();
        for (keyword, value) in members {
            let at = format!("{path}.{keyword}");
            if let Err(wrong) = self.keyword(&mut keywords, keyword, value, &at, depth) {
                self.faults.add(&at, wrong);
            }
        }
        Some(keywords.finish())
    }

    /// Reads one keyword, or returns the fault.
    fn keyword(
        &mut self,
        read: &mut Keywords,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<(), &'static str> {
        let number = || value.as_f64().ok_or("must be a number");
        let size = || value.as_u64().ok_or("must be an integer of 0 or more");
        match keyword {
            "type" => read.node.types = types(value)?,
            "properties" => {
                let Value::Object(properties) = value else { return Err("must be an object") };
                for (name, declared) in properties {
                    if let Some(node) = self.schema(declared, &format!("{path}.{name}"), depth + 1) {
                        read.node.properties.insert(name.clone(), Property { required: false, node });
                    }
                }
            }
            "required" => read.required = names(value).ok_or("must be an array of names")?,
            "items" => read.node.items = self.schema(value, path, depth + 1).map(Box::new),
            "enum" => {
                let values = value.as_array().cloned().ok_or("must be an array")?;
                let fault = "must be one of the values that the skill declares".into();
                read.words = Some(Choices { values, steps: value.to_string().len(), fault });
            }
            "const" => {
                let fault = "must be the value that the skill declares".into();
                let steps = value.to_string().len();
                read.constant = Some(Choices { values: vec![value.clone()], steps, fault });
            }
            "minimum" => read.range.0 = Some(number()?),
            "maximum" => read.range.1 = Some(number()?),
            "minLength" => read.length.0 = Some(size()?),
            "maxLength" => read.length.1 = Some(size()?),
            "pattern" => {
                read.pattern = Some(pattern(value)?);
                self.patterns += 1;
            }
            "additionalProperties" => {
                read.additional = match value {
                    Value::Bool(true) => Additional::Allowed,
                    Value::Bool(false) => Additional::Forbidden("is not declared by the skill"),
                    schema => self
                        .schema(schema, path, depth + 1)
                        .map_or(Additional::Allowed, |each| Additional::Each(Box::new(each))),
                }
            }
            "title" | "description" | "$schema" => drop(value.as_str().ok_or("must be a string")?),
            _ => return Err("is a keyword that this hub does not check; leave it out"),
        }
        Ok(())
    }
}

impl Keywords {
    fn finish(self) -> SchemaNode {
        let length = TextRule { length: self.length, ..TextRule::default() };
        let form = self.pattern.map(|pattern| TextRule {
            pattern: Some(pattern),
            pattern_fault: "must match the pattern that the skill declares".into(),
            ..TextRule::default()
        });
        let has_range = self.range != (None, None);
        let range = has_range.then(|| NumberRange {
            whole: false,
            bounds: self.range,
            fault: format!("must be{}", span(self.range)),
        });
        SchemaNode {
            expected: self.node.types.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(" or "),
            choices: self.words.into_iter().chain(self.constant).collect(),
            texts: Some(length).into_iter().chain(form).collect(),
            range,
            members: Members::All { required: self.required, additional: self.additional },
            ..self.node
        }
    }
}

fn types(value: &Value) -> Result<Vec<JsonType>, &'static str> {
    let names = match value {
        Value::String(name) => vec![&**name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let known: Vec<_> = names.into_iter().filter_map(JsonType::parse).collect();
    let all = value.as_array().map_or(1, Vec::len);
    if known.is_empty() || known.len() != all {
        return Err("must be string, number, integer, boolean, array, object or null, or an array of these");
    }
    Ok(known)
}

fn names(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

fn pattern(value: &Value) -> Result<TextPattern, &'static str> {
    let text = value.as_str().ok_or("must be a string")?;
    let compiled = RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
    compiled
        .map(Into::into)
        .map_err(|_| "must be a regular expression without back-references, and not too large")
}
