//! Hostile traces: the time to read them grows only linearly with their length.

use super::*;

#[test]
fn no_shape_takes_more_time_than_its_length() {
    let many = |count: usize, piece: &str| vec![piece; count].join(",");
    let call = r#"{"name":"a","id":"1"}"#;
    let block = r#"{"type":"server_tool_use","name":"a","id":"x"}"#;
    for (what, trace) in [
        ("members of one name", format!(r#"[{{"a":{{{}}}}}]"#, many(100_000, r#""input":1"#))),
        (
            "graphs inside each other",
            format!(r#"[[[{}],{{"guard":{{"flagged":true}}}}]]"#, many(50_000, r#""a:1""#)),
        ),
        (
            "blocks beside calls",
            format!(
                r#"[{{"a":{{"messages":[{{"type":"ai","tool_calls":[{}],"content":[{}]}}]}}}}]"#,
                many(20_000, call),
                many(20_000, block)
            ),
        ),
    ] {
        // With quadratic time each of these would take minutes.
        let adapted = adapt(Some(Format::LangGraph), trace.as_bytes(), &About::default());
        assert!(adapted.is_ok(), "{what}");
    }
}
