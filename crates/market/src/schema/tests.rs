use super::*;
use proptest::prelude::*;
use serde_json::json;

fn check(schema: &Value, data: &Value, path: &str) -> Result<(), Faults> {
    let steps = &mut StepBudget::new(STEPS_OF_CHECK);
    Schema::compile(&schema.to_string(), path, steps)?.check(data, path, steps)
}

fn fault(schema: &Value, data: &Value) -> String {
    check(schema, data, "input_data").map_or_else(|faults| faults.to_string(), |()| String::new())
}

fn refused(schema: &Value) -> String {
    let mut faults = Faults::new();
    Schema::read(schema, "input_schema", &mut faults);
    faults.to_string()
}

#[test]
fn the_documents_form() {
    let schema = json!({"text": "string"});
    assert_eq!(fault(&schema, &json!({"text": "Revenue for Q3 was $42,000..."})), "");
    assert_eq!(fault(&schema, &json!({"text": "x", "more": 1})), "");
    assert_eq!(fault(&schema, &json!({})), "input_data.text: is required");
    assert_eq!(fault(&schema, &json!({"text": 1})), "input_data.text: must be a string, not a number");
    assert_eq!(fault(&schema, &json!([])), "input_data: must be an object, not an array");
    let output = json!({"entities": "list"});
    assert_eq!(
        fault(&output, &json!({"entities": [{"type": "revenue", "value": 42000, "period": "Q3"}]})),
        ""
    );
    for (name, good, bad) in [
        ("string", json!(""), json!(null)),
        ("number", json!(1.5), json!("1.5")),
        ("integer", json!(2.0), json!(2.5)),
        ("boolean", json!(false), json!(0)),
        ("list", json!([]), json!({})),
        ("object", json!({}), json!([])),
    ] {
        let schema = json!({"x": name});
        assert_eq!(fault(&schema, &json!({"x": good})), "", "{name}");
        assert_ne!(fault(&schema, &json!({"x": bad})), "", "{name}");
    }
    for anything in [json!(null), json!(1), json!("x")] {
        assert_eq!(fault(&json!({"x": "any"}), &json!({"x": anything})), "");
    }
    assert_eq!(fault(&json!({"x": "any"}), &json!({})), "input_data.x: is required");
    assert!(refused(&json!({"x": "float"})).starts_with("input_schema.x: must be string, number"));
    assert_eq!(refused(&json!("string")), "input_schema: must be an object");
    assert_eq!(refused(&json!({})), "");
    assert!(refused(&json!({"x": "y".repeat(MAX_BYTES)})).contains("at most 16384 bytes"));
}

#[test]
fn the_part_of_json_schema_that_is_checked() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "t", "description": "d",
        "type": "object", "required": ["text", "mode"], "additionalProperties": false,
        "properties": {
            "text": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
            "mode": {"enum": ["fast", "good", 1]},
            "kind": {"const": "x"},
            "count": {"type": ["integer", "null"], "minimum": 1, "maximum": 3},
            "tags": {"type": "array", "items": {"type": "string"}},
            "more": {"additionalProperties": {"type": "number"}},
        }
    });
    assert_eq!(refused(&schema), "");
    let good =
        json!({"text": "abc", "mode": 1.0, "kind": "x", "count": 3.0, "tags": ["a"], "more": {"y": 1}});
    assert_eq!(fault(&schema, &good), "");
    assert_eq!(fault(&schema, &json!({"text": "ab", "mode": "fast", "count": null})), "");
    let bad =
        json!({"text": "ABCDEF", "kind": "y", "count": 4, "tags": ["a", 1], "more": {"y": "1"}, "else": 0});
    let faults = fault(&schema, &bad);
    for expected in [
        "input_data.mode: is required",
        "input_data.text: must be 2 to 5 characters, not 6",
        "input_data.text: must match the pattern that the skill declares",
        "input_data.kind: must be the value that the skill declares",
        "input_data.count: must be 1 to 3",
        "input_data.tags[1]: must be string, not a number",
        "input_data.more.y: must be number, not a string",
        "input_data.else: is not declared by the skill",
    ] {
        assert!(faults.contains(expected), "{expected}: {faults}");
    }
    assert!(fault(&schema, &json!({"text": "ab", "mode": "slow"})).contains("must be one of the values"));
}

