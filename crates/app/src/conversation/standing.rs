//! How a person stands in its conversations: which there are, what is new in them, and up to where it has read.

use super::invitations::invitee;
use crate::app::App;
use crate::caller::Person;
use crate::error::Error;
use crate::views::{self, EventView};
use chorus_protocol::ids::{AccountId, Principal};
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::{ConversationKind, EventKind};
use chorus_store::log::{self, At, Filter, Kinds, PageSize};
use chorus_store::members::Member;
use chorus_store::{Tx, approvals, conversation, invitations, readings};
use serde_json::Value;

pub use chorus_store::readings::{MAX_COUNT, Standing};

/// The most conversations that are looked at.
const MOST: i64 = 200;
/// In how many of them, and how far back in each, is looked for what is addressed to somebody.
const LOOKED_INTO: usize = 30;
const LOOKED_BACK: i64 = 30;
/// And how far back from the last that was, where that lies further back: it is not forgotten because others talked on.
const LOOKED_BACK_FROM_ASKED: i64 = 100;

/// The conversations of a person, and how much is new in each.
pub async fn standings(app: &App, account: AccountId) -> Result<Vec<Standing>, Error> {
    let find = move |tx: &mut dyn Tx| Ok(readings::of_account(tx, account, MOST)?);
    app.store.read::<_, Error, _>(find).await
}

/// The most approvals and invitations that are counted.
const COUNTED: i64 = 50;

/// What surrounds a person's work: its conversations, and how much waits for it besides what is said in them.
pub struct Surroundings {
    pub standings: Vec<Standing>,
    /// How many messages wait until somebody agrees, and how many ask the person in.
    pub asks: usize,
}

/// The conversations of a person, and how much waits for its answer.
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

/// Something new that is addressed to a person.
pub struct Addressed {
    pub standing: Standing,
    pub event: EventView,
}

/// What is new and addressed to a person, by its name or a role of its or in a conversation of two: the newest of each conversation,
/// in order.
pub async fn addressed(app: &App, account: AccountId) -> Result<Vec<Addressed>, Error> {
    let (who, max_bytes) = (Principal::from(account), app.config.quotas.page_bytes as usize);
    let find = move |tx: &mut dyn Tx| {
        let mut standings = readings::of_account(tx, account, MOST)?;
        standings.retain(|standing| standing.new > 0);
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

/// Whether a message names a member, in its text or beside it, or a role that it has.
fn names(event: &EventView, member: &Member) -> bool {
    let in_text = mentions(event.content.as_deref().unwrap_or_default()).into_iter();
    let beside = event.more.get("to").and_then(Value::as_array).into_iter().flatten();
    let mut named = in_text.chain(beside.filter_map(Value::as_str));
    named.any(|name| {
        let is = |other: &String| other.eq_ignore_ascii_case(name);
        is(&member.handle) || member.roles.iter().any(is)
    })
}
