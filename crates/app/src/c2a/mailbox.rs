//! The mailbox of an agent, in pages: the events delivered to it, and the other events of its conversations.
//!
//! A cursor names the last event of the page, in the order of ids. An event that is committed late may sort
//! before events that were listed already. The cursor therefore stays a few seconds behind the present, and
//! names the listed events beyond it one by one, as many as it can hold.

use super::harness::Harness;
use super::reading;
use crate::attention::envelopes;
use crate::delivery::bridge::Content;
use crate::delivery::c2a::{self, Envelope};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Identity;
use chorus_protocol::c2a::{Cursor, Event, EventPage, ListEvents};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId};
use chorus_protocol::relay::EnvelopeText;
use chorus_protocol::words::{Directedness, EntryKind};
use chorus_store::mailbox::{self, Found};
use chorus_store::market::handing;
use chorus_store::{StoreError, Tx, conversations, deliveries, inboxes, obligations};
use std::sync::Arc;
use uuid::Uuid;

/// Events older than this are assumed to be committed.
const LATE_MS: i64 = 10_000;
/// The most events that a cursor names besides the last.
const MAX_NAMED: usize = 20;

/// A position in the mailbox: the events that were listed so far.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Looked {
    /// All events up to this one.
    through: EventId,
    /// Some events after `through`, each by the end of its id.
    besides: Vec<u32>,
}

/// Returns the name of an event in a cursor: the end of its id, which is random.
fn tag(event: EventId) -> u32 {
    event.0.as_u128() as u32
}

impl Looked {
    fn read(cursor: &Cursor) -> Option<Self> {
        let mut parts = cursor.0.split('.');
        let through = EventId::parse(parts.next()?)?;
        let besides = parts.map(|part| u32::from_str_radix(part, 16).ok()).collect::<Option<Vec<_>>>()?;
        Some(Self { through, besides })
    }

    fn write(&self) -> Cursor {
        let named = |text: String, tag: &u32| text + &format!(".{tag:08x}");
        Cursor(self.besides.iter().fold(self.through.to_string(), named))
    }

    fn knows(&self, event: EventId) -> bool {
        event <= self.through || self.besides.contains(&tag(event))
    }

    /// Returns the position after these events. `seen` is in order, without a gap, and includes the events
    /// that were known already. Everything before `settled` is committed. If there is `more`, the named events
    /// that are not in `seen` come later and are kept.
    fn and(self, seen: &[EventId], more: bool, settled: EventId) -> Self {
        let old = seen.iter().copied().filter(|event| *event < settled).max();
        let through = old.map_or(self.through, |old| old.max(self.through));
        let new: Vec<_> = seen.iter().copied().filter(|event| *event > through).collect();
        let is_later = |named: &u32| more && seen.iter().all(|event| tag(*event) != *named);
        let later: Vec<_> = self.besides.into_iter().filter(is_later).collect();
        // If there are more events than a cursor can name, `through` moves past the first of them, so that
        // none is listed twice.
        let passed = (new.len() + later.len()).saturating_sub(MAX_NAMED).min(new.len());
        let through = passed.checked_sub(1).map_or(through, |last| new[last]);
        Self { through, besides: new[passed..].iter().copied().map(tag).chain(later).collect() }
    }
}

/// Returns a page of the mailbox.
pub(super) async fn list(harness: &Harness, asked: ListEvents) -> Result<EventPage, Error> {
    let wrong = || Faults::one("after", "must be `next` of the page before");
    let begin = Looked { through: EventId(Uuid::nil()), besides: vec![] };
    let mut place = asked.after.as_ref().map_or(Ok(begin), |after| Looked::read(after).ok_or_else(wrong))?;
    let since = asked.since.as_ref().map(|since| mailbox::first_of(since.ms()));
    if let Some(since) = since.filter(|since| *since > place.through) {
        place = Looked { through: since, besides: place.besides };
    }
    let (hub, identity, now) = (Arc::clone(&harness.app), harness.identity.clone(), harness.app.now());
    let read = move |tx: &mut dyn Tx| {
        let limit = asked.limit + place.besides.len() as i64;
        let look = mailbox::after(tx, identity.id, place.through, limit)?;
        let (mut events, mut seen, mut looked, mut bytes, mut more) = (vec![], vec![], 0, 0, look.more);
        let mut jobs = vec![];
        for (event, found) in look.found {
            if place.knows(event) {
                seen.push(event);
                continue;
            }
            if bytes > reading::PAGE_BYTES || looked == asked.limit {
                more = true;
                break;
            }
            seen.push(event);
            looked += 1;
            let shown = match found {
                Found::Brought(seq, kind) if kind != EntryKind::Chat => {
                    brought(tx, &hub, &identity, seq, now)?
                }
                Found::Brought(..) | Found::Said => reading::one(tx, &hub, identity.id, event, now)?,
            };
            let Some(shown) = shown else { continue };
            bytes += shown.content.to_text().len() as u64;
            if reading::is_wanted(&asked, &shown) {
                jobs.extend(matches!(found, Found::Brought(_, EntryKind::Job)).then_some(event));
                events.push(shown);
            }
        }
        let next = place.clone().and(&seen, more, mailbox::first_of(now - LATE_MS));
        let page = EventPage { events, next: Some(next.write()), more, left_out: look.left_out };
        Ok((page, handing::unrecorded(tx, &jobs)?))
    };
    let (page, polled) = harness.app.store.read::<_, Error, _>(read).await?;
    record_polled(harness, polled).await?;
    Ok(page)
}

