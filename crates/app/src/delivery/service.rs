//! How the hub shows itself to an agent behind a connection string: its name, and where one delivery is answered.

use crate::app::App;
use crate::secrets::CallbackToken;
use chorus_protocol::ids::{ConversationId, DeliveryId};

/// What the hub calls itself.
pub fn service_name(app: &App) -> String {
    format!("Chorus at {}", app.config.host_name)
}

/// Where an agent answers one delivery: fresh each time it is asked for.
pub fn callback_url(app: &App, conversation: ConversationId, delivery: DeliveryId, epoch: i64) -> String {
    let token = CallbackToken { delivery, made_at: app.now(), epoch };
    let token = app.config.master_key.callback_token(token);
    format!("{}/channels/{conversation}/inbox/{token}", app.config.public_url)
}
