//! POSTing an envelope that was committed to its receiver, and finding out what comes of it.

use super::outcome::{delivered, failed, record};
use crate::app::{App, AppState};
use crate::delivery::{bridge, challenge, harness};
use crate::error::Error;
use crate::transport::dialect::delivery_id;
use crate::transport::limits::Cause;
use crate::transport::outbound::{PostError, Signed, To};
use crate::webhooks;
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::Outcome;
use chorus_store::deliveries::Transport;
use chorus_store::relay::Pending;
use chorus_store::{StoreError, Tx, push};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Handle;

/// Where a message is POSTed, and what; nothing, if the receiver's connection string cannot be read.
pub(super) fn posting(
    app: &AppState,
    (from, cause): (AgentId, Cause),
    sender: &str,
    pending: &Pending,
    envelope: &RawValue,
    stream: bool,
) -> Result<Option<(To, Signed)>, Error> {
    let posting = match pending.transport {
        Transport::Channel => bridge::envelope_post(app, sender, pending, envelope)?,
        Transport::Harness => Some((
            pending.receiver.harness.clone().unwrap_or_default(),
            bridge::envelope_request(app, sender, pending, envelope)?,
        )),
        Transport::Webhook | Transport::Inbox => Some((
            pending.receiver.endpoint.clone().unwrap_or_default(),
            format!("{{\"envelope\":{}}}", envelope.get()),
        )),
    };
    let Some((url, body)) = posting else { return Ok(None) };
    let secrets = webhooks::signing(&app.config.master_key, &pending.receiver, app.now());
    let message = Signed::new(&secrets, format!("msg_{}", pending.trace), app.now(), body.into(), stream);
    let receiver = &pending.receiver;
    let proven = match pending.transport {
        // Whoever answered `initialize`, or pasted a connection string, wants what is sent there.
        Transport::Harness | Transport::Channel => true,
        Transport::Webhook | Transport::Inbox => receiver.proven,
    };
    if !proven {
        challenge::ask_again(app, &Handle::current(), receiver.id, url.clone());
    }
    Ok(Some((To { url, receiver: receiver.id, sender: Some(from), cause, proven }, message)))
}

/// POSTs an envelope to its receiver's endpoint and records what came of it.
pub(super) async fn post(app: &App, pending: Pending, to: &To, message: Signed) -> Outcome {
    let posted = answer_to(app, &pending, to, message).await;
    conclude(app, pending, posted).await
}

/// What the receiver says to the POST of an envelope: of a harness, what it says to the request in it.
pub(super) async fn answer_to(
    app: &App,
    pending: &Pending,
    to: &To,
    message: Signed,
) -> Result<Value, PostError> {
    let answer = app.outbound.post(to, message).await?;
    match pending.transport {
        Transport::Harness => harness::taken(&pending.receiver, answer, &delivery_id(pending.seq)),
        Transport::Webhook | Transport::Channel | Transport::Inbox => Ok(answer),
    }
}

/// Records what came of a POST.
async fn conclude(app: &App, pending: Pending, posted: Result<Value, PostError>) -> Outcome {
    let outcome = match posted {
        Ok(response) => Outcome { receiver_response: Some(response), ..delivered(&pending) },
        Err(error) => failed(&pending, error.code(), error),
    };
    record(app, pending, &outcome).await;
    outcome
}

/// Nobody can be reached by a connection string that was sealed with another master key: the sender learns that it failed,
/// the receiver's owner that it is broken and why.
pub(super) async fn fail_unreadable(app: &App, pending: Pending) -> Outcome {
    let (agent, epoch, now) = (pending.receiver.id, pending.receiver.epoch, app.now());
    let why = "the receiver's owner must set its connection string again";
    let outcome = failed(&pending, Code::AgentUnreachable, why);
    let broken = app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| {
        push::break_connection(tx, agent, epoch, bridge::UNREADABLE_CONNECTION, now)
    });
    if let Err(error) = broken.await {
        tracing::error!(error = &error as &dyn std::error::Error, "a broken connection was not recorded");
    }
    record(app, pending, &outcome).await;
    outcome
}

/// POSTs an envelope whose sender does not wait for the outcome, and records it.
pub async fn pursue(app: AppState, (from, sender): (AgentId, String), pending: Pending, envelope: String) {
    let posting = RawValue::from_string(envelope)
        .map_err(Error::internal)
        .and_then(|envelope| posting(&app, (from, Cause::Push), &sender, &pending, &envelope, false));
    // It counts for its sender like any other; the hub sends it on its own.
    let place = app.outbound.limits().begin_send(from, Cause::Push);
    match posting {
        Ok(posting) => {
            let outcome = match posting {
                Some((to, message)) => match place {
                    Ok(_held) => post(&app, pending, &to, message).await,
                    Err(limited) => conclude(&app, pending, Err(limited.into())).await,
                },
                None => fail_unreadable(&app, pending).await,
            };
            app.metrics.delivery(outcome.delivery.as_str());
        }
        // The lease runs out and the record says "failed".
        Err(error) => tracing::error!(message = error.message, "an envelope could not be posted"),
    }
}
