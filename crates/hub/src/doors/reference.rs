//! The OpenAPI document, made readable: what the API page shows of each operation.

use serde_json::Value;

/// Text with code in it: pieces, and whether each is code.
pub(crate) type Prose = Vec<(String, bool)>;

/// One operation.
pub(crate) struct Operation {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) summary: Prose,
    pub(crate) description: Prose,
    pub(crate) needs_key: bool,
    pub(crate) fields: Vec<Field>,
    pub(crate) answers: Vec<(String, Prose)>,
}

/// One thing an operation takes.
pub(crate) struct Field {
    pub(crate) name: String,
    /// Where it goes: path, query, header, body.
    pub(crate) place: String,
    pub(crate) required: bool,
    pub(crate) description: Prose,
}

/// All operations of a document, in its order.
pub(crate) fn operations(document: &Value) -> Vec<Operation> {
    members(&document["paths"])
        .flat_map(|(path, item)| members(item).map(move |(method, operation)| (path, method, operation)))
        .map(|(path, method, operation)| Operation {
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
    use serde_json::Map;

    #[test]
    fn every_operation_with_its_fields() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let operations = operations(&document);
        let send = operations.iter().find(|operation| operation.path == "/messages").unwrap();
        assert!(send.needs_key && send.method == "POST");
        let names: Vec<_> = send.fields.iter().map(|field| (field.name.as_str(), field.required)).collect();
        assert!(names.contains(&("Idempotency-Key", false)), "{names:?}");
        assert!(names.contains(&("receiver_id", true)), "{names:?}");
        assert!(names.contains(&("envelope.original_text", true)), "{names:?}");
        assert!(names.contains(&("envelope.turn_number", false)), "{names:?}");
        let register = operations.iter().find(|operation| operation.path == "/register").unwrap();
        let required: Vec<_> =
            register.fields.iter().filter(|field| field.required).map(|field| &field.name).collect();
        assert_eq!(required, ["agent_id"]);
    }

    #[test]
    fn what_is_referred_to_is_there() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let text = document.to_string();
        let references = text.split(r##""$ref":"#"##).skip(1).filter_map(|rest| rest.split('"').next());
        let missing: Vec<_> = references.filter(|reference| document.pointer(reference).is_none()).collect();
        assert!(missing.is_empty() && text.contains(r##""$ref":"#/"##), "{missing:?}");
    }

    /// Programs that make clients out of the document name their functions so.
    #[test]
    fn every_operation_has_its_own_name() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let paths = document["paths"].as_object().unwrap().values().filter_map(Value::as_object);
        let mut names: Vec<_> = paths.flat_map(Map::values).map(|one| one["operationId"].as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert!(names.iter().all(Option::is_some) && names.len() == count, "{names:?}");
    }

    #[test]
    fn code_in_prose() {
        let pieces = prose(&Value::from("send `id` back"));
        assert_eq!(pieces, [("send ".into(), false), ("id".into(), true), (" back".into(), false)]);
    }
}
