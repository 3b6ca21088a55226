//! The pusher: POSTs due deliveries to agents' harnesses, endpoints and connection strings until each arrives,
//! is refused or is given up.
//!
//! The pusher is a reconciler: its work follows from the deliveries in the store and the time, so a hint may
//! be lost and a node may die. Each attempt is leased before and recorded after. An attempt without a record
//! is repeated after its lease has expired, under the same message id. The store keeps the order within a
//! conversation: only the first waiting delivery is ever due.

mod long;
mod owners;
mod plan;

use super::steps::{self, ROOM, Settings};
use crate::attention::dispositions;
use crate::delivery::agreement::Agreement;
use crate::delivery::{challenge, harness};
use crate::market::own_words::OwnWords;
use crate::market::{declines, results};
use chorus_attention::disposition;
use chorus_node::Error;
use chorus_node::transport::dialect::delivery_id;
use chorus_node::transport::outbound::{PostError, Signed, To};
use chorus_node::transport::outbound_limits::Cause;
use chorus_node::{App, AppState};
use chorus_protocol::ids::AgentId;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{EntryKind, Signal};
use chorus_store::deliveries::Transport;
use chorus_store::market::handing;
use chorus_store::push::{self, Attempt, Due, FinishedTry, Outcome};
use chorus_store::{StoreError, Tx};
use owners::Owners;
use plan::Plan;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};

/// The interval between checks of the clock while a delivery waits.
const TICK: Duration = Duration::from_millis(200);
/// Ticks after which the store is read without a hint: other nodes make deliveries due, and hints are lost.
const LOOK_TICKS: u32 = 10;
/// The first backoff between attempts. It doubles up to the longest.
const FIRST_PAUSE_MS: i64 = 1000;
const LONGEST_PAUSE_MS: i64 = 5 * 60 * 1000;
/// The pause of a delivery to an unproven endpoint. Proving the endpoint ends it early.
const UNPROVEN_PAUSE: Duration = Duration::from_mins(1);
/// The jitter of a backoff is up to one part in this many, so that agents that failed together do not return
/// together.
const JITTER_PART: i64 = 5;

/// Pushes until the hub stops, then waits for the open requests.
pub async fn run(app: AppState) {
    let (mut flights, mut owners) = (JoinSet::new(), Owners::default());
    while !app.tasks.stopping.is_cancelled() {
        for (agent, notice) in app.transport.notices.take() {
            app.tasks.tracker.spawn(harness::tell(AppState::clone(&app), agent, notice));
        }
        let next = step(&app, &mut flights).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not look for what is due; it is tried again"
            );
            None
        });
        wait(&app, &mut flights, &mut owners, next).await;
    }
    // Each request notices that the hub stops and ends in time.
    while let Some(ended) = flights.join_next().await {
        land(&app, &mut owners, ended);
    }
}

/// The running attempts. Each returns the agent whose connection broke, if one did.
type Flights = JoinSet<Option<AgentId>>;

fn land(app: &AppState, owners: &mut Owners, ended: Result<Option<AgentId>, JoinError>) {
    match ended {
        Ok(Some(broken)) => owners.tell(app, broken),
        Ok(None) => {}
        Err(_) => tracing::error!("a push panicked; it is made again when its lease has run out"),
    }
}

/// Sends the due deliveries and returns the time of the next one.
async fn step(app: &AppState, flights: &mut Flights) -> Result<Option<i64>, StoreError> {
    loop {
        let (now, settings) = (app.now(), Settings::new(&app.config));
        let long = app.transport.long_requests.deliveries();
        let has_room = flights.len().saturating_sub(long.len()) < ROOM.tries;
        let find = move |tx: &mut dyn Tx| steps::find_due(tx, now, &settings, has_room, &long);
        let (next, found) = app.store.read::<_, StoreError, _>(find).await?;
        if found.is_empty() {
            // Nothing is due, or the recipients have no free slot.
            return Ok(next);
        }
        let lease = move |tx: &mut dyn Tx| steps::lease(tx, now, &settings, &found);
        let leased = app.store.write::<_, StoreError, _>(lease).await?;
        if leased.is_empty() {
            // Another node leased them first, or they were delivered to inboxes.
            return Ok(next);
        }
        for due in leased {
            flights.spawn(push_one(AppState::clone(app), due));
        }
    }
}

