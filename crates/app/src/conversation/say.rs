//! Saying something: at once, after an approval, or as an ephemeral message.

use super::hold::hold;
use super::show::show;
use super::{act, count_message, is_member, kinds, masked, post};
use crate::attention;
use chorus_attention::plan::Effect;
use chorus_node::Error;
use chorus_node::idempotency::{Done, Once};
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{App, AppState};
use chorus_protocol::api::Name;
use chorus_protocol::api::messages::{Decision, NewMessage, Preview, Reached, Said, Sent};
use chorus_protocol::attention::Attention;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::words::{ConversationKind, Mode, Visibility};
use chorus_store::attention::{Applied, Posted, classify_draft};
use chorus_store::conversation::{self, Act, Post};
use chorus_store::{StoreError, Tx, conversations};
use std::sync::{Arc, OnceLock};

/// The most agents named that only find a message in their mailbox.
const MAX_STORED_FOR: usize = 20;

/// Sends a message: says it now, holds it for approval, or shows it as ephemeral. Every door calls this.
pub async fn send(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    new: NewMessage,
    once: Once,
) -> Result<Done<Sent>, Error> {
    fn done<T>(done: Done<T>, sent: impl Fn(T) -> Sent) -> Done<Sent> {
        Done { result: sent(done.result), again: done.again }
    }
    match (new.requires_approval, new.ephemeral) {
        (false, false) => Ok(done(say(app, who, conversation, new, once).await?, Sent::Said)),
        (true, false) => Ok(done(hold(app, who, conversation, new, once).await?, Sent::Held)),
        (false, true) => Ok(done(show(app, who, conversation, new, once).await?, Sent::Shown)),
        (true, true) => Err(not_both().into()),
    }
}

fn not_both() -> Faults {
    Faults::one(
        "ephemeral",
        "must not be true for what waits for a person: nobody might look when it is said",
    )
}

/// Returns the message with its visibility applied. An unknown conversation is not an error here; sending the
/// message reports it.
pub async fn seen_by(
    app: &App,
    conversation: ConversationId,
    mut new: NewMessage,
    visibility: Visibility,
) -> Result<NewMessage, Error> {
    match visibility {
        Visibility::Channel => {}
        Visibility::Ephemeral => new.ephemeral = true,
        Visibility::Thread => {
            new.thread = new.thread.or(new.reply_to);
            if new.thread.is_none() {
                return Err(Faults::one("thread", "is required for a message in a thread").into());
            }
        }
        Visibility::Dm => {
            let find = move |tx: &mut dyn Tx| conversations::by_id(tx, conversation);
            let found = app.store.read::<_, StoreError, _>(find).await?;
            if found.is_some_and(|found| found.kind == ConversationKind::Channel) {
                return Err(Faults::one("visibility", "must be channel or thread in a channel").into());
            }
        }
    }
    Ok(new)
}

/// Says a message now. Attention decides which agents it wakes.
pub async fn say(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    new: NewMessage,
    once: Once,
) -> Result<Done<Said>, Error> {
    let (post, act) = (prepare(&new)?, act(app, who, conversation));
    let (hub, counted) = (Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        count_message(&hub, tx, &act, &counted)?;
        let posted = post_in(&hub, tx, &act, &post)?;
        Ok(Said {
            event_id: act.event,
            sequence: posted.seq,
            thread: posted.thread,
            stream: posted.stream,
            masked: kinds(&post.body),
            unknown: posted.unknown.clone(),
            left_out: post.left_out.clone(),
            attention: reached(posted.applied),
        })
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Says a message in a transaction. It counts for its author, and is published after the commit.
pub fn post_in(app: &AppState, tx: &mut dyn Tx, act: &Act, new: &Post) -> Result<Posted, Error> {
    let draft = conversation::draft_message(tx, act, new)?;
    post(app, tx, &draft)
}

/// Returns the handles of the agents that a message reaches.
fn reached(posted: Applied) -> Reached {
    let mut reached = Reached { stored_count: posted.stored_for.len() as i64, ..Reached::default() };
    let stored_for = posted.stored_for.into_iter().take(MAX_STORED_FOR);
    reached.stored_for.extend(stored_for.map(|recipient| recipient.handle));
    for (recipient, ..) in posted.delivered {
        let told = recipient.attention.mode == Mode::Notify;
        if told { &mut reached.knocked } else { &mut reached.woken }.push(recipient.handle);
    }
    reached
}

/// Returns the agents that a message would reach, and the decision for each. Nothing is written.
pub async fn preview(
    app: &App,
    who: Principal,
    conversation: ConversationId,
    new: NewMessage,
) -> Result<Preview, Error> {
    if new.requires_approval && new.ephemeral {
        return Err(not_both().into());
    }
    let (post, act) = (prepare(&new)?, act(app, who, conversation));
    let (left_out, held) = (post.left_out.clone(), new.requires_approval);
    let find = move |tx: &mut dyn Tx| {
        let draft = conversation::preview_message(tx, &act, &post)?;
        let classification = classify_draft(&draft)?;
        Ok((attention::decide(tx, &draft)?, classification, draft.unknown))
    };
    let (effects, classification, unknown) = app.store.read::<_, Error, _>(find).await?;
    // An ephemeral message is delivered to nobody.
    let reached = effects.into_iter().filter(|_| !new.ephemeral).filter_map(|effect| match effect {
        Effect::Deliver { to, .. } | Effect::Store(to) => Some(to),
        _ => None,
    });
    let decided = reached.map(|recipient| {
        let Attention { directedness, policy, mode, reason, priority, deadline_ms } = recipient.attention;
        Decision { handle: recipient.handle, directedness, policy, mode, reason, priority, deadline_ms }
    });
    Ok(Preview { classification, attention: decided.collect(), held, unknown, left_out })
}

/// Returns a message ready to be posted, with credentials masked.
pub fn prepare(new: &NewMessage) -> Result<Post, Error> {
    // The thread, the replied-to event and the stream have columns of their own. The way of sending is not
    // stored.
    let said = NewMessage {
        thread: None,
        reply_to: None,
        stream: None,
        requires_approval: false,
        ephemeral: false,
        ..new.clone()
    };
    let body = block_in_place_if_large(new.content.len(), || masked(&said))?;
    let to = new.to.iter().map(|Name(handle)| handle.clone()).collect();
    Ok(Post { thread: new.thread, reply_to: new.reply_to, stream: new.stream, to, ..Post::new(body) })
}
