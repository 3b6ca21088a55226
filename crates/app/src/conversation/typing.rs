//! Typing notices, which are shown to present followers and not stored.
//!
//! Connected harnesses get them; harnesses that the hub calls by POST do not.

use super::follow::DIALECT;
use chorus_node::Error;
use chorus_node::transport::dialect::Dialect;
use chorus_node::{App, AppState};
use chorus_protocol::c2a::{Addressee, Typing};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::relay::Notice;
use chorus_store::members::Member;
use chorus_store::{StoreError, Tx, blocks, conversation, inboxes, members};
use serde_json::json;
use std::sync::Arc;

/// The most members among which connected harnesses are looked up.
const MAX_MEMBERS: i64 = 200;

/// Notifies the present followers of a conversation, on every node, and the connected harnesses of its agents
/// that a member is typing, in a thread if one is given.
pub async fn show_typing(
    app: &AppState,
    who: Principal,
    id: ConversationId,
    thread: Option<EventId>,
) -> Result<(), Error> {
    let (hub, now) = (Arc::clone(app), app.now());
    let look = move |tx: &mut dyn Tx| {
        let (_, me) = conversation::as_speaker(tx, id, who)?;
        let harnesses = harnesses(tx, &hub, id, who, now)?;
        Ok((me, harnesses))
    };
    let (me, harnesses) = app.store.read::<_, Error, _>(look).await?;
    let mut shown = json!({"handle": me.handle});
    if let Some(thread) = thread {
        shown["thread"] = json!(thread.to_string());
    }
    let sign = DIALECT.notice(Notice::Typing, &shown).map_err(Error::internal)?;
    app.store.pass(id.into(), &sign);
    app.transport.live.show(id.into(), sign);
    if !harnesses.is_empty() {
        let notice =
            Dialect::C2a.notice(Notice::Typing, &typing(&me, id, thread)).map_err(Error::internal)?;
        for agent in harnesses {
            app.store.pass(agent.into(), &notice);
            app.transport.live.tell(agent, Dialect::C2a, notice.clone());
        }
    }
    Ok(())
}

fn typing(me: &Member, id: ConversationId, thread: Option<EventId>) -> Typing {
    let author = match me.principal {
        Principal::Agent(_) => Addressee::agent(&me.handle),
        Principal::Account(_) => Addressee::human(&me.handle),
    };
    Typing { conversation_id: id.into(), thread_id: thread.map(Into::into), author: Some(author) }
}

/// Returns the other agents of a conversation that are connected by C2A and have not blocked `who`.
fn harnesses(
    tx: &mut dyn Tx,
    app: &App,
    id: ConversationId,
    who: Principal,
    now: i64,
) -> Result<Vec<AgentId>, StoreError> {
    let mut found = vec![];
    for member in members::page(tx, id, "", MAX_MEMBERS)? {
        let Some(agent) = member.principal.agent() else { continue };
        if member.principal != who
            && (app.transport.live.dialect(agent) == Some(Dialect::C2a)
                || inboxes::shows(tx, agent, now)?.is_some())
            && !blocks::keeps_out(tx, agent.into(), who)?
        {
            found.push(agent);
        }
    }
    Ok(found)
}
