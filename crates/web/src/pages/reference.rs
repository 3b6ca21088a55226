//! The OpenAPI document, made readable: what the API page shows of each operation, in groups.

use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::person;
use askama::Template;
use axum::http::HeaderMap;
use axum::response::Response;
use chorus_app::App;
use serde_json::Value;

#[derive(Template)]
#[template(path = "api.html")]
struct ApiPage<'o> {
    shell: Shell,
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
    page(&ApiPage { shell: Shell::maybe_of(app, person.as_ref(), Here::Api).await?, groups })
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

/// All operations of a document, in its order.
pub fn operations(document: &Value) -> Vec<Operation> {
    members(&document["paths"])
        .flat_map(|(path, item)| members(item).map(move |(method, operation)| (path, method, operation)))
        .map(|(path, method, operation)| Operation {
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
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    parameters.chain(body_fields(document, body, "", true)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_prose() {
        let pieces = prose(&Value::from("send `id` back"));
        assert_eq!(pieces, [("send ".into(), false), ("id".into(), true), (" back".into(), false)]);
    }
}
