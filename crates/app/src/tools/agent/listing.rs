//! The table of an agent's tools.

use super::{AgentContext, approvals, chat, mailbox, market, own_status};
use crate::c2a;
use crate::tools::tool::Effect::{Adds, Reads, Replaces, Wakes};
use crate::tools::tool::Tool;
use chorus_node::Error;
use chorus_protocol::c2a::{ChatTool, snake};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::ConversationId;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The tools of a channel that an agent has in each of its conversations.
const IN_A_CHANNEL: [&str; 7] = [
    "get_roster",
    "set_status",
    "search",
    "artifact_list",
    "artifact_read",
    "artifact_create",
    "artifact_edit",
];

/// The argument that names the conversation.
const CONVERSATION: &str = "conversation_id";

/// Built once, because the schemas are derived.
pub(super) static TOOLS: LazyLock<Vec<Tool<AgentContext>>> = LazyLock::new(|| {
    let channel = crate::tools::all().iter().filter(|tool| IN_A_CHANNEL.contains(&tool.name));
    let mut tools = mailbox_tools();
    tools.extend(chat_tools());
    tools.extend(channel.map(in_a_conversation));
    tools.extend(approval_tools());
    tools.extend(market_tools());
    tools
});

fn mailbox_tools() -> Vec<Tool<AgentContext>> {
    vec![
        Tool::new(
            ("inbox", "See what waits for you", Reads),
            mailbox::inbox,
            "List the events that ask something of you and that you have not answered, in all your conversations, the oldest first. \
             Each has the conversation_id and event_id to answer it with, and its `policy`. Wakes nobody.",
        ),
        Tool::new(
            ("wait_for_events", "Wait for the next event", Reads),
            mailbox::wait,
            "Wait until something new waits for your answer, for at most `wait_ms`; no events when the time was up. Pass `next` of the last \
             answer as `after` each time, and nothing is missed or seen twice. Wakes nobody and costs nothing while it waits.",
        ),
        Tool::new(
            ("channel_list", "List your conversations", Reads),
            own_status::channels,
            "List the channels and direct conversations that you are in, with their conversation_id. Wakes nobody.",
        ),
        Tool::new(
            ("my_status", "See your own status", Reads),
            own_status::status,
            "See your own name and address, and whether you are paused. `detail` adds your record and quotas. Wakes nobody.",
        ),
    ]
}

fn chat_tools() -> Vec<Tool<AgentContext>> {
    let said = |tool: ChatTool| respelled(c2a::described(tool).0);
    vec![
        Tool::new(
            ("chat_list_events", "Read your events", Reads),
            chat::list_events,
            said(ChatTool::ListEvents),
        ),
        Tool::new(
            ("chat_read_thread", "Read a thread", Reads),
            chat::read_thread,
            said(ChatTool::ReadThread),
        ),
        Tool::new(
            ("chat_send_message", "Say something", Wakes),
            chat::send_message,
            said(ChatTool::SendMessage),
        ),
        Tool::new(("chat_react", "React to an event", Replaces), chat::react, said(ChatTool::React)),
        Tool::new(("chat_claim", "Take something on", Replaces), chat::claim, said(ChatTool::Claim)),
        Tool::new(("chat_defer", "Put something off", Replaces), chat::defer, said(ChatTool::Defer)),
        Tool::new(
            ("chat_resolve", "Say that something is done", Replaces),
            chat::resolve,
            said(ChatTool::Resolve),
        ),
    ]
}

fn approval_tools() -> Vec<Tool<AgentContext>> {
    vec![
        Tool::new(
            ("approval_list", "List what waits for approval", Reads),
            approvals::list,
            "List your messages that are held until a person approves them. Wakes nobody.",
        ),
        Tool::new(
            ("approval_get", "Look at an approval", Reads),
            approvals::look,
            "See whether a message of yours was approved, declined or still waits, and the reason. Wakes nobody.",
        ),
        Tool::new(
            ("approval_ask", "Ask a person for approval", Adds),
            approvals::ask,
            "Ask a person to approve something before you do it. Wakes no agent. The person's reaction, agree or declined, comes to your \
             inbox. Do not do it before that. Give an `idempotency_key`: the same for every retry of the same question.",
        ),
        Tool::new(
            ("approval_withdraw", "Withdraw a held message", Replaces),
            approvals::withdraw,
            "Withdraw a message of yours that waits for approval. Wakes nobody.",
        ),
    ]
}

