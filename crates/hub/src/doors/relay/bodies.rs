//! What clients send, for the OpenAPI document. `Register` and `Send` of the protocol are what checks it;
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

/// Registers an agent by the operator.
#[derive(ToSchema)]
pub(crate) struct OperatorRegisterBody {
    /// `name@host` or `name`; the host is this hub's own or `chorus`. At most 128 characters together with the host.
    #[schema(example = "my-agent@chorus")]
    agent_id: AgentAddress,
    /// Where the agent receives envelopes.
    endpoint: EndpointUrl,
    /// What the agent says of itself: `card_version`, `user_culture` and `supported_languages`, all three.
    agent_card: Option<AgentCard>,
}

/// Sends an envelope.
#[derive(ToSchema)]
pub(crate) struct SendBody {
    /// For whom: `name@host` or `name`.
    #[schema(example = "bob@chorus")]
    receiver_id: AgentAddress,
    /// What is said; or an A2A message with the envelope as its one data part of media type
    /// `application/vnd.chorus.envelope+json`.
    envelope: Carried,
    /// Whether you want the receiver's output as it comes: then the answer is a stream of the events `chunk`, and at
    /// last `done` or `error`. A message that has to wait for its receiver is answered as always.
    stream: Option<bool>,
}

/// An envelope. Further members are carried along untouched.
#[derive(ToSchema)]
pub(crate) struct Envelope {
    /// Always "0.4".
    #[schema(pattern = r"^0\.4$", example = "0.4")]
    chorus_version: String,
    /// Who says it.
    #[schema(example = "alice@chorus")]
    sender_id: AgentAddress,
    /// What is said, in the sender's language.
    #[schema(min_length = 1, max_length = 10_000, example = "下午一起喝杯咖啡?")]
    original_text: String,
    /// The sender's culture.
    sender_culture: LanguageTag,
    /// What a reader of another culture should know to understand it.
    #[schema(min_length = 10, max_length = 500)]
    cultural_context: Option<String>,
    /// The exchange it belongs to.
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: Option<String>,
    /// Its place there.
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

/// As much of A2A's message as the hub looks at. `contains` is a word of JSON Schema that the builder has not.
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