/// Records that the agent has received these jobs.
async fn record_polled(harness: &Harness, polled: Vec<EventId>) -> Result<(), StoreError> {
    if polled.is_empty() {
        return Ok(());
    }
    let now = harness.app.now();
    harness.app.store.write(move |tx: &mut dyn Tx| handing::record_all(tx, &polled, now)).await
}

/// Returns an event that was delivered to the agent from outside any conversation.
fn brought(
    tx: &mut dyn Tx,
    app: &App,
    identity: &Identity,
    seq: i64,
    now: i64,
) -> Result<Option<Event>, Error> {
    let entries = deliveries::page(tx, identity.id, seq - 1, 1, 1)?;
    let entries = entries.into_iter().filter(|entry| entry.seq == seq).collect();
    let Some((entry, content)) = Content::read(tx, identity.id, entries, 1)?.pop() else { return Ok(None) };
    let known = obligations::of(tx, entry.event, identity.id, now)?;
    let mut event = content.outside(app, identity, &entry)?.event(known.as_ref());
    if entry.kind == EntryKind::Message && known.is_none() {
        let shows = app.transport.live.shows(identity.id).unwrap_or_default();
        let attention = envelopes::meaning(&EnvelopeText::read(&entry.body), shows);
        let acked = entry.seq <= inboxes::handed_through(tx, identity.id)?;
        let (attention, end) = envelopes::stands(attention, entry.created_at, acked, now);
        let intent = event.header.attention.intent;
        event.header.attention = chorus_protocol::c2a::Attention { intent, ..attention.into() };
        event.header.disposition = end.map(|(disposition, _)| disposition);
    }
    Ok(Some(event))
}

/// Returns the events between the agent and a party outside the conversations of this hub: the newest, or
/// those after an event.
pub(super) async fn exchange(
    harness: &Harness,
    conversation: ConversationId,
    after: Option<&Cursor>,
    limit: i64,
) -> Result<Option<EventPage>, Error> {
    let wrong = || Faults::one("after", "must be `next` of the page before");
    let after = after.map(|after| EventId::parse(&after.0).ok_or_else(wrong)).transpose()?;
    let (hub, identity, now) = (Arc::clone(&harness.app), harness.identity.clone(), harness.app.now());
    let read = move |tx: &mut dyn Tx| {
        let mut found = mailbox::exchange(tx, identity.id, conversation)?;
        if found.is_empty() {
            return Ok(None);
        }
        found.retain(|(event, _)| after.is_none_or(|after| *event > after));
        let surplus = found.len().saturating_sub(limit as usize);
        let found: Vec<_> = match after {
            Some(_) => found.into_iter().take(limit as usize).collect(),
            None => found.split_off(surplus),
        };
        let (mut events, mut jobs, mut bytes, mut last) = (vec![], vec![], 0, after);
        for (event, place) in &found {
            if bytes > reading::PAGE_BYTES {
                break;
            }
            last = Some(*event);
            let shown = match place {
                Found::Brought(seq, _) => brought(tx, &hub, &identity, *seq, now)?,
                Found::Said => sent(tx, &hub, &identity, *event)?,
            };
            bytes += shown.as_ref().map_or(0, |shown| shown.content.to_text().len() as u64);
            let is_job = shown.is_some() && matches!(place, Found::Brought(_, EntryKind::Job));
            jobs.extend(is_job.then_some(*event));
            events.extend(shown);
        }
        let cut = found.last().is_some_and(|(event, _)| Some(*event) != last);
        let more = cut || (after.is_some() && surplus > 0);
        let page = EventPage { events, next: last.map(|last| Cursor(last.to_string())), more, left_out: 0 };
        Ok(Some((page, handing::unrecorded(tx, &jobs)?)))
    };
    let Some((page, polled)) = harness.app.store.read::<_, Error, _>(read).await? else { return Ok(None) };
    record_polled(harness, polled).await?;
    Ok(Some(page))
}

