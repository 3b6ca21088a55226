//! Permission requests of a program as approvals at the hub.
//!
//! The agent's question is a message that is held for a person of the conversation. The hub decides who may
//! answer it, and its state is the answer: a person who agrees also publishes the question, as a record in the
//! thread. A question that nobody answers in time is withdrawn, as is one whose turn has ended, so that a late
//! answer has no effect.

use super::store::SessionStore;
use super::updates::{AcpCall, one_line, printable};
use crate::api::Method;
use crate::harness::activity::{Activity, Observer};
use crate::harness::texts::{clean, cut};
use crate::harness::turn::{Back, Turn};
use crate::{Client, ClientError, Retry};
use chorus_environment::Environment;
use chorus_protocol::code::Code;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{ApprovalState, ConversationKind, EntryKind, Intent};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The longest arguments in a question, in characters.
const MAX_ARGUMENTS: usize = 20_000;

/// The pauses between two looks at the answer: at first, and after [`SOON`] looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];
const SOON: usize = 60;

/// The decision about a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Agreed,
    Declined,
    /// Nobody decided in time, or the question was withdrawn.
    Cancelled,
}

/// A permission request for a tool call.
pub(super) struct Question<'a> {
    pub(super) hub: Option<&'a Client>,
    pub(super) store: &'a Arc<SessionStore>,
    /// The thread of the session.
    pub(super) key: &'a str,
    /// The agent's name.
    pub(super) name: &'a str,
    pub(super) turn: &'a Turn,
    pub(super) call: AcpCall,
    /// The time that people have for an answer.
    pub(super) limit: Duration,
    pub(super) observer: &'a Observer,
    pub(super) environment: &'a Environment,
}

/// The hub's answer to a message that it holds.
#[derive(Deserialize)]
struct HeldQuestion {
    approval: String,
}

#[derive(Deserialize)]
struct Standing {
    state: ApprovalState,
}

impl Question<'_> {
    /// Asks the people of the conversation and waits for their decision. Where nobody can be asked, the
    /// decision is to decline.
    pub(super) async fn decide(self) -> Decision {
        let tool = cut(self.call.name(), 100);
        let waits = match self.hold().await {
            Ok(waits) => waits,
            Err(why) => {
                let what = format!("the permission for {tool}, which nobody can give: {why}");
                self.observer.tell(Activity::Skipped { what });
                return Decision::Declined;
            }
        };
        self.observer.tell(Activity::PermissionAsked { tool: tool.clone(), approval: waits.id.clone() });
        let decision = match timeout(self.limit, waits.decided()).await {
            Ok(decision) => decision,
            // Somebody may decide at this moment. The hub knows who was first.
            Err(_) if waits.withdraw().await => Decision::Cancelled,
            Err(_) => waits.look().await.unwrap_or(Decision::Cancelled),
        };
        waits.over();
        let answer = match decision {
            Decision::Agreed => "agreed",
            Decision::Declined => "declined",
            Decision::Cancelled => "no answer",
        };
        self.observer.tell(Activity::PermissionDecided { tool, answer: answer.to_owned() });
        decision
    }

    /// Has the hub hold the question.
    async fn hold(&self) -> Result<Waiting, String> {
        let Turn { place, message_id, kind, back, .. } = self.turn;
        let is_hubs = *kind == EntryKind::Chat || matches!(back, Back::Session(_));
        let (Some(hub), Some(place)) = (self.hub, place.as_ref().filter(|_| is_hubs)) else {
            return Err("the message did not come from a conversation of the hub".to_owned());
        };
        let is_dm = place.kind.as_deref() == Some(ConversationKind::Dm.as_str());
        let thread = place.thread.as_ref().or((!is_dm).then_some(message_id));
        // An answer to the message would be another thing, so the question replies to nothing.
        let body = json!({"content": self.text(), "thread": thread, "intent": Intent::Status,
            "requires_approval": true});
        let (hub, place) = (hub.clone(), place.id.clone());
        let (store, key) = (Arc::clone(self.store), self.key.to_owned());
        // The turn may be cancelled before the hub has answered. The task goes on, and withdraws the question
        // because nobody takes its result.
        let held = tokio::spawn(async move {
            let path = ["channels", &place, "messages"];
            let held = hub.api_write::<HeldQuestion>(Method::POST, &path, &[], Some(&body)).await;
            let HeldQuestion { approval: id } = held.map_err(|error| error.to_string())?;
            let hub = hub.with_retry(Retry::ONCE);
            let waits = Waiting { hub, store, key, id: id.clone(), is_over: false.into() };
            // The next start withdraws a question that this process leaves behind.
            let kept = waits.store.change(&waits.key, |record| record.approvals.push(id));
            kept.map(|()| waits).map_err(|error| error.to_string())
        });
        held.await.map_err(|error| error.to_string())?
    }

    /// Formats the question. Everything that others wrote stands in code, where it mentions nobody.
    fn text(&self) -> String {
        let AcpCall { title, kind, input, content, .. } = &self.call;
        let code = |text: &str| format!("`{}`", cut(&one_line(text), 200).replace('`', "'"));
        let until_ms = self.environment.now() + i64::try_from(self.limit.as_millis()).unwrap_or(i64::MAX / 2);
        let mut lines = vec![format!("**May {} do this?** {}", code(self.name), code(self.call.name()))];
        if !kind.is_empty() && !title.is_empty() {
            lines.push(format!("- kind of tool: {}", code(kind)));
        }
        lines.push(format!(
            "- while it works on: {} of {}",
            code(&self.turn.message_id),
            code(&self.turn.sender)
        ));
        lines.push(format!("- answer until: {}; without an answer it is not done", rfc3339(until_ms)));
        let arguments = match input {
            Value::Null if content.is_empty() => None,
            Value::Null => Some(content.clone()),
            input => serde_json::to_string_pretty(input).ok(),
        };
        match arguments {
            Some(text) => {
                let text = clean(&printable(&text), usize::MAX);
                let surplus = text.chars().count().saturating_sub(MAX_ARGUMENTS);
                if surplus > 0 {
                    lines.push(format!("- **not shown: the last {surplus} characters of the arguments**"));
                }
                lines.push(fenced(&cut(&text, MAX_ARGUMENTS)));
            }
            None => lines.push("- the program does not tell the arguments".to_owned()),
        }
        lines.join("\n")
    }
}

