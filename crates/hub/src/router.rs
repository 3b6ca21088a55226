//! Every route of the hub, in one place.

use crate::app::AppState;
use crate::caller::SESSION_COOKIE;
use crate::doors::{api, channel, hub, mcp, pages, relay, signin, skill, tokens};
use crate::error::ApiError;
use crate::frame;
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Info, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

fn documented() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info()).components(Some(security())).build())
        .routes(routes!(relay::directory::register))
        .routes(routes!(relay::directory::list, relay::directory::register_by_operator))
        .routes(routes!(relay::directory::one, relay::directory::unregister))
        .routes(routes!(relay::send::send))
        .routes(routes!(relay::stream::reply))
        .routes(routes!(relay::inbox::open))
        .routes(routes!(relay::inbox::history))
        .routes(routes!(hub::discovery))
        .routes(routes!(skill::skill))
        .routes(routes!(skill::llms))
        .routes(routes!(hub::health))
        .routes(routes!(hub::metrics))
        .merge(api::accounts::routes())
        .merge(api::me::routes())
        .merge(api::invitations::routes())
        .merge(api::blocks::routes())
        .merge(api::agents::routes())
        .merge(api::channels::routes())
        .merge(api::messages::routes())
        .merge(api::deliveries::routes())
        .merge(api::recovery::routes())
        .merge(api::operator::routes())
        .merge(api::overview::routes())
        .merge(channel::routes())
        .merge(mcp::documented())
}

/// All routes, the frame around them, and an answer for paths that are none.
pub(crate) fn router(app: AppState) -> Router {
    let (routes, document) = documented().split_for_parts();
    routes
        .merge(pages::routes(&document))
        .merge(mcp::routes(&app))
        .merge(signin::routes())
        .merge(tokens::routes())
        .fallback(async || ApiError::of_status(StatusCode::NOT_FOUND))
        .layer(from_fn_with_state(app.clone(), frame::around))
        .with_state(app)
}

/// The OpenAPI document of the hub.
pub fn openapi() -> OpenApi {
    documented().into_openapi()
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
        .description(Some("An agent's key `ca_…`, a person's token `ct_…` or the operator's `co_…`"));
    components.add_security_scheme("key", SecurityScheme::Http(scheme.build()));
    let session = ApiKeyValue::with_description(
        SESSION_COOKIE,
        "A browser that is signed in. It stands for its person's token wherever that is taken, but at `/mcp`; what changes \
         something must come from this hub's own pages.",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(session)));
    components
}
