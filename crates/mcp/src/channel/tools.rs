//! What the tools are: names, descriptions, and schemas of what goes in and out.
//!
//! The descriptions are the specification that a model reads. Each says what the call does, whom it wakes, and what to
//! reuse when it is tried again. Claims and deferrals come with attention.

use super::input::MAX_INTEGER;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// How long a wait may take, and takes unless said.
pub(super) const MAX_WAIT_MS: i64 = 60_000;
pub(super) const WAIT_MS: i64 = 30_000;

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    ListEvents,
    ReadThread,
    SendMessage,
    React,
    WaitForEvents,
    GetRoster,
    SetStatus,
    Search,
    ArtifactList,
    ArtifactRead,
    ArtifactCreate,
    ArtifactEdit,
}

const ALL: [Tool; 12] = [
    Tool::ListEvents,
    Tool::ReadThread,
    Tool::SendMessage,
    Tool::React,
    Tool::WaitForEvents,
    Tool::GetRoster,
    Tool::SetStatus,
    Tool::Search,
    Tool::ArtifactList,
    Tool::ArtifactRead,
    Tool::ArtifactCreate,
    Tool::ArtifactEdit,
];

/// The definitions, in the order of [`ALL`], made once.
static DEFINED: LazyLock<Vec<Value>> = LazyLock::new(|| ALL.into_iter().map(Tool::define).collect());

/// All tools, always in the same order.
pub(super) fn listed() -> &'static [Value] {
    &DEFINED
}

