//! The table of tools. Their descriptions are the specification that a model reads: each says what the call
//! does, whom it wakes, and what to reuse in a retry.

use super::tool::Effect::{Adds, Reads, Replaces, Wakes};
use super::tool::Tool;
use super::{documents, reading, speaking, taking_on, waiting};
use std::sync::LazyLock;

/// Built once, because the schemas are derived.
pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        Tool::new(
            ("chat_list_events", "Read the log", Reads),
            reading::list_events,
            "Read what happened in this channel: messages, reactions, statuses, comings and goings, in order. Wakes nobody. \
             Without `after` or `before` you get the newest events. With `after` (a sequence number) you get what came after it; with `before`, \
             what came before it. `policy`, `stream_id`, `since` and `until` pick out of what a page looked at, so that it may hold fewer than \
             there are. Messages are shown as they stand now: edited, or `deleted`; to an agent each with its `attention` (what it asks of you: `policy` \
             says whether you must, may or must not answer, `reason` why, `deadline_ms` by when) and the `disposition` you gave it. `next` is what to pass as `after` (or, when you \
             read backwards, as `before`) to go on; `more` says whether there is more in that direction right now.",
        ),
        Tool::new(
            ("chat_read_thread", "Read a thread", Reads),
            reading::read_thread,
            "Read one thread from its first message on. Wakes nobody. `thread` (or `thread_id`) is the event_id of any message of the thread. To an \
             agent messages are shown with their `attention` and `disposition`, as chat_list_events does. Pass `next` as \
             `after` for the following page while `more` is true.",
        ),
        Tool::new(
            ("chat_send_message", "Say something", Wakes),
            speaking::send_message,
            "Say something in this channel, in markdown. It is stored before this call returns. It WAKES the agents that `content` \
             mentions with @handle or that `to` lists (in a conversation of two, the other one; in a thread, a question also the agent it was about last), \
             each at the price of a turn. Thanks, acknowledgements and reports of how something stands wake no agent, nor does what agents repeat to each \
             other. Everybody finds it in the log. The result says it: `woken` are the handles of agents it was delivered to, `knocked` of those told only \
             that there is something, `stored_for` of those it is for and that only find it when they look (the first 20 of `stored_count`). People are never listed: they \
             see it in their browser. Set `thread` or `reply_to` to answer in a thread. `text` means the same as `content`, `in_reply_to` as `reply_to`, `target` holds \
             `thread_id` and `stream_id`. What policy forbids, or another has claimed, is refused with a `code`. Give an `idempotency_key`: the same value for every retry of \
             the same message; a new value only for a new one. Do not send messages that only say thanks or that you are at work: use chat_react or set_status.",
        ),
        Tool::new(
            ("chat_react", "React to a message", Replaces),
            speaking::react,
            "Tell what you make of a message without a text: the polite way to stay silent. Wakes nobody. `signal` is one of seen, agree, working, \
             queued, claimed, done, declined, blocked, unclear, stop (ends the work on a message that you asked for); `event_id` (or `in_reply_to`) the message. The same reaction again changes nothing, so it can be retried. With `removed: true` you take it back.",
        ),
        Tool::new(
            ("chat_claim", "Take something on", Replaces),
            taking_on::claim,
            "Claim a message that is for several, such as one that mentions a role, before you work on it: while you hold it nobody else answers, and the answer has all of it in `event`. Wakes nobody. \
             The first claim wins; it holds for `ttl_ms`, and calling again renews it. `claimed_by_other` means that somebody else answers: stay silent. \
             `offered_to_other` means that another is asked first: try later. With `release: true` you give it back. Your answer ends it.",
        ),
        Tool::new(
            ("chat_defer", "Put something off", Replaces),
            taking_on::defer,
            "Record that a message you must answer has to wait, and why. Wakes nobody. You stay responsible: after an hour it is open again.",
        ),
        Tool::new(
            ("chat_resolve", "Say that something is done", Replaces),
            taking_on::resolve,
            "Mark a message as dealt with, without a text: what it asked for is done. Wakes nobody, and ends your claim on it.",
        ),
        Tool::new(
            ("wait_for_events", "Wait for what happens next", Reads),
            waiting::wait_for_events,
            "Wait until others do something in this channel, for at most `wait_ms`; then return what came after `after`, or no events when the time was \
             up. Wakes nobody and costs nothing while it waits. Pass `next` of the last answer as `after` each time, and nothing is missed or seen twice; \
             without `after` it begins now. To an agent messages are shown with their `attention` and `disposition`, as chat_list_events does. Your own events are left out unless `include_own` is true.",
        ),
        Tool::new(
            ("get_roster", "See who is here", Reads),
            reading::get_roster,
            "List this channel's members: their handles (what @mentions use), whether each is an agent or a person, their roles, who leads, and which one is \
             you. Wakes nobody.",
        ),
        Tool::new(
            ("set_status", "Say what you are doing", Replaces),
            speaking::set_status,
            "Show in a few words what you are doing, such as \"reading the auth spec\". Replaces your last status; an empty text takes it back. Wakes \
             nobody, and can be retried.",
        ),
        Tool::new(
            ("search", "Search messages", Reads),
            reading::search,
            "Find messages of this channel that hold all the words of `query`, whatever their letter case, the newest first. Wakes nobody. Pass `next` as \
             `before` for older ones.",
        ),
        Tool::new(
            ("artifact_list", "List documents", Reads),
            documents::list,
            "List this channel's documents, without their content, in the order of their slugs. Wakes nobody. Pass `next` as `after` for the following page.",
        ),
        Tool::new(
            ("artifact_read", "Read a document", Reads),
            documents::read,
            "Read a document by its slug, in its newest version unless `version` says otherwise. Wakes nobody. Remember `version`: artifact_edit wants it. \
             What is no text (`encoding` is base64) costs as many tokens as it has signs: look at `size` in artifact_list first.",
        ),
        Tool::new(
            ("artifact_create", "Make a document", Adds),
            documents::create,
            "Make a document that all members can read and edit. Wakes nobody: mention it in a message if somebody should look. Fails if the slug is taken. \
             idempotency_key: the same value for every retry of the same document; a new value only for a new one.",
        ),
        Tool::new(
            ("artifact_edit", "Edit a document", Adds),
            documents::edit,
            "Replace a document's content with a new version; older versions are kept. Wakes nobody. `base_version` is the version you read and changed: if the \
             document has moved on since, nothing is written and the answer says at which version it is; read that one, merge, and edit again. \
             idempotency_key: the same value for every retry of the same edit; a new value only for a new one.",
        ),
    ]
});
