//! A client's requests to the relay: registrations and messages, checked before they are sent.
//!
//! The checks are the hub's own, from `chorus-protocol`. The hub may still refuse a valid request, for example
//! because a name is taken or the hub must not call an endpoint.

use crate::ClientError;
use bytes::Bytes;
use chorus_protocol::address::Address;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::{CHORUS_VERSION, Register, RegisterBody, check_envelope};
use serde_json::{Value, json};

/// Serializes a registration, or returns all its faults.
pub(crate) fn check_registration(body: &RegisterBody) -> Result<Bytes, ClientError> {
    let body = json!(body);
    Register::read(&body, false).map_err(ClientError::Invalid)?;
    Ok(body.to_string().into())
}

/// A message to one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct SendBody {
    /// The receiver's address. `None` for a direct send to a peer.
    receiver_id: Option<String>,
    /// The envelope. Members that this version does not know are sent unchanged.
    envelope: Value,
}

impl SendBody {
    /// Creates a message from `sender` to `receiver`, written by a person of `culture`.
    pub fn new(sender: &str, receiver: &str, culture: &str, text: &str) -> Self {
        Self { receiver_id: Some(receiver.to_owned()), ..Self::direct(sender, culture, text) }
    }

    /// Creates a message to a peer without a hub; see [`send_direct`](crate::send_direct).
    pub fn direct(sender: &str, culture: &str, text: &str) -> Self {
        let envelope = json!({
            "chorus_version": CHORUS_VERSION,
            "sender_id": sender,
            "original_text": text,
            "sender_culture": culture,
        });
        Self { receiver_id: None, envelope }
    }

    /// Adds a member to the envelope, such as `cultural_context`.
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.envelope[member] = value.into();
        self
    }

    pub(crate) fn sender(&self) -> Option<&str> {
        self.envelope["sender_id"].as_str()
    }

    pub(crate) fn receiver(&self) -> Option<&str> {
        self.receiver_id.as_deref()
    }

    /// Replaces the sender and the receiver where a new name is given.
    pub(crate) fn named(mut self, sender: Option<String>, receiver: Option<String>) -> Self {
        if let Some(sender) = sender {
            self.envelope["sender_id"] = sender.into();
        }
        self.receiver_id = receiver.or(self.receiver_id);
        self
    }

    /// Serializes the request to a hub, or returns all faults.
    pub(crate) fn checked(&self, stream: bool) -> Result<Bytes, ClientError> {
        let mut faults = Faults::new();
        let receiver = self.receiver_id.as_deref().unwrap_or_default();
        if let Err(fault) = Address::parse(receiver) {
            faults.add("receiver_id", fault);
        }
        check_envelope(&self.envelope, "envelope", &mut faults);
        if !faults.is_empty() {
            return Err(ClientError::Invalid(faults));
        }
        let mut body = json!({"receiver_id": receiver, "envelope": self.envelope});
        if stream {
            body["stream"] = true.into();
        }
        Ok(body.to_string().into())
    }

    /// Serializes the request to a peer and tells whether it is a numbered turn, or returns all faults.
    pub(crate) fn checked_direct(&self) -> Result<(Bytes, bool), Faults> {
        let mut faults = Faults::new();
        let envelope = check_envelope(&self.envelope, "envelope", &mut faults);
        let Some(envelope) = envelope.filter(|_| faults.is_empty()) else { return Err(faults) };
        Ok((json!({"envelope": self.envelope}).to_string().into(), envelope.turn.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_told_before_anything_is_sent() {
        let body = SendBody::new("al ice", "", "en", "hi").with("turn_number", 0);
        let fault = body.checked(false).unwrap_err().to_string();
        for part in
            ["receiver_id: must not be empty", "envelope.sender_id: must be", "envelope.turn_number: must"]
        {
            assert!(fault.contains(part), "{fault}");
        }
        let body = RegisterBody {
            agent_id: "a".into(),
            endpoint: Some("ftp://x".into()),
            agent_card: None,
            invitation: None,
        };
        assert!(check_registration(&body).unwrap_err().to_string().starts_with("endpoint: must be"));
    }

    #[test]
    fn a_message_as_the_document_shows_it() {
        let body =
            SendBody::new("alice", "bob", "en", "hi").with("conversation_id", "c").with("turn_number", 1);
        let sent: Value = serde_json::from_slice(&body.checked(false).unwrap()).unwrap();
        let envelope = json!({"chorus_version": "0.4", "sender_id": "alice", "original_text": "hi",
            "sender_culture": "en", "conversation_id": "c", "turn_number": 1});
        assert_eq!(sent, json!({"receiver_id": "bob", "envelope": envelope}));
        let (sent, numbered) = body.checked_direct().unwrap();
        assert!(numbered);
        assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap(), json!({"envelope": envelope}));
        assert!(SendBody::direct("alice", "en", "hi").checked(false).is_err());
    }
}
