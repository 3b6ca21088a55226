//! POSTs a committed envelope to its receiver and determines the outcome.

use super::outcome::{delivered, failed, record};
use crate::delivery::{bridge, challenge, harness};
use chorus_node::Error;
use chorus_node::secrets::webhooks;
use chorus_node::transport::dialect::delivery_id;
use chorus_node::transport::outbound::{PostError, Signed, To};
use chorus_node::transport::outbound_limits::Cause;
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::Outcome;
use chorus_store::deliveries::Transport;
use chorus_store::relay::Pending;
use chorus_store::{StoreError, Tx, push};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Handle;

/// The sender of an envelope that is POSTed.
pub(super) struct EnvelopeSender<'a> {
    pub(super) id: AgentId,
    pub(super) address: &'a str,
    /// The cause of the request, which is limited by it.
    pub(super) cause: Cause,
}

/// Returns the target and the signed body of the POST, or `None` if the receiver's connection string cannot be
/// decrypted.
pub(super) fn posting(
    app: &AppState,
    sender: &EnvelopeSender<'_>,
    pending: &Pending,
    envelope: &RawValue,
    stream: bool,
) -> Result<Option<(To, Signed)>, Error> {
    let posting = match pending.transport {
        Transport::Channel => bridge::envelope_post(app, sender.address, pending, envelope)?,
        Transport::Harness => Some((
            pending.receiver.harness.clone().unwrap_or_default(),
            bridge::envelope_request(app, sender.address, pending, envelope)?,
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
        // A receiver that answered `initialize` or whose owner pasted a connection string has agreed to
        // deliveries there.
        Transport::Harness | Transport::Channel => true,
        Transport::Webhook | Transport::Inbox => receiver.proven,
    };
    if !proven {
        challenge::ask_again(app, &Handle::current(), receiver.id, url.clone());
    }
    let to = To { url, receiver: receiver.id, sender: Some(sender.id), cause: sender.cause, proven };
    Ok(Some((to, message)))
}

/// POSTs an envelope to its receiver's endpoint and records the outcome.
pub(super) async fn post(app: &App, pending: Pending, to: &To, message: Signed) -> Outcome {
    let posted = answer_to(app, &pending, to, message).await;
    conclude(app, pending, posted).await
}

/// Returns the receiver's answer to the POST of an envelope. A harness answers the request inside it.
pub(super) async fn answer_to(
    app: &App,
    pending: &Pending,
    to: &To,
    message: Signed,
) -> Result<Value, PostError> {
    let answer = app.transport.outbound.post(to, message).await?;
    match pending.transport {
        Transport::Harness => harness::taken(&pending.receiver, answer, &delivery_id(pending.seq)),
        Transport::Webhook | Transport::Channel | Transport::Inbox => Ok(answer),
    }
}

/// Records the outcome of a POST.
async fn conclude(app: &App, pending: Pending, posted: Result<Value, PostError>) -> Outcome {
    let outcome = match posted {
        Ok(response) => Outcome { receiver_response: Some(response), ..delivered(&pending) },
        Err(error) => failed(&pending, error.code(), error),
    };
    record(app, pending, &outcome).await;
    outcome
}

/// Fails an envelope whose receiver has a connection string sealed with another master key. The sender gets a
/// failure, and the receiver's owner sees that the connection is broken and why.
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

/// POSTs an envelope whose sender does not wait, and records the outcome.
pub async fn pursue(app: AppState, from: AgentId, address: String, pending: Pending, envelope: String) {
    let sender = EnvelopeSender { id: from, address: &address, cause: Cause::Push };
    let posting = RawValue::from_string(envelope)
        .map_err(Error::internal)
        .and_then(|envelope| posting(&app, &sender, &pending, &envelope, false));
    // It counts towards the sender's open requests like any other, but the hub starts it itself.
    let place = app.transport.outbound.limits().begin_send(from, Cause::Push);
    match posting {
        Ok(posting) => {
            let outcome = match posting {
                Some((to, message)) => match place {
                    Ok(_held) => post(&app, pending, &to, message).await,
                    Err(limited) => conclude(&app, pending, Err(limited.into())).await,
                },
                None => fail_unreadable(&app, pending).await,
            };
            app.telemetry.metrics.delivery(outcome.delivery.as_str());
        }
        // The lease will expire, and the record will say "failed".
        Err(error) => tracing::error!(message = error.message, "an envelope could not be posted"),
    }
}
