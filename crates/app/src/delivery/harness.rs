//! C2A harnesses at their own addresses: the handshake, the meaning of their answers, and notifications.
//!
//! Every exchange is a signed POST of one JSON-RPC message. Deliveries go through `push`; this module only
//! renders them. An HTTP success is not enough: only the result of the request itself acknowledges it. A
//! harness belongs to an agent only after it has answered `initialize`, whose id is unguessable, so an address
//! that does not want the hub's messages gets nothing else. The agreement of the handshake then holds: a
//! harness that does not acknowledge gets notifications, and one that does not recognise duplicates is not
//! sent again what may have arrived, as far as the hub knows. A notification is sent once, and is lost if the
//! harness does not listen.

use super::agreement::Agreement;
use super::bridge::Content;
use crate::attention;
use bytes::Bytes;
use chorus_node::caller::Identity;
use chorus_node::secrets::webhooks;
use chorus_node::transport::dialect::{Dialect, is_cancellation};
use chorus_node::transport::outbound::{NotTaken, PostError, Signed, To};
use chorus_node::transport::outbound_limits::Cause;
use chorus_node::{App, AppState};
use chorus_protocol::c2a::{Capabilities, Initialize, InitializeResult, Method, PROTOCOL_VERSION, Program};
use chorus_protocol::ids::{AgentId, DeliveryId};
use chorus_protocol::rpc::{Id, Message, Response};
use chorus_protocol::schema;
use chorus_store::directory::{self, Agent};
use chorus_store::{StoreError, Tx, deliveries};
use serde_json::{Value, json};
use std::time::Duration;

/// Bytes of an answer that are read.
pub const MAX_ANSWER: usize = 64 * 1024;
/// The time for which the caller that sets a harness waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Characters of a harness's error message that are kept.
const MAX_REASON: usize = 300;

/// Returns the result of the request with this id, if the answer contains it.
pub fn result_of(answer: &[u8], id: &str) -> Result<Value, NotTaken> {
    let Ok(Message::Response(Response { id: Some(answered), outcome })) = Message::read(answer) else {
        return Err(NotTaken::NoResponse);
    };
    if answered != Id::from(id) {
        return Err(NotTaken::NoResponse);
    }
    outcome.map_err(|error| NotTaken::Refused { code: error.code, message: cut(&error.message) })
}

/// Cuts a foreign text to the length that is kept.
fn cut(text: &str) -> String {
    text.chars().filter(|sign| *sign != '\0').take(MAX_REASON).collect()
}

/// POSTs `initialize` to an address and returns the agreement as words, of which the first says how events can
/// be shown.
pub async fn begin(app: &App, agent: &Agent, url: &str) -> Result<String, PostError> {
    let id = format!("initialize-{}", app.environment.random_hex());
    let params = Initialize {
        protocol_version: PROTOCOL_VERSION.into(),
        client_info: Program { name: "chorus".into(), version: env!("CARGO_PKG_VERSION").into() },
        capabilities: Capabilities::ALL,
    };
    let request =
        json!({"jsonrpc": "2.0", "id": id, "method": Method::Initialize.as_str(), "params": params});
    let asked = tokio::time::timeout(PATIENCE, post(app, agent, url, &id, request.to_string().into()));
    let result = asked.await.unwrap_or(Err(PostError::Timeout(PATIENCE)))?;
    let result: InitializeResult =
        schema::read(result).map_err(|faults| NotTaken::Unclear(cut(&faults.to_string())))?;
    if result.protocol_version != PROTOCOL_VERSION {
        return Err(NotTaken::Version(result.protocol_version).into());
    }
    attention::words(Capabilities::ALL.intersect(result.capabilities))
        .map_err(|error| NotTaken::Unclear(cut(&error.to_string())).into())
}

/// POSTs a request and returns its result.
async fn post(app: &App, agent: &Agent, url: &str, id: &str, body: Bytes) -> Result<Value, PostError> {
    let secrets = webhooks::signing(&app.config.master_key, agent, app.now());
    let name = format!("msg_{}", app.environment.uuid_v7().simple());
    let message = Signed::new(&secrets, name, app.now(), body, false);
    let to = To { url: url.to_owned(), receiver: agent.id, sender: None, cause: Cause::Push, proven: true };
    match app.transport.outbound.push_reading(&to, message, MAX_ANSWER).await? {
        (200..300, _, answer) => Ok(result_of(answer.as_deref().unwrap_or_default(), id)?),
        (status, ..) => Err(PostError::Status(status)),
    }
}

