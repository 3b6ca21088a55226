//! A person's conversations, with their new messages and read positions.

use super::invitations::invitee;
use crate::views::{self, EventView};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Person;
use chorus_protocol::ids::{AccountId, Principal};
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::{ConversationKind, EventKind};
use chorus_store::log::{self, At, Filter, Kinds, PageSize};
use chorus_store::members::Member;
use chorus_store::{Tx, approvals, conversation, invitations, readings};
use serde_json::Value;

pub use chorus_store::readings::{MAX_COUNT, Standing};

/// The most conversations that are read.
const MOST: i64 = 200;
/// The most conversations, and the most messages of each, that are searched for messages to a person.
const LOOKED_INTO: usize = 30;
const LOOKED_BACK: i64 = 30;
/// The most messages searched before the latest one addressed to the person, if that is older. It is found
/// even if others talked on.
const LOOKED_BACK_FROM_ASKED: i64 = 100;

/// Returns a person's conversations, with the number of new messages in each.
pub async fn standings(app: &App, account: AccountId) -> Result<Vec<Standing>, Error> {
    let find = move |tx: &mut dyn Tx| Ok(readings::of_account(tx, account, MOST)?);
    app.store.read::<_, Error, _>(find).await
}

/// The most approvals and invitations that are counted.
const COUNTED: i64 = 50;

/// A person's conversations, and the number of requests that wait for the person.
pub struct Surroundings {
    pub standings: Vec<Standing>,
    /// The number of pending approvals and open invitations.
    pub asks: usize,
}

/// Returns a person's conversations, and the number of requests that wait for the person.
pub async fn surroundings(app: &App, person: &Person) -> Result<Surroundings, Error> {
    let (person, now) = (person.clone(), app.now());
    let find = move |tx: &mut dyn Tx| {
        let approvals = approvals::page(tx, person.id.into(), None, None, now, COUNTED)?;
        let invitations = invitations::page(tx, invitee(&person), None, now, COUNTED)?;
        let asks = approvals.len() + invitations.len();
        Ok(Surroundings { standings: readings::of_account(tx, person.id, MOST)?, asks })
    };
    app.store.read::<_, Error, _>(find).await
}

/// A new message that is addressed to a person.
pub struct Addressed {
    pub standing: Standing,
    pub event: EventView,
}

/// Returns the new messages to a person, the newest first: those that mention its handle or a role of its, and
/// those in direct conversations.
pub async fn addressed(app: &App, account: AccountId) -> Result<Vec<Addressed>, Error> {
    let (who, max_bytes) = (Principal::from(account), app.config.quotas.page_bytes as usize);
    let find = move |tx: &mut dyn Tx| {
        let mut standings = readings::of_account(tx, account, MOST)?;
        standings.retain(|standing| standing.new > 0 || standing.asked > standing.read);
        standings.sort_by_key(|standing| !standing.is_asked());
        let mut found = vec![];
        for standing in standings.into_iter().take(LOOKED_INTO) {
            let (place, member) = conversation::as_reader(tx, standing.conversation, who)?;
            let filter = Filter { thread: None, kinds: Kinds::Only(EventKind::Message) };
            let size = PageSize { events: LOOKED_BACK, bytes: max_bytes };
            let page = log::page(tx, &place, who, &filter, At::Before(i64::MAX), size)?;
            let mut events = views::events(&page.events, &page.standing.changes, &page.standing.replies);
            let first = events.first().map_or(0, |event| event.sequence);
            if standing.asked > standing.read && standing.asked < first {
                let at = At::Before(standing.asked + 1);
                let size = PageSize { events: LOOKED_BACK_FROM_ASKED, bytes: max_bytes };
                let page = log::page(tx, &place, who, &filter, at, size)?;
                events.extend(views::events(&page.events, &page.standing.changes, &page.standing.replies));
            }
            if standing.asked > standing.read {
                // The reports on requests of the person, and stops of their work.
                for kind in [EventKind::Escalation, EventKind::Stop] {
                    let filter = Filter { thread: None, kinds: Kinds::Only(kind) };
                    let size = PageSize { events: LOOKED_BACK, bytes: max_bytes };
                    let page = log::page(tx, &place, who, &filter, At::Before(i64::MAX), size)?;
                    events.extend(views::events(&page.events, &page.standing.changes, &[]));
                }
            }
            let own = who.to_string();
            let for_me = |event: &EventView| {
                event.sequence > standing.read
                    && event.author.id != own
                    && !event.deleted
                    && (standing.kind == ConversationKind::Dm || names(event, &member))
            };
            let new = events.into_iter().filter(for_me);
            found.extend(new.map(|event| Addressed { standing: standing.clone(), event }));
        }
        found.sort_by(|a, b| b.event.created_at.cmp(&a.event.created_at));
        Ok(found)
    };
    app.store.read::<_, Error, _>(find).await
}

/// Returns `true` if a message names a member or one of its roles, in its text or among its recipients.
fn names(event: &EventView, member: &Member) -> bool {
    let in_text = mentions(event.content.as_deref().unwrap_or_default()).into_iter();
    let beside = event.more.get("to").and_then(Value::as_array).into_iter().flatten();
    let mut named = in_text.chain(beside.filter_map(Value::as_str));
    named.any(|name| {
        let is = |other: &String| other.eq_ignore_ascii_case(name);
        is(&member.handle) || member.roles.iter().any(is)
    })
}
