//! What the channel sees while an agent works: lifecycle, status, tool calls, errors.
//!
//! Reports are best effort: the turn does not wait long for them, and one that does not arrive changes nothing. Order
//! is kept, because each is waited for. Only the last one, `lifecycle` idle, is worth more patience: the channel must
//! end in a true state. Credentials are masked in everything but the answer itself, which the hub masks.

use super::activity::{Activity, Observer};
use crate::{Backoff, Callback, CallbackError, Retry};
use chorus_protocol::channel::{CallbackEvent, Lifecycle, MAX_CONTENT, MAX_ERROR, MAX_NAME, MAX_STATUS};
use chorus_protocol::redact::redact;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How long one report may hold the turn up.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// How reports are tried again.
const REPORTS: Retry =
    Retry { tries: 2, failed_deliveries: false, backoff: Backoff { base_ms: 250, max_ms: 1000 } };

/// How the last one is.
const LAST: Retry =
    Retry { tries: 10, failed_deliveries: false, backoff: Backoff { base_ms: 250, max_ms: 10_000 } };

/// The way to the channel of one message; an envelope has none.
pub(crate) struct Reporter {
    callback: Option<Callback>,
    observer: Observer,
    /// It was said already that reports do not arrive.
    complained: AtomicBool,
}

impl Reporter {
    pub(crate) fn new(callback: Option<Callback>, observer: Observer) -> Self {
        Self { callback, observer, complained: AtomicBool::new(false) }
    }

    pub(crate) async fn lifecycle(&self, status: Lifecycle) {
        self.report(CallbackEvent::Lifecycle { status }).await;
    }

    pub(crate) async fn status(&self, status: &str) {
        self.report(CallbackEvent::Status { status: clean(status, MAX_STATUS) }).await;
    }

    pub(crate) async fn tool_call(&self, id: &str, name: &str, args: Map<String, Value>) {
        let name = cut(name, MAX_NAME);
        self.observer.tell(Activity::ToolCall { name: name.clone() });
        // Masked as a text; what is no JSON any more is left out.
        let args = redact(&Value::Object(args.clone()).to_string())
            .map_or(Some(args), |masked| serde_json::from_str(&masked.text).ok())
            .unwrap_or_default();
        let name = if name.is_empty() { "?".into() } else { name };
        self.report(CallbackEvent::ToolCall { name, args, id: id.to_owned() }).await;
    }

    pub(crate) async fn tool_result(&self, id: &str, content: &str) {
        let content = clean(content, MAX_CONTENT);
        self.report(CallbackEvent::ToolResult { id: id.to_owned(), content }).await;
    }

    pub(crate) async fn error(&self, message: &str, code: &str) {
        let mut message = clean(message, MAX_ERROR);
        if message.is_empty() {
            message = "it failed".into();
        }
        self.report(CallbackEvent::Error { message, code: Some(code.to_owned()) }).await;
    }

    /// The agent is done with the message: the last thing that is said, with up to `patience`.
    pub(crate) async fn idle(&self, patience: Duration) {
        let idle = CallbackEvent::Lifecycle { status: Lifecycle::Idle };
        self.send(idle, LAST, patience).await;
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }

    async fn report(&self, event: CallbackEvent) {
        self.send(event, REPORTS, REPORT_LIMIT).await;
    }

    async fn send(&self, event: CallbackEvent, retry: Retry, patience: Duration) {
        let Some(callback) = &self.callback else { return };
        let sent = timeout(patience, callback.clone().with_retry(retry).send(&event)).await;
        let why = match sent {
            Ok(Ok(())) => return,
            Ok(Err(error @ CallbackError::Unreachable { .. })) => error.to_string(),
            Ok(Err(error)) => format!("{} was not taken: {error}", event.kind()),
            Err(_) => format!("{} was not taken in time", event.kind()),
        };
        if !self.complained.swap(true, Ordering::Relaxed) {
            self.observer.tell(Activity::Unseen { why });
        }
    }
}

/// A text without credentials, of at most so many characters.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let masked = redact(text);
    cut(masked.as_ref().map_or(text, |masked| &masked.text), max)
}

/// At most so many characters of a text; what was cut shows.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_masked_and_cut() {
        assert_eq!(clean("key ca_0123456789abcdef0123456789abcdef", 100), "key [redacted: agent key]");
        assert_eq!((cut("abc", 3).as_str(), cut("abcd", 3).as_str()), ("abc", "ab…"));
    }
}
