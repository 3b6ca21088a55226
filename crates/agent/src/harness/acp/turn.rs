//! One prompt of a session: updates become the growing answer and tool lines, permission requests become
//! questions at the hub, and the stop reason becomes the outcome.
//!
//! A session has one prompt at a time. A prompt that is dropped, because its turn was cancelled, is cancelled
//! at the program too, and the session stays locked until the program has stopped.

use super::open::{Live, refuse};
use super::permission::{Decision, Question};
use super::updates::{Effect, Updates};
use super::wire::{RpcAnswer, SessionEvent, Wire, cancelled};
use super::{AcpAsked, Bridge, Fault};
use crate::harness::activity::Activity;
use crate::harness::core::Outcome;
use crate::harness::texts::{clean, cut};
use crate::harness::turn::Back;
use chorus_protocol::rpc::Id;
use chorus_protocol::words::Policy;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};
use tokio::time::timeout;

/// The minimum interval between two pieces of an answer streamed to a channel, in milliseconds.
const PIECE_MS: i64 = 200;

/// The number of permission requests of a turn that may be open at the same time.
const MAX_QUESTIONS: usize = 16;

/// The time that a program has to stop after a cancellation, before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A prompt that the program works on.
struct Prompt(Option<Parts>);

struct Parts {
    wire: Wire,
    session: String,
    events: mpsc::Receiver<SessionEvent>,
    answer: oneshot::Receiver<RpcAnswer>,
    /// The open permission requests.
    open: Vec<Id>,
    _lock: OwnedMutexGuard<()>,
}

impl Drop for Prompt {
    fn drop(&mut self) {
        // Without a runtime the process ends, and the program with it.
        if let (Some(parts), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(parts.cancel());
        }
    }
}

impl Parts {
    /// Cancels the prompt and waits until the program has stopped.
    async fn cancel(mut self) {
        for id in std::mem::take(&mut self.open) {
            self.wire.respond(id, Ok(cancelled())).await;
        }
        self.wire.notify("session/cancel", json!({"sessionId": self.session})).await;
        let stopped = async {
            loop {
                tokio::select! {
                    _ = &mut self.answer => return,
                    Some(event) = self.events.recv() => refuse(&self.wire, event).await,
                }
            }
        };
        if timeout(STOP_LIMIT, stopped).await.is_err() {
            self.wire.kill("it did not stop when it was told to");
        }
        self.wire.stop_listening(&self.session);
    }
}

/// A permission request, with its answer and whether the permission was given.
type Deciding<'a> = Pin<Box<dyn Future<Output = (Id, Value, bool)> + Send + 'a>>;

/// The state of a running prompt.
struct Progress<'a> {
    updates: Updates,
    questions: FuturesUnordered<Deciding<'a>>,
    /// The number of bytes of the answer that were shown.
    shown: usize,
    next_piece_ms: i64,
    /// `true` if a permission was not given.
    denied: bool,
    acted: bool,
    /// The times at which tool calls began, in milliseconds, by our ids.
    begun_ms: HashMap<String, i64>,
}

