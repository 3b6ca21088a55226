//! Requests of clients to the relay.

use super::a2a;
use super::envelope::{Envelope, address, check_card, check_envelope};
use crate::address::Address;
use crate::api::agents::{AgentAddress, AgentCard, EndpointUrl};
use crate::faults::{Faults, Fields};
use crate::json::{self, JsonError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;
use utoipa::{IntoParams, ToSchema};

/// The longest endpoint URL, in bytes. (All characters of a URL are ASCII.)
const MAX_ENDPOINT: usize = 2048;

/// The reasons why a request is invalid.
#[derive(Debug, thiserror::Error)]
pub enum RequestFault {
    /// The body is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The body is JSON but not a valid request.
    #[error(transparent)]
    Faults(#[from] Faults),
}

/// A self-registration of an agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RegisterBody {
    /// The address, `name@host` or `name`. The host is this hub's own or `chorus`. At most 128 characters
    /// including the host.
    #[schema(value_type = AgentAddress, example = "my-agent@chorus")]
    pub agent_id: String,
    /// The URL that receives envelopes. Agents without one use their inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EndpointUrl>)]
    pub endpoint: Option<String>,
    /// The agent card, with `card_version`, `user_culture` and `supported_languages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AgentCard>)]
    pub agent_card: Option<Value>,
    /// The invitation (`ci_…`) where sign-up is by invitation. The header `X-Chorus-Invitation` may hold it
    /// instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invitation: Option<String>,
}

/// A validated [`RegisterBody`] of `POST /register`, or the operator's body of `POST /agents`.
#[derive(Debug, Clone)]
pub struct Register {
    pub agent: Address,
    /// The URL to which envelopes are POSTed. The hub decides separately whether it may call it.
    pub endpoint: Option<Url>,
    /// The agent card as given.
    pub card: Option<Value>,
    /// The invitation, where sign-up requires one.
    pub sign_up_code: Option<String>,
    /// The members that the body names, including those set to `null` to remove a value. Other members of an
    /// existing agent stay unchanged.
    pub names: Named,
}

/// The parts of a record that a registration names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    pub endpoint: bool,
    pub card: bool,
}

impl Register {
    /// Validates a parsed body. With `endpoint_required` (`POST /agents`) the body must name an endpoint.
    pub fn read(body: &Value, endpoint_required: bool) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let mut read = || {
            let mut fields = Fields::of(body, "", &mut faults)?;
            let agent = address(&mut fields, "agent_id");
            let endpoint = if endpoint_required {
                fields.required_text("endpoint")
            } else {
                fields.optional_text("endpoint")
            };
            let endpoint = endpoint
                .and_then(|text| check_endpoint(text).map_err(|what| fields.fault("endpoint", what)).ok());
            let card = fields.get("agent_card");
            if let Some(card) = card {
                let path = fields.path("agent_card");
                check_card(card, &path, fields.faults());
            }
            let sign_up_code = fields.optional_text("invitation").map(str::to_owned);
            let names =
                Named { endpoint: body.get("endpoint").is_some(), card: body.get("agent_card").is_some() };
            Some(Self { agent: agent?, endpoint, card: card.cloned(), sign_up_code, names })
        };
        let request = read();
        request.filter(|_| faults.is_empty()).ok_or(faults)
    }
}

/// The query parameters of a search in the directory. Without filters it returns all agents.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AgentFilter {
    /// The `metadata.next` cursor of the previous page
    pub after: Option<String>,
    /// The maximum number of agents on the page; 50 by default
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
    /// A part of the name
    pub q: Option<String>,
    /// The culture of the agent's user; `zh` also matches `zh-CN`
    pub culture: Option<String>,
    /// A language that the agent supports
    pub language: Option<String>,
    /// Only agents whose inbox is open (`true`) or closed (`false`)
    pub online: Option<bool>,
}

/// Validates an agent's endpoint. The fault completes the sentence "endpoint: …".
pub fn check_endpoint(text: &str) -> Result<Url, &'static str> {
    const FORM: &str = "must be an absolute http or https URL";
    let url = Url::parse(text).map_err(|_| FORM)?;
    // The limit applies to the normalised URL, with all escapes.
    if url.as_str().len() > MAX_ENDPOINT {
        return Err("must be at most 2048 characters");
    }
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(FORM);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password");
    }
    if url.fragment().is_some() {
        return Err("must not hold a fragment (#…)");
    }
    Ok(url)
}

