//! Saying that one is typing: a sign that passes by, and is kept nowhere.

use super::follow::DIALECT;
use crate::app::App;
use crate::error::Error;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::relay::Notice;
use chorus_store::{Tx, conversation};
use serde_json::json;

/// Shows those who follow a conversation just now, on whichever node, that a member is typing.
pub async fn show_typing(app: &App, who: Principal, id: ConversationId) -> Result<(), Error> {
    let me = move |tx: &mut dyn Tx| Ok(conversation::as_reader(tx, id, who)?);
    let (_, me) = app.store.read::<_, Error, _>(me).await?;
    let sign = DIALECT.notice(Notice::Typing, &json!({"handle": me.handle})).map_err(Error::internal)?;
    app.store.pass(id.0, &sign);
    app.live.show(id.0, sign);
    Ok(())
}
