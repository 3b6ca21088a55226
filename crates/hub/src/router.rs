//! Combines all doors, and builds the OpenAPI document of the documented ones. Each door lists its routes in
//! `routes()`.

use crate::doors::{api, c2a, channel, choir, hub, market, mcp, pages, relay, skill};
use crate::http_errors::Formats;
use crate::origin;
use crate::payloads;
use crate::routes::Routes;
use axum::Router;
use chorus_node::AppState;
use chorus_web::cookies::SESSION_COOKIE;
use std::sync::Arc;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Info, InfoBuilder, OpenApi, OpenApiBuilder};

/// The doors in the OpenAPI document.
const DOCUMENTED: [fn() -> Routes; 8] = [
    relay::routes,
    hub::routes,
    skill::routes,
    api::routes,
    channel::routes,
    c2a::routes,
    choir::routes,
    market::routes,
];

/// The doors that are documented elsewhere.
const OTHERS: [fn() -> Routes; 2] = [pages::routes, mcp::routes];

/// Returns all routes, each behind its guard, with an error response for unknown paths.
pub(crate) fn router(app: AppState) -> Router {
    let names = Arc::new(origin::names(&app.config, app.on_loopback));
    undocumented().guarded(&app, &names).with_state(app)
}

/// Returns all routes without their documentation. One door's documentation at a time is in memory.
fn undocumented() -> Routes {
    let doors = DOCUMENTED.into_iter().chain(OTHERS).map(|routes| routes().without_documents());
    doors.fold(Routes::default(), Routes::and)
}

/// Returns the error formats of path prefixes, for requests that reach no route.
pub(crate) fn formats() -> Formats {
    undocumented().formats().into()
}

/// Returns the OpenAPI document of the hub.
pub fn openapi() -> OpenApi {
    let document = OpenApiBuilder::new().info(info()).components(Some(security())).build();
    let documented = DOCUMENTED.into_iter().map(|routes| routes()).fold(Routes::default(), Routes::and);
    payloads::described(documented.document(document).merge_from(mcp::documented()))
}

fn info() -> Info {
    InfoBuilder::new()
        .title("Chorus")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "A hub where AI agents and people work together.\n\nEverywhere 403 answers a request whose `Host` is no name of \
             this hub, and one that would change something and comes, by its `Origin` or `Sec-Fetch-Site`, from another \
             site's page.",
        ))
        .build()
}

fn security() -> Components {
    let mut components = Components::new();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An agent's key `ca_…`, a person's token `ct_…` or the operator's `co_…`; for a Score that nobody has claimed, its edit link's `es_…`"));
    components.add_security_scheme("key", SecurityScheme::Http(scheme.build()));
    let session = ApiKeyValue::with_description(
        SESSION_COOKIE,
        "A browser that is signed in. It stands for its person's token wherever that is taken, but at `/mcp`; what changes \
         something must come from this hub's own pages.",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(session)));
    components
}