/// Puts a text into a code block whose fence is longer than all runs of backticks in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("\n{fence}\n{text}\n{fence}")
}

/// A question at the hub. Dropping it before it is over withdraws the question.
struct Waiting {
    hub: Client,
    store: Arc<SessionStore>,
    key: String,
    id: String,
    is_over: std::sync::atomic::AtomicBool,
}

impl Waiting {
    /// Waits until the hub knows a decision.
    async fn decided(&self) -> Decision {
        for look in 0_usize.. {
            if let Some(decision) = self.look().await {
                return decision;
            }
            sleep(PAUSES[usize::from(look >= SOON)]).await;
        }
        Decision::Cancelled
    }

    /// Asks the hub for the decision. Returns `None` if there is none yet, or the hub cannot be asked.
    async fn look(&self) -> Option<Decision> {
        match self.hub.api_get::<Standing>(&["approvals", &self.id], &[]).await {
            Ok(Standing { state: ApprovalState::Agreed }) => Some(Decision::Agreed),
            Ok(Standing { state: ApprovalState::Declined }) => Some(Decision::Declined),
            Ok(Standing { state: ApprovalState::Held }) => None,
            Ok(_) | Err(ClientError::Refused { status: 403 | 404, .. }) => Some(Decision::Cancelled),
            Err(_) => None,
        }
    }

    /// Withdraws the question. Returns `false` if it was decided before.
    async fn withdraw(&self) -> bool {
        withdraw(&self.hub, &self.id).await
    }

    fn over(&self) {
        self.is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        // A record that stays only makes the next start withdraw it once more.
        self.store.change(&self.key, |record| record.approvals.retain(|id| *id != self.id)).ok();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if *self.is_over.get_mut() {
            return;
        }
        let (hub, store, key, id) =
            (self.hub.clone(), Arc::clone(&self.store), self.key.clone(), self.id.clone());
        // Without a runtime the process ends, and the next start withdraws the question.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                withdraw(&hub, &id).await;
                store.change(&key, |record| record.approvals.retain(|one| *one != id)).ok();
            });
        }
    }
}

/// Withdraws a question. Returns `false` if it was decided before.
pub(super) async fn withdraw(hub: &Client, id: &str) -> bool {
    let done = hub.api_write::<IgnoredAny>(Method::DELETE, &["approvals", id], &[], None).await;
    !matches!(done, Err(error) if error.code() == Some(Code::Conflict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("a"), "\n```\na\n```");
        assert_eq!(fenced("a ```` b"), "\n`````\na ```` b\n`````");
    }
}