/// Waits until there may be work.
async fn wait(app: &AppState, flights: &mut Flights, owners: &mut Owners, next: Option<i64>) {
    let mut ticks = 0;
    loop {
        tokio::select! {
            () = app.tasks.push_due.notified() => return,
            Some(ended) = flights.join_next() => return land(app, owners, ended),
            () = app.tasks.stopping.cancelled() => return,
            () = tokio::time::sleep(TICK) => {
                ticks += 1;
                app.telemetry.metrics.background_round("push");
                if next.is_some_and(|next| next <= app.now()) || ticks >= LOOK_TICKS {
                    return;
                }
            }
        }
    }
}

/// The result of an attempt.
struct TryResult {
    /// `None` if no request was made.
    attempt: Option<Attempt>,
    /// The reason why no request was made.
    why: Option<String>,
    outcome: Outcome,
    /// True if the recipient has the message, as far as is known. An error from a proxy says nothing about it.
    arrived: bool,
    /// True if the hub does not wait for the answer to a job any more, although the agent works on it.
    cut_off: bool,
}

impl TryResult {
    fn without_request(outcome: Outcome, why: Option<String>) -> Self {
        Self { attempt: None, why, outcome, arrived: false, cut_off: false }
    }
}

/// Makes one attempt, from its lease to its record. Returns the agent if its connection broke.
async fn push_one(app: AppState, due: Due) -> Option<AgentId> {
    let (begun, at) = (app.elapsed(), app.now());
    let attempt = |status: Option<u16>, error: Option<String>| Attempt {
        at,
        status: status.map(i64::from),
        latency_ms: app.elapsed() - begun,
        error,
    };
    let mut said = None;
    let tried = match plan::plan(&app, &due).await {
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, delivery = %due.id, "a push could not be prepared");
            let again = Outcome::Again(at + pause_ms(due.attempt, app.environment.bytes()));
            let outcome = if at < due.give_up_at { again } else { Outcome::Dead };
            TryResult::without_request(outcome, None)
        }
        Ok(Plan::Without(outcome, why)) => TryResult::without_request(outcome, why),
        Ok(Plan::CutOff) => {
            let why = Some(long::CUT_OFF.to_owned());
            TryResult { cut_off: true, ..TryResult::without_request(Outcome::Delivered, why) }
        }
        Ok(Plan::Post { url, body, epoch, proven, secrets, takes }) => {
            let to = To { url, receiver: due.id.agent, sender: None, cause: Cause::Push, proven };
            let message = Signed::new(&secrets, message_id(&due), at, body, false);
            let request = PushRequest { due: &due, takes, epoch, at };
            tokio::select! {
                posted = post(&app, &request, &to, message, &mut said) => {
                    classify_outcome(&app, &request, to.url, posted, attempt)
                }
                () = cut(&app) => {
                    let why = "the hub stopped before the outcome was known".into();
                    // The message may have arrived.
                    let outcome = if takes.again { Outcome::Again(app.now()) } else { Outcome::Dead };
                    let attempt = Some(attempt(None, Some(why)));
                    TryResult { attempt, ..TryResult::without_request(outcome, None) }
                }
            }
        }
    };
    let agent = due.id.agent;
    record(&app, due, tried, said).await.then_some(agent)
}

/// A push that is POSTed now.
struct PushRequest<'a> {
    due: &'a Due,
    takes: Agreement,
    /// The epoch of the agent's connection.
    epoch: i64,
    at: i64,
}

/// The status and the `Retry-After` header of a response.
type Answered = Result<(u16, Option<String>), PostError>;

/// POSTs the message. The agent's immediate answer to a job goes into `said`.
async fn post(
    app: &AppState,
    &PushRequest { due, takes, at, .. }: &PushRequest<'_>,
    to: &To,
    message: Signed,
    said: &mut Option<OwnWords>,
) -> Answered {
    let is_job = due.kind == EntryKind::Job && due.transport == Transport::Webhook;
    let most = match due.transport {
        Transport::Harness => harness::MAX_ANSWER,
        Transport::Webhook if is_job => results::MAX_ANSWER,
        Transport::Webhook | Transport::Channel | Transport::Inbox => 0,
    };
    let (status, after, answer) = if is_job {
        // The agent may finish the job before it answers.
        app.transport
            .outbound
            .push_patiently(to, message, most, |sources| long::wait(app, due, at, sources))
            .await?
    } else {
        app.transport.outbound.push_reading(to, message, most).await?
    };
    if due.transport == Transport::Harness && takes.answers && (200..300).contains(&status) {
        harness::result_of(answer.as_deref().unwrap_or_default(), &delivery_id(due.id.seq))?;
    }
    if is_job {
        *said = results::handle_post_response(app, due, at, status, answer.as_deref()).await;
    }
    Ok((status, after))
}

