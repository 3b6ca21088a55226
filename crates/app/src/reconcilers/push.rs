//! The pusher: POSTs what is due to agents' harnesses, endpoints and connection strings until it arrives, is refused or given up.
//!
//! A reconciler: what it does follows from the deliveries in the store and the time, so a hint may be lost and a node may
//! die. Each try is leased before and recorded after; a try whose end nobody recorded is made again when its lease has
//! run out, under the same message id. Order within a conversation is the store's business: only the first that
//! waits is ever due.

mod owners;
mod plan;

use super::steps::{self, ROOM, Settings};
use crate::app::{App, AppState};
use crate::attention::disposing;
use crate::delivery::agreement::Agreement;
use crate::delivery::{challenge, harness};
use crate::error::Error;
use crate::market::results;
use crate::transport::dialect::delivery_id;
use crate::transport::limits::Cause;
use crate::transport::outbound::{PostError, Signed, To};
use chorus_attention::disposition;
use chorus_protocol::ids::AgentId;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{EntryKind, Signal};
use chorus_store::deliveries::Transport;
use chorus_store::push::{self, Attempt, Due, Finished, Outcome};
use chorus_store::{StoreError, Tx};
use owners::Owners;
use plan::Plan;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};

/// How often the clock is looked at while something waits.
const TICK: Duration = Duration::from_millis(200);
/// After so many ticks the store is looked at in any case: other nodes make things due, and hints are lost.
const LOOK_TICKS: u32 = 10;
/// The pauses between tries: the first, doubling up to the longest.
const FIRST_PAUSE_MS: i64 = 1000;
const LONGEST_PAUSE_MS: i64 = 5 * 60 * 1000;
/// How long what is for an endpoint that is not proven waits, unless that happens before.
const UNPROVEN_PAUSE: Duration = Duration::from_mins(1);
/// A pause is longer or shorter by up to one part in so many, so that agents that failed together do not return together.
const JITTER_PART: i64 = 5;

/// Pushes until the hub stops, and then waits for what is on its way.
pub async fn run(app: AppState) {
    let (mut flights, mut owners) = (JoinSet::new(), Owners::default());
    while !app.stopping.is_cancelled() {
        for (agent, notice) in app.notices.take() {
            app.tasks.spawn(harness::tell(AppState::clone(&app), agent, notice));
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
    // Each of them sees that the hub stops, and ends in time.
    while let Some(ended) = flights.join_next().await {
        land(&app, &mut owners, ended);
    }
}

/// What is a flight's own is done; it says whose connection broke.
type Flights = JoinSet<Option<AgentId>>;

fn land(app: &AppState, owners: &mut Owners, ended: Result<Option<AgentId>, JoinError>) {
    match ended {
        Ok(Some(broken)) => owners.tell(app, broken),
        Ok(None) => {}
        Err(_) => tracing::error!("a push panicked; it is made again when its lease has run out"),
    }
}

/// Sends what is due, and says when something is due next.
async fn step(app: &AppState, flights: &mut Flights) -> Result<Option<i64>, StoreError> {
    loop {
        let (now, settings) = (app.now(), Settings::new(&app.config));
        let has_room = flights.len() < ROOM.tries;
        let find = move |tx: &mut dyn Tx| steps::find_due(tx, now, &settings, has_room);
        let (next, found) = app.store.read::<_, StoreError, _>(find).await?;
        if found.is_empty() {
            // Nothing is due, or the agents it is for have enough to do.
            return Ok(next);
        }
        let lease = move |tx: &mut dyn Tx| steps::lease(tx, now, &settings, &found);
        let leased = app.store.write::<_, StoreError, _>(lease).await?;
        if leased.is_empty() {
            // Another node was faster, or it went into inboxes.
            return Ok(next);
        }
        for due in leased {
            flights.spawn(push_one(AppState::clone(app), due));
        }
    }
}

/// Returns when there may be something to do.
async fn wait(app: &AppState, flights: &mut Flights, owners: &mut Owners, next: Option<i64>) {
    let mut ticks = 0;
    loop {
        tokio::select! {
            () = app.due.notified() => return,
            Some(ended) = flights.join_next() => return land(app, owners, ended),
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(TICK) => {
                ticks += 1;
                if next.is_some_and(|next| next <= app.now()) || ticks >= LOOK_TICKS {
                    return;
                }
            }
        }
    }
}

/// What became of a try: the try itself, if there was one; why else it ended; and what it led to.
type Tried = (Option<Attempt>, Option<String>, Outcome);

/// One try, from its lease to its record; the agent, if its connection broke.
async fn push_one(app: AppState, due: Due) -> Option<AgentId> {
    let (begun, at) = (app.elapsed(), app.now());
    let attempt = |status: Option<u16>, error: Option<String>| Attempt {
        at,
        status: status.map(i64::from),
        latency_ms: app.elapsed() - begun,
        error,
    };
    let mut said = None;
    let (attempt, why, outcome) = match plan::plan(&app, &due).await {
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, delivery = %due.id, "a push could not be prepared");
            let again = Outcome::Again(at + pause_ms(due.attempt, app.environment.bytes()));
            (None, None, if at < due.give_up_at { again } else { Outcome::Dead })
        }
        Ok(Plan::Without(outcome, why)) => (None, why, outcome),
        Ok(Plan::Post { url, body, epoch, proven, secrets, takes }) => {
            let to = To { url, receiver: due.id.agent, sender: None, cause: Cause::Push, proven };
            let message = Signed::new(&secrets, message_id(&due), at, body, false);
            tokio::select! {
                posted = post(&app, (&due, takes), &to, message, &mut said) => {
                    led_to(&app, (&due, takes), (epoch, to.url), posted, attempt)
                }
                () = cut(&app) => {
                    let why = "the hub stopped before the outcome was known".into();
                    // It may have arrived.
                    let outcome = if takes.again { Outcome::Again(app.now()) } else { Outcome::Dead };
                    (Some(attempt(None, Some(why))), None, outcome)
                }
            }
        }
    };
    let agent = due.id.agent;
    record(&app, due, attempt, (why, said), outcome).await.then_some(agent)
}

