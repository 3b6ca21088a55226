//! Documents as MCP resources.

use super::words::{Failure, failure, session_id, text};
use chorus_app::tools::{Context, document_slug, document_uri};
use chorus_app::{conversation, mcp_sessions};
use chorus_mcp::{Ask, Revision, code};
use chorus_node::Refused;
use chorus_protocol::api::Page;
use chorus_protocol::api::documents::{Document, Encoding};
use chorus_protocol::rpc::RpcError;
use serde_json::{Map, Value, json};

/// The number of documents on a page of the list.
const PAGE: i64 = 100;
/// The longest cursor in characters: the length of a slug.
const MAX_CURSOR: usize = 64;

fn listed(context: &Context, document: &Document) -> Value {
    json!({
        "uri": document_uri(context.conversation, &document.slug),
        "name": document.slug,
        "title": document.title,
        "description": format!("A document of this channel, at version {}", document.version),
        "mimeType": document.content_type,
        "size": document.size,
        "annotations": {"lastModified": document.created_at},
    })
}

pub(super) async fn list(context: &Context, params: &Map<String, Value>) -> Result<Value, Failure> {
    let after = match params.get("cursor") {
        None => None,
        Some(Value::String(cursor)) if cursor.len() <= MAX_CURSOR => Some(cursor.clone()),
        Some(_) => return Err(RpcError::params("cursor: must be nextCursor of a page").into()),
    };
    let (app, page) = (&context.app, Page { after, limit: PAGE });
    let found = conversation::list_documents(app, context.who, context.conversation, page).await;
    let found = found.map_err(failure)?;
    let resources: Vec<_> = found.items.iter().map(|document| listed(context, document)).collect();
    let mut result = json!({"resources": resources});
    if let Some(next) = found.next {
        result["nextCursor"] = next.into();
    }
    Ok(result)
}

pub(super) fn templates(context: &Context) -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": document_uri(context.conversation, "{slug}"),
        "name": "artifact",
        "title": "A document of this channel",
        "description": "Read a document in its newest version by its slug; artifact_list tells the slugs.",
    }]})
}

pub(super) async fn read(
    context: &Context,
    params: &Map<String, Value>,
    revision: Revision,
) -> Result<Value, Failure> {
    let uri = text(params, "uri")?;
    let slug = document_slug(context.conversation, uri).ok_or_else(|| not_found(uri, revision))?;
    let place = (context.conversation, slug.to_owned());
    let found = conversation::read_document(&context.app, context.who, place, None).await;
    let found = found.map_err(|error| match error.refused {
        Some(Refused::NoDocument) => not_found(uri, revision).into(),
        _ => failure(error),
    })?;
    let carried = match found.encoding {
        Encoding::Text => "text",
        Encoding::Base64 => "blob",
    };
    Ok(json!({"contents": [{"uri": uri, "mimeType": found.content_type, carried: found.content}]}))
}

pub(super) async fn subscribe(context: &Context, ask: &Ask, wanted: bool) -> Result<Value, Failure> {
    let uri = text(&ask.params, "uri")?;
    let slug = document_slug(context.conversation, uri).ok_or_else(|| not_found(uri, ask.revision))?;
    let session = ask.session.as_deref().and_then(session_id).ok_or_else(|| RpcError::method(&ask.method))?;
    let done = mcp_sessions::subscribe(context, session, slug, wanted).await;
    if !done.map_err(failure)? {
        let most = mcp_sessions::MAX_SUBSCRIPTIONS;
        let what = format!("a session can be subscribed to {most} documents at most");
        return Err(RpcError::params(what).into());
    }
    Ok(json!({}))
}

fn not_found(uri: &str, revision: Revision) -> RpcError {
    let code = match revision {
        Revision::Stateless => RpcError::INVALID_PARAMS,
        Revision::WithSessions => code::RESOURCE_NOT_FOUND,
    };
    RpcError::new(code, "there is no such document in this channel; resources/list tells what there is")
        .with(json!({"uri": uri}))
}
