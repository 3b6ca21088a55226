//! Incoming items before the agent has accepted them: an event, or an offer whose sender waits for an answer.
//!
//! An entry of a hub's inbox stays there until the journal records it as done. A message from a service, a
//! peer or a session exists only here once it is accepted, so it is written to the journal first: it comes as
//! an [`Offer`].

use super::core::Event;
use super::error::HarnessError;
use super::ledger::Taken;
use crate::seen::turn_name;
use crate::{Delivered, Received};
use chorus_environment::Environment;
use chorus_protocol::c2a::Accepted;
use chorus_protocol::relay::EnvelopeText;
use chorus_protocol::rpc::{Id, Response, RpcError};
use chorus_protocol::words::EntryKind;
use serde_json::Value;
use tokio::sync::mpsc;

/// The error code of a temporary refusal.
const BUSY: i64 = -32000;

/// An incoming item.
pub(super) enum Incoming {
    Event(Event),
    Offered(Offer),
    /// No further items will come.
    Closed(Result<(), HarnessError>),
}

/// A message whose sender waits for an answer.
pub(super) enum Offer {
    Post(Delivered),
    Envelope(Received),
    Delivery(Box<SessionDelivery>),
}

/// A delivery of a session, and the channel for its answer.
#[derive(Debug)]
pub(super) struct SessionDelivery {
    pub(super) id: Id,
    pub(super) params: Value,
    pub(super) answers: mpsc::Sender<Response>,
}

impl SessionDelivery {
    fn answer(self, response: Response) {
        // If the session is overloaded or gone, the answer is dropped. The delivery then comes again and is
        // recognized.
        self.answers.try_send(response).ok();
    }
}

/// Creates the answer to an accepted delivery.
pub(super) fn accepted(id: Id) -> Response {
    let outcome =
        serde_json::to_value(Accepted::ACCEPTED).map_err(|error| RpcError::new(RpcError::INTERNAL, error));
    Response { id: Some(id), outcome }
}

/// Creates the answer to a delivery that was not accepted and may come again.
pub(super) fn busy(id: Id, why: &str) -> Response {
    Response { id: Some(id), outcome: Err(RpcError::new(BUSY, why)) }
}

impl Offer {
    /// Converts the offer to its journal form.
    pub(super) fn taken(&self, environment: &Environment) -> Taken {
        match self {
            Self::Delivery(delivery) => Taken::delivery(delivery.params.clone()),
            Self::Post(delivered) => Taken::post(&delivered.post),
            Self::Envelope(received) => {
                let data = serde_json::from_str(received.envelope.get()).unwrap_or_default();
                if received.kind == EntryKind::Chat {
                    // Only a signed request has an id.
                    let signed = received.webhook_id.is_some();
                    return if signed { Taken::chat(data) } else { Taken::unsigned_chat(data) };
                }
                Taken::envelope(&envelope_name(received, environment), &received.sender_id, data)
            }
        }
    }

    /// Accepts the offer without remembering it: the journal recognizes duplicates, and allows a failed
    /// message to come again.
    pub(super) fn accept(self) {
        match self {
            Self::Delivery(delivery) => {
                let response = accepted(delivery.id.clone());
                delivery.answer(response);
            }
            Self::Post(delivered) => delivered.accept_without_remembering(),
            Self::Envelope(received) => received.accept_without_remembering(),
        }
    }

    pub(super) fn refuse(self, why: &str) {
        match self {
            Self::Delivery(delivery) => {
                let response = busy(delivery.id.clone(), why);
                delivery.answer(response);
            }
            Self::Post(delivered) => delivered.refuse(503),
            Self::Envelope(received) => received.refuse(why),
        }
    }
}

/// Returns the name of an envelope without a trace: its turn if it is numbered, else the id of the request,
/// else a random name, since two identical envelopes are two messages.
fn envelope_name(received: &Received, environment: &Environment) -> String {
    if let Some((conversation, number)) = EnvelopeText::read(received.envelope.get()).turn() {
        // Addresses are case-insensitive.
        return turn_name(&received.sender_id.to_ascii_lowercase(), conversation, number);
    }
    received.webhook_id.clone().unwrap_or_else(|| environment.random_hex())
}