/// What a server answered: its status, and when it wants to be asked again.
type Answered = Result<(u16, Option<String>), PostError>;

/// POSTs it. What an agent said of a job at once goes into `said`.
async fn post(
    app: &AppState,
    (due, takes): (&Due, Agreement),
    to: &To,
    message: Signed,
    said: &mut Option<results::OwnWords>,
) -> Answered {
    let is_job = due.kind == EntryKind::Job && due.transport == Transport::Webhook;
    let most = match due.transport {
        Transport::Harness => harness::MAX_ANSWER,
        Transport::Webhook if is_job => results::MAX_ANSWER,
        Transport::Webhook | Transport::Channel | Transport::Inbox => 0,
    };
    let (status, after, answer) = app.outbound.push_reading(to, message, most).await?;
    if due.transport == Transport::Harness && takes.answers && (200..300).contains(&status) {
        harness::result_of(&answer, &delivery_id(due.id.seq))?;
    }
    if is_job {
        *said = results::answered(app, due, status, &answer).await;
    }
    Ok((status, after))
}

/// What a POST led to.
fn led_to(
    app: &AppState,
    (due, takes): (&Due, Agreement),
    (epoch, url): (i64, String),
    posted: Answered,
    attempt: impl Fn(Option<u16>, Option<String>) -> Attempt,
) -> Tried {
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
    let (status, error) = match posted {
        Ok((status @ 200..300, _)) => (Some(status), None),
        Ok((status, _)) => (Some(status), Some(PostError::Status(status).to_string())),
        Err(error) => (None, Some(error.to_string())),
    };
    (Some(attempt(status, error)), None, outcome)
}

/// The same for every try. A job and what came of it are one event, and two messages.
fn message_id(due: &Due) -> String {
    let part = if due.kind == EntryKind::Result { "_result" } else { "" };
    format!("msg_{}{part}", due.event.0.simple())
}

/// The hub stops, and its time to drain is nearly over.
async fn cut(app: &App) {
    app.stopping.cancelled().await;
    tokio::time::sleep(app.config.times.drain * 3 / 4).await;
}

