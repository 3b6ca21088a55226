//! The agents of the demo: each listens at its inbox, and answers messages with the steps of a script.

use super::Pace;
use chorus_agent::{Callback, Client, ClientError, InboxItem, Method, Reach};
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use chorus_protocol::inbox::Chat;
use serde_json::{Value, json};

/// An agent of the demo.
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    pub(super) role: &'static str,
}

pub(super) const ENSEMBLE: [Member; 6] = [
    Member { name: "timber", does: "takes releases to staging and on", role: "deploy" },
    Member { name: "honey", does: "reads migrations before they run", role: "review" },
    Member { name: "atlas", does: "knows what the machines measure", role: "metrics" },
    Member { name: "quill", does: "writes release notes", role: "docs" },
    Member { name: "ferry", does: "keeps the staging machines", role: "oncall" },
    Member { name: "sable", does: "reads access rules", role: "oncall" },
];

/// One step of a turn.
enum Step {
    Status(&'static str),
    /// A tool call: its name, arguments, result and duration in milliseconds.
    Tool(&'static str, Value, &'static str, u64),
    Fail(&'static str),
    React(&'static str),
    /// A new version of a document: slug, title and content.
    Write(&'static str, &'static str, &'static str),
    Say(String),
    /// Ends the turn without reporting idle.
    GoesOn,
}

/// Returns the steps of an agent's answer to a message.
fn turn(name: &str, words: &str) -> Vec<Step> {
    use Step::{Fail, GoesOn, React, Say, Status, Tool, Write};
    let has = |word: &str| words.to_lowercase().contains(word);
    match name {
        "timber" if has("through review") => vec![
            React("working"),
            Status("Reading what changed"),
            Tool("release.read", json!({"service": "ledger-api", "version": "4.18"}), "14 services, 1 migration", 700),
            Tool("migration.plan", json!({"id": "0042"}), "adds settled_at, backfills 2.1 M rows", 900),
            Tool("services.diff", json!({"from": "4.17.3", "to": "4.18.0"}), "no other service changes", 600),
            Say("Plan is clean: ledger-api 4.17.3 to 4.18.0, fourteen services unchanged. `0042` adds `settled_at` and backfills 2.1 M rows.".into()),
        ],
        "timber" if has("split") => vec![
            React("working"),
            Status("Applying 0042a on staging, step 1 of 3"),
            Tool("staging.apply", json!({"migration": "0042a", "batch": 5000}), "column added", 1200),
            Status("Applying 0042a on staging, step 2 of 3"),
            Tool("staging.backfill", json!({"rows": 2_100_000}), "420 batches, longest lock 40 ms", 2200),
            Tool("staging.check", json!({}), "NOT NULL holds", 600),
            Say("Done on staging: 420 batches, the longest lock was **40 ms** instead of 48 s.".into()),
        ],
        "honey" => vec![
            React("seen"),
            Status("Replaying the lock trace"),
            Tool("sql.explain", json!({"migration": "0042"}), "one transaction around the backfill", 800),
            Tool("locks.replay", json!({"copy": "staging"}), "entries was locked for 48 s", 1300),
            Say("I object. The backfill runs inside the migration’s transaction: on a copy of staging it held `entries` for 48 s.\n\n1. a nullable column\n2. batches of 5,000\n3. then `NOT NULL`".into()),
        ],
        "atlas" => vec![
            Status("Asking the metrics gateway"),
            Tool("metrics.query", json!({"host": "db-2", "what": "replica_lag"}), "504 from the metrics gateway", 1500),
            Fail("504 from the metrics gateway. I need leave to read db-2 directly."),
            React("blocked"),
        ],
        "quill" => vec![
            React("queued"),
            Status("Writing the notes"),
            Write(
                "release-notes-4-18",
                "Release notes 4.18",
                "# ledger-api 4.18\n\n- `settled_at` says when an entry was settled\n- the backfill runs in batches of 5,000, after honey’s objection\n\n| step | longest lock |\n|---|---|\n| before | 48 s |\n| now | 40 ms |\n",
            ),
            Say("The notes are in **release-notes-4-18**.".into()),
        ],
        // The first agent of the role to be asked claims the task.
        "ferry" | "sable" if has("keep an eye") => vec![
            React("claimed"),
            Status("Watching node 3"),
            Tool("staging.watch", json!({"node": 3}), "steady", 1500),
            Status("Watching node 3 until the freeze"),
            GoesOn,
        ],
        // Two agents that answer each other until the hub's loop guard stops them.
        "ferry" if has("restart") || has("after you") => vec![Say("@sable after you: will you restart staging?".into())],
        "sable" if has("restart") || has("after you") => vec![Say("@ferry no, after you: will you restart staging?".into())],
        "ferry" if has("do it") => vec![
            React("working"),
            Tool("staging.restart", json!({"node": 3}), "up after 9 s", 1000),
            Say("Restarted. All of staging is up.".into()),
        ],
        _ => vec![
            React("seen"),
            Say("I am a script without a model, and I was woken because you named me. Press **Why** on your message to see how it came here.".into()),
        ],
    }
}

/// Listens at an agent's inbox as long as the hub runs.
pub(super) async fn live(name: &'static str, client: Client, url: String, pace: Pace) -> anyhow::Result<()> {
    let reach = Reach::new(Some(&url), vec![]);
    let mut inbox = client.inbox(None)?;
    while let Some(item) = inbox.next().await {
        let InboxItem::Other { event, data, .. } = item? else { continue };
        if event != "chat" {
            continue;
        }
        let chat: Chat = serde_json::from_str(&data)?;
        if let Err(error) = answer(name, &client, &reach, &chat, pace).await {
            // The agent may have been removed meanwhile. It continues with the next message.
            tracing::debug!("{name} could not answer: {error:#}");
        }
    }
    Ok(())
}

async fn answer(name: &str, client: &Client, reach: &Reach, chat: &Chat, pace: Pace) -> anyhow::Result<()> {
    let callback = Callback::open(&chat.callback, reach)?;
    pace.wait(600).await;
    callback.send(&CallbackEvent::Lifecycle { status: Lifecycle::Processing }).await?;
    for (n, step) in turn(name, chat.event.content.as_deref().unwrap_or_default()).into_iter().enumerate() {
        match step {
            Step::Status(status) => {
                callback.send(&CallbackEvent::Status { status: status.into() }).await?;
                pace.wait(500).await;
            }
            Step::Tool(tool, args, result, ms) => {
                let (id, args) = (format!("{n}"), args.as_object().cloned().unwrap_or_default());
                callback.send(&CallbackEvent::ToolCall { name: tool.into(), args, id: id.clone() }).await?;
                pace.wait(ms).await;
                callback.send(&CallbackEvent::ToolResult { id, content: result.into() }).await?;
            }
            Step::Fail(message) => {
                callback
                    .send(&CallbackEvent::Error { message: message.into(), code: Some("504".into()) })
                    .await?;
            }
            Step::React(signal) => {
                let path = ["channels", &chat.channel.id, "messages", &chat.event.event_id, "reactions"];
                let reacted: Result<Value, _> =
                    client.api_write(Method::POST, &path, &[], Some(&json!({"signal": signal}))).await;
                // Another agent that is named too may have begun first, and hold the message.
                if !matches!(reacted, Err(ClientError::Refused { .. })) {
                    reacted?;
                }
            }
            Step::Write(slug, title, content) => {
                let path = ["channels", &*chat.channel.id, "artifacts"];
                let body = json!({"slug": slug, "title": title, "content": content, "content_type": "text/markdown"});
                let _: Value = client.api_write(Method::POST, &path, &[], Some(&body)).await?;
            }
            Step::Say(content) => {
                callback.send(&CallbackEvent::Message { content }).await?;
            }
            Step::GoesOn => return Ok(()),
        }
    }
    callback.send(&CallbackEvent::Lifecycle { status: Lifecycle::Idle }).await?;
    Ok(())
}
