//! The OpenAPI document, made readable: what the API page shows of each operation, in groups, and a command that calls it.
//!
//! A script of the page calls operations from there, with a key that is typed in and kept nowhere; without it the page is for
//! reading.

use crate::assets;
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::person;
use askama::Template;
use axum::http::HeaderMap;
use axum::response::Response;
use chorus_app::App;
use serde_json::{Map, Value};

/// No example goes deeper.
const MAX_DEPTH: usize = 5;

#[derive(Template)]
#[template(path = "api.html")]
struct ApiPage<'o> {
    shell: Shell,
    script: &'static str,
    /// Where this hub is reached.
    base: &'o str,
    groups: &'o [Group],
}

/// Operations that belong together.
pub struct Group {
    pub name: String,
    pub operations: Vec<Operation>,
}

/// The page of these operations.
pub async fn show(app: &App, headers: &HeaderMap, groups: &[Group]) -> Result<Response, Fault> {
    let person = person(app, headers).await?;
    let shell = Shell::maybe_of(app, person.as_ref(), Here::Api).await?;
    page(&ApiPage { shell, script: assets::api_script(), base: &app.config.public_url, groups })
}

/// All operations of a document, by what they are about.
pub fn groups(document: &Value) -> Vec<Group> {
    let mut groups: Vec<Group> = vec![];
    for operation in operations(document) {
        match groups.iter_mut().find(|group| group.name == operation.tag) {
            Some(group) => group.operations.push(operation),
            None => groups.push(Group { name: operation.tag.clone(), operations: vec![operation] }),
        }
    }
    groups
}

/// Text with code in it: pieces, and whether each is code.
pub type Prose = Vec<(String, bool)>;

/// One operation.
pub struct Operation {
    /// What it is about.
    pub tag: String,
    /// Where it is on the page.
    pub anchor: String,
    pub method: String,
    pub path: String,
    pub summary: Prose,
    pub description: Prose,
    pub needs_key: bool,
    /// Whether the hub sends it, and nobody calls it here.
    pub is_sent: bool,
    /// What it takes in the query at least.
    pub query: String,
    /// The least body that it takes, if it takes one.
    pub body: Option<String>,
    pub fields: Vec<Field>,
    pub answers: Vec<(String, Prose)>,
}

/// One thing an operation takes.
pub struct Field {
    pub name: String,
    /// Where it goes: path, query, header, body.
    pub place: String,
    pub required: bool,
    pub description: Prose,
}

/// All operations of a document, in its order; then what the hub sends.
pub fn operations(document: &Value) -> Vec<Operation> {
    let places = ["paths", "webhooks"].into_iter();
    places
        .flat_map(|place| members(&document[place]).map(move |(path, item)| (place, path, item)))
        .flat_map(|(place, path, item)| {
            members(item).map(move |(method, operation)| (place, path, method, operation))
        })
        .map(|(place, path, method, operation)| Operation {
            is_sent: place == "webhooks",
            query: query(operation),
            body: body_of(operation).map(|schema| example(document, schema, 0).to_string()),
            tag: operation["tags"][0].as_str().unwrap_or("other").to_owned(),
            anchor: text(&operation["operationId"]),
            method: method.to_uppercase(),
            path: path.clone(),
            summary: prose(&operation["summary"]),
            description: prose(&operation["description"]),
            needs_key: operation["security"]
                .as_array()
                .is_some_and(|ways| ways.iter().all(|way| way.get("key").is_some())),
            fields: fields(document, operation),
            answers: members(&operation["responses"])
                .map(|(status, answer)| (status.clone(), prose(&answer["description"])))
                .collect(),
        })
        .collect()
}

fn fields(document: &Value, operation: &Value) -> Vec<Field> {
    let parameters = operation["parameters"].as_array().into_iter().flatten().map(|parameter| Field {
        name: text(&parameter["name"]),
        place: text(&parameter["in"]),
        required: parameter["required"] == true,
        description: prose(&parameter["description"]),
    });
    let body = body_of(operation).unwrap_or(&Value::Null);
    parameters.chain(body_fields(document, body, "", true)).collect()
}

/// The schema of its body.
fn body_of(operation: &Value) -> Option<&Value> {
    operation.pointer("/requestBody/content/application~1json/schema")
}

/// What must be in the query, to be filled in.
fn query(operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let required = parameters.filter(|one| one["in"] == "query" && one["required"] == true);
    let words: Vec<_> = required.map(|one| format!("{}=…", text(&one["name"]))).collect();
    if words.is_empty() { String::new() } else { format!("?{}", words.join("&")) }
}