/// The request `POST /messages`.
#[derive(Debug)]
pub struct Send {
    /// The address of the recipient.
    pub receiver: Address,
    pub envelope: Envelope,
    /// The envelope, byte for byte as received, extracted from its A2A message if it came in one.
    pub raw: Box<RawValue>,
    /// The normalised envelope of a numbered turn: equal for equal content, with sorted members and no
    /// whitespace.
    pub normal: Option<String>,
    /// `true` if the sender wants the recipient's output as a stream.
    pub stream: bool,
}

impl Send {
    /// Reads and validates a body.
    pub fn read(bytes: &[u8]) -> Result<Self, RequestFault> {
        let body = json::parse(bytes)?;
        let mut faults = Faults::new();
        let mut read = || {
            let mut fields = Fields::of(&body, "", &mut faults)?;
            let receiver = address(&mut fields, "receiver_id");
            let stream = fields.flag("stream");
            let (envelope, value, part) = find_envelope(&mut fields)?;
            let normal = envelope.turn.is_some().then(|| value.to_string());
            Some((receiver?, envelope, stream, normal, part))
        };
        let checked = read();
        let Some((receiver, envelope, stream, normal, part)) = checked.filter(|_| faults.is_empty()) else {
            return Err(faults.into());
        };
        Ok(Self { receiver, envelope, raw: raw_envelope(bytes, part)?, normal, stream })
    }
}

/// Reads an envelope POSTed to an agent. Returns it validated and byte for byte, extracted from its A2A
/// message if it came in one.
pub fn read_posted(bytes: &[u8]) -> Result<(Envelope, Box<RawValue>), RequestFault> {
    let body = json::parse(bytes)?;
    let mut faults = Faults::new();
    let found = Fields::of(&body, "", &mut faults).and_then(|mut fields| find_envelope(&mut fields));
    let Some((envelope, _, part)) = found.filter(|_| faults.is_empty()) else { return Err(faults.into()) };
    Ok((envelope, raw_envelope(bytes, part)?))
}

/// Returns the envelope of a body, and the index of its part if it is inside an A2A message.
fn find_envelope<'v>(fields: &mut Fields<'v, '_>) -> Option<(Envelope, &'v Value, Option<usize>)> {
    let (mut path, mut value) = (fields.path("envelope"), fields.required("envelope")?);
    let mut part = None;
    if a2a::is_message(value) {
        let (place, inside) = a2a::find(value, fields, "envelope")?;
        path = format!("{path}.parts[{place}].data");
        (part, value) = (Some(place), inside);
    }
    Some((check_envelope(value, &path, fields.faults())?, value, part))
}

