//! Holding a message until a person approves it.
//!
//! A held message is checked, masked, counted and limited like one that is said, so that no fault appears only
//! at the approval. Only its author and the people of the conversation see it.

use super::approvals::{tell_people, withdraw_held};
use super::{act, count_message, is_member, kinds, prepare};
use crate::attention::{self, dispositions};
use chorus_attention::disposition::Cause;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, note};
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::messages::{Held, NewMessage};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ApprovalId, ConversationId, EventId, Principal};
use chorus_protocol::time::rfc3339;
use chorus_store::approvals::{self, MOST_IN_CONVERSATION, MOST_OF_AUTHOR, NewApproval, WAITS_MS};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::conversation::{self, Draft, Post};
use chorus_store::{StoreError, Tx, blocks, members, readings};
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// The most people that are notified of a pending approval.
const MAX_ASKED: i64 = 50;

/// Holds a message. It is said when a person approves it, with the sequence number of that moment.
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
        attention::check(tx, &draft)?;
        let held = NewApproval {
            id,
            conversation,
            author: who,
            body: post.body.clone(),
            thread: post.thread,
            reply_to: post.reply_to,
            stream: post.stream,
            edit_of: None,
            trace: act.trace,
            now: act.now,
        };
        keep_back(&hub, tx, &held)?;
        // The obligation that it answers counts as deferred while the message is held.
        if let Some((agent, event)) = who.agent().zip(post.reply_to) {
            dispositions::record_passively(tx, event, agent, Cause::Deferred, act.now)?;
        }
        Ok(held_view(&held, &post, draft.unknown))
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Holds an edit of an approved message, and withdraws an earlier held edit of it. Until the approval, readers
/// see the approved text.
pub(super) fn hold_edit(
    app: &AppState,
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    id: ApprovalId,
    message: EventId,
    post: &Post,
) -> Result<Held, Error> {
    let act = draft.act;
    if let Some(earlier) = approvals::edit_of(tx, message)? {
        withdraw_held(app, tx, &earlier, act)?;
    }
    let held = NewApproval {
        id,
        conversation: act.conversation,
        author: act.author,
        body: post.body.clone(),
        thread: draft.thread,
        reply_to: None,
        stream: None,
        edit_of: Some(message),
        trace: act.trace,
        now: act.now,
    };
    keep_back(app, tx, &held)?;
    Ok(held_view(&held, post, draft.unknown.clone()))
}

/// Stores a checked text, counts its bytes for its author, and notifies the people of the conversation.
fn keep_back(app: &AppState, tx: &mut dyn Tx, held: &NewApproval) -> Result<(), Error> {
    let NewApproval { id, conversation, author, now, .. } = *held;
    if !members::has_person_besides(tx, conversation, author)? {
        let field = if held.edit_of.is_some() { "content" } else { "requires_approval" };
        return Err(Faults::one(field, "nobody here could agree: no other person is a member").into());
    }
    if !approvals::hold(tx, held)? {
        return Err(too_many());
    }
    ask_people(tx, author, conversation, now)?;
    tell_people(app, tx, conversation)?;
    let mut detail = json!({"approval": id.to_string()});
    if let Some(message) = held.edit_of {
        detail["edit_of"] = json!(message.to_string());
    }
    let (actor, subject) = (Actor::Principal(author), Subject::Channel(conversation));
    note(tx, app, Deed::new(actor, Action::ApprovalHeld, subject, detail))?;
    Ok(())
}

fn held_view(held: &NewApproval, post: &Post, unknown: Vec<String>) -> Held {
    Held {
        status: "held".to_owned(),
        approval: held.id,
        expires_at: rfc3339(held.now + WAITS_MS),
        masked: kinds(&post.body),
        unknown,
        left_out: post.left_out.clone(),
    }
}

/// Marks the conversation as waiting for its people. People who are away get a mail, as for a message that
/// mentions them.
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
    let head = tx.head(conversation.into())?;
    readings::ask(tx, &people, conversation, head, now)
}

fn too_many() -> Error {
    let what = format_args!(
        "as many wait here for a person as may: {MOST_OF_AUTHOR} of one author, {MOST_IN_CONVERSATION} in all; \
         withdraw one, or wait until some are decided"
    );
    Error::new(Code::QuotaExceeded, what)
}
