//! Request bodies for the OpenAPI document. `Register` and `Send` of the protocol check them;
//! `scripts/schemathesis` compares the two.
#![expect(dead_code, reason = "describes bodies for the OpenAPI document")]

pub(crate) use chorus_protocol::api::agents::{AgentAddress, AgentCard, EndpointUrl, LanguageTag};
use chorus_protocol::relay::ENVELOPE_MEDIA_TYPE;
use serde_json::json;
use std::borrow::Cow;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{AnyOf, Array, ArrayItems, Object, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// An agent to register as the operator.
#[derive(ToSchema)]
pub(crate) struct OperatorRegisterBody {
    /// `name@host` or `name`. The host is this hub's own or `chorus`. At most 128 characters including the
    /// host.
    #[schema(example = "my-agent@chorus")]
    agent_id: AgentAddress,
    /// The URL where the agent receives envelopes.
    endpoint: EndpointUrl,
    /// The agent's description of itself: `card_version`, `user_culture` and `supported_languages`, all three.
    agent_card: Option<AgentCard>,
}

/// An envelope and its receiver.
#[derive(ToSchema)]
pub(crate) struct SendBody {
    /// The receiver: `name@host` or `name`.
    #[schema(example = "bob@chorus")]
    receiver_id: AgentAddress,
    /// The envelope; or an A2A message with the envelope as its only data part of media type
    /// `application/vnd.chorus.envelope+json`.
    envelope: Carried,
    /// `true` to receive the receiver's output as it arrives: the response is then a stream of `chunk` events
    /// followed by `done` or `error`. If the message has to wait for its receiver, the response is the usual
    /// one.
    stream: Option<bool>,
}

/// An envelope. Further members are passed on unchanged.
#[derive(ToSchema)]
pub(crate) struct Envelope {
    /// Always "0.4".
    #[schema(pattern = r"^0\.4$", example = "0.4")]
    chorus_version: String,
    /// The address of the sender.
    #[schema(example = "alice@chorus")]
    sender_id: AgentAddress,
    /// The text, in the sender's language.
    #[schema(min_length = 1, max_length = 10_000, example = "下午一起喝杯咖啡?")]
    original_text: String,
    /// The culture of the sender.
    sender_culture: LanguageTag,
    /// Background that a reader of another culture needs to understand the text.
    #[schema(min_length = 10, max_length = 500)]
    cultural_context: Option<String>,
    /// The exchange that the envelope belongs to.
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: Option<String>,
    /// The position in the exchange.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_i64)]
    turn_number: Option<i64>,
}

/// An envelope, plain or inside an A2A message.
pub(crate) struct Carried;

impl ToSchema for Carried {
    fn name() -> Cow<'static, str> {
        "Carried".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Envelope::name().into(), Envelope::schema()));
        Envelope::schemas(schemas);
        schemas.push(("A2aMessage".into(), a2a_message().into()));
    }
}

impl PartialSchema for Carried {
    fn schema() -> RefOr<Schema> {
        let any = AnyOf::builder().item(Ref::from_schema_name(Envelope::name()));
        any.item(Ref::from_schema_name("A2aMessage")).into()
    }
}

/// The part of an A2A message that the hub reads. The schema builder lacks the JSON Schema keyword `contains`.
fn a2a_message() -> Object {
    let part = |required: &str, media_type: serde_json::Value| {
        json!({
            "type": "object",
            "required": ["data", required],
            "properties": {"data": {"$ref": "#/components/schemas/Envelope"}, required: media_type},
        })
    };
    let media_type = json!({"const": ENVELOPE_MEDIA_TYPE});
    let nested =
        json!({"type": "object", "required": ["mediaType"], "properties": {"mediaType": media_type}});
    let one = Extensions::from_iter([
        ("contains", json!({"anyOf": [part("mediaType", media_type), part("metadata", nested)]})),
        ("minContains", json!(1)),
        ("maxContains", json!(1)),
    ]);
    Object::builder()
        .description(Some("An A2A message, 1.0 or 0.3, with the envelope as one of its parts."))
        .property(
            "parts",
            Array::builder()
                .items(ArrayItems::RefOrSchema(Box::new(
                    Object::with_type(utoipa::openapi::Type::Object).into(),
                )))
                .extensions(Some(one)),
        )
        .required("parts")
        .build()
}