/// Returns the envelope byte for byte.
fn raw_envelope(bytes: &[u8], part: Option<usize>) -> Result<Box<RawValue>, RequestFault> {
    #[derive(Deserialize)]
    struct Raw {
        envelope: Option<Box<RawValue>>,
    }
    let mut raw = serde_json::from_slice::<Raw>(bytes).map_err(JsonError::Malformed)?.envelope;
    if let (Some(message), Some(place)) = (&raw, part) {
        raw = a2a::raw(message, place).map_err(JsonError::Malformed)?;
    }
    raw.ok_or_else(|| Faults::one("envelope", "is required").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_documents_requests() {
        let register = json!({
            "agent_id": "alice@chorus.example",
            "endpoint": "https://alice.example/receive",
            "agent_card": {"card_version": "0.3", "user_culture": "zh-CN", "supported_languages": ["zh-CN", "en"]}
        });
        let request = Register::read(&register, true).unwrap();
        assert_eq!(request.endpoint.unwrap().as_str(), "https://alice.example/receive");

        let quick = json!({
            "agent_id": "my-agent@chorus",
            "agent_card": {"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"]}
        });
        assert!(Register::read(&quick, false).is_ok());
        assert_eq!(Register::read(&quick, true).unwrap_err().to_string(), "endpoint: is required");
    }

    #[test]
    fn the_envelope_is_kept_as_received() {
        let body = r#"{"receiver_id":"bob", "envelope" : { "sender_culture":"en","chorus_version":"0.4",
            "x_note": 1.50, "conversation_id":"c", "turn_number":1, "sender_id":"al", "original_text":"h\u0069" } }"#;
        let request = Send::read(body.as_bytes()).unwrap();
        assert!(request.raw.get().contains("\"x_note\": 1.50"));
        assert!(request.raw.get().contains("h\\u0069"));
        let respelled = body.replace("h\\u0069", "hi").replace('\n', " ");
        assert_eq!(Send::read(respelled.as_bytes()).unwrap().normal, request.normal);
    }

    #[test]
    fn faults_of_body_and_envelope_together() {
        let fault = Send::read(br#"{"envelope":{"chorus_version":"0.4"}}"#).unwrap_err().to_string();
        assert!(fault.starts_with("receiver_id: is required; envelope.sender_id: is required"), "{fault}");
        let fault = Send::read(br#"{"receiver_id":"bob","stream":"no"}"#).unwrap_err().to_string();
        assert_eq!(fault, "stream: must be true or false, not a string; envelope: is required");
        assert_eq!(Send::read(b"[]").unwrap_err().to_string(), "body: must be an object, not an array");
    }

    #[test]
    fn an_a2a_message_is_unwrapped() {
        let envelope = r#"{"chorus_version": "0.4", "sender_id":"al", "original_text":"hi", "sender_culture":"en", "n": 1.50}"#;
        let v1 = format!(
            r#"{{"receiver_id":"bob","envelope":{{"messageId":"m1","role":"ROLE_USER","parts":[{{"text":"see data"}},
               {{"data":{envelope},"mediaType":"application/vnd.chorus.envelope+json; charset=utf-8"}}]}}}}"#
        );
        let v03 = format!(
            r#"{{"receiver_id":"bob","envelope":{{"kind":"message","messageId":"m1","role":"user","parts":[
               {{"kind":"data","data":{envelope},"metadata":{{"mediaType":"application/vnd.chorus.envelope+json"}}}}]}}}}"#
        );
        for body in [v1, v03] {
            let request = Send::read(body.as_bytes()).unwrap();
            assert_eq!(request.raw.get(), envelope);
            assert_eq!(request.envelope.sender.name(), "al");
        }
    }

    #[test]
    fn other_parts_may_be_anything() {
        let envelope =
            r#"{"chorus_version":"0.4","sender_id":"al","original_text":"hi","sender_culture":"en"}"#;
        for other in ["7", "null", "\"x\"", "[1]", "{\"data\":null}"] {
            let body = format!(
                r#"{{"receiver_id":"bob","envelope":{{"parts":[{other},{{"data":{envelope},"mediaType":"{}"}}]}}}}"#,
                a2a::ENVELOPE_MEDIA_TYPE
            );
            assert_eq!(Send::read(body.as_bytes()).unwrap().raw.get(), envelope, "{other}");
        }
    }

    #[test]
    fn a_wrapped_envelope_is_checked_like_any_other() {
        let fault = |parts: Value| {
            let body =
                json!({"receiver_id": "bob", "envelope": {"messageId": "m", "role": "user", "parts": parts}});
            Send::read(body.to_string().as_bytes()).unwrap_err().to_string()
        };
        let part =
            json!({"data": {"chorus_version": "0.4"}, "mediaType": "application/vnd.chorus.envelope+json"});
        assert!(fault(json!([part])).starts_with("envelope.parts[0].data.sender_id: is required"));
        let one = "envelope.parts: must hold exactly one data part of media type application/vnd.chorus.envelope+json";
        assert_eq!(fault(json!([part, part])), one);
        assert_eq!(fault(json!([{"text": "hi"}])), one);
        assert_eq!(fault(json!([7, null])), one);
    }

    #[test]
    fn endpoints() {
        for (text, good) in [
            ("https://alice.example/receive", true),
            ("http://127.0.0.1:9/x?y=1", true),
            ("ftp://alice.example/", false),
            ("alice.example", false),
            ("https://user:pw@alice.example/", false),
            ("https://alice.example/#x", false),
            ("file:///etc/passwd", false),
            ("", false),
        ] {
            assert_eq!(check_endpoint(text).is_ok(), good, "{text}");
        }
        // The limit applies after escaping: every é becomes %C3%A9.
        assert!(check_endpoint(&format!("https://alice.example/{}", "é".repeat(337))).is_ok());
        assert!(check_endpoint(&format!("https://alice.example/{}", "é".repeat(338))).is_err());
    }
}
