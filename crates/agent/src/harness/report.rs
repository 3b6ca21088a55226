//! What the channel sees while a driver works: status, tool calls.
//!
//! Each report is handed to the core, which sends it, and is waited for: so their order is kept. They are best effort; one
//! that does not arrive changes nothing. Credentials are masked in everything but the answer itself, which the hub masks.

use super::activity::{Activity, Observer};
use super::core::Event;
use super::texts::{clean, cut};
use chorus_protocol::channel::{CallbackEvent, MAX_CONTENT, MAX_NAME, MAX_STATUS};
use chorus_protocol::redact::redact;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

/// Something that a turn tells the core, and waits until it may go on.
pub(crate) struct Ask {
    pub(crate) task: u64,
    pub(crate) event: Event,
    pub(crate) resume: oneshot::Sender<()>,
}

/// The way from a turn to the core.
pub(crate) struct Reporter {
    /// Which turn.
    task: u64,
    asks: mpsc::Sender<Ask>,
    observer: Observer,
}

impl Reporter {
    pub(crate) fn new(task: u64, asks: mpsc::Sender<Ask>, observer: Observer) -> Self {
        Self { task, asks, observer }
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

    /// A piece of the answer was made.
    pub(crate) async fn grows(&self, text: &str) {
        self.ask(Event::Grows { task: self.task, text: text.to_owned() }).await;
    }

    /// A tool that may change something is about to be called. When this returns, that is in the journal.
    pub(crate) async fn acts(&self, tool: &str) {
        self.ask(Event::Acts { task: self.task, tool: tool.to_owned() }).await;
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }

    async fn report(&self, event: CallbackEvent) {
        self.ask(Event::Shows { task: self.task, event }).await;
    }

    async fn ask(&self, event: Event) {
        let (resume, resumed) = oneshot::channel();
        // Nobody answers only when the agent ends, and the turn with it.
        if self.asks.send(Ask { task: self.task, event, resume }).await.is_err() || resumed.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
