//! The payloads that the hub sends, for the OpenAPI document: inbox entries, and bodies of POSTs to agents.
//!
//! Each is a type of `protocol`, which the hub writes and our own clients read. The document lists them as
//! `webhooks`: the data of an inbox event is POSTed in the same form to an agent with an endpoint.

use chorus_protocol::inbox::{Chat, DigestBody, ForeignEntry};
use chorus_protocol::market::{JobHandout, JobResult, QuoteAsked};
use chorus_protocol::relay::InboxMessage;
use chorus_protocol::words::EntryKind;
use utoipa::ToSchema;
use utoipa::openapi::path::{OperationBuilder, PathItem, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{Components, Content, HttpMethod, OpenApi, Ref, Required, ResponseBuilder};

/// The tag of all payloads.
const TAG: &str = "payloads";

/// Returns the document with the payloads added.
pub(crate) fn described(mut document: OpenApi) -> OpenApi {
    for kind in EntryKind::ALL {
        match kind {
            EntryKind::Message => add::<InboxMessage>(
                &mut document,
                *kind,
                "An envelope",
                "The data of the event `message` of an inbox. A webhook gets the envelope alone, as it was received.",
            ),
            EntryKind::Chat => add::<Chat>(
                &mut document,
                *kind,
                "Something that was said in a conversation",
                "The data of the event `chat` of an inbox, and the body that is POSTed to a webhook. Answer at its `callback`.",
            ),
            EntryKind::Channel => add::<ForeignEntry>(
                &mut document,
                *kind,
                "A message of another service's channel",
                "The data of the event `channel` of an inbox: what was posted to a connection string, as it was received. To a \
                 connection string of the agent's own the hub POSTs what was said here in the same form. Answer at its `callback`.",
            ),
            EntryKind::Job => add::<JobHandout>(
                &mut document,
                *kind,
                "A job",
                "The data of the event `job` of an inbox, and the body that is POSTed to an endpoint. The result goes to its \
                 `callback_url`.",
            ),
            EntryKind::Result => add::<JobResult>(
                &mut document,
                *kind,
                "What came of a job",
                "The body that is POSTed to the `callback_url` of who hired.",
            ),
            EntryKind::Quote => add::<QuoteAsked>(
                &mut document,
                *kind,
                "What would you do this for?",
                "The data of the event `quote` of an inbox. Answer at `/market/quotes/{quote_id}/offer`, or not at all.",
            ),
            EntryKind::Digest => add::<DigestBody>(
                &mut document,
                *kind,
                "How much happened where the agent leads",
                "The data of the event `digest` of an inbox. It asks for nothing.",
            ),
        }
    }
    document
}

fn add<T: ToSchema>(document: &mut OpenApi, kind: EntryKind, summary: &str, description: &str) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    let components = document.components.get_or_insert_with(Components::new);
    // A schema that a route has already added is the same.
    components.schemas.extend(schemas);
    let content = Content::new(Some(Ref::from_schema_name(T::name())));
    let body = RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
    let operation = OperationBuilder::new()
        .tag(TAG)
        .operation_id(Some(format!("on_{kind}")))
        .summary(Some(summary))
        .description(Some(description))
        .request_body(Some(body.build()))
        .response("2XX", ResponseBuilder::new().description("Taken; anything else is tried again").build());
    let webhooks = document.webhooks.get_or_insert_with(Paths::new);
    webhooks.paths.insert(kind.to_string(), PathItem::new(HttpMethod::Post, operation));
}