/// Turns the response to a POST into the result of the attempt.
fn classify_outcome(
    app: &AppState,
    &PushRequest { due, takes, epoch, .. }: &PushRequest<'_>,
    url: String,
    posted: Answered,
    attempt: impl Fn(Option<u16>, Option<String>) -> Attempt,
) -> TryResult {
    match &posted {
        Err(error @ PostError::Limited(limited)) => {
            return put_off(due, error, limited.wait(), app.now(), app.environment.bytes());
        }
        Err(error @ PostError::Unproven) => {
            challenge::ask_again(app, &Handle::current(), due.id.agent, url);
            return put_off(due, error, UNPROVEN_PAUSE, app.now(), app.environment.bytes());
        }
        Err(PostError::NotTaken(why)) if why.wants_to_begin() => harness::begin_again(app, due.id.agent),
        Ok(_) | Err(_) => {}
    }
    let outcome = match &posted {
        Err(error) if !takes.again && error.may_have_arrived() => Outcome::Dead,
        posted => judge(due, epoch, posted, app.now(), app.environment.bytes()),
    };
    let arrived = match &posted {
        Ok((status, _)) => (200..300).contains(status),
        Err(error) => error.may_have_arrived(),
    };
    let cut_off = matches!(posted, Err(PostError::Displaced));
    let (status, error) = match posted {
        Ok((status @ 200..300, _)) => (Some(status), None),
        Ok((status, _)) => (Some(status), Some(PostError::Status(status).to_string())),
        Err(error) => (None, Some(error.to_string())),
    };
    TryResult { attempt: Some(attempt(status, error)), why: None, outcome, arrived, cut_off }
}

/// Returns the message id, which is the same for every attempt. A job and its result share one event but are
/// two messages.
fn message_id(due: &Due) -> String {
    let part = if due.kind == EntryKind::Result { "_result" } else { "" };
    format!("msg_{}{part}", due.event.0.simple())
}

/// Waits until the hub stops and its drain time is nearly over.
async fn cut(app: &App) {
    app.tasks.stopping.cancelled().await;
    tokio::time::sleep(app.config.times.drain * 3 / 4).await;
}

/// Records the outcome of a delivery, and returns whether it broke the agent's connection.
async fn record(
    app: &AppState,
    due: Due,
    TryResult { attempt, why, outcome, arrived, cut_off }: TryResult,
    said: Option<OwnWords>,
) -> bool {
    if let Outcome::Broken(_) | Outcome::Refused | Outcome::Dead = outcome {
        let error = attempt.as_ref().map_or(why.as_deref(), |attempt| attempt.error.as_deref());
        tracing::info!(delivery = %due.id, attempt = due.attempt, ?outcome, error, "a push came to nothing");
    }
    // A postponement without a request is not counted as a push. A final outcome is counted even without a
    // request.
    if attempt.is_some() || !matches!(outcome, Outcome::Again(_)) {
        let outcome = match outcome {
            Outcome::Delivered => "delivered",
            Outcome::Again(_) => "retry",
            Outcome::Broken(_) => "broken",
            Outcome::Refused => "refused",
            Outcome::Dead => "dead",
        };
        app.telemetry.metrics.push(due.transport.as_str(), outcome);
    }
    // Holds the hub weakly: this may be its last act, and must not keep the store open.
    let (due_now, now, hub) = (Arc::clone(&app.tasks.push_due), app.now(), Arc::downgrade(app));
    let finish = move |tx: &mut dyn Tx| {
        // The next delivery of the conversation may be due now.
        let due_now = Arc::clone(&due_now);
        tx.after_commit(Box::new(move || due_now.notify_one()));
        // Wallets are locked before the inbox, as everywhere.
        if due.kind == EntryKind::Job {
            if let Some(attempt) = attempt.as_ref().filter(|_| arrived) {
                handing::record(tx, due.event, attempt.at)?;
            }
            if cut_off {
                long::excuse(tx, &due)?;
            }
            if outcome == Outcome::Refused {
                declines::refuse(tx, &hub, &due, attempt.as_ref(), why.as_deref(), said.as_ref())?;
            }
        }
        let finished = push::finish(tx, &due, attempt.as_ref(), why.as_deref(), outcome, now)?;
        if let Some(cause) = became(&due, outcome).filter(|_| finished.held) {
            dispositions::record_passively(tx, due.event, due.id.agent, cause, now)?;
        }
        Ok(finished)
    };
    match app.store.write::<_, Error, _>(finish).await {
        Ok(FinishedTry { broke, .. }) => broke,
        Err(error) => {
            tracing::warn!(
                error = error.message,
                "a push was not recorded; it is made again when its lease has run out"
            );
            false
        }
    }
}