/// Returns an envelope that the agent sent. It asks nothing of the agent.
fn sent(tx: &mut dyn Tx, app: &App, identity: &Identity, event: EventId) -> Result<Option<Event>, Error> {
    let Some(sent) = conversations::event_by_id(tx, event)? else { return Ok(None) };
    let said = Envelope {
        event,
        conversation: sent.conversation,
        sender: &app.address(&identity.name),
        body: &sent.body,
        created_at: sent.created_at,
        shows: None,
    };
    let mut shown = c2a::envelope(app, identity.id, "", &said).map_err(Error::internal)?.event(None);
    shown.header.target.directedness = Directedness::ToOther;
    shown.header.attention = reading::own().into();
    Ok(Some(shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(time: i64, end: u128) -> EventId {
        EventId(Uuid::from_u128(mailbox::first_of(time).0.as_u128() | end))
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_is_short() {
        let looked = Looked { through: event(7, 1), besides: (0..MAX_NAMED as u32).collect() };
        let written = looked.write();
        assert!(written.0.len() <= 256, "{}", written.0.len());
        assert_eq!(Looked::read(&written), Some(looked));
        for wrong in ["", "7", "evt_1", &format!("{}.x", event(7, 1)), &format!("{}.", event(7, 1))] {
            assert_eq!(Looked::read(&Cursor(wrong.to_owned())), None, "{wrong}");
        }
    }

    /// Lists a growing log page by page. `commits` gives the length of the log at each step, `limit` the size
    /// of a page.
    fn pages(log: &[EventId], commits: &[usize], limit: usize, settled: EventId) -> (Vec<EventId>, Looked) {
        let mut looked = Looked { through: EventId(Uuid::nil()), besides: vec![] };
        let mut listed = vec![];
        for committed in commits {
            loop {
                let mut there: Vec<_> = log[..*committed].iter().filter(|at| **at > looked.through).collect();
                there.sort_unstable();
                let (mut seen, mut new, mut more) = (vec![], 0, false);
                for event in there {
                    let known = looked.knows(*event);
                    if !known && new == limit {
                        more = true;
                        break;
                    }
                    seen.push(*event);
                    if !known {
                        listed.push(*event);
                        new += 1;
                    }
                }
                looked = looked.and(&seen, more, settled);
                assert!(looked.besides.len() <= MAX_NAMED, "{looked:?}");
                if !more {
                    break;
                }
            }
        }
        (listed, looked)
    }

    #[test]
    fn a_crowd_of_the_last_moments_is_listed_once() {
        let log: Vec<_> = (1..100).map(|end| event(20, end)).collect();
        let (listed, looked) = pages(&log, &[15, 30, 60, 61, 99], 50, event(10, 0));
        assert_eq!(listed, log);
        assert!(log.iter().all(|event| looked.knows(*event)));
        // An old event that is committed late does not make the cursor forget others.
        let log = [event(5, 1), event(20, 2), event(20, 3), event(7, 4)];
        assert_eq!(pages(&log, &[3, 4], 50, event(10, 0)).0, log);
    }

    proptest! {
        /// No event is listed twice. A late event is listed, unless there were more events than a cursor can
        /// name.
        #[test]
        fn nothing_twice_and_nothing_lost(
            times in proptest::collection::vec(0..30_i64, 1..3 * MAX_NAMED),
            commits in proptest::collection::vec(0..3 * MAX_NAMED, 0..5),
            limit in 1..10_usize,
        ) {
            let log: Vec<_> = (1..).zip(&times).map(|(end, time)| event(*time, end)).collect();
            let mut commits: Vec<_> = commits.into_iter().map(|at| at.min(log.len())).chain([log.len()]).collect();
            commits.sort_unstable();
            let (mut listed, _) = pages(&log, &commits, limit, event(0, 0));
            listed.sort_unstable();
            prop_assert!(listed.windows(2).all(|two| two[0] != two[1]), "{listed:?}");
            if log.len() <= MAX_NAMED {
                prop_assert_eq!(listed.len(), log.len());
            }
        }
    }
}
