//! `astream_log` in the forms that langchain-core 1.x emits.

use super::*;
use serde_json::json;

fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

fn begin() -> Value {
    json!({"op": "replace", "path": "", "value": {"id": "r", "streamed_output": [], "final_output": null, "logs": {},
        "name": "LangGraph", "type": "chain"}})
}

fn entry(name: &str, kind: &str, node: &str) -> Value {
    json!({"id": format!("id-{name}"), "name": name, "type": kind, "tags": [], "metadata": {"langgraph_node": node,
        "langgraph_checkpoint_ns": format!("{node}:1")}, "start_time": "2026-11-17T14:57:50.595+00:00", "streamed_output": [],
        "streamed_output_str": [], "final_output": null, "end_time": null})
}

/// Returns the patches of one run inside the whole.
fn run(name: &str, kind: &str, node: &str, output: Value) -> Vec<Value> {
    let place = |end: &str| format!("/logs/{name}{end}");
    vec![
        add(&place(""), entry(name, kind, node)),
        add(&place("/streamed_output/-"), json!({"tool_calls": [{"name": "never", "id": "never"}]})),
        add(&place("/final_output"), output),
        add(&place("/end_time"), json!("2026-11-17T14:57:51.000+00:00")),
    ]
}

fn node(name: &str, output: Value) -> Vec<Value> {
    let told = add("/streamed_output/-", json!({name: output}));
    [
        run(name, "chain", name, output.clone()),
        vec![told, json!({"op": "replace", "path": "/final_output", "value": {name: output}})],
    ]
    .concat()
}

/// Returns the patches of a small ensemble.
fn patches() -> Vec<Value> {
    let call = json!({"type": "ai", "content": "", "id": "m", "tool_calls": [{"name": "look", "args": {}, "id": "c"}]});
    let model = run("Canned", "llm", "triage", json!({"generations": [[{"text": "", "message": call}]]}));
    let tool = run(
        "look",
        "tool",
        "tools",
        json!({"output": {"type": "tool", "content": "x", "tool_call_id": "c"}}),
    );
    let documents = json!([{"id": "d1", "metadata": {"source": "kb"}, "page_content": "Confidential", "type": "Document"}]);
    [
        vec![begin()],
        model,
        node("triage", json!({"messages": [call]})),
        tool,
        node(
            "tools",
            json!({"messages": [{"type": "tool", "content": "x", "tool_call_id": "c", "name": "look"}]}),
        ),
        run("VectorStore", "retriever", "retriever", json!({"documents": documents})),
        node("retriever", json!({"documents": documents})),
        node("policy_guard", json!({"flagged": true})),
        node("critic", json!({"verdict": "rejected", "objection": "nobody approved it"})),
        node("answer", json!({"final": "blocked, rejected, refused: only words"})),
    ]
    .concat()
}

/// The expected events, sorted, because the members of a log are sorted by name.
const EXPECTED: [&str; 4] =
    ["dissent critic", "evidence_cited retriever - d1", "tool_call triage look c", "warning policy_guard"];

#[track_caller]
fn assert_told(bundle: &Bundle) {
    let mut told = told(bundle);
    told.sort();
    assert_eq!(told.len(), EXPECTED.len(), "{told:?}");
    assert!(told.iter().zip(EXPECTED).all(|(told, expected)| told.starts_with(expected)), "{told:?}");
    assert_eq!(codes(bundle), [] as [&str; 0], "{:?}", bundle.adapter_warnings);
    let text = serde_json::to_string(bundle).unwrap();
    assert!(!text.contains("Confidential") && !text.contains("never"), "{text}");
}

/// Applies patches to a log.
fn log(patches: &[Value]) -> Value {
    let mut log = json!(null);
    for patch in patches {
        let (path, value) = (patch["path"].as_str().unwrap(), patch["value"].clone());
        match path.strip_suffix("/-") {
            _ if path.is_empty() => log = value,
            Some(list) => log.pointer_mut(list).unwrap().as_array_mut().unwrap().push(value),
            None => {
                let (around, name) = path.rsplit_once('/').unwrap();
                log.pointer_mut(around).unwrap()[name] = value;
            }
        }
    }
    log
}

#[test]
fn in_every_shape_it_is_kept_in() {
    let all = patches();
    // The same run as one patch per step, as operations alone, as the last log, and as the log after each
    // step.
    let each: Vec<_> = all.iter().map(|op| json!({"ops": [op]})).collect();
    let logs: Vec<_> =
        (1..=all.len()).map(|end| json!({"ops": all[..end], "state": log(&all[..end])})).collect();
    for trace in [json!({"ops": all}), json!(each), json!(all), log(&all), json!([log(&all)]), json!(logs)] {
        assert_told(&bundle(Format::LangGraph, &trace));
        let guessed = adapt(None, trace.to_string().as_bytes(), &About::default()).unwrap();
        assert_eq!(guessed.adapter.unwrap().id, "langgraph.stream.v1");
        assert!(is_complete(Format::LangGraph, &trace));
    }
    // LangServe sends the patches in this form.
    let lines: Vec<_> = each.iter().map(|patch| format!("event: data\ndata: {patch}\n\n")).collect();
    let sent = format!("{}event: end\n\n", lines.concat());
    assert_told(&adapt(None, sent.as_bytes(), &About::default()).unwrap());
    assert_eq!(
        bundle(Format::LangGraph, &json!(each)).events[0].occurred_at.as_deref(),
        Some("2026-11-17T14:57:50.595+00:00")
    );
}