impl Bridge {
    /// Sends a prompt and returns its outcome.
    pub(super) async fn prompt(
        &self,
        live: &Live,
        (session, key): (&str, &str),
        text: String,
        lock: OwnedMutexGuard<()>,
        asked: &AcpAsked<'_>,
    ) -> Result<Outcome, Fault> {
        let wire = live.wire();
        let events = wire.listen(session);
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let answer = wire.begin("session/prompt", params).await.map_err(|fault| self.fault(fault))?;
        let parts = Parts {
            wire: wire.clone(),
            session: session.to_owned(),
            events,
            answer,
            open: vec![],
            _lock: lock,
        };
        let mut prompt = Prompt(Some(parts));
        let mut progress = Progress {
            updates: Updates::new(self.acp.preset.is_some_and(|preset| preset.names_messages)),
            questions: FuturesUnordered::new(),
            shown: 0,
            next_piece_ms: i64::MIN,
            denied: false,
            acted: false,
            begun_ms: HashMap::new(),
        };
        let result = loop {
            let Some(parts) = &mut prompt.0 else { break None };
            tokio::select! {
                biased;
                Some(event) = parts.events.recv() => {
                    self.take(event, key, parts, &mut progress, asked).await;
                }
                Some((id, answer, is_given)) = progress.questions.next() => {
                    progress.denied |= !is_given;
                    parts.open.retain(|open| *open != id);
                    parts.wire.respond(id, Ok(answer)).await;
                }
                answer = &mut parts.answer => break answer.ok(),
            }
        };
        wire.stop_listening(session);
        // The turn is over, so nothing is left to cancel.
        drop(prompt.0.take());
        let heard = progress.shown > 0 && matches!(asked.run.turn.back, Back::Envelope(_));
        let Progress { mut updates, denied, .. } = progress;
        let ended = match wire.finish(result) {
            Ok(result) => {
                updates.finish(&result);
                tell_usage(&updates, asked);
                let stop = result["stopReason"].as_str().unwrap_or_default();
                self.outcome(stop, updates, denied, asked).await
            }
            Err(fault) => Err(self.fault(fault)),
        };
        // A piece that a sender has seen cannot be replaced, and a person who declined is not asked again.
        ended.map_err(|fault| if heard || denied { Fault { again: false, ..fault } } else { fault })
    }

