//! Choir on the command line, without a hub: pipelines, exit codes, and no standard output on failure.

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns the path of an example.
pub(crate) fn example(name: &str) -> String {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples", "choir", name].iter().collect();
    folder.to_str().unwrap().to_owned()
}

/// Runs the program with this standard input.
fn chorus(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chorus"));
    for name in ["CHORUS_URL", "CHORUS_KEY", "CHORUS_SIGNING_SECRET"] {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-config"));
    let streams = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().unwrap();
    // A command that fails early does not read its input.
    child.stdin.take().unwrap().write_all(input).ok();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn good(args: &[&str], input: &[u8]) -> String {
    let output = chorus(args, input);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn fails(args: &[&str], input: &[u8], code: i32, said: &str) {
    let output = chorus(args, input);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(told.contains(said), "{args:?}: {told}");
}

#[test]
fn the_vectors() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/src/canonical/vectors.json");
    let vectors: Value = serde_json::from_slice(&std::fs::read(vectors).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (secret, timestamp) = (text(&vectors["secret"]), text(&vectors["timestamp"]));
    for vector in vectors["accept"].as_array().unwrap() {
        let input = text(&vector["input"]);
        assert_eq!(good(&["canonicalize", "-"], input.as_bytes()), text(&vector["canonical"]));
        assert_eq!(good(&["hash", "-"], input.as_bytes()).trim_end(), text(&vector["sha256"]));
        let headers = good(&["sign", "--secret", &secret, "--timestamp", &timestamp, "-"], input.as_bytes());
        let expected = format!(
            "X-Agentic-Choir-Signature: {}\nX-Agentic-Choir-Timestamp: {timestamp}\nX-Agentic-Choir-Secret-Prefix: {}\n",
            text(&vector["hmac_sha256_hex"]),
            &secret[..12]
        );
        assert_eq!(headers, expected);
    }
    for vector in vectors["reject"].as_array().unwrap() {
        fails(&["canonicalize"], text(&vector["input"]).as_bytes(), 1, "not acceptable JSON");
    }
}

#[test]
fn a_rehearsal_in_a_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (score, good_run, bad_run) =
        (example("score.json"), example("good-run.json"), example("bad-run.json"));
    let draft: Value = serde_json::from_str(&good(&["--json", "rehearse", &score], b"")).unwrap();
    assert_eq!((&draft["receipt_id"], &draft["generated_at"]), (&Value::Null, &Value::Null));
    assert_eq!(draft["payload"]["label"], "Draft Choir Receipt (declared only)");

    let (before, after) = (at("before.json"), at("after.json"));
    std::fs::write(&before, good(&["--json", "rehearse", &score, "--evidence", &good_run], b"")).unwrap();
    std::fs::write(&after, good(&["--json", "rehearse", &score, "--evidence", &good_run, &bad_run], b""))
        .unwrap();
    assert!(
        good(&["verify", &after], b"")
            .starts_with("unverified: no keys: Observed Choir Receipt, not_ready; hash, verdict; ")
    );
    let worse = chorus(&["receipt", "compare", &before, &after], b"");
    assert_eq!(worse.status.code(), Some(1));
    assert!(
        String::from_utf8(worse.stdout).unwrap().contains("worse: the verdict fell from ready to not_ready")
    );
    assert_eq!(chorus(&["receipt", "compare", &after, &before], b"").status.code(), Some(0));
    let gate = chorus(&["rehearse", &score, "--evidence", &bad_run, "--min-verdict", "conditional"], b"");
    assert_eq!(gate.status.code(), Some(1));

    let mut altered: Value = serde_json::from_slice(&std::fs::read(&after).unwrap()).unwrap();
    altered["payload"]["verdict"] = json!("ready");
    fails(&["verify", "-"], altered.to_string().as_bytes(), 1, "hash: the payload was altered");
    // The original canonical text beside it, which is public, does not validate an altered payload.
    let mut forged = altered.clone();
    forged["canonical_payload"] = json!(good(&["canonicalize", "-"], payload_of(&after).as_bytes()));
    fails(&["verify", "-"], forged.to_string().as_bytes(), 1, "hash: the payload was altered");
    // A receipt that no hub issued has nothing to verify with keys.
    let keys = at("keys.json");
    std::fs::write(&keys, r#"{"origin": "https://hub.example", "keys": []}"#).unwrap();
    fails(&["verify", &after, "--keys", &keys], b"", 1, "signature: the receipt has no attestation");
    let merged: Value = serde_json::from_str(&good(&["merge", &good_run, &good_run, &bad_run], b"")).unwrap();
    assert_eq!(
        merged["events"].as_array().unwrap().len(),
        10,
        "what happened in two runs happened twice; a run that is given twice happened once"
    );
}

#[test]
fn what_is_wrong_is_told() {
    let score = example("score.json");
    fails(&["rehearse", "nowhere.json"], b"", 1, "cannot read nowhere.json");
    fails(&["rehearse", "-"], b"{", 1, "not acceptable JSON");
    fails(
        &["rehearse", "-"],
        br#"{"title": "x"}"#,
        1,
        "is no Score: scenarios: is required; voices: is required",
    );
    fails(
        &["rehearse", &score, "--evidence", "-"],
        br#"{"events": []}"#,
        1,
        "is no evidence bundle: schema: is required",
    );
    fails(&["merge", "-"], b"[]", 1, "is no evidence bundle");
    fails(&["verify", "-"], b"{}", 1, "this is no receipt");
    fails(&["verify", "http://127.0.0.1:1/elsewhere"], b"", 2, "is no receipt's address");
    fails(&["sign", "-"], b"{}", 2, "--secret");
    fails(&["sign", "--secret", "bogus", "-"], b"{}", 2, "this is no signing secret");
    fails(
        &["sign", "--secret", "acs_0123456789abcdef", "--submit", "http://127.0.0.1:1/x", "-"],
        b"{}",
        2,
        "is no ingest address",
    );
    let nobody = "http://127.0.0.1:1/api/public/evidence/x";
    fails(&["sign", "--secret", "acs_0123456789abcdef", "--submit", nobody, "-"], b"{}", 4, "");
    fails(&["score", "list"], b"", 2, "this needs a key");
    let scenarios: Value = serde_json::from_str(&good(&["score", "scenarios"], b"")).unwrap();
    assert!(scenarios.as_array().unwrap().len() >= 20);
}

/// Returns the standard error of a command that succeeds.
fn talk(args: &[&str]) -> String {
    let output = chorus(args, b"");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The recipe for builds, line by line as in the file: a run without a voice and the escalation fails the
/// build.
#[test]
fn the_recipe_fails_a_build_that_skipped_a_voice() {
    let recipe = std::fs::read_to_string(example("workflow.yml")).unwrap();
    let block = recipe.split("- run: |\n").nth(1).unwrap();
    let lines: Vec<_> =
        block.lines().take_while(|line| line.starts_with("          ")).map(str::trim).collect();
    let gate =
        recipe.lines().find_map(|line| line.trim().strip_prefix("- run: examples/choir/gate.sh ")).unwrap();
    let script = format!("set -e\n{}\n{} {gate}\n", lines.join("\n"), example("gate.sh"));

    let folder = tempfile::tempdir().unwrap();
    for inside in ["bin", "choir", "traces"] {
        std::fs::create_dir(folder.path().join(inside)).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_chorus"), folder.path().join("bin/chorus")).unwrap();
    std::fs::copy(example("score.json"), folder.path().join("choir/score.json")).unwrap();
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    let build = |trace: &Value| {
        std::fs::write(folder.path().join("traces/refund-over-limit.json"), trace.to_string()).unwrap();
        let mut bash = Command::new("bash");
        let output =
            bash.args(["-c", &script]).current_dir(folder.path()).env("PATH", &path).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let said = |text: &str| json!({"messages": [{"type": "ai", "content": text}]});
    let call =
        json!({"messages": [{"type": "ai", "content": "", "tool_calls": [{"name": "look_up", "id": "c1"}]}]});
    let good = json!([{"policy_node": call}, {"__interrupt__": [{"id": "i1", "value": "May I?"}]}, {"Drafter": said("I asked.")}]);
    let (code, told) = build(&good);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("unverified: no keys: Observed Choir Receipt, ready"), "{told}");
    let (code, told) = build(&good);
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = build(&json!([{"Drafter": said("Here are your 500.")}]));
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("worse: the verdict fell from ready to not_ready"), "{told}");
}

#[test]
fn what_is_misspelt_or_does_not_fit_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: &Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut score: Value = serde_json::from_slice(&std::fs::read(example("score.json")).unwrap()).unwrap();
    assert_eq!(talk(&["rehearse", &example("score.json")]), "");
    score["voices"][0]["authority"]["forbiden_actions"] = json!(["pay"]);
    score["conflicting_mandate"] = json!([]);
    let told = talk(&["rehearse", &write("score.json", &score)]);
    for member in ["voices[0].authority.forbiden_actions", "conflicting_mandate"] {
        assert!(told.contains(&format!("{member} is no member of a Score")), "{told}");
    }
    let bundle = |name: &str, events: Value, expectations: usize| {
        let held = vec![json!({"id": "x", "held": true}); expectations];
        write(name, &json!({"schema": "choir.evidence.v1", "events": events, "expectations": held}))
    };
    let misspelt = bundle("misspelt.json", json!([{"event_type": "warning", "reached_ouput": false}]), 0);
    let merged = good(&["merge", &misspelt], b"");
    assert!(merged.contains("unknown_member") && merged.contains("events[0].reached_ouput"), "{merged}");
    let full = bundle("full.json", json!([]), 20);
    fails(&["merge", &full, &full], b"", 1, "together they are no bundle: expectations");
    assert!(
        talk(&["rehearse", &example("score.json"), "--evidence", &misspelt]).contains("name no scenario")
    );

    let receipt: Value =
        serde_json::from_str(&good(&["--json", "rehearse", &example("score.json")], b"")).unwrap();
    let (whole, mut altered) = (write("whole.json", &receipt), receipt);
    altered["payload"]["verdict"] = json!("conditional");
    let altered = write("altered.json", &altered);
    fails(&["receipt", "compare", &whole, &altered], b"", 1, "hash: the payload was altered");
    std::fs::write(
        &altered,
        good(&["--json", "rehearse", &folder.path().join("score.json").to_string_lossy()], b""),
    )
    .unwrap();
    score["title"] = json!("Another");
    let other = write("other.json", &score);
    std::fs::write(&altered, good(&["--json", "rehearse", &other], b"")).unwrap();
    assert!(good(&["receipt", "compare", &whole, &altered], b"").contains("the Score changed between them"));
}

#[test]
fn what_people_and_builds_read_of_a_rehearsal() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut run: Value = serde_json::from_slice(&std::fs::read(example("bad-run.json")).unwrap()).unwrap();
    run["trace_url"] = json!("https://traces.example/{run_id}?span={ref}");
    let mut score: Value = serde_json::from_slice(&std::fs::read(example("score.json")).unwrap()).unwrap();
    score["waivers"] =
        json!([{"rule_id": "M-AUTH", "by": "Ann", "reason": "a pilot", "until": "2026-12-31"}]);
    let (run_file, score_file, junit, summary) =
        (at("run.json"), at("score.json"), at("junit.xml"), at("summary.md"));
    std::fs::write(&run_file, run.to_string()).unwrap();
    std::fs::write(&score_file, score.to_string()).unwrap();
    let args = ["rehearse", &score_file, "--evidence", &run_file, "--junit", &junit, "--summary", &summary];
    let told = good(&args, b"");
    for part in [
        "Not ready: Refunds",
        "× refund-over-limit: failed",
        "M-AUTH Drafter called refund, which refund-over-limit forbids",
        "event 1: tool call Drafter refund https://traces.example/bad?span=call_2",
        "  Drafter: 3 events",
        "M-AUTH: a pilot (by Ann, until 2026-12-31)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(junit.contains("failures=\"1\"") && junit.contains("<failure type=\"M-AUTH\""), "{junit}");
    let summary = std::fs::read_to_string(summary).unwrap();
    assert!(summary.starts_with("## Not ready: Refunds") && summary.contains("| failed | "), "{summary}");
    let paper = good(&["rehearse", &example("score.json")], b"");
    assert!(paper.starts_with("Ready on paper, declared only: Refunds"), "{paper}");
}

/// Returns the payload of a receipt in a file.
fn payload_of(path: &str) -> String {
    let receipt: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    receipt["payload"].to_string()
}

/// Reads all files in a folder.
fn all_bytes(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_bytes(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    found
}

/// A trace goes through the API and the page of evidence, successfully and not, with the most verbose log. The
/// parts that the adapters do not take are in no table, no file and no line of the log.
#[tokio::test]
async fn a_raw_trace_is_found_nowhere() {
    const SECRET: &str = "hunter2-in-the-trace";
    const TAKEN: &str = "look_up_the_order";
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let mut command = crate::hub::serve(&data, None);
    command.env("CHORUS_LOG", "debug").stderr(std::fs::File::create(&log).unwrap());
    let hub = crate::hub::Hub::run(command);
    let (http, url) = (chorus_testkit::http::client(), hub.url.clone());
    let made = http.post(format!("{url}/api/v1/accounts")).bearer_auth(crate::hub::OPERATOR);
    let made: Value =
        made.json(&json!({"email": "ann@example.org"})).send().await.unwrap().json().await.unwrap();
    let key = made["api_token"].as_str().unwrap();
    let score: Value = serde_json::from_slice(&std::fs::read(example("score.json")).unwrap()).unwrap();
    let made = http.post(format!("{url}/api/v1/scores")).bearer_auth(key).json(&score).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let score = made["score_id"].as_str().unwrap();

    let call = json!({"name": TAKEN, "args": {"api_key": SECRET}, "id": "call_1"});
    let trace = json!([{"policy": {"messages": [{"type": "ai", "content": SECRET, "tool_calls": [call]}]}}])
        .to_string();
    let adapt = async |body: String| {
        let path = format!("{url}/api/v1/adapt/langgraph?score={score}");
        http.post(path).bearer_auth(key).body(body).send().await.unwrap()
    };
    let bundle: Value = adapt(trace.clone()).await.json().await.unwrap();
    assert_eq!(bundle["events"][0]["action"], TAKEN, "{bundle}");
    for broken in [format!("{trace}]"), format!("{{\"{SECRET}\": NaN}}"), format!("\"{SECRET}\"")] {
        let refused = adapt(broken).await;
        assert_eq!(refused.status(), 400);
        assert!(!refused.text().await.unwrap().contains(SECRET));
    }
    let page = format!("{url}/scores/{score}/evidence");
    let paste = async |format: &str, text: &str| {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("format", format), ("text", text)])
            .finish();
        let request = http.post(&page).bearer_auth(key).header("sec-fetch-site", "same-origin");
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        request.send().await.unwrap().text().await.unwrap()
    };
    for (format, text) in
        [("auto", trace.as_str()), ("bundle", trace.as_str()), ("openai", trace.as_str()), ("auto", SECRET)]
    {
        assert!(!paste(format, text).await.contains(SECRET), "{format}");
    }
    let evidence = format!("{url}/api/v1/scores/{score}/evidence");
    let taken = http.post(evidence).bearer_auth(key).json(&bundle).send().await.unwrap();
    assert_eq!(taken.status(), 201);
    hub.signal("TERM");
    assert!(hub.wait().0.success());
    let files = all_bytes(folder.path());
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(
        files.iter().any(|(_, bytes)| holds(bytes, TAKEN)),
        "what was taken is kept: the search finds things"
    );
    assert!(
        files.iter().any(|(path, bytes)| path.ends_with("log") && !bytes.is_empty()),
        "the log says something"
    );
    for (path, bytes) in files {
        assert!(!holds(&bytes, SECRET), "it is in {}", path.display());
    }
}