/// Records what became of a delivery, and says whether its agent's connection is broken since.
async fn record(
    app: &AppState,
    due: Due,
    attempt: Option<Attempt>,
    (why, said): (Option<String>, Option<results::OwnWords>),
    outcome: Outcome,
) -> bool {
    if let Outcome::Broken(_) | Outcome::Refused | Outcome::Dead = outcome {
        let error = attempt.as_ref().map_or(why.as_deref(), |attempt| attempt.error.as_deref());
        tracing::info!(delivery = %due.id, attempt = due.attempt, ?outcome, error, "a push came to nothing");
    }
    // What was put off without a try is no push; what came to its end without one is over all the same.
    if attempt.is_some() || !matches!(outcome, Outcome::Again(_)) {
        let outcome = match outcome {
            Outcome::Delivered => "delivered",
            Outcome::Again(_) => "retry",
            Outcome::Broken(_) => "broken",
            Outcome::Refused => "refused",
            Outcome::Dead => "dead",
        };
        app.metrics.push(due.transport.as_str(), outcome);
    }
    // Not the hub itself: this may be its last act, and must not keep the store open beyond it.
    let (due_now, now, hub) = (Arc::clone(&app.due), app.now(), Arc::downgrade(app));
    let finish = move |tx: &mut dyn Tx| {
        // The next of the conversation may be due by it.
        let due_now = Arc::clone(&due_now);
        tx.after_commit(Box::new(move || due_now.notify_one()));
        // Wallets before the inbox, as everywhere.
        if due.kind == EntryKind::Job && outcome == Outcome::Refused {
            let why = attempt.as_ref().map_or(why.as_deref(), |attempt| attempt.error.as_deref());
            results::refused(tx, &hub, &due, why, said.as_ref())?;
        }
        let finished = push::finish(tx, &due, attempt.as_ref(), why.as_deref(), outcome, now)?;
        if let Some(cause) = became(&due, outcome).filter(|_| finished.held) {
            disposing::record_passively(tx, due.event, due.id.agent, cause, now)?;
        }
        Ok(finished)
    };
    match app.store.write::<_, Error, _>(finish).await {
        Ok(Finished { broke, .. }) => broke,
        Err(error) => {
            tracing::warn!(
                error = error.message,
                "a push was not recorded; it is made again when its lease has run out"
            );
            false
        }
    }
}

/// What the end of its delivery is to what came of a job: whoever hired is told, and has nothing to answer.
fn became(due: &Due, outcome: Outcome) -> Option<disposition::Cause> {
    match outcome {
        _ if due.kind != EntryKind::Result => None,
        Outcome::Again(_) | Outcome::Broken(_) => None,
        Outcome::Delivered => Some(disposition::Cause::Reacted(Signal::Seen)),
        Outcome::Refused | Outcome::Dead => Some(disposition::Cause::Failed),
    }
}