impl Tool {
    /// The tool of this name. The names of other doors are understood: with dots, as in C2A; and bare, as in the channel
    /// protocol's document.
    pub(super) fn named(name: &str) -> Option<Self> {
        let plain = name.replace('.', "_");
        let find = |name: &str| ALL.into_iter().find(|tool| tool.name() == name);
        find(&plain).or_else(|| find(&format!("chat_{plain}")))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ListEvents => "chat_list_events",
            Self::ReadThread => "chat_read_thread",
            Self::SendMessage => "chat_send_message",
            Self::React => "chat_react",
            Self::WaitForEvents => "wait_for_events",
            Self::GetRoster => "get_roster",
            Self::SetStatus => "set_status",
            Self::Search => "search",
            Self::ArtifactList => "artifact_list",
            Self::ArtifactRead => "artifact_read",
            Self::ArtifactCreate => "artifact_create",
            Self::ArtifactEdit => "artifact_edit",
        }
    }

    /// The schema of its arguments.
    pub(super) fn input(self) -> &'static Value {
        &DEFINED[self as usize]["inputSchema"]
    }

    fn define(self) -> Value {
        let (title, description) = self.words();
        let (input, required) = self.arguments();
        let (output, always) = self.results();
        let reads = !matches!(
            self,
            Self::SendMessage | Self::React | Self::SetStatus | Self::ArtifactCreate | Self::ArtifactEdit
        );
        json!({
            "name": self.name(),
            "title": title,
            "description": description,
            "inputSchema": object(input, required),
            "outputSchema": {"type": "object", "properties": output, "required": always},
            "annotations": {
                "title": title,
                "readOnlyHint": reads,
                // Nothing is ever overwritten: the log is append-only, and documents keep their versions.
                "destructiveHint": false,
                "idempotentHint": reads || matches!(self, Self::React | Self::SetStatus),
                "openWorldHint": self == Self::SendMessage,
            },
        })
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::ListEvents => (
                "Read the log",
                "Read what happened in this channel: messages, reactions, statuses, comings and goings, in order. Wakes nobody. \
                 Without `after` or `before` you get the newest events. With `after` (a sequence number) you get what came after it; with `before`, \
                 what came before it. Messages are shown as they stand now: edited, or `deleted`. `next` is what to pass as `after` (or, when you \
                 read backwards, as `before`) to go on; `more` says whether there is more in that direction right now.",
            ),
            Self::ReadThread => (
                "Read a thread",
                "Read one thread from its first message on. Wakes nobody. `thread` is the event_id of any message of the thread. Pass `next` as \
                 `after` for the following page while `more` is true.",
            ),
            Self::SendMessage => (
                "Say something",
                "Say something in this channel, in markdown. It is stored before this call returns. It WAKES exactly the agents that `content` \
                 mentions with @handle or that `to` lists (in a conversation of two, the other one), each at the price of a turn; everybody else finds it \
                 in the log. The result says it: `woken` are the handles of agents it was delivered to, `knocked` of those told only that there is something, \
                 `stored_for` of those it is kept for until they ask; the last two are empty on a hub without an attention engine. People are never listed: they \
                 see it in their browser. Set `thread` or `reply_to` to answer in a thread. Give an `idempotency_key`: the same value for every retry of \
                 the same message; a new value only for a new one. Do not send messages that only say thanks or that you are at work: use chat_react or set_status.",
            ),
            Self::React => (
                "React to a message",
                "Tell what you make of a message without a text: the polite way to stay silent. Wakes nobody. `signal` is one of seen, agree, working, \
                 queued, claimed, done, declined, blocked, unclear. The same reaction again changes nothing, so it can be retried. With `removed: true` you take it back.",
            ),
            Self::WaitForEvents => (
                "Wait for what happens next",
                "Wait until others do something in this channel, for at most `wait_ms`; then return what came after `after`, or no events when the time was \
                 up. Wakes nobody and costs nothing while it waits. Pass `next` of the last answer as `after` each time, and nothing is missed or seen twice; \
                 without `after` it begins now. Your own events are left out unless `include_own` is true.",
            ),
            Self::GetRoster => (
                "See who is here",
                "List this channel's members: their handles (what @mentions use), whether each is an agent or a person, their roles, who leads, and which one is \
                 you. Wakes nobody.",
            ),
            Self::SetStatus => (
                "Say what you are doing",
                "Show in a few words what you are doing, such as \"reading the auth spec\". Replaces your last status; an empty text takes it back. Wakes \
                 nobody, and can be retried.",
            ),
            Self::Search => (
                "Search messages",
                "Find messages of this channel that hold all the words of `query`, whatever their letter case, the newest first. Wakes nobody. Pass `next` as \
                 `before` for older ones.",
            ),
            Self::ArtifactList => (
                "List documents",
                "List this channel's documents, without their content, in the order of their slugs. Wakes nobody. Pass `next` as `after` for the following page.",
            ),
            Self::ArtifactRead => (
                "Read a document",
                "Read a document by its slug, in its newest version unless `version` says otherwise. Wakes nobody. Remember `version`: artifact_edit wants it.",
            ),
            Self::ArtifactCreate => (
                "Make a document",
                "Make a document that all members can read and edit. Wakes nobody: mention it in a message if somebody should look. Fails if the slug is taken. \
                 idempotency_key: the same value for every retry of the same document; a new value only for a new one.",
            ),
            Self::ArtifactEdit => (
                "Edit a document",
                "Replace a document's content with a new version; older versions are kept. Wakes nobody. `base_version` is the version you read and changed: if the \
                 document has moved on since, nothing is written and the answer says at which version it is; read that one, merge, and edit again. \
                 idempotency_key: the same value for every retry of the same edit; a new value only for a new one.",
            ),
        }
    }

    /// What goes in, and what of it must.
    fn arguments(self) -> (Value, &'static [&'static str]) {
        let limit = |most: i64, usual: i64| json!({"type": "integer", "minimum": 1, "maximum": most, "default": usual, "description": "How many at most."});
        let page = |name: &str| json!({"type": "string", "maxLength": 64, "description": format!("`next` of the {name} before.")});
        match self {
            Self::ListEvents => (
                json!({
                    "after": place("Only what came after this sequence number; 0 for the beginning."),
                    "before": place("Only what came before this sequence number. Not together with `after`."),
                    "limit": limit(200, 50),
                    "kind": kind(),
                }),
                &[],
            ),
            Self::ReadThread => (
                json!({
                    "thread": event_id("The event_id of any message of the thread."),
                    "after": place("`next` of the page before."),
                    "limit": limit(200, 50),
                }),
                &["thread"],
            ),
            Self::SendMessage => (message(), &["content"]),
            Self::React => (
                json!({
                    "event_id": event_id("The message."),
                    "signal": {"type": "string", "enum": ["seen", "agree", "working", "queued", "claimed", "done", "declined", "blocked", "unclear"], "description": "What you make of it."},
                    "eta": {"type": "string", "minLength": 1, "maxLength": 100, "description": "When there will be more, in words: \"in 10 minutes\"."},
                    "removed": {"type": "boolean", "default": false, "description": "Take the reaction back."},
                }),
                &["event_id", "signal"],
            ),
            Self::WaitForEvents => (
                json!({
                    "after": place("`next` of the last answer; without it the wait begins now."),
                    "wait_ms": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "default": WAIT_MS, "description": "How long to wait at most, in milliseconds; 0 only looks."},
                    "limit": limit(200, 50),
                    "kind": kind(),
                    "include_own": {"type": "boolean", "default": false, "description": "Return your own events as well."},
                }),
                &[],
            ),
            Self::GetRoster => (json!({"after": page("page"), "limit": limit(200, 100)}), &[]),
            Self::SetStatus => (
                json!({"status": {"type": "string", "maxLength": 1000, "description": "What you are doing; empty to take it back."}}),
                &["status"],
            ),
            Self::Search => (
                json!({
                    "query": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Words that must all be in the message."},
                    "before": event_id("`next` of the page before."),
                    "limit": limit(50, 20),
                }),
                &["query"],
            ),
            Self::ArtifactList => (json!({"after": page("page"), "limit": limit(200, 50)}), &[]),
            Self::ArtifactRead => (
                json!({"slug": slug(), "version": {"type": "integer", "minimum": 1, "maximum": 999_999_999, "description": "The newest, unless said."}}),
                &["slug"],
            ),
            Self::ArtifactCreate => (
                json!({
                    "slug": slug(),
                    "title": title("What people call it; its slug, unless said."),
                    "content": document(),
                    "content_type": content_type("What it is made of; text/markdown, unless said."),
                    "idempotency_key": idempotency_key("document"),
                }),
                &["slug", "content"],
            ),
            Self::ArtifactEdit => (
                json!({
                    "slug": slug(),
                    "base_version": {"type": "integer", "minimum": 1, "maximum": 999_999_999, "description": "The version you read and changed."},
                    "content": document(),
                    "title": title("What people call it; as before, unless said."),
                    "content_type": content_type("What it is made of; as before, unless said."),
                    "idempotency_key": idempotency_key("edit"),
                }),
                &["slug", "base_version", "content"],
            ),
        }
    }

    /// What comes out, and what of it always does.
    fn results(self) -> (Value, &'static [&'static str]) {
        let cursor = |what: &str| json!({"type": ["string", "null"], "description": what});
        let integer = || json!({"type": "integer"});
        match self {
            Self::ListEvents | Self::ReadThread => (
                json!({
                    "events": events(),
                    "next": {"type": "integer", "description": "Where to go on."},
                    "more": {"type": "boolean", "description": "Whether there is more right now."},
                }),
                &["events", "next", "more"],
            ),
            Self::WaitForEvents => (
                json!({
                    "events": events(),
                    "next": {"type": "integer", "description": "The `after` of the next wait."},
                    "more": {"type": "boolean", "description": "Whether there is more right now."},
                }),
                &["events", "next", "more"],
            ),
            Self::SendMessage => (
                json!({
                    "event_id": {"type": "string"},
                    "sequence": integer(),
                    "thread": {"type": ["string", "null"], "description": "The message that began the thread it is in."},
                    "woken": handles("Agents it was delivered to."),
                    "knocked": handles("Agents that were told only that there is something."),
                    "stored_for": handles("Agents it is kept for until they ask."),
                    "masked": handles("The kinds of credentials that were masked in it."),
                }),
                &["event_id", "sequence", "thread", "woken", "knocked", "stored_for", "masked"],
            ),
            Self::React | Self::SetStatus => (
                json!({
                    "event_id": {"type": "string"},
                    "sequence": integer(),
                    "masked": handles("The kinds of credentials that were masked in it."),
                }),
                &["event_id", "sequence", "masked"],
            ),
            Self::GetRoster => (
                json!({
                    "channel": {"type": "object", "properties": {"id": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}, "context": {"type": ["string", "null"]}}, "required": ["id", "kind", "name", "context"]},
                    "you": {"type": "string", "description": "Your own handle."},
                    "members": {"type": "array", "items": {
                        "type": "object",
                        "properties": {"handle": {"type": "string"}, "kind": {"type": "string", "enum": ["agent", "account"]}, "id": {"type": "string"}, "roles": handles("What it does here."), "lead": {"type": "boolean"}, "joined_at": {"type": "string"}},
                        "required": ["handle", "kind", "id", "roles", "lead", "joined_at"],
                    }},
                    "next": cursor("The `after` of the next page; null on the last."),
                }),
                &["channel", "you", "members", "next"],
            ),
            Self::Search => (
                json!({"events": events(), "next": cursor("The `before` of the next page; null on the last.")}),
                &["events", "next"],
            ),
            Self::ArtifactList => (
                json!({
                    "artifacts": {"type": "array", "items": {"type": "object", "properties": artifact(), "required": ["slug", "uri", "version", "title", "content_type", "created_at"]}},
                    "next": cursor("The `after` of the next page; null on the last."),
                }),
                &["artifacts", "next"],
            ),
            Self::ArtifactRead => {
                let mut read = artifact();
                read["content"] = json!({"type": "string"});
                (read, &["slug", "uri", "version", "title", "content_type", "created_at", "content"])
            }
            Self::ArtifactCreate | Self::ArtifactEdit => {
                let mut written = artifact();
                written["masked"] = handles("The kinds of credentials that were masked in it.");
                (written, &["slug", "uri", "version", "title", "content_type", "created_at", "masked"])
            }
        }
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn place(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": MAX_INTEGER, "description": description})
}

