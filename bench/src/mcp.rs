//! `mcp`: tool calls of a hub, which look up the caller and its channel, against a server that does nothing.
//!
//! The peer is a server of the official SDK with one tool that does nothing. Both get the same stateless
//! requests over the same connections. Every answer is checked: it must be a result, not a refusal.

use crate::channel::{FEW, Place, repeat, words};
use crate::child::Child;
use crate::http::{Connection, HttpRequest};
use crate::load::Outcome;
use crate::options::Pace;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Section, ratio};
use crate::target::Target;
use anyhow::{Context, bail, ensure};
use chorus_protocol::rpc::{Request, Response};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The default number of concurrent callers.
pub(crate) const CALLERS: u32 = 16;
const VERSION: &str = "2026-07-28";

pub(crate) const HELP: &str = "\
Called by turns: `echo` of the peer, which only answers; `get_roster` of a channel with ten members, which looks up the \
caller and the channel, for one member (an answer about as long as that of `echo`) and for all; `chat_send_message`, \
which is durable when it is answered. The figures are the second and third against the first.

The peer is bench/rmcp-peer, a workspace of its own:
  cargo build --release --manifest-path bench/rmcp-peer/Cargo.toml --target-dir target
  target/dist/chorus-bench mcp --peer target/release/rmcp-peer

Another server will do if it prints `chorus listening on http://HOST:PORT` when it is ready, serves MCP 2026-07-28 at \
/mcp, answers with application/json, and has a tool `echo` that takes `text`.";

/// One tool of one server, with a request for each caller.
struct Tool<'a> {
    target: &'a Target,
    requests: Vec<HttpRequest>,
    /// The length of the first response, in bytes.
    expected: usize,
}

impl<'a> Tool<'a> {
    /// Calls the tool once and reads the answer, so that a refusal is not mistaken for speed.
    async fn find(
        target: &'a Target,
        path: &str,
        keys: impl Iterator<Item = &String>,
        name: &str,
        arguments: Value,
    ) -> anyhow::Result<Self> {
        let requests = keys.map(|key| request(target, path, key, name, &arguments));
        let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
        let first = requests.first().context("no caller")?;
        let mut connection = Connection::open(target.address).await?;
        let (status, body) = connection.exchange(first.clone()).await?;
        let told =
            || format!("{name} of {}, status {status}: {}", target.url, String::from_utf8_lossy(&body));
        let answer: Value = serde_json::from_slice(&body).with_context(told)?;
        ensure!(status == 200 && is_result(answer), "{}", told());
        Ok(Self { target, requests, expected: body.len() })
    }

    /// Calls the tool in a loop on every connection. A good answer is never shorter than the first, because
    /// only a growing number changes. Parsing every answer would take a core from the server.
    async fn call(&self, duration: Duration) -> anyhow::Result<Outcome> {
        let expected = self.expected;
        repeat(self.target, self.requests.iter().cloned().map(Ok), duration, move |body| {
            body.len() >= expected
        })
        .await
    }
}

/// Checks that a response is a result and no error.
fn is_result(answer: Value) -> bool {
    let result = Response::read(answer).and_then(|answer| answer.outcome.ok());
    result.is_some_and(|result| result["content"].is_array() && result["isError"] != true)
}

/// Returns a stateless call, whose headers repeat what its body says.
fn request(
    target: &Target,
    path: &str,
    key: &str,
    name: &str,
    arguments: &Value,
) -> anyhow::Result<HttpRequest> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = [("name", name.into()), ("arguments", arguments.clone()), ("_meta", meta)];
    let params = params.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let body = json!(Request { id: 1.into(), method: "tools/call".into(), params }).to_string();
    let mut request = target.post(path, Some(key), body)?;
    for (name, value) in [
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", VERSION),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ] {
        request.headers_mut().insert(name, value.parse()?);
    }
    Ok(request)
}

pub(crate) async fn measure(
    folder: &Path,
    peer: &Path,
    callers: usize,
    pace: &Pace,
    progress: &Progress,
) -> anyhow::Result<Section> {
    if !peer.is_file() {
        bail!("there is no {}. `bench/run mcp` builds it", peer.display());
    }
    let peer = Child::peer(peer).await?;
    let bare = Target::find(&peer.url).await?;
    let place = Place::make(folder.join("mcp"), FEW, 0, pace.size, progress).await?;
    let (path, text) = (format!("/mcp/{}", place.channel), words(pace.size));
    let keys = || place.keys.iter().cycle().take(callers);
    let echo = Tool::find(&bare, "/mcp", keys(), "echo", json!({"text": text})).await?;
    let [one, all] = [json!({"limit": 1}), json!({})];
    let one = Tool::find(&place.target, &path, keys(), "get_roster", one).await?;
    let all = Tool::find(&place.target, &path, keys(), "get_roster", all).await?;
    let send =
        Tool::find(&place.target, &path, keys(), "chat_send_message", json!({"content": text})).await?;
    let [mut echoed, mut read_one, mut read_all, mut sent] = [const { vec![] }; 4];
    for round in 1..=pace.rounds {
        let what = |phase: &str| format!("mcp, round {round} of {}, {phase}", pace.rounds);
        echoed.push(pace.measured(progress, what("peer"), async |time| echo.call(time).await).await?);
        read_one.push(pace.measured(progress, what("one member"), async |time| one.call(time).await).await?);
        read_all.push(pace.measured(progress, what("all members"), async |time| all.call(time).await).await?);
        sent.push(pace.measured(progress, what("message"), async |time| send.call(time).await).await?);
    }
    place.finish().await?;
    let figure = |name, value| Figure::ratio(name, value, Goal::AtLeast(0.5));
    Ok(Section {
        bench: "mcp",
        setup: format!("{callers} callers, MCP {VERSION}, {FEW} members; {pace}"),
        phases: vec![
            Phase::of("peer, echo", &echoed),
            Phase::of("hub, get_roster, limit 1", &read_one),
            Phase::of("hub, get_roster", &read_all),
            Phase::of("hub, chat_send_message", &sent),
        ],
        figures: vec![
            figure("get_roster with limit 1/echo of the peer", ratio(&read_one, &echoed)),
            figure("get_roster/echo of the peer", ratio(&read_all, &echoed)),
        ],
        exactly_once: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_is_whole() {
        let target = Target::find("http://127.0.0.1:1").await.unwrap();
        let request = request(&target, "/mcp", "ca_key", "echo", &json!({"text": "Grüße"})).unwrap();
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/mcp"));
        assert_eq!(request.headers()["content-length"], request.body().len().to_string());
        assert_eq!(request.headers()["mcp-name"], "echo");
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(body["params"]["arguments"], json!({"text": "Grüße"}));
    }

    #[test]
    fn refusals_are_no_results() {
        assert!(is_result(json!({"result": {"content": [], "isError": false}})));
        assert!(is_result(json!({"result": {"content": []}})));
        assert!(!is_result(json!({"result": {"content": [], "isError": true}})));
        assert!(!is_result(json!({"error": {"code": -32602, "message": "no"}})));
    }
}
