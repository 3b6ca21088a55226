//! Saying something.

use super::{act, is_member, kinds, masked};
use crate::app::{App, AppState};
use crate::attention::{self, Attention, WOKEN};
use crate::charge::may_say;
use crate::error::Error;
use crate::long_work::long_work;
use crate::once::{Done, Once};
use crate::usage::event_bytes;
use crate::views::{self, event_frame};
use chorus_protocol::api::Name;
use chorus_protocol::api::messages::{Decision, NewMessage, Preview, Reached, Said};
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::mentions::mentions;
use chorus_protocol::redact::Masked;
use chorus_protocol::words::EventKind;
use chorus_store::conversation::{self, Act, ConversationError, Post, Posted};
use chorus_store::conversations::Event;
use chorus_store::{StoreError, Tx};
use std::sync::{Arc, OnceLock};

/// Says something. Agents that are mentioned, that it is for, or that the conversation is with are woken; nobody else is.
pub async fn say(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    new: NewMessage,
    once: Once,
) -> Result<Done<Said>, Error> {
    let ((post, masked), act) = (prepare(&new)?, act(app, who, conversation));
    let (hub, counted) = (Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        // Only members are counted, before anything is written. The transaction may run again: what was decided stands.
        if who.agent().is_some() {
            conversation::as_reader(tx, conversation, who)?;
            counted.get_or_init(|| may_say(&hub, who, conversation, 1)).clone()?;
        }
        let posted = post_in(&hub, tx, &act, &post)?;
        let woken = posted.woken.into_iter().map(|(woken, ..)| woken.handle).collect();
        Ok(Said {
            event_id: act.event,
            sequence: posted.seq,
            thread: posted.thread,
            attention: Reached { woken, knocked: vec![], stored_for: posted.left_out },
            masked: kinds(&masked),
        })
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Says something in a transaction: it is counted for its author, and published once it is committed.
pub fn post_in(app: &AppState, tx: &mut dyn Tx, act: &Act, new: &Post) -> Result<Posted, ConversationError> {
    let posted = conversation::post(tx, act, new, attention::decide_recipients)?;
    app.count_bytes(tx, act.author, event_bytes(new.body.len()))?;
    publish(app, tx, act, new, &posted)?;
    Ok(posted)
}

/// Who would be woken if it were said, and why. Nothing is written.
pub async fn preview(
    app: &App,
    who: Principal,
    conversation: ConversationId,
    new: NewMessage,
) -> Result<Preview, Error> {
    let ((post, _), act) = (prepare(&new)?, act(app, who, conversation));
    let find =
        move |tx: &mut dyn Tx| Ok(conversation::preview(tx, &act, &post, attention::decide_recipients)?);
    let woken = app.store.read::<_, Error, _>(find).await?;
    let decided = woken.into_iter().map(|woken| {
        let Attention { directedness, policy, mode } = WOKEN;
        Decision { handle: woken.handle, directedness, policy, mode, reason: woken.reason }
    });
    Ok(Preview { attention: decided.collect() })
}

/// A message without credentials, ready to be posted.
pub fn prepare(new: &NewMessage) -> Result<(Post, Masked), Error> {
    // Where it belongs is kept beside it.
    let masked =
        long_work(new.content.len(), || masked(&NewMessage { thread: None, reply_to: None, ..new.clone() }))?;
    let text = masked.text("content");
    let post = Post {
        body: masked.to_json(),
        mentions: mentions(text).into_iter().map(str::to_owned).collect(),
        text: text.to_owned(),
        thread: new.thread,
        reply_to: new.reply_to,
        to: new.to.iter().map(|Name(handle)| handle.clone()).collect(),
    };
    Ok((post, masked))
}

/// Once it is committed: those who follow the conversation here get its one frame, and what is to be pushed is pushed.
pub fn publish(
    app: &AppState,
    tx: &mut dyn Tx,
    act: &Act,
    new: &Post,
    posted: &Posted,
) -> Result<(), StoreError> {
    if !posted.woken.is_empty() {
        app.push_after(tx);
    }
    let (stream, seq) = (act.conversation.0, posted.seq);
    if !app.live.is_followed(stream) {
        return Ok(());
    }
    let event = Event {
        id: act.event,
        conversation: act.conversation,
        seq,
        kind: EventKind::Message,
        author: act.author,
        handle: Some(posted.handle.clone()),
        trace: act.trace,
        created_at: act.now,
        thread: posted.thread,
        target: new.reply_to,
        body: new.body.clone(),
    };
    let frame = event_frame(&views::event(&event)).map_err(|error| StoreError::Unexpected(error.into()))?;
    let app = Arc::clone(app);
    tx.after_commit(Box::new(move || app.live.frames.put(stream, seq, frame)));
    Ok(())
}
