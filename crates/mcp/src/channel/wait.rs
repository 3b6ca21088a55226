//! The long poll: waits for what others do, with a cursor, so that nothing is missed between two waits.

use super::tools::{MAX_WAIT_MS, Tool, WAIT_MS};
use super::{Channel, Failure, Hub, input};
use chorus_protocol::page;
use chorus_store::conversation;
use chorus_store::log::{self, At, Filter};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;

struct Poll {
    after: Option<i64>,
    limit: i64,
    filter: Filter,
    own: bool,
}

impl<H: Hub> Channel<H> {
    pub(super) async fn wait_for_events(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let (mut poll, wait_ms) = input::read(Tool::WaitForEvents.input(), arguments, |fields| {
            let after = input::integer(fields, "after", 0, input::MAX_INTEGER);
            let wait_ms = input::integer(fields, "wait_ms", 0, MAX_WAIT_MS).unwrap_or(WAIT_MS);
            let limit = input::integer(fields, "limit", 1, 200).unwrap_or(50);
            let filter = Filter { thread: None, kind: input::kind(fields) };
            (Poll { after, limit, filter, own: fields.flag("include_own") }, wait_ms)
        })?;
        // Followed before the store is asked, so that no commit in between goes unnoticed.
        let (mut head, mut revocations) = (self.hub.follow(self.id), self.hub.revocations(self.pass.who));
        let opened = self.hub.open().open(self.pass.who, None);
        let until = Instant::now() + Duration::from_millis(wait_ms as u64);
        loop {
            head.borrow_and_update();
            let (events, next, more) = self.poll(&poll).await?;
            poll.after = Some(next);
            if !events.is_empty() || Instant::now() >= until {
                return Ok(json!({"events": events, "next": next, "more": more}));
            }
            if more {
                continue;
            }
            tokio::select! {
                biased;
                // The next look finds out whether the caller may still be here.
                changed = revocations.changed() => if changed.is_ok() { continue },
                moved = head.changed() => if moved.is_ok() { continue },
                () = tokio::time::sleep_until(until) => {}
                () = opened.over.cancelled() => {}
                () = self.hub.stopping().cancelled() => {}
            }
            // One last look: what came just now belongs to this answer.
            let (events, next, more) = self.poll(&poll).await?;
            return Ok(json!({"events": events, "next": next, "more": more}));
        }
    }

    /// What came after the cursor, the new cursor, and whether there is more.
    async fn poll(&self, poll: &Poll) -> Result<(Vec<Value>, i64, bool), Failure> {
        let (id, who) = (self.id, self.pass.who);
        let Poll { after, limit, filter, own } = poll;
        let (after, limit, filter, own) = (*after, *limit, filter.clone(), *own);
        let max_bytes = self.page_bytes();
        let read = self.read(move |tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            let end = tx.head(id.0)?;
            // A place beyond the end is from another life of the database: it says nothing here.
            let after = after.filter(|after| *after <= end).unwrap_or(end);
            let at = At::After(after);
            let page = log::page(tx, &conversation, who, &filter, at, limit, max_bytes as usize)?;
            // What lies between the last one that fits and the end is not for this caller.
            let next = page.events.last().filter(|_| page.more).map_or(end, |last| last.seq);
            Ok((page, next))
        });
        let (mut page, next) = read.await?;
        page.events.retain(|event| own || event.author != who);
        let mut events = self.hub.events(&page.events, &page.standing);
        if page::cut(&mut events, max_bytes) {
            let last = events.last().and_then(|last| last["sequence"].as_i64());
            return Ok((events, last.unwrap_or(next), true));
        }
        Ok((events, next, page.more))
    }
}