fn market_tools() -> Vec<Tool<AgentContext>> {
    vec![
        Tool::new(
            ("market_discover", "Find agents to hire", Reads),
            market::find,
            "Find agents on the market by skill, words, price or reputation, the best first. Wakes nobody.",
        ),
        Tool::new(
            ("market_hire", "Hire an agent", Wakes),
            market::hire,
            "Hire an agent for one job of a skill. WAKES it. The budget is held, and paid when the job succeeds. Give a `job_id`, a UUID: the \
             same for every retry of the same job. The result comes to your inbox; market_job shows it.",
        ),
        Tool::new(
            ("market_jobs", "List your jobs", Reads),
            market::list,
            "List the jobs that you gave and those you were hired for, the newest first. Wakes nobody.",
        ),
        Tool::new(
            ("market_job", "Look at a job", Reads),
            market::look,
            "See one job with its status and result. Wakes nobody.",
        ),
        Tool::new(
            ("market_cancel", "Cancel a job", Replaces),
            market::cancel,
            "Cancel an open job that you gave; the held credits come back. Wakes nobody.",
        ),
        Tool::new(
            ("market_report", "Report the result of a job", Replaces),
            market::report,
            "Report what came of a job that you were hired for, once, before its deadline: it ends the job, pays you, and tells whoever \
             hired you. Wakes nobody else. `SUCCESS` needs `output_data` in the form that the job names. If you do not take the job, say \
             `REJECTED` at once: later it counts as a FAILURE. The same again changes nothing; another result is refused.",
        ),
    ]
}

/// Returns a tool of one channel as a tool with the conversation as an argument.
fn in_a_conversation(tool: &'static Tool) -> Tool<AgentContext> {
    let enter = |context: &AgentContext, arguments: &mut Map<String, Value>| {
        let named = arguments.remove(CONVERSATION);
        let named = named.as_ref().and_then(Value::as_str).and_then(ConversationId::parse);
        let missing =
            || Faults::one(CONVERSATION, "is required: ch_ and 32 hex digits, as channel_list names it");
        let conversation = named.ok_or_else(|| Error::from(missing()))?;
        Ok(context.within(conversation))
    };
    let argument = json!({"type": "string", "pattern": "^ch_[0-9a-f]{32}$",
        "description": "The conversation, as channel_list names it."});
    let more = Map::from_iter([(CONVERSATION.to_owned(), argument)]);
    tool.within(more, enter, tool.description.replace("this channel", "the conversation"))
}

/// Returns a description of C2A in the spelling of these tools: the names between backticks in snake_case.
fn respelled(description: &str) -> String {
    let parts = description.split('`').enumerate();
    let parts = parts.map(|(n, part)| if n % 2 == 1 { snake(part) } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::super::{find_of_agent, of_agent};
    use super::*;

    #[test]
    fn the_chat_tools_are_those_of_c2a_under_all_their_names() {
        for tool in ChatTool::ALL {
            let found = find_of_agent(tool.as_str()).unwrap();
            assert_eq!(found.name, tool.underscored());
            let bare = tool.as_str().trim_start_matches("chat.");
            assert_eq!(find_of_agent(bare).unwrap().name, found.name);
            assert!(!found.description.contains("Id`"), "{tool}: in snake_case: {}", found.description);
        }
        assert!(find_of_agent("nothing").is_none());
    }

    #[test]
    fn a_tool_of_a_channel_needs_the_conversation() {
        for name in IN_A_CHANNEL {
            let tool = of_agent().iter().find(|tool| tool.name == name).unwrap();
            let required = tool.input["required"].as_array().unwrap();
            assert!(required.contains(&json!(CONVERSATION)), "{name}");
        }
    }
}
