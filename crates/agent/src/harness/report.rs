//! Progress reports of a running driver to the channel: status and tool calls.
//!
//! The core sends each report, and the driver waits for it, which keeps their order. Reports are best effort:
//! a lost one changes nothing. Credentials are masked in everything but the answer, which the hub masks.

use super::activity::{Activity, Observer};
use super::core::Event;
use super::texts::{arguments_without_nul, clean, cut, without_nul};
use chorus_protocol::channel::{CallbackEvent, MAX_CONTENT, MAX_NAME, MAX_STATUS};
use chorus_protocol::redact::redact;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

/// An event of a turn for the core. The turn waits for `resume`.
pub(crate) struct Ask {
    pub(crate) task: u64,
    pub(crate) event: Event,
    pub(crate) resume: oneshot::Sender<()>,
}

/// The connection from a turn to the core.
pub(crate) struct Reporter {
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
        let (name, args) = (without_nul(cut(name, MAX_NAME)), arguments_without_nul(args));
        self.observer.tell(Activity::ToolCall { name: name.clone() });
        // The arguments are masked as a text. If the result is no longer JSON, they are left out.
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

    /// Reports a new piece of the answer.
    pub(crate) async fn grows(&self, text: &str) {
        self.ask(Event::Grows { task: self.task, text: without_nul(text.to_owned()) }).await;
    }

    /// Reports that a tool that may change something is about to be called. When this returns, the journal
    /// contains it.
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
        // The core does not answer only when the agent stops. Then the turn ends too.
        if self.asks.send(Ask { task: self.task, event, resume }).await.is_err() || resumed.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