#[test]
fn a_keyword_that_is_not_checked_is_refused_by_name() {
    for keyword in
        ["oneOf", "$ref", "format", "minItems", "patternProperties", "not", "uniqueItems", "default"]
    {
        let schema = json!({"type": "object", "properties": {"a": {keyword: []}}});
        let expected = format!(
            "input_schema.properties.a.{keyword}: is a keyword that this hub does not check; leave it out"
        );
        assert_eq!(refused(&schema), expected);
    }
    for (schema, expected) in [
        (json!({"type": "object", "required": "a"}), "input_schema.required: must be an array of names"),
        (json!({"$schema": 1}), "input_schema.$schema: must be a string"),
        (
            json!({"properties": {"a": {"type": "float"}}}),
            "input_schema.properties.a.type: must be string, number",
        ),
        (
            json!({"properties": {"a": {"pattern": "(a)\\1"}}}),
            "input_schema.properties.a.pattern: must be a regular",
        ),
        (json!({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}), "and not too large"),
        (json!({"properties": {"a": 1}}), "input_schema.properties.a: must be a schema, not a number"),
        (json!({"type": "object", "minimum": "1"}), "input_schema.minimum: must be a number"),
        (
            json!({"type": "object", "maxLength": -1}),
            "input_schema.maxLength: must be an integer of 0 or more",
        ),
    ] {
        assert!(refused(&schema).contains(expected), "{}", refused(&schema));
    }
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_DEPTH {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert!(refused(&deep).contains("must not be deeper than 16 schemas"));
}

proptest! {
    #[test]
    fn neither_reading_nor_checking_panics(schema in ".{0,40}", data in ".{0,40}") {
        if let (Ok(schema), Ok(data)) = (serde_json::from_str::<Value>(&schema), serde_json::from_str::<Value>(&data)) {
            drop(check(&schema, &data, "x"));
        }
    }

    #[test]
    fn patterns_take_time_in_proportion(text in "a{0,200}b?") {
        let schema = json!({"type": "object", "properties": {"t": {"pattern": "^(a+)+$"}}});
        let fits = check(&schema, &json!({"t": text.clone()}), "x").is_ok();
        prop_assert_eq!(fits, !text.is_empty() && !text.ends_with('b'));
    }
}

/// Schema and data come from strangers, and other requests wait for the check.
#[test]
fn a_check_costs_no_more_than_it_may() {
    let many: serde_json::Map<String, Value> =
        (0..33).map(|n| (format!("p{n}"), json!({"pattern": "a"}))).collect();
    assert_eq!(
        refused(&json!({"type": "object", "properties": many})),
        "input_schema: must have at most 32 patterns"
    );
    assert!(
        refused(&json!({"type": "object", "properties": {"x": {"pattern": "[a-z]{999}"}}}))
            .contains("not too large")
    );

    let long = json!({"type": "object", "properties": {"x": {"pattern": "([a-z]|[a-y]){20}!"}}});
    assert_eq!(refused(&long), "");
    let fits = fault(&long, &json!({"x": format!("{}!", "a".repeat(10_000))}));
    assert_eq!(fits, "");
    let endless = fault(&long, &json!({"x": "a".repeat(200_000)}));
    assert_eq!(
        endless,
        "input_data: takes too long to check against what the skill declares; send less of it"
    );

    let words = (0..3000).collect::<Vec<_>>();
    let one_of = json!({"type": "object", "properties": {"x": {"items": {"enum": words}}}});
    let endless = fault(&one_of, &json!({"x": vec![2999; 50_000]}));
    assert!(endless.contains("takes too long"), "{endless}");
    let numbers = json!({"type": "object", "properties": {"x": {"items": {"type": "number"}}}});
    assert_eq!(fault(&numbers, &json!({"x": vec![1; 120_000]})), "");
}

/// The schemas of several strangers share the budget of one request.
#[test]
fn a_budget_is_for_compiling_and_checking() {
    let patterns: serde_json::Map<String, Value> =
        (0..32).map(|n| (format!("p{n}"), json!({"pattern": "a"}))).collect();
    let dear = json!({"type": "object", "properties": patterns}).to_string();
    let mut steps = StepBudget::new(100_000);
    let mut share = steps.take_share(2);
    let refused = Schema::compile(&dear, "input_data", &mut share).unwrap_err().to_string();
    assert!(refused.contains("takes too long") && share.is_exhausted(), "{refused}");
    steps.put_back(share);
    assert!(!steps.is_exhausted(), "what is left is for the others");
    let plain = Schema::compile(r#"{"text": "string"}"#, "input_data", &mut steps).unwrap();
    assert!(plain.check(&json!({"text": "x"}), "input_data", &mut steps).is_ok());
    assert!(plain.check(&json!({"text": "x"}), "input_data", &mut StepBudget::new(9)).is_err());
    assert!(Schema::compile("no JSON", "input_data", &mut steps).is_err());
    assert!(Schema::weight(&dear) > 32 * 8192);
}
