//! The tools of one turn: what the channel's MCP servers offer, told to a model, called for it, and shown.
//!
//! A tool that may change something is written to the journal before it is called: after a crash it is not called
//! again.

use super::activity::Activity;
use super::completion::Call;
use super::mcp::{Mcp, McpError, Tool};
use super::report::Reporter;
use super::texts::cut;
use super::turn::Turn;
use crate::Reach;
use chorus_environment::Environment;
use chorus_protocol::words::EntryKind;
use serde_json::{Map, Value, json};
use url::Url;

/// The most tools a model is told of.
const MAX_TOOLS: usize = 128;

/// The longest result of a tool that a model is given, in characters.
const MAX_RESULT: usize = 32_000;

/// The tools of a turn, and where they are.
#[derive(Default)]
pub(super) struct Tools {
    servers: Vec<Mcp>,
    known: Vec<(usize, Tool)>,
    /// As a model is told of them.
    pub(super) described: Vec<Value>,
}

impl Tools {
    /// Greets the servers that came with the message. One that does not answer is left out, and that is said; so is, by
    /// default, one that is not the hub's.
    pub(super) async fn open(&mut self, turn: &Turn, reach: &Reach, reporter: &Reporter) {
        for server in &turn.mcp {
            // What was said on the hub comes from the hub with its addresses; anything else from whoever wrote it.
            let foreign = turn.kind != EntryKind::Chat
                && !Url::parse(&server.url).is_ok_and(|url| reach.takes_tools_from(&url));
            if foreign {
                if reach.tells() {
                    let what = "a tool server that is not the hub's; --foreign-mcp uses such servers".into();
                    reporter.observer().tell(Activity::Skipped { what });
                }
                continue;
            }
            let opened = async {
                let mut mcp = Mcp::open(server, reach).await?;
                let tools = mcp.tools().await?;
                Ok::<_, McpError>((mcp, tools))
            };
            match opened.await {
                Ok((mcp, tools)) => self.add(mcp, tools),
                Err(error) => {
                    reporter
                        .observer()
                        .tell(Activity::Skipped { what: format!("the channel's tools: {error}") });
                }
            }
        }
    }

    fn add(&mut self, mcp: Mcp, tools: Vec<Tool>) {
        self.servers.push(mcp);
        for tool in tools {
            let double = self.known.iter().any(|(_, known)| known.name == tool.name);
            if double || !callable(&tool.name) || self.known.len() >= MAX_TOOLS {
                continue;
            }
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            self.described.push(json!({"type": "function", "function": function}));
            self.known.push((self.servers.len() - 1, tool));
        }
    }

    /// Calls a tool and shows it. Gives what the model is told, and whether the call made sense.
    pub(super) async fn call(
        &mut self,
        call: &Call,
        n: usize,
        reporter: &Reporter,
        environment: &Environment,
    ) -> (String, bool) {
        let (id, begun_ms) = (format!("tc_{n}"), environment.elapsed());
        let args = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() };
        let args = serde_json::from_str::<Map<String, Value>>(args);
        let shown = args.as_ref().map_or_else(|_| Map::new(), Clone::clone);
        reporter.tool_call(&id, &call.name, shown).await;
        let found = self.known.iter().find(|(_, tool)| tool.name == call.name);
        let (text, ok, sensible) = match (found, args) {
            (None, _) => (format!("error: there is no tool {}", cut(&call.name, 100)), false, false),
            (_, Err(error)) => (format!("error: the arguments are no JSON object: {error}"), false, false),
            (Some((server, tool)), Ok(args)) => {
                if !tool.harmless {
                    reporter.acts(&tool.name).await;
                }
                match self.servers[*server].call_tool(&tool.name, &args).await {
                    Ok(given) => (given.text, given.ok, true),
                    Err(error) => (format!("error: {error}"), false, true),
                }
            }
        };
        let text = cut(&text, MAX_RESULT);
        reporter.tool_result(&id, &text).await;
        let elapsed_ms = u64::try_from(environment.elapsed() - begun_ms).unwrap_or(0);
        reporter.observer().tell(Activity::ToolResult { name: cut(&call.name, 100), ok, elapsed_ms });
        (text, sensible)
    }

    pub(super) async fn close(self) {
        for server in self.servers {
            server.close().await;
        }
    }
}

/// Whether models can be told of a tool by this name.
fn callable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}
