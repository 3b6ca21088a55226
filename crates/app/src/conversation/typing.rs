//! Saying that one is typing: a sign that passes by, and is kept nowhere.
//!
//! A harness that is connected waits for what is being written; one that is POSTed to is not called for it.

use super::follow::DIALECT;
use crate::app::{App, AppState};
use crate::error::Error;
use crate::transport::dialect::Dialect;
use chorus_protocol::c2a::{Addressee, Typing};
use chorus_protocol::ids::{AgentId, ConversationId, Principal};
use chorus_protocol::relay::Notice;
use chorus_store::members::Member;
use chorus_store::{StoreError, Tx, blocks, conversation, inboxes, members};
use serde_json::json;
use std::sync::Arc;

/// The most members among which harnesses are looked for: in a larger conversation nobody waits for one of them.
const MAX_MEMBERS: i64 = 200;

/// Shows those who follow a conversation just now, on whichever node, and harnesses of its agents, that a member is typing.
pub async fn show_typing(app: &AppState, who: Principal, id: ConversationId) -> Result<(), Error> {
    let (hub, now) = (Arc::clone(app), app.now());
    let look = move |tx: &mut dyn Tx| {
        let (_, me) = conversation::as_reader(tx, id, who)?;
        let harnesses = harnesses(tx, &hub, id, who, now)?;
        Ok((me, harnesses))
    };
    let (me, harnesses) = app.store.read::<_, Error, _>(look).await?;
    let sign = DIALECT.notice(Notice::Typing, &json!({"handle": me.handle})).map_err(Error::internal)?;
    app.store.pass(id.0, &sign);
    app.live.show(id.0, sign);
    if !harnesses.is_empty() {
        let notice = Dialect::C2a.notice(Notice::Typing, &typing(&me, id)).map_err(Error::internal)?;
        for agent in harnesses {
            app.store.pass(agent.0, &notice);
            app.live.tell(agent, Dialect::C2a, notice.clone());
        }
    }
    Ok(())
}

fn typing(me: &Member, id: ConversationId) -> Typing {
    let author = match me.principal {
        Principal::Agent(_) => Addressee::agent(&me.handle),
        Principal::Account(_) => Addressee::human(&me.handle),
    };
    Typing { conversation_id: id.into(), thread_id: None, author: Some(author) }
}

/// The other agents of a conversation that are connected by C2A, and do not keep this one out.
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
            && (app.live.dialect(agent) == Some(Dialect::C2a) || inboxes::shows(tx, agent, now)?.is_some())
            && !blocks::keeps_out(tx, agent.into(), who)?
        {
            found.push(agent);
        }
    }
    Ok(found)
}
