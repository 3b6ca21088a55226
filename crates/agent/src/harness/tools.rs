//! The tools of one turn: offered by the channel's MCP servers, described to a model, called for it, and
//! shown.
//!
//! A tool that may change something is written to the journal before it is called, so that it is not called
//! again after a crash.

use super::activity::Activity;
use super::completion::Call;
use super::mcp::{Given, Mcp, McpError, Tool};
use super::prompt::described;
use super::report::Reporter;
use super::session::Session;
use super::texts::cut;
use super::turn::{Back, Turn};
use crate::Reach;
use chorus_environment::Environment;
use chorus_protocol::c2a::{ChatTool, ToolInfo};
use chorus_protocol::words::{EntryKind, Signal};
use serde_json::{Map, Value, json};
use url::Url;

/// The number of tools that are described to a model.
const MAX_TOOLS: usize = 128;

/// The longest tool result that a model is given, in characters.
const MAX_RESULT: usize = 32_000;

/// The tools of a turn and their servers.
#[derive(Default)]
pub(super) struct Tools {
    servers: Vec<Server>,
    known: Vec<(usize, Tool)>,
    /// The descriptions for a model.
    pub(super) described: Vec<Value>,
    /// The strongest answer that tool calls have given to the message.
    pub(super) said: Said,
}

/// The kind of answer that a tool call gives to the current message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    #[default]
    Nothing,
    /// An acknowledgement or a deferral. A text may follow.
    Sign,
    /// A full answer. The model's final text is not sent.
    Answer,
}

/// A server of tools.
enum Server {
    Mcp(Mcp),
    /// The host of a session.
    Session(Session),
}

impl Tools {
    /// Connects to the servers that came with the message. A server that does not answer is left out with a
    /// notice. So is, by default, one that is not the hub's.
    pub(super) async fn open(
        &mut self,
        turn: &Turn,
        session: Option<&Session>,
        reach: &Reach,
        reporter: &Reporter,
        delimiter: &str,
    ) {
        if let (Some(session), Back::Session(_)) = (session, &turn.back) {
            match session.tools().await {
                Ok(list) => {
                    let tools = list.tools.into_iter().map(Tool::from).collect();
                    self.add(Server::Session(session.clone()), tools, None);
                }
                Err(error) => {
                    reporter.observer().tell(Activity::Skipped { what: format!("the hub's tools: {error}") });
                }
            }
        }
        for server in &turn.mcp {
            // The hub itself sends a `chat`, with its own addresses under any of its names. Other messages may
            // come from strangers.
            let stranger = turn.kind != EntryKind::Chat;
            let foreign = stranger && !Url::parse(&server.url).is_ok_and(|url| reach.takes_tools_from(&url));
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
                Ok((mcp, tools)) => self.add(Server::Mcp(mcp), tools, stranger.then_some(delimiter)),
                Err(error) => {
                    reporter
                        .observer()
                        .tell(Activity::Skipped { what: format!("the channel's tools: {error}") });
                }
            }
        }
    }

    /// Adds the tools of a server. A stranger's descriptions are put between lines with the delimiter.
    fn add(&mut self, server: Server, tools: Vec<Tool>, delimiter: Option<&str>) {
        self.servers.push(server);
        for tool in tools {
            let name = spoken(&tool.name);
            let double = self.known.iter().any(|(_, known)| spoken(&known.name) == name);
            if double || !callable(&name) || self.known.len() >= MAX_TOOLS {
                continue;
            }
            let description = match (&tool.description, delimiter) {
                (Some(text), Some(delimiter)) => Some(described(text, delimiter)),
                (text, _) => text.clone(),
            };
            let function = json!({"name": name, "description": description, "parameters": tool.schema});
            self.described.push(json!({"type": "function", "function": function}));
            self.known.push((self.servers.len() - 1, tool));
        }
    }

    /// Calls a tool and shows it. Returns the text for the model, and whether the call was valid.
    pub(super) async fn call(
        &mut self,
        call: &Call,
        n: usize,
        turn: &Turn,
        reporter: &Reporter,
        environment: &Environment,
    ) -> (String, bool) {
        let (id, begun_ms) = (format!("tc_{n}"), environment.elapsed());
        let args = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() };
        let args = serde_json::from_str::<Map<String, Value>>(args);
        let shown = args.as_ref().map_or_else(|_| Map::new(), Clone::clone);
        reporter.tool_call(&id, &call.name, shown).await;
        let found = self.known.iter().find(|(_, tool)| spoken(&tool.name) == call.name);
        let (text, ok, sensible) = match (found, args) {
            (None, _) => (format!("error: there is no tool {}", cut(&call.name, 100)), false, false),
            (_, Err(error)) => (format!("error: the arguments are no JSON object: {error}"), false, false),
            (Some((server, tool)), Ok(args)) => {
                let said = says(&tool.name, &args, turn);
                if !tool.harmless || said == Said::Answer {
                    reporter.acts(&tool.name).await;
                }
                let given = self.servers[*server].call(&tool.name, &args).await;
                if given.as_ref().is_ok_and(|given| given.ok) {
                    self.said = self.said.max(said);
                }
                match given {
                    Ok(given) => (given.text, given.ok, true),
                    Err(why) => (format!("error: {why}"), false, true),
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
            if let Server::Mcp(mcp) = server {
                mcp.close().await;
            }
        }
    }
}

impl Server {
    async fn call(&mut self, name: &str, args: &Map<String, Value>) -> Result<Given, String> {
        match self {
            Self::Mcp(mcp) => mcp.call_tool(name, args).await.map_err(|error| error.to_string()),
            Self::Session(session) => {
                let result = session.call_tool(name, args).await.map_err(|error| error.to_string())?;
                Ok(Given { text: result.to_text(), ok: !result.is_error })
            }
        }
    }
}

impl From<ToolInfo> for Tool {
    fn from(ToolInfo { name, description, input_schema, annotations }: ToolInfo) -> Self {
        let schema = input_schema.map_or_else(|| json!({"type": "object"}), Value::Object);
        let hints = annotations.unwrap_or_default();
        let harmless = hints.read_only_hint || hints.idempotent_hint;
        Self { name, description: Some(description), schema, harmless }
    }
}

/// Returns the kind of answer that a call gives to the message. A reaction that commits to nothing does not
/// replace an answer.
fn says(name: &str, args: &Map<String, Value>, turn: &Turn) -> Said {
    let Some((tool, _)) = ChatTool::named(name) else { return Said::Nothing };
    let about = ["inReplyTo", "in_reply_to", "reply_to", "eventId", "event_id"];
    let own = about.iter().filter_map(|name| args.get(*name)?.as_str()).any(|id| id == turn.message_id);
    match tool {
        _ if !own => Said::Nothing,
        ChatTool::SendMessage | ChatTool::Defer | ChatTool::Resolve => Said::Answer,
        ChatTool::React => match args.get("signal").and_then(Value::as_str).and_then(Signal::parse) {
            Some(Signal::Agree | Signal::Done | Signal::Declined) => Said::Answer,
            Some(Signal::Seen | Signal::Queued | Signal::Blocked) => Said::Sign,
            Some(Signal::Working | Signal::Claimed | Signal::Unclear | Signal::Stop) | None => Said::Nothing,
        },
        ChatTool::ListEvents | ChatTool::ReadThread | ChatTool::Claim => Said::Nothing,
    }
}

/// Returns a tool's name as described to models: many of their servers refuse dots.
fn spoken(name: &str) -> String {
    name.replace('.', "_")
}

/// Checks whether a tool can be described to models by this name.
fn callable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}
