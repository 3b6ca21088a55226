//! Saying something.

use super::follow::DIALECT;
use super::{act, is_member, kinds, masked};
use crate::app::{App, AppState};
use crate::attention::{self, Attention, WOKEN};
use crate::charge::may_say;
use crate::delivery::bridge::ChatDelivery;
use crate::delivery::dialect::Dialect;
use crate::error::Error;
use crate::long_work::long_work;
use crate::once::{Done, Once};
use crate::usage::event_bytes;
use crate::views::EventView;
use chorus_protocol::api::Name;
use chorus_protocol::api::messages::{Decision, NewMessage, Preview, Reached, Said};
use chorus_protocol::ids::{ConversationId, DeliveryId, Principal};
use chorus_protocol::mentions::mentions;
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{EntryKind, EventKind, Transport};
use chorus_store::conversation::{self, Act, ConversationError, Post, Posted, Woken};
use chorus_store::conversations::Event;
use chorus_store::deliveries::OnItsWay;
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

/// Once it is committed: those who follow the conversation here get its one frame, those whose inboxes are open here theirs,
/// and what is to be pushed is pushed.
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
    let followed = app.live.is_followed(act.conversation.0);
    let open: Vec<_> =
        posted.woken.iter().filter_map(|woken| Some((woken, open_session(app, woken)?))).collect();
    if !followed && open.is_empty() {
        return Ok(());
    }
    let event = Event {
        id: act.event,
        conversation: act.conversation,
        seq: posted.seq,
        kind: EventKind::Message,
        author: act.author,
        handle: Some(posted.handle.clone()),
        trace: act.trace,
        created_at: act.now,
        thread: posted.thread,
        target: new.reply_to,
        body: new.body.clone(),
    };
    // Encoded once, for followers and inboxes alike.
    let unexpected = |error: serde_json::Error| StoreError::Unexpected(error.into());
    let event = serde_json::value::to_raw_value(&EventView::new(&event)).map_err(unexpected)?;
    let mut frames = vec![];
    if followed {
        let frame = DIALECT.event(EventKind::Message.as_str(), posted.seq, event.get());
        frames.push((DIALECT, act.conversation.0, posted.seq, frame));
    }
    for ((woken, id, way), dialect) in open {
        let delivery = ChatDelivery {
            conversation: &posted.conversation,
            trace: act.trace,
            id: *id,
            reason: woken.reason,
            epoch: way.epoch,
        };
        let data = serde_json::to_string(&delivery.data(app, &event)).map_err(unexpected)?;
        frames.push((dialect, id.agent.0, id.seq, dialect.entry(EntryKind::Chat, id.seq, &data)));
    }
    let live = Arc::clone(&app.live);
    tx.after_commit(Box::new(move || {
        for (dialect, stream, seq, frame) in frames {
            live.frames.put(dialect, stream, seq, frame);
        }
    }));
    Ok(())
}

/// What the session of whoever is woken speaks, if it is open here and gets this.
fn open_session(app: &AppState, (woken, _, way): &(Woken, DeliveryId, OnItsWay)) -> Option<Dialect> {
    app.live.dialect(woken.agent).filter(|_| way.transport == Transport::Inbox)
}
