//! Mounts the pages of `chorus_web`, and builds the API reference from the documented routes.

use crate::extract::query;
use crate::route::{Credentials, Route};
use crate::routes::Routes;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use chorus_node::AppState;
use chorus_web::Fault;
use chorus_web::reference::{self, Group};
use std::sync::LazyLock;

/// The groups of operations by tag. Each has its own page.
const GROUPS: [(&str, &str); 14] = [
    ("relay", "Agents register, find each other, send envelopes and read their inbox"),
    ("agents", "Agents as their owners see them: making, changing, connecting and pausing them"),
    ("conversations", "Channels and conversations of two: members, messages, reactions, documents, search"),
    ("streams", "Work streams: what goes on in several conversations and whose it is"),
    ("deliveries", "What is on its way to whom, how far it came, and sending it again"),
    ("channel", "Messages by connection string, and what is said back by callback"),
    ("payloads", "What the hub sends by itself: the entries of an inbox, and what is POSTed to endpoints"),
    ("c2a", "Chat-to-Agents: one WebSocket, or a call at a time"),
    ("mcp", "A channel as an MCP server, with the chat tools"),
    ("market", "Skills, jobs, credits and reputation"),
    ("choir", "Scores, rehearsals, evidence and receipts that anybody can verify"),
    ("people", "Accounts: signing in, tokens, invitations, what waits for you"),
    ("operator", "What the operator does about people and agents, and sees of the hub"),
    ("hub", "The hub itself: its health, its figures, what it teaches agents"),
];

/// The OpenAPI document and its rendered groups.
struct Reference {
    document: Bytes,
    groups: Vec<Group>,
}

/// Built on first use, so that a hub without readers saves the memory.
static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let document = serde_json::to_value(crate::openapi()).unwrap_or_default();
    let groups = reference::groups(&document, &GROUPS);
    Reference { document: document.to_string().into(), groups }
});

pub(crate) fn routes() -> Routes {
    let api = Router::new().route("/api", get(api)).route("/api/openapi.json", get(openapi));
    let api = GROUPS.into_iter().fold(api, |api, (name, _)| {
        let page = async move |State(app): State<AppState>, headers: HeaderMap| {
            reference::show_group(&app, &headers, &REFERENCE.groups, name).await
        };
        api.route(&format!("/api/{name}"), get(page))
    });
    Routes::default()
        .group(Route::PUBLIC, api.merge(chorus_web::public()))
        .group(Route { credentials: Credentials::Ignored, ..Route::API }, chorus_web::sign_in())
        .group(Route::API, chorus_web::own())
        .under("/signin", Route::API)
        .under("/signout", Route::API)
        .under("/tokens", Route::API)
}

/// Shows the API reference: all operations, or those that match a search.
async fn api(State(app): State<AppState>, headers: HeaderMap, uri: Uri) -> Result<Response, Fault> {
    let asked = query(&uri).find(|(name, _)| name == "q").map(|(_, words)| words).unwrap_or_default();
    reference::show(&app, &headers, &REFERENCE.groups, &asked).await
}

/// Returns the OpenAPI document.
async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], REFERENCE.document.clone()).into_response()
}

#[cfg(test)]
mod tests {
    use chorus_web::reference::operations;
    use serde_json::{Map, Value};

    #[test]
    fn every_operation_with_its_fields() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let operations = operations(&document);
        let send = operations.iter().find(|operation| operation.path == "/messages").unwrap();
        assert!(send.needs_key && send.method == "POST");
        let names: Vec<_> = send.fields.iter().map(|field| (field.name.as_str(), field.required)).collect();
        assert!(names.contains(&("Idempotency-Key", false)), "{names:?}");
        assert!(names.contains(&("receiver_id", true)), "{names:?}");
        assert!(names.contains(&("envelope.original_text", true)), "{names:?}");
        assert!(names.contains(&("envelope.turn_number", false)), "{names:?}");
        let register = operations.iter().find(|operation| operation.path == "/register").unwrap();
        let required: Vec<_> =
            register.fields.iter().filter(|field| field.required).map(|field| &field.name).collect();
        assert_eq!(required, ["agent_id"]);
    }

    #[test]
    fn every_operation_is_on_a_page() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let on_pages: usize = super::REFERENCE.groups.iter().map(|group| group.operations.len()).sum();
        let other = operations(&document)
            .into_iter()
            .find(|operation| !super::GROUPS.iter().any(|(name, _)| *name == operation.tag));
        assert_eq!(other.map(|operation| (operation.path, operation.tag)), None);
        assert_eq!(on_pages, operations(&document).len());
        assert!(super::REFERENCE.groups.iter().all(|group| !group.operations.is_empty()));
    }

    #[test]
    fn what_is_referred_to_is_there() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let text = document.to_string();
        let references = text.split(r##""$ref":"#"##).skip(1).filter_map(|rest| rest.split('"').next());
        let missing: Vec<_> = references.filter(|reference| document.pointer(reference).is_none()).collect();
        assert!(missing.is_empty() && text.contains(r##""$ref":"#/"##), "{missing:?}");
    }

    /// Code generators name their functions by the operation id.
    #[test]
    fn every_operation_has_its_own_name() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let paths = document["paths"].as_object().unwrap().values().filter_map(Value::as_object);
        let mut names: Vec<_> = paths.flat_map(Map::values).map(|one| one["operationId"].as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert!(names.iter().all(Option::is_some) && names.len() == count, "{names:?}");
    }
}
