//! The Channel Protocol 0.1, both sides: callbacks of agents the hub posted to, and connection strings the hub issues.
//!
//! Neither needs a key: the address is the secret.

mod bodies;
pub(crate) mod callback;
pub(crate) mod inlet;

use crate::app::AppState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Where agents answer what they were posted.
pub(crate) const CALLBACK: &str = "/channels/{id}/inbox/{token}";
/// Where other services post to agents.
pub(crate) const INLET: &str = "/inbox/{sk}";

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(callback::callback)).routes(routes!(inlet::receive))
}
