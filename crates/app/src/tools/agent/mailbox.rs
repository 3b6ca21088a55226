//! The mailbox of an agent: the events that wait for its answer, and the wait for the next one.

use super::AgentContext;
use super::arguments::{InboxQuery, InboxWait};
use crate::c2a;
use crate::tools::place::Place as _;
use chorus_node::Error;
use chorus_protocol::c2a::{Cursor, Event, EventPage, ListEvents, Time};
use chorus_protocol::words::{Disposition, Policy};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
use utoipa::ToSchema;

/// The time that `inbox` looks back by default, in milliseconds.
const WINDOW_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// The most pages of the mailbox that one call reads.
const MAX_PAGES: usize = 20;
/// The most characters of a text in a compact result.
const MAX_TEXT: usize = 2000;

/// An event in compact form.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BriefEvent {
    event_id: String,
    /// The conversation; absent for messages of the hub itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<String>,
    /// The name of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    /// The author's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The text in markdown, written by others.
    text: String,
    /// True if the text was cut. `detail` shows all of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    cut: bool,
    /// The answer that the event asks of you.
    policy: Policy,
    /// The time allowed for an answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    /// Your disposition of it, if you recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    disposition: Option<Disposition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    /// The whole event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    detail: Option<Value>,
}

impl BriefEvent {
    pub(super) fn new(event: Event, detail: bool) -> Result<Self, Error> {
        let whole = if detail { Some(serde_json::to_value(&event).map_err(Error::internal)?) } else { None };
        let (header, mut text) = (event.header, event.content.to_text());
        let end = text.char_indices().nth(MAX_TEXT).map(|(end, _)| end);
        text.truncate(end.unwrap_or(text.len()));
        let conversation = header.conversation;
        let author = header.author.and_then(|author| author.display_name.or(author.id.map(|id| id.0)));
        Ok(Self {
            event_id: header.event_id.0,
            conversation_id: conversation.id.map(|id| id.0),
            conversation: conversation.name,
            thread_id: conversation.thread_id.map(|id| id.0),
            from: author,
            text,
            cut: end.is_some(),
            policy: header.attention.policy,
            deadline_ms: header.attention.deadline_ms,
            disposition: header.disposition,
            created_at: header.timing.and_then(|timing| timing.created_at).map(Into::into),
            detail: whole,
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BriefEvents {
    pub(super) events: Vec<BriefEvent>,
    /// The cursor to pass as `after` for what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
    /// True if there is more right now.
    pub(super) more: bool,
    /// The number of conversations that were skipped because there are too many. Request them one by one.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    pub(super) left_out: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

impl BriefEvents {
    pub(super) fn new(page: EventPage, detail: bool) -> Result<Self, Error> {
        let EventPage { events, next, more, left_out } = page;
        let events =
            events.into_iter().map(|event| BriefEvent::new(event, detail)).collect::<Result<_, _>>()?;
        Ok(Self { events, next: next.map(|Cursor(next)| next), more, left_out })
    }
}

/// Returns `true` for an event that asks for an answer and has none yet.
fn waits(event: &Event) -> bool {
    let is_open =
        |disposition: Disposition| matches!(disposition, Disposition::Deferred | Disposition::Claimed);
    event.header.attention.policy != Policy::MustNotRespond && event.header.disposition.is_none_or(is_open)
}

/// Reads the mailbox after a cursor or from a time on, until there are enough events that wait.
async fn read_waiting(
    context: &AgentContext,
    mut after: Option<Cursor>,
    since: Option<Time>,
    limit: i64,
) -> Result<EventPage, Error> {
    let harness = context.harness();
    let (mut events, mut pages) = (vec![], 0);
    loop {
        let asked = ListEvents {
            stream_id: None,
            conversation_id: None,
            policy: None,
            since: since.clone(),
            until: None,
            after: after.take(),
            limit: limit - events.len() as i64,
        };
        let page = c2a::list_events(&harness, asked).await?;
        events.extend(page.events.into_iter().filter(waits));
        pages += 1;
        if !page.more || events.len() as i64 >= limit || pages == MAX_PAGES {
            return Ok(EventPage { events, next: page.next, more: page.more, left_out: page.left_out });
        }
        after = page.next;
    }
}

pub(super) async fn inbox(context: AgentContext, asked: InboxQuery) -> Result<BriefEvents, Error> {
    let InboxQuery { after, since, limit, detail } = asked;
    let window = || Time::at(context.app.now() - WINDOW_MS);
    let since = since.or_else(|| after.is_none().then(window));
    BriefEvents::new(read_waiting(&context, after, since, limit).await?, detail)
}

pub(super) async fn wait(context: AgentContext, asked: InboxWait) -> Result<BriefEvents, Error> {
    let InboxWait { mut after, wait_ms, limit, detail } = asked;
    let app = &context.app;
    // Subscribes before the store is read, so that no commit in between is missed.
    let (mut head, mut revocations) =
        (app.transport.live.follow(context.identity.id.into()).0, app.revocations(context.who()));
    // A credential revoked between its check and the subscription changes nothing that is followed.
    context.check().await?;
    let opened = app.limits.open_streams.open(context.who(), None);
    let (until, since) = (app.elapsed() + wait_ms, after.is_none().then(|| Time::at(app.now())));
    let mut is_last = false;
    loop {
        head.borrow_and_update();
        let found = read_waiting(&context, after.take(), since.clone(), limit).await?;
        let left_ms = until - app.elapsed();
        if !found.events.is_empty() || left_ms <= 0 || is_last {
            return BriefEvents::new(found, detail);
        }
        after = found.next;
        if found.more {
            continue;
        }
        tokio::select! {
            biased;
            changed = revocations.changed() => is_last = changed.is_err(),
            moved = head.changed() => is_last = moved.is_err(),
            // One last read: an event that arrived just now belongs to this answer.
            () = tokio::time::sleep(Duration::from_millis(left_ms as u64)) => is_last = true,
            () = opened.over.cancelled() => is_last = true,
            () = app.tasks.stopping.cancelled() => is_last = true,
        }
        // The credential may have been revoked during the wait.
        context.check().await?;
    }
}
