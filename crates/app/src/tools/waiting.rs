//! The long poll: waits for events of others, with a cursor, so that nothing is missed between two calls.

use super::context::Context;
use super::input::{Place, WaitForEvents};
use super::output::EventPage;
use super::reading::{of_kind, seen};
use chorus_node::Error;
use chorus_protocol::page;
use chorus_store::log::{self, At, Filter, PageSize};
use std::time::Duration;

struct Poll {
    after: Option<i64>,
    limit: i64,
    filter: Filter,
    own: bool,
}

pub(super) async fn wait_for_events(context: Context, asked: WaitForEvents) -> Result<EventPage, Error> {
    let WaitForEvents { after, wait_ms, limit, kind, include_own } = asked;
    let after = after.map(|Place(after)| after);
    let mut poll = Poll { after, limit, filter: of_kind(kind), own: include_own };
    let app = &context.app;
    // Subscribes before the store is read, so that no commit in between is missed.
    let (mut head, mut revocations) =
        (app.transport.live.follow(context.conversation.into()).0, app.revocations(context.who));
    let opened = app.limits.open_streams.open(context.who, None);
    let until = app.elapsed() + wait_ms;
    loop {
        head.borrow_and_update();
        let found = read_new_events(&context, &poll).await?;
        poll.after = Some(found.next);
        let left_ms = until - app.elapsed();
        if !found.events.is_empty() || left_ms <= 0 {
            return Ok(found);
        }
        if found.more {
            continue;
        }
        tokio::select! {
            biased;
            // The next read checks whether the caller still has access.
            changed = revocations.changed() => if changed.is_ok() { continue },
            moved = head.changed() => if moved.is_ok() { continue },
            () = tokio::time::sleep(Duration::from_millis(left_ms as u64)) => {}
            () = opened.over.cancelled() => {}
            () = app.tasks.stopping.cancelled() => {}
        }
        // One last read: an event that arrived just now belongs to this answer.
        return read_new_events(&context, &poll).await;
    }
}

/// Returns the events after the cursor, the new cursor, and whether there is more.
async fn read_new_events(context: &Context, poll: &Poll) -> Result<EventPage, Error> {
    let Poll { after, limit, filter, own } = poll;
    let (who, after, limit, filter, own) = (context.who, *after, *limit, filter.clone(), *own);
    let (max_bytes, now) = (context.page_bytes(), context.app.now());
    let read = context.read_while_it_holds(move |tx, (conversation, me)| {
        let end = tx.head(conversation.id.into())?;
        // A cursor beyond the end comes from an earlier copy of the database and is ignored.
        let at = At::After(after.filter(|after| *after <= end).unwrap_or(end));
        let size = PageSize { events: limit, bytes: max_bytes as usize };
        let mut page = log::page(tx, &conversation, who, &filter, at, size)?;
        // Events between the last returned one and the end are not visible to this caller.
        let next = page.events.last().filter(|_| page.more).map_or(end, |last| last.seq);
        page.events.retain(|event| own || event.author != who);
        let events = seen(tx, (&conversation, &me), &page.events, &page.standing, now)?;
        Ok((events, next, page.more))
    });
    let (mut events, next, more) = read.await?;
    if page::cut(&mut events, max_bytes) {
        let next = events.last().map_or(next, |last| last.event.sequence);
        return Ok(EventPage { events, next, more: true });
    }
    Ok(EventPage { events, next, more })
}
