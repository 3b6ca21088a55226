//! Posting a draft, whatever it does: what saying, editing, deleting and reacting have in common.

use super::follow::{DIALECT, tell_attention};
use crate::app::AppState;
use crate::attention::{self, Decided};
use crate::delivery::bridge::ChatDelivery;
use crate::delivery::c2a::{self, Told};
use crate::error::Error;
use crate::transport::dialect::Dialect;
use crate::usage::event_bytes;
use crate::views;
use chorus_attention::loop_guard::Loop;
use chorus_protocol::ids::{DeliveryId, EventId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{EntryKind, EventKind, Mode, Transport};
use chorus_store::conversation::{self, Draft, DraftKind, Posted, Recipient};
use chorus_store::conversations::Event;
use chorus_store::deliveries::OnItsWay;
use chorus_store::{StoreError, Tx, chats};
use std::borrow::Cow;
use std::sync::Arc;

/// How much is encoded for the inboxes that one message goes to.
const MAX_FRAMES_BYTES: usize = 256 * 1024;

/// Appends a draft, delivered to whom attention decides. It is counted for its author, and published once it is committed.
pub(super) fn post(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Posted, Error> {
    let answer = attention::replying::check(tx, draft)?;
    let decided = attention::decide(tx, draft)?;
    let posted = post_decided(app, tx, draft, decided)?;
    attention::replying::remember(tx, answer, draft.act.now)?;
    attention::replying::remember_person(tx, draft)?;
    Ok(posted)
}

/// The same for what answers nothing, once it is decided whom it reaches.
pub(super) fn post_decided(
    app: &AppState,
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    decided: Decided,
) -> Result<Posted, Error> {
    let Decided { reach, offer, replaces, changes, stopped } = decided;
    let noted = stopped.map(|found| with_note(draft, found)).transpose()?.flatten();
    let draft = noted.as_ref().unwrap_or(draft);
    if !replaces.is_empty() {
        let replaced = replaces.iter().map(|known| known.id.agent);
        conversation::hold_inboxes(tx, reach.recipients.iter().map(|one| one.agent).chain(replaced))?;
    }
    let posted = conversation::post(tx, draft, reach)?;
    let wakes = !posted.delivered.is_empty() || !replaces.is_empty();
    attention::loop_guard::remember(tx, draft, wakes)?;
    attention::taking::offer(tx, &draft.given(), offer)?;
    attention::changing::remember(app, tx, draft, &replaces, &changes)?;
    // Who has no room left can still take back what he said.
    if !matches!(draft.kind, DraftKind::Deletion(_)) {
        app.count_bytes(tx, draft.act.author, event_bytes(draft.body.json().len()))?;
    }
    publish(app, tx, draft, &posted)?;
    count(app, tx, draft, &posted);
    // What was appended says nothing of who was knocked or has taken it.
    let is_knocked = posted.delivered.iter().any(|(to, ..)| to.attention.mode == Mode::Notify);
    if is_knocked || offer.is_some_and(|offer| offer.taken) {
        let (hub, at) = (Arc::clone(app), (draft.act.conversation, draft.given().event));
        tx.after_commit(Box::new(move || tell_attention(&hub, at)));
    }
    Ok(posted)
}

/// A message of an agent that goes on with a loop, with a note of that: whoever reads it sees why nobody answers.
fn with_note<'a>(draft: &Draft<'a>, found: Loop) -> Result<Option<Draft<'a>>, Error> {
    if !matches!(draft.kind, DraftKind::Message(_)) {
        return Ok(None);
    }
    let mut noted = draft.clone();
    let body = Masked::kept(draft.body.json(), attention::loop_guard::note(found));
    noted.body = Cow::Owned(body.map_err(Error::internal)?);
    Ok(Some(noted))
}

/// Once it is committed, counts whom it woke, and whom it did not.
fn count(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>, posted: &Posted) {
    let is_knock = |(to, ..): &&(Recipient, DeliveryId, OnItsWay)| to.attention.mode == Mode::Notify;
    let knocked = posted.delivered.iter().filter(is_knock).count();
    let (woken, stored, hub) = (posted.delivered.len() - knocked, posted.stored_for.len(), Arc::clone(app));
    let (is_message, at) =
        (matches!(draft.kind, DraftKind::Message(_)), (draft.act.conversation, draft.act.author));
    if is_message || woken + knocked + stored > 0 {
        tx.after_commit(Box::new(move || {
            if is_message {
                hub.turns_saved.note(at.0, at.1, woken);
            }
            for (outcome, agents) in [("woken", woken), ("knocked", knocked), ("stored", stored)] {
                hub.metrics.attended(outcome, agents);
            }
        }));
    }
}

