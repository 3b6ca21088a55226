//! All doors of the hub, and the OpenAPI document of those that are in it. Which routes a door has is said by its `routes()`.

use crate::doors::{api, c2a, channel, choir, hub, market, mcp, pages, relay, skill};
use crate::http_errors::Formats;
use crate::origin;
use crate::payloads;
use crate::routes::Routes;
use axum::Router;
use chorus_app::AppState;
use chorus_web::cookies::SESSION_COOKIE;
use std::sync::Arc;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Info, InfoBuilder, OpenApi, OpenApiBuilder};

/// The routes that are in the OpenAPI document.
fn documented() -> Routes {
    relay::routes()
        .and(hub::routes())
        .and(skill::routes())
        .and(api::routes())
        .and(channel::routes())
        .and(c2a::routes())
        .and(choir::routes())
        .and(market::routes())
}

/// All routes, each behind its guard, and an answer for paths that are none.
pub(crate) fn router(app: AppState) -> Router {
    let names = Arc::new(origin::names(&app.config, app.on_loopback));
    all().guarded(&app, &names).with_state(app)
}

fn all() -> Routes {
    documented().and(pages::routes()).and(mcp::routes())
}

/// In which format errors go out about paths that begin so, where no route is asked.
pub(crate) fn formats() -> Formats {
    all().formats().into()
}

/// The OpenAPI document of the hub.
pub fn openapi() -> OpenApi {
    let document = OpenApiBuilder::new().info(info()).components(Some(security())).build();
    payloads::described(documented().document(document).merge_from(mcp::documented()))
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
