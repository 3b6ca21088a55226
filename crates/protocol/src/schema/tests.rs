//! Accepted values, rejected values, and the messages about them.

use super::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Word {
    First,
    SecondOne,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "1 to 4 small letters", pattern = "^[a-z]{1,4}$")]
struct Name(String);

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
struct Inner {
    #[schema(minimum = 1, maximum = 9)]
    number: i64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
struct Body {
    #[schema(min_length = 1, max_length = 5)]
    text: String,
    #[schema(pattern = "^x+$")]
    form: Option<String>,
    #[schema(pattern = r"[^\s]")]
    ink: Option<String>,
    word: Option<Word>,
    name: Option<Name>,
    #[schema(max_items = 2)]
    names: Option<Vec<Name>>,
    #[serde(default)]
    flag: bool,
    inner: Option<Inner>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
enum Either {
    Inner(Inner),
    Other(Other),
}

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
struct Other {
    other: Name,
}

#[test]
fn of_two_bodies_it_is_the_one_whose_members_are_there() {
    let (number, other) = (json!({"number": 3, "other": null}), json!({"other": "a", "flag": 1}));
    assert_eq!(read::<Either>(number).unwrap(), Either::Inner(Inner { number: 3 }));
    assert_eq!(read::<Either>(other).unwrap(), Either::Other(Other { other: Name("a".into()) }));
    for (value, fault) in [
        (json!({}), "body: must have either number or other"),
        (json!({"number": 3, "other": "a"}), "body: must have either number or other"),
        (json!({"number": 10}), "number: must be an integer from 1 to 9"),
        (json!([]), "body: must be an object, not an array"),
    ] {
        assert_eq!(read::<Either>(value).unwrap_err().to_string(), fault);
    }
}

fn wrong(value: Value) -> String {
    read::<Body>(value).unwrap_err().to_string()
}

#[test]
fn what_fits_is_read() {
    let body = read::<Body>(json!({
        "text": "héllo", "form": "xx", "word": "second_one", "name": "abc", "names": ["a", "b"], "flag": true,
        "inner": {"number": 3.0}, "other": 1
    }))
    .unwrap();
    assert_eq!((body.text.as_str(), body.flag), ("héllo", true));
    assert_eq!((body.word, body.inner), (Some(Word::SecondOne), Some(Inner { number: 3 })));
    let body = read::<Body>(json!({"text": "a", "form": null, "flag": null, "inner": null})).unwrap();
    assert_eq!((body.form, body.flag, body.inner), (None, false, None));
    let blank = json!({"text": "a", "ink": " \t\u{a0}\u{2003}\u{3000}"});
    assert!(wrong(blank).starts_with("ink: must be of the form"), "white space is what Unicode says");
    assert_eq!(read::<Body>(json!({"text": "a", "ink": " é"})).unwrap().ink.as_deref(), Some(" é"));
}

#[derive(Debug, PartialEq, Deserialize, IntoParams)]
struct Query {
    after: Option<String>,
    #[serde(default)]
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

#[test]
fn queries_are_read_likewise() {
    let read = |query: &'static str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        read_query::<Query>(pairs.map(|(name, text)| (name.into(), text.into())))
    };
    let query = |after: Option<&str>, limit, dry_run| Query { after: after.map(Into::into), limit, dry_run };
    assert_eq!(read(""), Ok(query(None, None, false)));
    assert_eq!(read("after=&limit=7&limit=8&dry_run=true&x=y"), Ok(query(None, Some(8), true)));
    assert_eq!(read("after=1"), Ok(query(Some("1"), None, false)));
    assert_eq!(
        read("limit=0&dry_run=").unwrap_err().to_string(),
        "limit: must be an integer from 1 to 200; dry_run: must be true or false"
    );
}

#[test]
fn every_fault_is_told_at_once() {
    assert_eq!(wrong(json!([])), "body: must be an object, not an array");
    assert_eq!(wrong(json!({})), "text: is required");
    let faults = wrong(json!({
        "text": "longer than five", "form": "y", "word": "third", "name": "A", "names": ["a", 1, "C"], "flag": "yes",
        "inner": {"number": 10}
    }));
    for fault in [
        "text: must be 1 to 5 characters, not 16",
        "form: must be of the form ^x+$",
        "word: must be one of first, second_one",
        "name: must be 1 to 4 small letters",
        "names: must be an array of at most 2 items, not of 3",
        "flag: must be true or false, not a string",
        "inner.number: must be an integer from 1 to 9",
    ] {
        assert!(faults.contains(fault), "{fault}: {faults}");
    }
    assert_eq!(
        wrong(json!({"text": 1, "names": ["a", 1]})),
        "names[1]: must be a string, not a number; text: must be a string, not a number"
    );
    assert_eq!(
        wrong(json!({"text": null, "inner": {"number": 1.5}})),
        "inner.number: must be an integer from 1 to 9; text: is required"
    );
}