/// Once it is committed: those who follow the conversation here get the one frame of a message, those whose inboxes are open
/// here theirs, and what is to be pushed is pushed.
fn publish(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>, posted: &Posted) -> Result<(), StoreError> {
    if !posted.delivered.is_empty() {
        app.push_after(tx);
    }
    match draft.kind {
        DraftKind::Message(_) => publish_message(app, tx, draft, posted),
        // What changes a message is shown as it stands when it is read.
        DraftKind::Edit(target) | DraftKind::Deletion(target) => forget_frames(app, tx, draft, target),
        DraftKind::Reaction(..) => Ok(()),
    }
}

fn publish_message(
    app: &AppState,
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    posted: &Posted,
) -> Result<(), StoreError> {
    let (act, seq) = (draft.act, posted.seq);
    let followed = app.live.is_followed(act.conversation.0);
    let open: Vec<_> =
        posted.delivered.iter().filter_map(|one| Some((one, open_session(app, one)?))).collect();
    if !followed && open.is_empty() {
        return Ok(());
    }
    let event = Event {
        id: act.event,
        conversation: act.conversation,
        seq,
        kind: draft.kind.event(),
        author: act.author,
        handle: Some(draft.handle.clone()),
        trace: act.trace,
        created_at: act.now,
        thread: draft.thread,
        target: draft.kind.target(),
        body: draft.body.json().to_owned(),
    };
    // Encoded once, for followers and inboxes alike.
    let unexpected = |error: serde_json::Error| StoreError::Unexpected(error.into());
    let view = views::event(&event);
    let event = serde_json::value::to_raw_value(&view).map_err(unexpected)?;
    let mut frames = vec![];
    if followed {
        let frame = DIALECT.event(EventKind::Message.as_str(), seq, event.get());
        frames.push((DIALECT, act.conversation.0, seq, frame));
    }
    // This is done while others' writes wait, and all frames share one cache: what is long is read from the store.
    let frames_bytes = event.get().len().saturating_mul(open.len());
    let open = if frames_bytes > MAX_FRAMES_BYTES { vec![] } else { open };
    for ((recipient, id, way), dialect) in open {
        let (handle, attention) = (Some(recipient.handle.as_str()), recipient.attention);
        let conversation = &draft.conversation;
        let data = match dialect {
            Dialect::Sse => {
                let (trace, epoch) = (act.trace, way.epoch);
                let chat = ChatDelivery { conversation, trace, id: *id, handle, attention, epoch };
                serde_json::to_string(&chat.data(app, &event))
            }
            Dialect::C2a => {
                let (agent, mentions, event) = (recipient.agent, draft.mentions.as_str(), view.clone());
                let (id, supersedes) = (act.event, None);
                let told = Told {
                    id,
                    conversation,
                    agent,
                    handle,
                    attention,
                    mentions,
                    supersedes,
                    sent: 1,
                    event,
                    about: None,
                };
                c2a::chat(app, &told)
            }
        };
        let data = data.map_err(unexpected)?;
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

/// What the session of a recipient speaks, if it is open here and gets this.
fn open_session(app: &AppState, (to, _, way): &(Recipient, DeliveryId, OnItsWay)) -> Option<Dialect> {
    app.live.dialect(to.agent).filter(|_| way.transport == Transport::Inbox)
}

/// Frames of a message show it as it was said: once this is committed, it is read from the store.
fn forget_frames(
    app: &AppState,
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    message: EventId,
) -> Result<(), StoreError> {
    let (sent, live) = (chats::of_message(tx, message)?, Arc::clone(&app.live));
    let (conversation, seq) = (draft.act.conversation, draft.changed_seq);
    tx.after_commit(Box::new(move || {
        if let Some(seq) = seq {
            live.frames.forget(conversation.0, seq);
        }
        for id in sent {
            live.frames.forget(id.agent.0, id.seq);
        }
    }));
    Ok(())
}
