//! Saying something to whoever looks at this moment: it is in no log, wakes nobody, and is shown to nobody later.
//!
//! Whoever follows the conversation sees it, on whichever node; agents are given nothing. It is limited and masked like what is
//! said, and kept in the audit log, which the operator reads. How many saw it is not told: in a small conversation that would
//! tell who is there.

use super::follow::DIALECT;
use super::{act, count_message, is_member, kinds, prepare};
use crate::app::AppState;
use crate::attention::replying;
use crate::audit::{Deed, note};
use crate::error::Error;
use crate::once::{Done, Once};
use crate::views;
use chorus_protocol::api::messages::{NewMessage, Shown};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::relay::Notice;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::{MAX_SIGN, Tx, conversation};
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// Shows something to whoever looks.
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
        replying::check(tx, &draft)?;
        let content = post.body.text("content");
        let (id, thread) = (act.event.to_string(), draft.thread.map(|thread| thread.to_string()));
        let author = views::author(who, Some(draft.handle.clone()));
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
            shower.store.pass(conversation.0, &sign);
            shower.live.show(conversation.0, sign);
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
