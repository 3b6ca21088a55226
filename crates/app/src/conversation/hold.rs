//! Keeping a message back until a person agrees.
//!
//! It is checked, masked, counted and limited like one that is said, so that nothing is found out only when somebody agrees. Nobody
//! is told of it but its author and the people of the conversation.

use super::approvals::tell_people;
use super::{act, count_message, is_member, kinds, prepare};
use crate::app::AppState;
use crate::attention::{disposing, replying};
use crate::audit::{Deed, note};
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
use chorus_store::{StoreError, Tx, blocks, conversation, members, readings};
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// How many people are told that something waits for one of them.
const MAX_ASKED: i64 = 50;

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
        count_message(&hub, tx, &act, &counted)?;
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
        ask_people(tx, who, conversation, act.now)?;
        tell_people(&hub, tx, conversation)?;
        hub.count_bytes(tx, who, event_bytes(post.body.json().len()))?;
        let (actor, subject) = (Actor::Principal(who), Subject::Channel(conversation));
        let deed = Deed::new(actor, Action::ApprovalHeld, subject, json!({"approval": id.to_string()}));
        note(tx, &hub, deed)?;
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

/// Somebody waits for their word: who is away is told by mail, as of a message that names it.
fn ask_people(
    tx: &mut dyn Tx,
    author: Principal,
    conversation: ConversationId,
    now: i64,
) -> Result<(), StoreError> {
    let mut people = vec![];
    for person in members::people_besides(tx, conversation, author, MAX_ASKED)? {
        if !blocks::keeps_out(tx, person.into(), author)? {
            people.push(person);
        }
    }
    let head = tx.head(conversation.0)?;
    readings::ask(tx, &people, conversation, head, now)
}

fn too_many() -> Error {
    let what = format_args!(
        "as many wait here for a person as may: {MOST_OF_AUTHOR} of one author, {MOST_IN_CONVERSATION} in all; \
         withdraw one, or wait until some are decided"
    );
    Error::new(Code::QuotaExceeded, what)
}
