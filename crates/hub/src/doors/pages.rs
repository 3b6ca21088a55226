//! Pages for people, mounted: `chorus_web` has them, and the API's reference is made of the routes here.

use crate::route::{Credentials, Route};
use crate::routes::Routes;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use chorus_app::AppState;
use chorus_web::Fault;
use chorus_web::reference::{self, Group};
use std::sync::LazyLock;

/// What is told of the routes themselves.
struct Reference {
    document: Bytes,
    groups: Vec<Group>,
}

/// Made when somebody first asks for it: a hub that nobody asks does without the memory it takes.
static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let document = serde_json::to_value(crate::openapi()).unwrap_or_default();
    let groups = reference::groups(&document);
    Reference { document: document.to_string().into(), groups }
});

pub(crate) fn routes() -> Routes {
    let api = Router::new().route("/api", get(api)).route("/api/openapi.json", get(openapi));
    Routes::default()
        .group(Route::PUBLIC, api.merge(chorus_web::public()))
        .group(Route { credentials: Credentials::Ignored, ..Route::API }, chorus_web::sign_in())
        .group(Route::API, chorus_web::own())
        .under("/signin", Route::API)
        .under("/signout", Route::API)
        .under("/tokens", Route::API)
}

/// The API, for reading.
async fn api(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, Fault> {
    reference::show(&app, &headers, &REFERENCE.groups).await
}

/// The API, for programs.
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
    fn what_is_referred_to_is_there() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let text = document.to_string();
        let references = text.split(r##""$ref":"#"##).skip(1).filter_map(|rest| rest.split('"').next());
        let missing: Vec<_> = references.filter(|reference| document.pointer(reference).is_none()).collect();
        assert!(missing.is_empty() && text.contains(r##""$ref":"#/"##), "{missing:?}");
    }

    /// Programs that make clients out of the document name their functions so.
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
