//! What came in, before the agent has it: an event, or an offer whose sender waits for a word.
//!
//! What a hub's inbox hands over stays in it until the journal says that it was dealt with. What a service, a peer or a
//! session hands over is ours alone once we say so, so it is written to the journal first: it comes as an [`Offer`].

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

/// The code of a refusal that may pass.
const BUSY: i64 = -32000;

/// Something that came.
pub(super) enum Incoming {
    Event(Event),
    Offered(Offer),
    /// Nothing will come any more.
    Closed(Result<(), HarnessError>),
}

/// A message whose sender waits for a word.
pub(super) enum Offer {
    Post(Delivered),
    Envelope(Received),
    Delivery(Box<SessionDelivery>),
}

/// A delivery of a session, and where the answer to it goes.
#[derive(Debug)]
pub(super) struct SessionDelivery {
    pub(super) id: Id,
    pub(super) params: Value,
    pub(super) answers: mpsc::Sender<Response>,
}

impl SessionDelivery {
    fn answer(self, response: Response) {
        // A session that has too much to say, or is gone, does not say this: the delivery comes again, and is known.
        self.answers.try_send(response).ok();
    }
}

/// The answer to a delivery that was taken.
pub(super) fn accepted(id: Id) -> Response {
    let outcome =
        serde_json::to_value(Accepted::ACCEPTED).map_err(|error| RpcError::new(RpcError::INTERNAL, error));
    Response { id: Some(id), outcome }
}

/// The answer to a delivery that was not taken; it may come again.
pub(super) fn busy(id: Id, why: &str) -> Response {
    Response { id: Some(id), outcome: Err(RpcError::new(BUSY, why)) }
}

impl Offer {
    /// What the journal keeps of it.
    pub(super) fn taken(&self, environment: &Environment) -> Taken {
        match self {
            Self::Delivery(delivery) => Taken::delivery(delivery.params.clone()),
            Self::Post(delivered) => Taken::post(&delivered.post),
            Self::Envelope(received) => {
                let data = serde_json::from_str(received.envelope.get()).unwrap_or_default();
                if received.kind == EntryKind::Chat {
                    // It has an id where it was signed.
                    let signed = received.webhook_id.is_some();
                    return if signed { Taken::chat(data) } else { Taken::unsigned_chat(data) };
                }
                Taken::envelope(&envelope_name(received, environment), &received.sender_id, data)
            }
        }
    }

    /// Whether it may come again is the journal's to say: one that failed may.
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

/// What an envelope without a trace is called: its turn if it is a numbered one, else whatever the hub called the
/// request, else something new, since two that look alike are two.
fn envelope_name(received: &Received, environment: &Environment) -> String {
    if let Some((conversation, number)) = EnvelopeText::read(received.envelope.get()).turn() {
        // Upper and lower case are the same in addresses.
        return turn_name(&received.sender_id.to_ascii_lowercase(), conversation, number);
    }
    received.webhook_id.clone().unwrap_or_else(|| environment.random_hex())
}