fn event_id(description: &str) -> Value {
    json!({"type": "string", "pattern": "^evt_[0-9a-f]{32}$", "description": description})
}

fn kind() -> Value {
    json!({"type": "string", "pattern": "^[a-z_]{1,32}$", "description": "Only this kind: message, edit, delete, reaction, status, tool_call, tool_result, error, lifecycle, join, leave, change or artifact."})
}

fn slug() -> Value {
    json!({"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$", "description": "The document's name: lower-case letters, digits and dashes."})
}

fn title(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 200, "description": description})
}

fn document() -> Value {
    json!({"type": "string", "maxLength": 1_048_576, "description": "The whole document. Credentials in it are masked."})
}

fn content_type(description: &str) -> Value {
    json!({"type": "string", "maxLength": 100, "pattern": "^[a-z0-9.+-]+/[a-z0-9.+-]+$", "description": description})
}

fn idempotency_key(what: &str) -> Value {
    let description = format!(
        "The same value for every retry of the same {what}; a new value only for a new one. Kept for 24 hours."
    );
    json!({"type": "string", "minLength": 1, "maxLength": 255, "description": description})
}

fn message() -> Value {
    json!({
        "content": {"type": "string", "minLength": 1, "maxLength": 100_000, "description": "Markdown. @handle mentions a member and wakes an agent. Credentials are masked."},
        "thread": event_id("A message of the thread it belongs to, or one to begin a thread with."),
        "reply_to": event_id("The message it answers."),
        "to": {"type": "array", "maxItems": 50, "items": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}, "description": "Handles of members it is for, besides those it mentions."},
        "intent": {"type": "string", "enum": ["question", "assignment", "approval_request", "approval", "blocker", "cancellation", "safety", "thanks", "acknowledgement", "status", "progress", "log", "chat"], "description": "What it is meant as."},
        "priority": {"type": "string", "enum": ["low", "normal", "high", "urgent"], "description": "How much it matters."},
        "deadline_ms": {"type": "integer", "minimum": 1000, "maximum": 86_400_000, "description": "How long an answer may take."},
        "idempotency_key": idempotency_key("message"),
    })
}

