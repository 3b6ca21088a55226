//! Endpoint challenges: an endpoint must confirm that it wants the hub's requests
//! (`CHORUS_ENDPOINT_CHALLENGE`).
//!
//! If this is required, an unproven endpoint gets only a signed POST `{"type": "challenge", "challenge": …}`.
//! It must answer with success and the challenge, as text or as `{"challenge": …}`. The proof is stored with
//! the agent, for that very URL. An endpoint is challenged at registration, and again when something is sent
//! to it, with a growing pause: an address that nobody proves gets a few requests and then hardly any.

use chorus_node::AppState;
use chorus_node::secrets::webhooks;
use chorus_node::transport::outbound::{Signed, To};
use chorus_node::transport::outbound_limits::Cause;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::{Challenge, EndpointQuestion};
use chorus_store::directory::Agent;
use chorus_store::{StoreError, Tx, directory, push};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::runtime::Handle;

/// The time for which a registration waits for the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Challenges an agent's unproven endpoint and returns whether it is proven now. Returns `None` if no proof is
/// required.
pub async fn ask(app: &AppState, agent: &Agent) -> Option<bool> {
    let url = agent.endpoint.clone().filter(|_| app.config.endpoint_challenge)?;
    Some(agent.proven || tokio::time::timeout(PATIENCE, prove(app, agent.id, url)).await.unwrap_or(false))
}

/// Challenges an endpoint again in the background.
pub fn ask_again(app: &AppState, runtime: &Handle, agent: AgentId, url: String) {
    if app.config.endpoint_challenge {
        let hub = AppState::clone(app);
        let work = async move {
            prove(&hub, agent, url).await;
        };
        app.tasks.tracker.spawn_on(work, runtime);
    }
}

async fn prove(app: &AppState, agent: AgentId, url: String) -> bool {
    if !app.transport.challenges.take(agent, app.elapsed()) {
        return false;
    }
    let find = move |tx: &mut dyn Tx| directory::by_id(tx, agent);
    let Ok(Some(known)) = app.store.read::<_, StoreError, _>(find).await else { return false };
    if known.disabled_at.is_some() {
        return false;
    }
    let challenge = format!("challenge_{}", app.environment.random_hex());
    let question = EndpointQuestion::Challenge(Challenge { challenge: challenge.clone() });
    let body = json!(question).to_string();
    let secrets = webhooks::signing(&app.config.master_key, &known, app.now());
    let id = format!("msg_{}", app.environment.uuid_v7().simple());
    let message = Signed::new(&secrets, id, app.now(), body.into(), false);
    let to = To { url, receiver: agent, sender: None, cause: Cause::Push, proven: true };
    match app.transport.outbound.post(&to, message).await {
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
    let echo = Challenge::deserialize(answer).map(|echo| echo.challenge).ok();
    echo.as_deref().or_else(|| answer.as_str()).is_some_and(|echo| echo.trim() == challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

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