/// What a POST led to.
fn judge(due: &Due, epoch: i64, posted: &Answered, now: i64, random: [u8; 4]) -> Outcome {
    let after = match posted {
        Ok((200..300, _)) => return Outcome::Delivered,
        Ok((408 | 425 | 429 | 500..600, after)) => after.as_deref().and_then(|after| retry_after(after, now)),
        Ok((401 | 403 | 404 | 410, _)) => match due.transport {
            // What its owner pasted is wrong, and only its owner can mend it.
            Transport::Channel => return Outcome::Broken(epoch),
            // An endpoint has no mark of its own: it is mended by whoever serves it, and tried until then.
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

/// Something was in the way: no try was made, and none counts. Those that wait for the same one do not return together.
fn put_off(due: &Due, why: &PostError, wait: Duration, now: i64, random: [u8; 4]) -> Tried {
    if now >= due.give_up_at {
        return (None, Some(why.to_string()), Outcome::Dead);
    }
    let wait = wait.as_millis() as i64;
    let jitter = i64::from(u32::from_le_bytes(random)) % (wait + 1);
    (None, None, Outcome::Again(now + wait + jitter))
}

/// How long to wait after so many tries.
fn pause_ms(attempt: i64, random: [u8; 4]) -> i64 {
    let doublings = attempt.clamp(1, 20) - 1;
    let pause = (FIRST_PAUSE_MS << doublings).min(LONGEST_PAUSE_MS);
    let most = pause / JITTER_PART;
    pause - most + i64::from(u32::from_le_bytes(random)) % (2 * most + 1)
}

/// When a receiver wants to be asked again: seconds from now, or a date.
fn retry_after(text: &str, now: i64) -> Option<i64> {
    let text = text.trim();
    match text.parse::<u32>() {
        Ok(seconds) => Some(now + i64::from(seconds) * 1000),
        Err(_) => http_date(text),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that may be sent (RFC 9110).
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
mod tests {
    use super::*;
    use crate::transport::outbound::{NotTaken, Policy};
    use chorus_protocol::ids::{ConversationId, DeliveryId, EventId};
    use chorus_protocol::words::EntryKind;
    use chorus_store::deliveries::Lease;
    use uuid::Uuid;

    const NOW: i64 = 1_774_000_800_000;

    fn due(transport: Transport, attempt: i64) -> Due {
        Due {
            id: DeliveryId { agent: AgentId(Uuid::nil()), seq: 1 },
            event: EventId(Uuid::nil()),
            conversation: ConversationId(Uuid::nil()),
            kind: EntryKind::Chat,
            transport,
            attempt,
            give_up_at: NOW + 1_000_000,
            lease: Lease { owner: Uuid::nil(), until: NOW },
        }
    }

    #[test]
    fn what_each_answer_leads_to() {
        let blocked = || Policy::default().check("10.0.0.1".parse().unwrap()).unwrap_err();
        for (status, connection, webhook) in [
            (200, Outcome::Delivered, Outcome::Delivered),
            (204, Outcome::Delivered, Outcome::Delivered),
            (302, Outcome::Refused, Outcome::Refused),
            (400, Outcome::Refused, Outcome::Refused),
            (401, Outcome::Broken(7), Outcome::Again(NOW + 800)),
            (403, Outcome::Broken(7), Outcome::Again(NOW + 800)),
            (404, Outcome::Broken(7), Outcome::Again(NOW + 800)),
            (410, Outcome::Broken(7), Outcome::Again(NOW + 800)),
            (413, Outcome::Refused, Outcome::Refused),
        ] {
            let posted = Ok((status, None));
            assert_eq!(judge(&due(Transport::Channel, 1), 7, &posted, NOW, [0; 4]), connection, "{status}");
            assert_eq!(judge(&due(Transport::Webhook, 1), 7, &posted, NOW, [0; 4]), webhook, "{status}");
        }
        let posted = Err(PostError::Blocked(blocked()));
        assert_eq!(judge(&due(Transport::Channel, 1), 7, &posted, NOW, [0; 4]), Outcome::Broken(7));
        assert_eq!(judge(&due(Transport::Webhook, 1), 7, &posted, NOW, [0; 4]), Outcome::Refused);
        for posted in [
            Ok((408, None)),
            Ok((425, None)),
            Ok((429, None)),
            Ok((500, None)),
            Ok((503, None)),
            Err(PostError::Timeout(Duration::ZERO)),
            Err(PostError::NoConnection(Duration::ZERO)),
            Err(PostError::Unreachable(String::new())),
            Err(PostError::BrokenOff(String::new())),
        ] {
            let mut due = due(Transport::Channel, 1);
            assert_eq!(judge(&due, 7, &posted, NOW, [0; 4]), Outcome::Again(NOW + 800), "{posted:?}");
            due.give_up_at = NOW;
            assert_eq!(judge(&due, 7, &posted, NOW, [0; 4]), Outcome::Dead, "{posted:?}");
        }
        let refused = |code| Err(PostError::NotTaken(NotTaken::Refused { code, message: String::new() }));
        let harness = due(Transport::Harness, 1);
        for (posted, expected) in [
            (Ok((200, None)), Outcome::Delivered),
            (Ok((404, None)), Outcome::Again(NOW + 800)),
            (Ok((422, None)), Outcome::Refused),
            (refused(-32000), Outcome::Again(NOW + 800)),
            (refused(-32602), Outcome::Refused),
            (Err(PostError::NotTaken(NotTaken::NoResponse)), Outcome::Again(NOW + 800)),
        ] {
            assert_eq!(judge(&harness, 7, &posted, NOW, [0; 4]), expected, "{posted:?}");
        }
        let told =
            |after: &str| judge(&due(Transport::Channel, 1), 7, &Ok((503, Some(after.into()))), NOW, [0; 4]);
        assert_eq!(told("90"), Outcome::Again(NOW + 90_000));
        assert_eq!(told("0"), Outcome::Again(NOW + 800));
        assert_eq!(told("soon"), Outcome::Again(NOW + 800));
    }

    #[test]
    fn pauses_double_with_jitter_up_to_five_minutes() {
        let least: Vec<_> = (1..=12).map(|attempt| pause_ms(attempt, [0; 4])).collect();
        assert_eq!(
            least,
            [800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 204_800, 240_000, 240_000, 240_000]
        );
        for attempt in [0, 1, 5, 9, 1000, i64::MAX] {
            let middle = pause_ms(attempt, [0; 4]) / 4 * 5;
            for random in [[0; 4], [255; 4], [1, 2, 3, 4], [99, 0, 255, 7]] {
                let pause = pause_ms(attempt, random);
                assert!((middle * 4 / 5..=middle * 6 / 5).contains(&pause), "{attempt} {random:?} {pause}");
            }
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (text, at) in [
            ("120", Some(NOW + 120_000)),
            (" 0 ", Some(NOW)),
            ("4294967295", Some(NOW + 4_294_967_295_000)),
            ("Fri, 20 Mar 2026 10:01:00 GMT", Some(NOW + 60_000)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777_000)),
            ("-5", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Non 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(retry_after(text, NOW), at, "{text}");
        }
    }
}