    async fn take<'a>(
        &'a self,
        event: SessionEvent,
        key: &'a str,
        parts: &mut Parts,
        progress: &mut Progress<'a>,
        asked: &'a AcpAsked<'_>,
    ) {
        let update = match event {
            SessionEvent::Update(update) => update,
            SessionEvent::Permission { id, params } => {
                return self
                    .asked_for(PermissionRequest { id, params: &params }, key, parts, progress, asked)
                    .await;
            }
        };
        let reporter = asked.reporter;
        match progress.updates.apply(&update) {
            Some(Effect::Grown) => {
                let now_ms = asked.environment.elapsed();
                let new = progress.updates.text.get(progress.shown..).unwrap_or_default();
                let is_due = now_ms >= progress.next_piece_ms && asked.run.turn.is_listened_to();
                // An answer of white space only counts as no answer.
                if is_due && !new.trim().is_empty() {
                    reporter.grows(new).await;
                    progress.next_piece_ms = now_ms + PIECE_MS;
                    progress.shown = progress.updates.text.len();
                }
            }
            Some(Effect::Begun(call)) => {
                if call.changes() && !std::mem::replace(&mut progress.acted, true) {
                    // If the session is lost after a crash, the work is not begun again.
                    let title = call.name().to_owned();
                    self.store.change(key, |record| record.acted = Some(title)).ok();
                }
                progress.begun_ms.insert(call.id.clone(), asked.environment.elapsed());
                reporter.tool_call(&call.id, call.name(), call.shown_input()).await;
            }
            Some(Effect::Ended { call, ok, result }) => {
                let begun_ms = progress.begun_ms.remove(&call.id);
                if begun_ms.is_none() {
                    // A call that is over when it is first told.
                    reporter.tool_call(&call.id, call.name(), call.shown_input()).await;
                }
                let begun_ms = begun_ms.unwrap_or_else(|| asked.environment.elapsed());
                reporter.tool_result(&call.id, &result).await;
                let elapsed_ms = u64::try_from(asked.environment.elapsed() - begun_ms).unwrap_or(0);
                let name = cut(call.name(), 100);
                reporter.observer().tell(Activity::ToolResult { name, ok, elapsed_ms });
            }
            None => {}
        }
    }

    /// Asks the people of the conversation whether the program may call a tool.
    async fn asked_for<'a>(
        &'a self,
        PermissionRequest { id, params }: PermissionRequest<'_>,
        key: &'a str,
        parts: &mut Parts,
        progress: &mut Progress<'a>,
        asked: &'a AcpAsked<'_>,
    ) {
        let allow = option(&params["options"], "allow_once");
        let reject = option(&params["options"], "reject_once");
        let refused = reject.map_or_else(cancelled, |reject| selected(&reject));
        let is_double = parts.open.contains(&id);
        let Some(allow) = allow.filter(|_| !is_double && parts.open.len() < MAX_QUESTIONS) else {
            // A request that can only be allowed for good is refused.
            progress.denied = true;
            if !is_double {
                parts.wire.respond(id, Ok(refused)).await;
            }
            return;
        };
        let call = progress.updates.asked_for(&params["toolCall"]);
        let tool = cut(call.name(), 100);
        parts.open.push(id.clone());
        let question = Question {
            hub: asked.hub,
            store: &self.store,
            key,
            name: asked.name,
            turn: &asked.run.turn,
            call,
            limit: self.acp.permission_limit,
            observer: asked.reporter.observer(),
            environment: asked.environment,
        };
        progress.questions.push(Box::pin(async move {
            match question.decide().await {
                Decision::Agreed => (id, selected(&allow), true),
                Decision::Declined => (id, refused, false),
                Decision::Cancelled => (id, cancelled(), false),
            }
        }));
        asked.reporter.status(&format!("waits for a person's permission: {tool}")).await;
    }

    /// Converts the end of a prompt to an outcome.
    async fn outcome(
        &self,
        stop: &str,
        updates: Updates,
        denied: bool,
        asked: &AcpAsked<'_>,
    ) -> Result<Outcome, Fault> {
        if self.was_answered(asked).await {
            return Ok(Outcome::Answered);
        }
        let name = self.acp.name();
        let said = match Outcome::of(&updates.text) {
            Outcome::Say { text, .. } => Some(text),
            _ => None,
        };
        let is_silence = asked.run.turn.policy == Some(Policy::MayRespond);
        match (stop, said) {
            ("refusal", said) => {
                let told = said.map(|said| format!(": {}", clean(&said, 300))).unwrap_or_default();
                Err(Fault::again(format!("{name} refused{told}"), "refused"))
            }
            ("max_tokens" | "max_turn_requests", Some(text)) => {
                Ok(Outcome::Say { text: format!("{text}…"), cut: true })
            }
            ("end_turn", Some(text)) => Ok(Outcome::Say { text, cut: updates.cut }),
            (_, Some(text)) if denied => Ok(Outcome::Say { text, cut: updates.cut }),
            (_, None) if denied => {
                let why = format!("{name} stopped, because it was not given permission for a tool");
                Err(Fault::last(why, "declined"))
            }
            ("end_turn", None) if !updates.warnings.trim().is_empty() => {
                let why = format!("{name}: {}", clean(updates.warnings.trim(), 600));
                Err(Fault::again(why, "failed"))
            }
            // A program that was asked by nobody may say nothing.
            ("end_turn", None) if is_silence => Ok(Outcome::Silence),
            ("end_turn", None) => Err(Fault::again(format!("{name} said nothing"), "empty")),
            (stop, _) => {
                let stop = if stop.is_empty() { "no reason" } else { stop };
                Err(Fault::again(format!("{name} stopped: {}", cut(stop, 100)), "failed"))
            }
        }
    }
}

/// A request of the program for the permission to call a tool.
struct PermissionRequest<'a> {
    id: Id,
    params: &'a Value,
}

/// Tells the observer the tokens and the cost of a turn, as far as the program named them.
fn tell_usage(updates: &Updates, asked: &AcpAsked<'_>) {
    let usage = updates.usage.clone();
    if usage != super::updates::TurnUsage::default() {
        let (input_tokens, output_tokens) = (usage.input_tokens, usage.output_tokens);
        asked.reporter.observer().tell(Activity::Used { input_tokens, output_tokens, cost: usage.cost });
    }
}

/// Returns the id of the option of a kind. The ids and names are the program's own words.
fn option(options: &Value, kind: &str) -> Option<String> {
    let one = options.as_array()?.iter().find(|option| option["kind"] == kind)?;
    one["optionId"].as_str().map(str::to_owned)
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}
