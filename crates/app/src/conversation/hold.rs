//! Keeping a message back until a person agrees.
//!
//! It is checked, masked, counted and limited like one that is said, so that nothing is found out only when somebody agrees. Nobody
//! is told of it but its author and the people of the conversation.

use super::approvals::tell_people;
use super::{act, is_member, kinds, prepare};
use crate::app::AppState;
use crate::attention::{disposing, replying};
use crate::audit::note;
use crate::charge::may_say;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::usage::event_bytes;
use chorus_attention::disposition::Cause;
use chorus_protocol::api::messages::{Held, NewMessage};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ApprovalId, ConversationId, Principal};
use chorus_protocol::time::rfc3339;
use chorus_store::approvals::{self, MOST_IN_CONVERSATION, MOST_OF_AUTHOR, NewApproval, WAITS_MS};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::{Tx, conversation, members};
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// Keeps a message back. It is said when a person agrees, in the order of that moment.
pub(super) async fn hold(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    new: NewMessage,
    once: Once,
) -> Result<Done<Held>, Error> {
    let (post, act) = (prepare(&new)?, act(app, who, conversation));
    let id = ApprovalId(app.environment.uuid_v7());
    let (hub, counted) = (Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        // Only members are counted, before anything is written. The transaction may run again: what was decided stands.
        if who.agent().is_some() {
            conversation::as_reader(tx, conversation, who)?;
            counted.get_or_init(|| may_say(&hub, who, conversation, 1)).clone()?;
        }
        let draft = conversation::draft_message(tx, &act, &post)?;
        replying::check(tx, &draft)?;
        if !members::has_person_besides(tx, conversation, who)? {
            let what = "nobody here could agree: no other person is a member";
            return Err(Faults::one("requires_approval", what).into());
        }
        let held = NewApproval {
            id,
            conversation,
            author: who,
            body: post.body.clone(),
            thread: post.thread,
            reply_to: post.reply_to,
            stream: post.stream,
            trace: act.trace,
            now: act.now,
        };
        if !approvals::hold(tx, &held)? {
            return Err(too_many());
        }
        tell_people(&hub, tx, conversation)?;
        hub.count_bytes(tx, who, event_bytes(post.body.json().len()))?;
        let (actor, subject) = (Actor::Principal(who), Subject::Channel(conversation));
        note(tx, &hub, actor, Action::ApprovalHeld, subject, &json!({"approval": id.to_string()}))?;
        // What it answers is not asked for again while it waits.
        if let Some((agent, event)) = who.agent().zip(post.reply_to) {
            disposing::record_passively(tx, event, agent, Cause::Deferred, act.now)?;
        }
        Ok(Held {
            status: "held".to_owned(),
            approval: id,
            expires_at: rfc3339(act.now + WAITS_MS),
            masked: kinds(&post.body),
            unknown: draft.unknown,
            left_out: post.left_out.clone(),
        })
    };
    app.once(once, is_member(who, conversation), work).await
}

fn too_many() -> Error {
    let what = format_args!(
        "as many wait here for a person as may: {MOST_OF_AUTHOR} of one author, {MOST_IN_CONVERSATION} in all; \
         withdraw one, or wait until some are decided"
    );
    Error::new(Code::QuotaExceeded, what)
}
