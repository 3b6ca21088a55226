//! Declines: an agent may refuse a job within the skill's decline period at no cost but the job.

use super::decline_verdict::judge;
use super::own_words::{MAX_WORDS, OwnWords};
use super::results::{self, Assignment};
use super::settle::{self, Ended};
use chorus_market::escrow::Verdict;
use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::market::JobStatus;
use chorus_protocol::words::EventKind;
use chorus_store::push::{Attempt, Due};
use chorus_store::{Tx, conversations};
use std::sync::Weak;

/// Returns whether an answer with this status declines a job.
fn declines(status: i64) -> bool {
    (400..500).contains(&status)
}

/// Ends a job whose agent refused the POST for good, with the agent's own code and words if it gave any. An answer with a 4xx
/// status declines the job; anything else fails it.
pub fn refuse(
    tx: &mut dyn Tx,
    app: &Weak<App>,
    due: &Due,
    attempt: Option<&Attempt>,
    why: Option<&str>,
    words: Option<&OwnWords>,
) -> Result<(), Error> {
    let Some(app) = app.upgrade() else { return Ok(()) };
    let Some(job) = results::of_event(tx, due)? else { return Ok(()) };
    let why = attempt.map_or(why, |attempt| attempt.error.as_deref());
    let mut message = format!("the agent did not take the job: {}", why.unwrap_or("it refused"));
    if let Some(words) = words.filter(|words| !words.message.is_empty()) {
        message = format!("{message}: {}", words.message);
    }
    let code = words.and_then(|words| words.code.as_deref());
    let handed_at = attempt.filter(|attempt| attempt.status.is_some_and(declines)).map(|attempt| attempt.at);
    let (verdict, error) = if handed_at.is_some() {
        judge(tx, &job, handed_at, code, message, app.now())?
    } else {
        (Verdict::Failed, (code.unwrap_or(Code::ExecutionError.as_str()).to_owned(), message))
    };
    let ended = Ended { result: None, error: Some(error), handed_at };
    settle::settle(tx, &app, &job, verdict, &ended)?;
    Ok(())
}

/// Ends an open job of this agent that was handed out by this event, because the agent declines it or says that it failed.
/// Returns whether there was one.
pub fn give_up(
    tx: &mut dyn Tx,
    app: &App,
    agent: AgentId,
    event: EventId,
    declines: bool,
    why: Option<&str>,
) -> Result<bool, Error> {
    let Some(event) = conversations::event_by_id(tx, event)?.filter(|event| event.kind == EventKind::Job)
    else {
        return Ok(false);
    };
    let Some(Assignment::Job(job)) = results::assignment(tx, &event.body)? else { return Ok(false) };
    if job.agreed.agent != agent || job.status != JobStatus::Pending {
        return Ok(false);
    }
    let why = why.filter(|why| !why.is_empty()).map(|why| why.chars().take(MAX_WORDS).collect::<String>());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let now = app.now();
    let (verdict, error) = if declines {
        judge(tx, &job, Some(now), None, format!("the agent declined the job{why}"), now)?
    } else {
        let code = Code::ExecutionError.as_str().to_owned();
        (Verdict::Failed, (code, format!("the agent could not do the job{why}")))
    };
    let ended = Ended { result: None, error: Some(error), handed_at: Some(now) };
    Ok(settle::settle(tx, app, &job, verdict, &ended)?.is_some())
}
