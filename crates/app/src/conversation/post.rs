//! Posting a draft: the common part of messages, edits, deletions and reactions.

use super::follow::{DIALECT, tell_attention};
use super::stop;
use crate::attention::{self, cancellations::tell_cancelled};
use crate::delivery::bridge::ChatDelivery;
use crate::delivery::c2a::{self, Told};
use crate::views;
use chorus_attention::loop_guard::Loop;
use chorus_attention::plan::{Effect, EventRecipient};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::transport::dialect::Dialect;
use chorus_protocol::ids::{DeliveryId, EventId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{EntryKind, EventKind, Mode, Transport};
use chorus_store::attention::{self as store, Applied, Posted};
use chorus_store::conversation::{Draft, DraftKind};
use chorus_store::conversations::Event;
use chorus_store::deliveries::OnItsWay;
use chorus_store::{StoreError, Tx, chats};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The most bytes that are encoded for the inboxes of one message.
const MAX_FRAMES_BYTES: usize = 256 * 1024;

/// Decides on a draft, and appends it with the decided effects. It is published after the commit.
pub(super) fn post(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Posted, Error> {
    let effects = attention::decide(tx, draft)?;
    post_planned(app, tx, draft, &effects)
}

/// Appends a draft with effects that are already decided.
pub(super) fn post_planned(
    app: &AppState,
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    effects: &[Effect],
) -> Result<Posted, Error> {
    let damped = effects.iter().find_map(|effect| match effect {
        Effect::Damp(found) => Some(*found),
        _ => None,
    });
    let noted = damped.map(|found| with_note(draft, found)).transpose()?.flatten();
    let draft = noted.as_ref().unwrap_or(draft);
    let posted = store::post(tx, draft, effects)?;
    for (known, reason) in &posted.applied.cancelled {
        tell_cancelled(app, tx, (known.id, known.event), reason, draft.act.now)?;
    }
    publish(app, tx, draft, &posted)?;
    stop::tell(app, tx, draft.act, &draft.member.handle, &posted.applied.stopped, true)?;
    count(app, tx, draft, &posted.applied);
    // The appended event says nothing of the agents that were knocked or have taken it.
    let is_shown_later = effects.iter().any(|effect| match effect {
        Effect::Deliver { to, claimed_until, .. } => {
            to.attention.mode == Mode::Notify || claimed_until.is_some()
        }
        _ => false,
    });
    if is_shown_later {
        let (hub, conversation, event) = (Arc::clone(app), draft.act.conversation, draft.given().event);
        tx.after_commit(Box::new(move || tell_attention(&hub, conversation, event)));
    }
    Ok(posted)
}

/// Adds a note to an agent's message that continues a loop, so that its readers see why nobody answers.
fn with_note<'a>(draft: &Draft<'a>, found: Loop) -> Result<Option<Draft<'a>>, Error> {
    if !matches!(draft.kind, DraftKind::Message(_)) {
        return Ok(None);
    }
    let mut noted = draft.clone();
    let body = Masked::kept(draft.body.json(), loop_note(found));
    noted.body = Cow::Owned(body.map_err(Error::internal)?);
    Ok(Some(noted))
}

/// Returns the note in a message that the loop guard stopped: after how many turns, or that it repeats another.
fn loop_note(found: Loop) -> Map<String, Value> {
    let why = match found {
        Loop::Turns(turns) => json!({"turns": turns}),
        Loop::Repeats => json!({"repeats": true}),
    };
    Map::from_iter([("loop_guard".to_owned(), why)])
}

/// Counts, after the commit, the agents that were woken, knocked or only stored for.
fn count(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>, posted: &Applied) {
    let is_knock = |(to, ..): &&(EventRecipient, DeliveryId, OnItsWay)| to.attention.mode == Mode::Notify;
    let knocked = posted.delivered.iter().filter(is_knock).count();
    let (woken, stored, hub) = (posted.delivered.len() - knocked, posted.stored_for.len(), Arc::clone(app));
    let (is_message, at) =
        (matches!(draft.kind, DraftKind::Message(_)), (draft.act.conversation, draft.act.author));
    if is_message || woken + knocked + stored > 0 {
        tx.after_commit(Box::new(move || {
            if is_message {
                hub.telemetry.turns_saved.note(at.0, at.1, woken);
            }
            for (outcome, agents) in [("woken", woken), ("knocked", knocked), ("stored", stored)] {
                hub.telemetry.metrics.attended(outcome, agents);
            }
        }));
    }
}

/// Publishes an event after the commit: followers of the conversation and open inboxes on this node get its
/// frames, and deliveries to be pushed are pushed.
fn publish(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>, posted: &Posted) -> Result<(), StoreError> {
    if !posted.applied.delivered.is_empty() {
        app.push_after(tx);
    }
    match draft.kind {
        DraftKind::Message(_) => publish_message(app, tx, draft, posted),
        // A changed message is shown as it stands when it is read.
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
    let followed = app.transport.live.is_followed(act.conversation.into());
    let open: Vec<_> =
        posted.applied.delivered.iter().filter_map(|one| Some((one, open_session(app, one)?))).collect();
    if !followed && open.is_empty() {
        return Ok(());
    }
    let event = Event {
        id: act.event,
        conversation: act.conversation,
        seq,
        kind: draft.kind.event(),
        author: act.author,
        handle: Some(draft.member.handle.clone()),
        trace: act.trace,
        created_at: act.now,
        thread: draft.thread,
        target: draft.kind.target(),
        body: draft.body.json().to_owned(),
    };
    // The event is encoded once, for followers and inboxes.
    let unexpected = |error: serde_json::Error| StoreError::Unexpected(error.into());
    let view = views::event(&event);
    let event = serde_json::value::to_raw_value(&view).map_err(unexpected)?;
    let mut frames = vec![];
    if followed {
        let frame = DIALECT.event(EventKind::Message.as_str(), seq, event.get());
        frames.push((DIALECT, act.conversation.0, seq, frame));
    }
    // Frames are encoded while other writers wait, and all frames share one cache. Large events are read from
    // the store instead.
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
    let live = Arc::clone(&app.transport.live);
    tx.after_commit(Box::new(move || {
        for (dialect, stream, seq, frame) in frames {
            live.frames.put(dialect, stream, seq, frame);
        }
    }));
    Ok(())
}

/// Returns the dialect of a recipient's session, if it is open on this node and gets this delivery.
fn open_session(app: &AppState, (to, _, way): &(EventRecipient, DeliveryId, OnItsWay)) -> Option<Dialect> {
    app.transport.live.dialect(to.agent).filter(|_| way.transport == Transport::Inbox)
}

/// Forgets the frames of a changed message after the commit, because they show its former text. It is read
/// from the store instead.
fn forget_frames(
    app: &AppState,
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    message: EventId,
) -> Result<(), StoreError> {
    let (sent, live) = (chats::of_message(tx, message)?, Arc::clone(&app.transport.live));
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