/// The least value that a schema takes, or what comes close to it: what it means is to be filled in.
fn example(document: &Value, schema: &Value, depth: usize) -> Value {
    let schema = resolve(document, schema);
    if let Some(given) = schema.get("example").or_else(|| schema["enum"].get(0)) {
        return given.clone();
    }
    if let Some(first) = schema["oneOf"].get(0).filter(|_| depth < MAX_DEPTH) {
        return example(document, first, depth + 1);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => true.into(),
        Some("array") => Value::Array(vec![]),
        Some("string") => "…".into(),
        _ if depth == MAX_DEPTH => Value::Object(Map::new()),
        _ => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let member =
                |name: &str| (name.to_owned(), example(document, &schema["properties"][name], depth + 1));
            Value::Object(required.map(member).collect())
        }
    }
}

/// The members of a body, those of objects inside it too. Nothing is required inside what is not.
fn body_fields(document: &Value, schema: &Value, prefix: &str, needed: bool) -> Vec<Field> {
    let schema = resolve(document, schema);
    let required = |name: &String| {
        needed && schema["required"].as_array().is_some_and(|names| names.contains(&name.clone().into()))
    };
    members(&schema["properties"])
        .flat_map(|(name, member)| {
            let field = Field {
                name: format!("{prefix}{name}"),
                place: "body".into(),
                required: required(name),
                description: prose(description(member)),
            };
            std::iter::once(field).chain(body_fields(
                document,
                member,
                &format!("{prefix}{name}."),
                required(name),
            ))
        })
        .collect()
}

/// Follows references into the document's components: of something that may be absent, and of something that has several
/// shapes, it is the first.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = ways(schema).find_map(|way| document.pointer(way["$ref"].as_str()?.strip_prefix('#')?));
    target.map_or(schema, |target| resolve(document, target))
}

/// What a schema says of itself, or the first of those it is made of.
fn description(schema: &Value) -> &Value {
    ways(schema).map(|way| &way["description"]).find(|text| text.is_string()).unwrap_or(&Value::Null)
}

/// A schema itself and those it is made of.
fn ways(schema: &Value) -> impl Iterator<Item = &Value> {
    let made_of =
        ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|word| schema[word].as_array()).flatten();
    std::iter::once(schema).chain(made_of)
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Splits at backticks: every second piece is code.
fn prose(value: &Value) -> Prose {
    let pieces = value.as_str().unwrap_or_default().split('`');
    pieces.zip([false, true].into_iter().cycle()).map(|(piece, code)| (piece.to_owned(), code)).collect()
}

impl Operation {
    /// The command that calls it, at a hub that is reached there.
    fn curl(&self, base: &str) -> String {
        use std::fmt::Write as _;
        let method = if self.method == "GET" { String::new() } else { format!(" -X {}", self.method) };
        let mut command = format!("curl{method} '{base}{}{}'", self.path, self.query);
        // Writing to a string cannot fail.
        if self.needs_key {
            let _infallible = write!(command, " \\\n  -H \"Authorization: Bearer $CHORUS_KEY\"");
        }
        if let Some(body) = &self.body {
            let body = body.replace('\'', r"'\''");
            let _infallible = write!(command, " \\\n  -H 'Content-Type: application/json' -d '{body}'");
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_with_what_is_needed() {
        let document = json!({
            "components": {"schemas": {
                "Word": {"type": "string", "enum": ["one", "two"]},
                "Body": {"type": "object", "required": ["word", "count", "inner"], "properties": {
                    "word": {"$ref": "#/components/schemas/Word"}, "count": {"type": "integer", "minimum": 3},
                    "inner": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "example": "it's"}}},
                    "more": {"type": "string"}}}}},
            "paths": {"/x/{id}": {"post": {"security": [{"key": []}], "parameters": [
                {"name": "q", "in": "query", "required": true}, {"name": "limit", "in": "query"}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}}}}}},
            "webhooks": {"chat": {"post": {}}}
        });
        let operations = operations(&document);
        let expected = "curl -X POST 'http://hub/x/{id}?q=…' \\\n  -H \"Authorization: Bearer $CHORUS_KEY\" \\\n  \
            -H 'Content-Type: application/json' -d '{\"count\":3,\"inner\":{\"text\":\"it'\\''s\"},\"word\":\"one\"}'";
        assert_eq!(operations[0].curl("http://hub"), expected);
        assert!(operations[1].is_sent && !operations[0].is_sent);
    }

    #[test]
    fn code_in_prose() {
        let pieces = prose(&Value::from("send `id` back"));
        assert_eq!(pieces, [("send ".into(), false), ("id".into(), true), (" back".into(), false)]);
    }
}