#[test]
fn a_log_that_breaks_off_is_not_complete() {
    let all = patches();
    let cut = all.iter().position(|op| op["path"] == "/logs/critic/final_output").unwrap();
    assert!(!is_complete(Format::LangGraph, &json!(all[..cut])));
    assert!(!is_complete(Format::LangGraph, &log(&all[..cut])));
}

/// The stream of the whole may hold what a node's entry lacks.
#[test]
fn commands_interrupts_and_failures() {
    let whole = |chunk: Value| vec![add("/streamed_output/-", chunk)];
    let command = json!({"output": "Command(update={'flagged': True}, goto='other')"});
    let unread = [vec![begin()], run("policy_guard", "chain", "policy_guard", command)].concat();
    let read = [unread.clone(), whole(json!({"policy_guard": {"flagged": true}}))].concat();
    let object =
        json!({"output": {"update": {"flagged": true}, "goto": "other", "graph": null, "resume": null}});
    let object = [vec![begin()], run("policy_guard", "chain", "policy_guard", object)].concat();
    let stopped = [vec![begin()], run("ask", "chain", "ask", json!({}))].concat();
    let interrupt = json!({"__interrupt__": [{"value": {"question": "Publish?"}, "id": "i"}]});
    let asked = [stopped.clone(), whole(interrupt)].concat();
    let again = [asked.clone(), vec![begin()], run("ask", "chain", "ask", json!({"final": "yes"}))].concat();
    let nothing = [stopped.clone(), whole(json!({"ask": null}))].concat();
    for (trace, kinds, found, complete) in [
        (unread, &[][..], &["silent_node"][..], false),
        (read, &["warning"], &[], true),
        (object, &["warning"], &[], true),
        (stopped, &[], &["silent_node"], false),
        (asked, &["escalation"], &["no_voice"], false),
        (again, &["escalation"], &["no_voice"], true),
        (nothing, &[], &["no_events"], true),
    ] {
        let trace = json!(trace);
        let bundle = bundle(Format::LangGraph, &trace);
        let told: Vec<_> = bundle.events.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!((told.as_slice(), codes(&bundle).as_slice()), (kinds, found), "{trace}");
        assert_eq!(is_complete(Format::LangGraph, &trace), complete, "{trace}");
    }
}

#[test]
fn a_graph_inside_a_node_is_told_once() {
    let documents = json!({"documents": [{"id": "d", "source": "https://x"}]});
    let mut inner = run("vector_search", "chain", "vector_search", documents.clone());
    inner[0]["value"]["metadata"]["langgraph_checkpoint_ns"] = json!("research_retrieval:1|vector_search:2");
    let all = [vec![begin()], inner, node("research_retrieval", documents)].concat();
    assert_eq!(told(&bundle(Format::LangGraph, &json!(all))), ["evidence_cited vector_search - d"]);
}

/// Chains without a graph have no nodes, and their stream is no node's output.
#[test]
fn what_cannot_be_mapped_is_said() {
    for (op, code) in [
        (
            add("/streamed_output/-", json!({"retriever": {"documents": [{"id": "d"}]}})),
            Some("unmapped_output"),
        ),
        (add("/streamed_output/-", json!({"answer": "x"})), Some("unmapped_output")),
        (add("/streamed_output/-", json!("a word")), None),
        (json!({"op": "remove", "path": "/logs/x"}), Some("unmapped_patch")),
        (add("/elsewhere", json!({})), Some("unmapped_patch")),
        (add("/logs/x/final_output", json!({})), Some("unknown_entry")),
        (json!({"op": "replace", "path": "/final_output", "value": {"documents": [{"id": "d"}]}}), None),
    ] {
        let bundle = bundle(Format::LangGraph, &json!([begin(), op]));
        assert!(bundle.events.is_empty(), "{op}");
        assert_eq!(codes(&bundle), [code.unwrap_or("no_events")], "{op}");
    }
    let chunk = json!({"type": "AIMessageChunk", "content": "", "id": "m", "tool_calls": [{"name": "look", "id": "c", "args": {}}]});
    let bundle = bundle(Format::LangGraph, &json!([begin(), add("/streamed_output/-", chunk)]));
    assert_eq!(told(&bundle), ["tool_call - look c"]);
}
