//! The hub's identity for an agent behind a connection string: its name and the callback URL of a delivery.

use chorus_node::App;
use chorus_node::secrets::CallbackToken;
use chorus_protocol::ids::{ConversationId, DeliveryId};

/// Returns the hub's name as a service.
pub fn service_name(app: &App) -> String {
    format!("Chorus at {}", app.config.host_name)
}

/// Returns a fresh callback URL for one delivery.
pub fn callback_url(app: &App, conversation: ConversationId, delivery: DeliveryId, epoch: i64) -> String {
    let token = CallbackToken { delivery, made_at: app.now(), epoch };
    let token = app.config.master_key.callback_token(token);
    format!("{}/channels/{conversation}/inbox/{token}", app.config.public_url)
}