fn handles(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

fn artifact() -> Value {
    json!({
        "slug": {"type": "string"},
        "uri": {"type": "string", "description": "Its address as a resource."},
        "version": {"type": "integer"},
        "title": {"type": "string"},
        "content_type": {"type": "string"},
        "created_at": {"type": "string", "description": "When this version was made."},
    })
}

fn events() -> Value {
    json!({"type": "array", "items": {
        "type": "object",
        "properties": {
            "event_id": {"type": "string"},
            "sequence": {"type": "integer", "description": "Its place in the channel, without gaps from 1."},
            "kind": {"type": "string"},
            "author": {"type": "object", "properties": {"id": {"type": "string"}, "kind": {"type": "string"}, "handle": {"type": ["string", "null"]}}, "required": ["id", "kind", "handle"]},
            "content": {"type": ["string", "null"]},
            "thread": {"type": ["string", "null"]},
            "reply_to": {"type": ["string", "null"]},
            "created_at": {"type": "string"},
        },
        "required": ["event_id", "sequence", "kind", "author", "content", "thread", "reply_to", "created_at"],
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_strict_and_says_whom_it_wakes() {
        for (tool, defined) in ALL.into_iter().zip(listed()) {
            assert_eq!(defined["name"], tool.name());
            assert_eq!(tool.input(), &defined["inputSchema"]);
            assert_eq!(defined["inputSchema"]["additionalProperties"], false);
            assert!(defined["description"].as_str().unwrap().to_lowercase().contains("wakes"), "{tool:?}");
            for schema in [&defined["inputSchema"], &defined["outputSchema"]] {
                let properties = schema["properties"].as_object().unwrap();
                for required in schema["required"].as_array().unwrap() {
                    assert!(properties.contains_key(required.as_str().unwrap()), "{tool:?} {required}");
                }
            }
            for (name, property) in defined["inputSchema"]["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{tool:?} {name}");
                let bounded = match property["type"].as_str().unwrap() {
                    "string" => {
                        ["maxLength", "pattern", "enum"].iter().any(|bound| !property[bound].is_null())
                    }
                    "integer" => property["maximum"].is_i64(),
                    "array" => property["maxItems"].is_i64(),
                    _ => true,
                };
                assert!(bounded, "{tool:?} {name}");
            }
        }
    }

    #[test]
    fn names_of_other_doors_are_understood() {
        for (name, tool) in [
            ("chat_send_message", Some(Tool::SendMessage)),
            ("chat.send_message", Some(Tool::SendMessage)),
            ("send_message", Some(Tool::SendMessage)),
            ("list_events", Some(Tool::ListEvents)),
            ("chat.list_events", Some(Tool::ListEvents)),
            ("react", Some(Tool::React)),
            ("artifact_read", Some(Tool::ArtifactRead)),
            ("artifact.read", Some(Tool::ArtifactRead)),
            ("get_roster", Some(Tool::GetRoster)),
            ("chat_claim", None),
            ("chat_get_roster", None),
            ("", None),
        ] {
            assert_eq!(Tool::named(name), tool, "{name}");
        }
    }
}
