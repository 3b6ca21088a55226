//! Endpoints that must say that they want what the hub sends (`CHORUS_ENDPOINT_CHALLENGE`).
//!
//! Where that is required, an endpoint gets one thing before it has been proven: a signed POST
//! `{"type": "challenge", "challenge": …}`, which it answers with success and the challenge, as text or as
//! `{"challenge": …}`. The proof is kept with the agent, for that very URL. An agent's endpoint is asked when it is
//! registered, and again when something is sent to it, but ever more rarely: an address that nobody proves gets a
//! few requests and then hardly any.

use super::limits::Cause;
use super::outbound::{Signed, To};
use crate::app::AppState;
use crate::webhooks;
use chorus_protocol::ids::AgentId;
use chorus_store::directory::Agent;
use chorus_store::{StoreError, Tx, directory, push};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// What the owner of an endpoint has to do, for people.
pub const WHAT_TO_DO: &str = "the receiver's endpoint has not answered this hub's challenge: it must answer the \
     POST {\"type\": \"challenge\", \"challenge\": …} with 200 and {\"challenge\": …}; try again";
/// How long a registration waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pauses after each time an agent's endpoint was asked, the last one again and again.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(5),
    Duration::from_hours(1),
];
/// After so long, how often an agent's endpoint was asked is forgotten.
const FORGET: Duration = Duration::from_hours(2);
/// The most agents of which it is remembered.
const REMEMBERED: usize = 10_000;

/// How often agents' endpoints were asked, whatever these were: a new one is no new beginning.
#[derive(Default)]
pub struct Challenges(Mutex<HashMap<AgentId, (usize, Instant)>>);

impl Challenges {
    /// Whether an agent's endpoint may be asked now; if so, that is remembered.
    fn take(&self, agent: AgentId, now: Instant) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= REMEMBERED && !asked.contains_key(&agent) {
            asked.retain(|_, (_, at)| *at + FORGET > now);
            if let Some(any) = asked.keys().next().copied().filter(|_| asked.len() >= REMEMBERED) {
                asked.remove(&any);
            }
        }
        let (times, at) = asked.entry(agent).or_insert((0, now));
        if *at + FORGET <= now {
            *times = 0;
        }
        let pause = times.checked_sub(1).map_or(Duration::ZERO, |n| PAUSES[n.min(PAUSES.len() - 1)]);
        let may = *at + pause <= now;
        if may {
            (*times, *at) = (*times + 1, now);
        }
        may
    }
}

/// Asks an agent's endpoint if it is not proven, and says whether it is now; nothing where nobody need prove anything.
pub async fn ask(app: &AppState, agent: &Agent) -> Option<bool> {
    let url = agent.endpoint.clone().filter(|_| app.config.endpoint_challenge)?;
    Some(agent.proven || tokio::time::timeout(PATIENCE, prove(app, agent.id, url)).await.unwrap_or(false))
}

/// Asks again, while nobody waits for it.
pub fn ask_again(app: &AppState, runtime: &Handle, agent: AgentId, url: String) {
    if app.config.endpoint_challenge {
        let hub = AppState::clone(app);
        let work = async move {
            prove(&hub, agent, url).await;
        };
        app.tasks.spawn_on(work, runtime);
    }
}

async fn prove(app: &AppState, agent: AgentId, url: String) -> bool {
    if !app.challenges.take(agent, Instant::now()) {
        return false;
    }
    let find = move |tx: &mut dyn Tx| directory::by_id(tx, agent);
    let Ok(Some(known)) = app.store.read::<_, StoreError, _>(find).await else { return false };
    if known.disabled_at.is_some() {
        return false;
    }
    let challenge = format!("challenge_{}", app.environment.random_hex());
    let body = json!({"type": "challenge", "challenge": challenge}).to_string();
    let secrets = webhooks::signing(&app.config.master_key, &known, app.now());
    let id = format!("msg_{}", app.environment.uuid_v7().simple());
    let message = Signed::new(&secrets, id, app.now(), body.into(), false);
    let to = To { url, receiver: agent, sender: None, cause: Cause::Push, proven: true };
    match app.outbound.post(&to, message).await {
        Ok(answer) if echoes(&answer, &challenge) => {}
        answer => {
            let why =
                answer.map_or_else(|error| error.to_string(), |_| "it did not echo the challenge".into());
            tracing::info!(%agent, why, "an endpoint was not proven");
            return false;
        }
    }
    let (now, hub) = (app.now(), AppState::clone(app));
    let keep = move |tx: &mut dyn Tx| {
        let kept = directory::prove_endpoint(tx, agent, &to.url)?;
        if kept {
            push::retry_now(tx, agent, now)?;
            hub.push_after(tx);
        }
        Ok(kept)
    };
    app.store.write::<_, StoreError, _>(keep).await.unwrap_or_else(|error| {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a proof was not recorded; it is asked for again"
        );
        false
    })
}

fn echoes(answer: &Value, challenge: &str) -> bool {
    let echo = answer.get("challenge").unwrap_or(answer);
    echo.as_str().is_some_and(|echo| echo.trim() == challenge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn ever_more_rarely() {
        let (challenges, begin) = (Challenges::default(), Instant::now());
        let agent = AgentId(Uuid::nil());
        let asked = |until: u64| {
            (0..until).filter(|s| challenges.take(agent, begin + Duration::from_secs(*s))).count()
        };
        assert_eq!(asked(1), 1);
        assert_eq!(asked(60), 3, "at once, and after 1, 5 and 30 s");
        let hours = |from: u64| {
            let seconds = (from * 3600..(from + 1) * 3600).map(Duration::from_secs);
            seconds.filter(|since| challenges.take(agent, begin + *since)).count()
        };
        assert!(hours(1) + hours(2) <= 4);
        assert!(challenges.take(AgentId(Uuid::from_u128(1)), begin), "others are asked as before");
    }

    #[test]
    fn a_full_table_refuses_nobody() {
        let (challenges, now) = (Challenges::default(), Instant::now());
        for n in 0..REMEMBERED as u128 + 100 {
            assert!(challenges.take(AgentId(Uuid::from_u128(n)), now));
        }
        assert_eq!(challenges.0.lock().unwrap().len(), REMEMBERED);
    }

    #[test]
    fn echoes_are_the_challenge_and_nothing_else() {
        for (answer, good) in [
            (json!("challenge_1"), true),
            (json!("challenge_1\n"), true),
            (json!({"challenge": "challenge_1"}), true),
            (json!("ok"), false),
            (json!({"status": "ok"}), false),
            (json!("we got challenge_1 from you"), false),
            (json!({"challenge": 1}), false),
        ] {
            assert_eq!(echoes(&answer, "challenge_1"), good, "{answer}");
        }
    }
}
