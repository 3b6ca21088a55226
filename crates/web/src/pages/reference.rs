//! The API reference, rendered from the OpenAPI document: a searchable overview of all operations, and a page
//! for each group with parameters, responses and a `curl` command for each operation.
//!
//! A script calls operations from these pages. The key that a reader types is not stored. Without the script
//! the pages are read-only.

use crate::assets;
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::person;
use askama::Template;
use axum::http::HeaderMap;
use axum::response::Response;
use chorus_node::{App, Error};
use serde_json::{Map, Value};

/// The deepest nesting of an example.
const MAX_DEPTH: usize = 5;

/// The longest search, in characters.
const MAX_SEARCH: usize = 200;

#[derive(Template)]
#[template(path = "api.html")]
struct OverviewPage<'o> {
    shell: Shell,
    /// The search text; empty if all operations are shown.
    asked: String,
    /// The number of operations shown.
    count: usize,
    groups: Vec<(&'o Group, Vec<&'o Operation>)>,
}

#[derive(Template)]
#[template(path = "api_group.html")]
struct GroupPage<'o> {
    shell: Shell,
    script: &'static str,
    /// The public URL of this hub.
    base: &'o str,
    groups: &'o [Group],
    group: &'o Group,
}

/// A group of operations with one tag.
pub struct Group {
    pub name: &'static str,
    /// A description of the group.
    pub about: &'static str,
    pub operations: Vec<Operation>,
}

/// Renders all operations, or those whose text contains all words of `asked`.
pub async fn show(app: &App, headers: &HeaderMap, groups: &[Group], asked: &str) -> Result<Response, Fault> {
    let person = person(app, headers).await?;
    let shell = Shell::maybe_of(app, person.as_ref(), Here::Api).await?;
    let asked: String = asked.trim().chars().take(MAX_SEARCH).collect();
    let words: Vec<_> = asked.split_whitespace().map(str::to_lowercase).collect();
    let mut found = vec![];
    for group in groups {
        let operations: Vec<_> = group.operations.iter().filter(|one| one.has_all(&words)).collect();
        if !operations.is_empty() {
            found.push((group, operations));
        }
    }
    let groups = found;
    let count = groups.iter().map(|(_, found)| found.len()).sum();
    page(&OverviewPage { shell, asked, count, groups })
}

/// Renders the page of one group.
pub async fn show_group(
    app: &App,
    headers: &HeaderMap,
    groups: &[Group],
    name: &str,
) -> Result<Response, Fault> {
    let person = person(app, headers).await?;
    let shell = Shell::maybe_of(app, person.as_ref(), Here::Api).await?;
    let group = groups.iter().find(|group| group.name == name).ok_or_else(|| Error::not_found("page"))?;
    page(&GroupPage { shell, script: assets::api_script(), base: &app.config.public_url, groups, group })
}

/// Groups the operations of a document. `names` holds the tag and the description of each group.
pub fn groups(document: &Value, names: &[(&'static str, &'static str)]) -> Vec<Group> {
    let mut rest = operations(document);
    let mut groups = vec![];
    for (name, about) in names {
        let (operations, others) = rest.into_iter().partition(|one| one.tag == *name);
        rest = others;
        groups.push(Group { name, about, operations });
    }
    groups
}

/// Text with code spans: pieces, each with whether it is code.
pub type Prose = Vec<(String, bool)>;

pub struct Operation {
    /// The tag of its group.
    pub tag: String,
    /// The id of its element on the page.
    pub anchor: String,
    pub method: String,
    pub path: String,
    pub summary: Prose,
    pub description: Prose,
    pub needs_key: bool,
    /// True if this is a webhook: the hub sends it, and nobody calls it here.
    pub is_sent: bool,
    /// An example of the required query parameters.
    pub query: String,
    /// The smallest example body, if the operation takes one.
    pub body: Option<String>,
    pub fields: Vec<Field>,
    pub answers: Vec<(String, Prose)>,
}

/// One parameter or body field of an operation.
pub struct Field {
    pub name: String,
    /// The location: `path`, `query`, `header` or `body`.
    pub place: String,
    pub required: bool,
    pub description: Prose,
}

/// Returns all operations of a document in its order, followed by the webhooks.
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

/// Returns the schema of the request body.
fn body_of(operation: &Value) -> Option<&Value> {
    operation.pointer("/requestBody/content/application~1json/schema")
}

/// Returns the required query parameters with placeholders.
fn query(operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let required = parameters.filter(|one| one["in"] == "query" && one["required"] == true);
    let words: Vec<_> = required.map(|one| format!("{}=…", text(&one["name"]))).collect();
    if words.is_empty() { String::new() } else { format!("?{}", words.join("&")) }
}

/// Builds the smallest value of a schema's shape. The reader fills in meaningful values.
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

/// Returns the fields of a body, including those of nested objects. Fields of an optional object are optional.
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

/// Resolves references into the document's components. For an optional or a multi-shape schema it takes the
/// first reference.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = ways(schema).find_map(|way| document.pointer(way["$ref"].as_str()?.strip_prefix('#')?));
    target.map_or(schema, |target| resolve(document, target))
}

/// Returns the description of a schema, or of its first alternative that has one.
fn description(schema: &Value) -> &Value {
    ways(schema).map(|way| &way["description"]).find(|text| text.is_string()).unwrap_or(&Value::Null)
}

/// Returns a schema and its alternatives.
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

/// Splits text at backticks: every second piece is code.
fn prose(value: &Value) -> Prose {
    let pieces = value.as_str().unwrap_or_default().split('`');
    pieces.zip([false, true].into_iter().cycle()).map(|(piece, code)| (piece.to_owned(), code)).collect()
}

impl Operation {
    /// Returns whether the operation's text contains all of these lower-case words.
    fn has_all(&self, words: &[String]) -> bool {
        if words.is_empty() {
            return true;
        }
        let mut said = vec![self.method.as_str(), &self.path, &self.anchor];
        let fields = self.fields.iter().map(|field| &field.description);
        let answers = self.answers.iter().map(|(_, description)| description);
        let proses = [&self.summary, &self.description].into_iter().chain(fields).chain(answers);
        said.extend(self.fields.iter().map(|field| field.name.as_str()));
        said.extend(proses.flatten().map(|(piece, _)| piece.as_str()));
        let said = said.join(" ").to_lowercase();
        words.iter().all(|word| said.contains(word))
    }

    /// Returns the `curl` command that calls the operation at `base`.
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
        let has = |words: &[&str]| {
            operations[0].has_all(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert!(has(&[]) && has(&["post", "/x/"]) && has(&["inner.text"]) && !has(&["post", "never"]));
    }

    #[test]
    fn code_in_prose() {
        let pieces = prose(&Value::from("send `id` back"));
        assert_eq!(pieces, [("send ".into(), false), ("id".into(), true), (" back".into(), false)]);
    }
}
