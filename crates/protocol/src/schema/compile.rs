//! Compiles the schemas that `utoipa` derives for the protocol types.

use super::{
    Choices, JsonType, NumberRange, Property, SchemaNode, TextPattern, TextRule, ValueRule, span, within,
};
use crate::json;
use crate::market::Credits;
use crate::relay::{check_card, check_endpoint};
use regex_lite::Regex;
use serde_json::Value;
use std::collections::HashMap;

/// The meaning of `\s` in JSON Schema inside a class: all Unicode whitespace, where this regex engine knows
/// only ASCII.
const SPACES: &str = r"\s\u{85}\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
/// The maximum depth of references. No protocol type goes deeper; a recursive type is not checked beyond it.
const MAX_REFERENCES: usize = 8;

/// Compiles a schema whose references are names.
pub(super) fn compile(schema: &Value, named: &HashMap<String, Value>, depth: usize) -> SchemaNode {
    if depth > MAX_REFERENCES {
        return SchemaNode::default();
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        let found = named.get(name).map(|schema| compile(schema, named, depth + 1));
        return SchemaNode { rule: rule_of(name), ..found.unwrap_or_default() };
    }
    // An optional reference is a `oneOf` of `null` and the reference.
    if let Some(any) = schema["oneOf"].as_array() {
        let any = any.iter().filter(|one| one["type"] != "null");
        let mut any: Vec<_> = any.map(|one| compile(one, named, depth)).collect();
        return match any.len() {
            1 => any.remove(0),
            _ => SchemaNode {
                types: vec![JsonType::Object],
                expected: "an object".into(),
                alternatives: any,
                ..SchemaNode::default()
            },
        };
    }
    let size = |name: &str| schema[name].as_u64();
    let types = types_of(schema);
    let (is_integer, count) = (types.contains(&JsonType::Integer), (size("minItems"), size("maxItems")));
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let words = choices_of(schema).filter(|_| types == [JsonType::String]);
    SchemaNode {
        expected: types.first().map(|first| expected(*first, count)).unwrap_or_default(),
        // The range says what is wrong with a number that is no integer.
        types: types
            .into_iter()
            .map(|it| if it == JsonType::Integer { JsonType::Number } else { it })
            .collect(),
        texts: if words.is_none() { text_rule(schema).into_iter().collect() } else { vec![] },
        choices: words.into_iter().collect(),
        range: is_integer.then(|| whole_range(schema)),
        count,
        items: schema.get("items").map(|items| Box::new(compile(items, named, depth))),
        properties: properties
            .map(|(name, schema)| {
                let property = Property { required: is_required(name), node: compile(schema, named, depth) };
                (name.clone(), property)
            })
            .collect(),
        ..SchemaNode::default()
    }
}

/// Compiles the schema of a query parameter, and returns whether it allows an empty text.
pub(super) fn compile_parameter(schema: &Value) -> (SchemaNode, bool) {
    let node = compile(schema, &HashMap::new(), 0);
    let allows_nothing = |rule: &TextRule| {
        within(0, rule.length) && rule.pattern.as_ref().is_none_or(|pattern| pattern.is_match(""))
    };
    // A reader checks the format, such as that of a time.
    let has_format = schema["format"].is_string();
    let may_be_empty = node.choices.is_empty() && !has_format && node.texts.iter().all(allows_nothing);
    (node, may_be_empty)
}

/// Returns the rule of a type that a schema cannot express.
fn rule_of(name: &str) -> Option<ValueRule> {
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

/// Returns the types without null, which counts as absent.
fn types_of(schema: &Value) -> Vec<JsonType> {
    let words = match &schema["type"] {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        Value::String(word) => vec![&**word],
        _ => vec![],
    };
    words.into_iter().filter_map(JsonType::parse).filter(|one| *one != JsonType::Null).collect()
}

/// Returns the words for a type that complete "must be …".
fn expected(first: JsonType, count: (Option<u64>, Option<u64>)) -> String {
    match first {
        JsonType::String => "a string".into(),
        JsonType::Integer => "an integer".into(),
        JsonType::Number => "a number".into(),
        JsonType::Boolean => "true or false".into(),
        JsonType::Array => match span(count) {
            none if none.is_empty() => "an array".into(),
            count => format!("an array of{count} items"),
        },
        JsonType::Object | JsonType::Null => "an object".into(),
    }
}

fn choices_of(schema: &Value) -> Option<Choices> {
    let values = schema["enum"].as_array()?.clone();
    let words: Vec<_> = values.iter().filter_map(Value::as_str).collect();
    let fault = format!("must be one of {}", words.join(", "));
    (!values.is_empty()).then_some(Choices { values, steps: 0, fault })
}

fn text_rule(schema: &Value) -> Option<TextRule> {
    let length = (schema["minLength"].as_u64(), schema["maxLength"].as_u64());
    let title = schema["title"].as_str().map(|title| format!("must be {title}"));
    let regex = schema["pattern"].as_str().and_then(|text| Regex::new(&text.replace(r"\s", SPACES)).ok());
    let form = regex.as_ref().map(|regex| format!("must be of the form {regex}"));
    let pattern_fault = title.clone().or(form).unwrap_or_default();
    let pattern = regex.map(TextPattern::from);
    let has_rule = pattern.is_some() || length != (None, None);
    has_rule.then_some(TextRule { length, length_fault: title, pattern, pattern_fault })
}

fn whole_range(schema: &Value) -> NumberRange {
    let whole = |name: &str| json::whole(&schema[name]);
    let shown = match (whole("minimum"), whole("maximum")) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" of {least} or more"),
        (None, Some(most)) => format!(" of {most} or less"),
        (None, None) => String::new(),
    };
    let bounds = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    NumberRange { whole: true, bounds, fault: format!("must be an integer{shown}") }
}