/// Returns the disposition for the notice of a job's result. The hirer is informed and has nothing to answer.
fn became(due: &Due, outcome: Outcome) -> Option<disposition::Cause> {
    match outcome {
        _ if due.kind != EntryKind::Result => None,
        Outcome::Again(_) | Outcome::Broken(_) => None,
        Outcome::Delivered => Some(disposition::Cause::Reacted(Signal::Seen)),
        Outcome::Refused | Outcome::Dead => Some(disposition::Cause::Failed),
    }
}

/// Decides the outcome of a POST.
fn judge(due: &Due, epoch: i64, posted: &Answered, now: i64, random: [u8; 4]) -> Outcome {
    let after = match posted {
        // In both error cases the agent has the job and does not get it again.
        Ok((200..300, _)) | Err(PostError::Displaced | PostError::JobOver) => return Outcome::Delivered,
        Ok((408 | 425 | 429 | 500..600, after)) => after.as_deref().and_then(|after| retry_after(after, now)),
        Ok((401 | 403 | 404 | 410, _)) => match due.transport {
            // The connection string is wrong, and only the agent's owner can replace it.
            Transport::Channel => return Outcome::Broken(epoch),
            // An endpoint has no broken state. Its server is repaired by its own operator, and the hub retries
            // until then.
            Transport::Harness | Transport::Webhook | Transport::Inbox => None,
        },
        Err(PostError::Blocked(_)) => match due.transport {
            Transport::Channel => return Outcome::Broken(epoch),
            Transport::Harness | Transport::Webhook | Transport::Inbox => return Outcome::Refused,
        },
        Err(PostError::NotTaken(why)) if why.is_final() => return Outcome::Refused,
        Err(
            PostError::NotTaken(_)
            | PostError::Timeout(_)
            | PostError::NoConnection(_)
            | PostError::Unreachable(_)
            | PostError::BrokenOff(_)
            | PostError::Limited(_)
            | PostError::Unproven,
        ) => None,
        Ok(_) | Err(PostError::Status(_)) => return Outcome::Refused,
    };
    if now >= due.give_up_at {
        return Outcome::Dead;
    }
    Outcome::Again((now + pause_ms(due.attempt, random)).max(after.unwrap_or(now)))
}

/// Postpones a delivery without a request. It does not count as an attempt. Jitter keeps postponed deliveries
/// from returning together.
fn put_off(due: &Due, why: &PostError, wait: Duration, now: i64, random: [u8; 4]) -> TryResult {
    if now >= due.give_up_at {
        return TryResult::without_request(Outcome::Dead, Some(why.to_string()));
    }
    let wait = wait.as_millis() as i64;
    let jitter = i64::from(u32::from_le_bytes(random)) % (wait + 1);
    TryResult::without_request(Outcome::Again(now + wait + jitter), None)
}

/// Returns the backoff after this many attempts.
fn pause_ms(attempt: i64, random: [u8; 4]) -> i64 {
    let doublings = attempt.clamp(1, 20) - 1;
    let pause = (FIRST_PAUSE_MS << doublings).min(LONGEST_PAUSE_MS);
    let most = pause / JITTER_PART;
    pause - most + i64::from(u32::from_le_bytes(random)) % (2 * most + 1)
}

/// Parses `Retry-After`: seconds from now, or a date.
fn retry_after(text: &str, now: i64) -> Option<i64> {
    let text = text.trim();
    match text.parse::<u32>() {
        Ok(seconds) => Some(now + i64::from(seconds) * 1000),
        Err(_) => http_date(text),
    }
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that may be sent (RFC 9110).
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    (words.next()? == "GMT").then_some(())?;
    parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z"))
}

#[cfg(test)]
mod tests;
