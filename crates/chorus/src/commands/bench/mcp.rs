//! `chorus bench mcp`: what a tool call costs beyond the protocol: who calls, a channel's log, a durable message.
//!
//! The peer is a server of the official SDK with one tool that does nothing. Both get the same stateless requests over
//! the same connections; whatever they answer must be a result, not a refusal, and is looked at each time.

use super::channel::{FEW, Place, repeat, words};
use super::child::Child;
use super::http::Connection;
use super::load::Outcome;
use super::options::Pace;
use super::progress::Progress;
use super::report::{Figure, Goal, Phase, Section, ratio};
use super::target::Target;
use anyhow::{Context, bail, ensure};
use chorus_protocol::rpc::{Request, Response};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// How many call at the same time, if nothing else is said.
pub(crate) const CALLERS: u32 = 16;
const VERSION: &str = "2026-07-28";

pub(crate) const HELP: &str = "\
Called by turns: `echo` of the peer, which only answers; `get_roster` of a channel with ten members, which looks up the \
caller and the channel, for one member (an answer about as long as that of `echo`) and for all; `chat_send_message`, \
which is durable when it is answered. The figures are the second and third against the first.

The peer is bench/rmcp-peer, a workspace of its own:
  cargo build --release --manifest-path bench/rmcp-peer/Cargo.toml --target-dir target
  chorus bench mcp --peer target/release/rmcp-peer

Another server will do if it prints `chorus listening on http://HOST:PORT` when it is ready, serves MCP 2026-07-28 at \
/mcp, answers with application/json, and has a tool `echo` that takes `text`.";

/// One tool of one server, called by somebody each time.
struct Tool<'a> {
    target: &'a Target,
    requests: Vec<String>,
    /// How many bytes the first answer had.
    expected: usize,
}

impl<'a> Tool<'a> {
    /// Calls it once and reads the answer, so that no refusal is mistaken for speed.
    async fn find(
        target: &'a Target,
        path: &str,
        keys: impl Iterator<Item = &String>,
        name: &str,
        arguments: Value,
    ) -> anyhow::Result<Self> {
        let requests: Vec<_> = keys.map(|key| request(target, path, key, name, &arguments)).collect();
        let first = requests.first().context("nobody calls")?;
        let mut connection = Connection::open(target.address).await?;
        let (status, body) = connection.exchange(first.as_bytes()).await?;
        let told = || format!("{name} of {}, status {status}: {}", target.url, String::from_utf8_lossy(body));
        let answer: Value = serde_json::from_slice(body).with_context(told)?;
        ensure!(status == 200 && is_result(answer), "{}", told());
        Ok(Self { target, requests, expected: body.len() })
    }

    /// Everybody calls it again and again. A good answer is never shorter than the first: in those of one tool only a
    /// number changes, which grows. Reading each would keep a core from the server.
    async fn call(&self, duration: Duration) -> anyhow::Result<Outcome> {
        let expected = self.expected;
        repeat(self.target, self.requests.iter().cloned(), duration, move |body| body.len() >= expected).await
    }
}

/// Whether a tool did what it was asked.
fn is_result(answer: Value) -> bool {
    let result = Response::read(answer).and_then(|answer| answer.outcome.ok());
    result.is_some_and(|result| result["content"].is_array() && result["isError"] != true)
}

/// A call that stands alone: its headers say again what its body says.
fn request(target: &Target, path: &str, key: &str, name: &str, arguments: &Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = [("name", name.into()), ("arguments", arguments.clone()), ("_meta", meta)];
    let params = params.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let body = json!(Request { id: 1.into(), method: "tools/call".into(), params }).to_string();
    format!(
        "{head}content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: {VERSION}\r\nmcp-method: tools/call\r\nmcp-name: {name}\r\n\
         content-length: {length}\r\n\r\n{body}",
        head = target.head("POST", path, key),
        length = body.len(),
    )
}

pub(crate) async fn measure(
    folder: &Path,
    peer: &Path,
    callers: usize,
    pace: &Pace,
    progress: &Progress,
) -> anyhow::Result<Section> {
    if !peer.is_file() {
        bail!("there is no {}; `chorus bench mcp --help` says how it is built", peer.display());
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
        let request = request(&target, "/mcp", "ca_key", "echo", &json!({"text": "Grüße"}));
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /mcp HTTP/1.1\r\n"), "{head}");
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["params"]["arguments"], json!({"text": "Grüße"}));
        assert!(head.contains("\r\nmcp-name: echo\r\n"), "{head}");
    }

    #[test]
    fn refusals_are_no_results() {
        assert!(is_result(json!({"result": {"content": [], "isError": false}})));
        assert!(is_result(json!({"result": {"content": []}})));
        assert!(!is_result(json!({"result": {"content": [], "isError": true}})));
        assert!(!is_result(json!({"error": {"code": -32602, "message": "no"}})));
    }
}
