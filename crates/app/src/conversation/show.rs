//! Ephemeral messages: shown to the present followers of a conversation, without being logged, and without
//! waking anybody.
//!
//! The followers on every node see the message; agents get nothing. It is limited and masked like any message,
//! and recorded in the audit log, which the operator reads. The number of viewers is not reported, because it
//! would reveal who is present in a small conversation.

use super::follow::DIALECT;
use super::{act, count_message, is_member, kinds, prepare};
use crate::attention;
use crate::views;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, note};
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::messages::{NewMessage, Shown};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::relay::Notice;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::{MAX_SIGN, Tx, conversation};
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// Shows a message to the present followers.
pub(super) async fn show(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    new: NewMessage,
    once: Once,
) -> Result<Done<Shown>, Error> {
    if new.reply_to.is_some() {
        let what = "must not be given for what is ephemeral: an answer is kept";
        return Err(Faults::one("reply_to", what).into());
    }
    let (post, act) = (prepare(&new)?, act(app, who, conversation));
    let (hub, counted) = (Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        count_message(&hub, tx, &act, &counted)?;
        let draft = conversation::draft_message(tx, &act, &post)?;
        attention::check(tx, &draft)?;
        let content = post.body.text("content");
        let (id, thread) = (act.event.to_string(), draft.thread.map(|thread| thread.to_string()));
        let author = views::author(who, Some(draft.member.handle.clone()));
        let told = json!({"event_id": id, "author": author, "content": content, "thread": thread,
            "created_at": rfc3339(act.now)});
        let sign = DIALECT.notice(Notice::Ephemeral, &told).map_err(Error::internal)?;
        if sign.len() > MAX_SIGN {
            let what = format_args!("is too long to be ephemeral, which holds about {MAX_SIGN} bytes in all");
            return Err(Faults::one("content", what).into());
        }
        let detail = json!({"event_id": id, "content": content, "thread": thread});
        let (actor, subject) = (Actor::Principal(who), Subject::Channel(conversation));
        note(tx, &hub, Deed::new(actor, Action::MessageShown, subject, detail))?;
        let shower = Arc::clone(&hub);
        tx.after_commit(Box::new(move || {
            shower.store.pass(conversation.into(), &sign);
            shower.transport.live.show(conversation.into(), sign);
        }));
        Ok(Shown {
            status: "ephemeral".to_owned(),
            event_id: act.event,
            thread: draft.thread,
            masked: kinds(&post.body),
        })
    };
    app.once(once, is_member(who, conversation), work).await
}