/// Repeats the handshake with a harness that lost its session, under the same rate limit as endpoint
/// challenges.
pub fn begin_again(app: &AppState, agent: AgentId) {
    if !app.transport.challenges.take(agent, app.elapsed()) {
        return;
    }
    let hub = AppState::clone(app);
    app.tasks.tracker.spawn(async move {
        let find = move |tx: &mut dyn Tx| directory::by_id(tx, agent);
        let Ok(Some(known)) = hub.store.read::<_, StoreError, _>(find).await else { return };
        let Some(url) = known.harness.clone().filter(|_| known.disabled_at.is_none()) else { return };
        let begun = match begin(&hub, &known, &url).await {
            Ok(shows) => {
                let keep = move |tx: &mut dyn Tx| directory::begin_harness(tx, agent, &url, &shows);
                hub.store.write::<_, StoreError, _>(keep).await.map(drop).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = begun {
            tracing::info!(%agent, why, "a harness did not begin again");
        }
    });
}

/// Returns the request for a delivery and this attempt, or `None` if the content is no longer stored.
pub fn request(
    tx: &mut dyn Tx,
    app: &App,
    agent: &Agent,
    id: DeliveryId,
    attempt: i64,
) -> Result<Option<Bytes>, StoreError> {
    let entries = deliveries::page(tx, id.agent, id.seq - 1, 1, usize::MAX)?;
    let entries = entries.into_iter().filter(|entry| entry.seq == id.seq).collect();
    let Some((entry, content)) = Content::read(tx, id.agent, entries, usize::MAX)?.pop() else {
        return Ok(None);
    };
    let receiver = Identity { id: agent.id, name: agent.name.clone() };
    // Deliveries over another route count as attempts too.
    let (kind, attempt) = (entry.kind, content.sent() - 1 + attempt);
    let data = content.data(app, &receiver, Dialect::C2a, entry, Some(attempt))?;
    Ok(Some(Agreement::of(agent).message(Dialect::C2a.entry(kind, id.seq, &data), id.seq)))
}

/// Sends a notification to a harness, once.
pub async fn tell(app: AppState, agent: AgentId, notice: Bytes) {
    let find = move |tx: &mut dyn Tx| directory::by_id(tx, agent);
    let Ok(Some(known)) = app.store.read::<_, StoreError, _>(find).await else { return };
    // A connected agent gets the notification over its session.
    let may = known.disabled_at.is_none() && known.paused_at.is_none() && known.open_until <= app.now();
    let Some(url) = known.harness.clone().filter(|_| may) else { return };
    let agreed = known.harness_shows.as_deref();
    if is_cancellation(&notice) && !attention::has_agreed(agreed, "utilities.cancellation") {
        return;
    }
    let secrets = webhooks::signing(&app.config.master_key, &known, app.now());
    let id = format!("msg_{}", app.environment.uuid_v7().simple());
    let message = Signed::new(&secrets, id, app.now(), notice, false);
    let to = To { url, receiver: agent, sender: None, cause: Cause::Push, proven: true };
    if let Err(error) = app.transport.outbound.push(&to, message).await {
        tracing::debug!(%agent, %error, "a harness was not told something in passing");
    }
}

/// Checks a harness's answer to an envelope. A harness that does not acknowledge may answer anything.
pub fn taken(agent: &Agent, answer: Value, id: &str) -> Result<Value, PostError> {
    if !Agreement::of(agent).answers {
        return Ok(answer);
    }
    Ok(result_of(answer.to_string().as_bytes(), id)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_result_of_the_very_request_is_an_acknowledgement() {
        let refused = |code: i64| Err(NotTaken::Refused { code, message: "no".into() });
        for (answer, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":"deliver-7","result":{"status":"accepted"}}"#,
                Ok(json!({"status": "accepted"})),
            ),
            (r#"{"jsonrpc":"2.0","id":"deliver-7","result":null}"#, Ok(Value::Null)),
            (r#"{"jsonrpc":"2.0","id":"deliver-8","result":{}}"#, Err(NotTaken::NoResponse)),
            (r#"{"jsonrpc":"2.0","result":{}}"#, Err(NotTaken::NoResponse)),
            (
                r#"{"jsonrpc":"2.0","id":"deliver-7","method":"chat/deliver","params":{}}"#,
                Err(NotTaken::NoResponse),
            ),
            (r#"{"status":"ok"}"#, Err(NotTaken::NoResponse)),
            ("ok", Err(NotTaken::NoResponse)),
            ("", Err(NotTaken::NoResponse)),
            (r#"{"jsonrpc":"2.0","id":"deliver-7","error":{"code":-32000,"message":"no"}}"#, refused(-32000)),
            (r#"{"jsonrpc":"2.0","id":"deliver-7","error":{"code":-32602,"message":"no"}}"#, refused(-32602)),
        ] {
            assert_eq!(result_of(answer.as_bytes(), "deliver-7"), expected, "{answer}");
        }
    }
}
