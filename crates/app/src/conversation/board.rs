//! The board of a conversation: its open matters and their owners.
//!
//! The board is computed, not stored. A caller sees messages from its own membership only, as they stand now,
//! and no deleted ones.

use crate::views::{self, EventView};
use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, EventKind, Signal};
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::members::{self, MembershipInterval};
use chorus_store::{StoreError, Tx, board, claims, conversation, log, trail};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

/// The most entries of each kind.
const MOST: i64 = 20;
/// The number of latest reactions that are searched for blocked members, and of later events searched for each
/// of them.
const LOOKED_BACK: i64 = 200;
const DONE_SINCE: i64 = 50;
/// The most knocked agents that are named.
const MAX_KNOCKED: i64 = 5;

/// The open matters of a conversation.
#[derive(Debug, Default)]
pub struct Board {
    /// Claimed messages, with the expiry of each claim.
    pub held: Vec<Open>,
    /// Messages that an agent must answer, with their deadlines.
    pub awaited: Vec<Open>,
    /// Messages that somebody is blocked on.
    pub blocked: Vec<Open>,
}

/// An open matter.
#[derive(Debug)]
pub struct Open {
    pub message: EventView,
    /// The member whose turn it is.
    pub who: Principal,
    pub handle: String,
    pub until: Option<i64>,
}

/// Returns the board of a conversation.
pub async fn board(app: &App, who: Principal, id: ConversationId) -> Result<Board, Error> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| {
        let (place, _) = conversation::as_reader(tx, id, who)?;
        let held = board::held_in(tx, id, now, MOST)?.into_iter();
        let held = held.map(|(event, held)| (event, held.holder, Some(held.until))).collect();
        let awaited = board::awaited_in(tx, id, MOST)?.into_iter();
        let awaited = awaited.map(|one| (one.event, one.agent.into(), one.deadline)).collect();
        let blocked = blocked(tx, id)?;
        let mut shown = Shown { place, who, members: HashMap::new() };
        Ok(Board {
            held: shown.open(tx, held)?,
            awaited: shown.open(tx, awaited)?,
            blocked: shown.open(tx, blocked)?,
        })
    };
    app.store.read::<_, Error, _>(find).await
}

type Row = (EventId, Principal, Option<i64>);

/// The reader of a board, with the handles of members looked up so far.
struct Shown {
    place: Conversation,
    who: Principal,
    members: HashMap<Principal, Option<String>>,
}

impl Shown {
    fn open(&mut self, tx: &mut dyn Tx, rows: Vec<Row>) -> Result<Vec<Open>, StoreError> {
        let stays = log::readable(tx, &self.place, self.who)?;
        let mut found = vec![];
        for (event, who, until) in rows {
            let Some(said) = message(tx, &self.place, event)? else { continue };
            let handle = match self.members.get(&who) {
                Some(known) => known.clone(),
                None => members::of(tx, self.place.id, who)?.map(|member| member.handle),
            };
            self.members.insert(who, handle.clone());
            if let Some(handle) = handle.filter(|_| MembershipInterval::any_holds(&stays, said.seq)) {
                found.push((said, who, handle, until));
            }
        }
        let events: Vec<_> = found.iter().map(|(said, ..)| said.clone()).collect();
        let standing = log::stand(tx, &self.place, self.who, &stays, &events)?;
        let views = views::events(&events, &standing.changes, &standing.replies);
        let open = views.into_iter().zip(found).map(|(message, (_, who, handle, until))| Open {
            message,
            who,
            handle,
            until,
        });
        Ok(open.filter(|open| !open.message.deleted).collect())
    }
}

/// Returns the message of an event: the event itself, or the target of an edit.
fn message(tx: &mut dyn Tx, place: &Conversation, event: EventId) -> Result<Option<Event>, StoreError> {
    let mut said = conversations::event_by_id(tx, event)?;
    if let Some((EventKind::Edit, Some(changed))) = said.as_ref().map(|said| (said.kind, said.target)) {
        said = conversations::event_by_id(tx, changed)?;
    }
    Ok(said.filter(|said| said.conversation == place.id && said.kind == EventKind::Message))
}

/// The body of a reaction.
#[derive(Deserialize)]
struct Reacted {
    signal: String,
    #[serde(default)]
    removed: bool,
}

/// Returns the messages that somebody signalled to be blocked on, unless that member has since signalled
/// otherwise or spoken in the conversation.
fn blocked(tx: &mut dyn Tx, id: ConversationId) -> Result<Vec<Row>, StoreError> {
    let (mut told, mut found) = (HashSet::new(), vec![]);
    for reaction in board::reactions_in(tx, id, LOOKED_BACK)? {
        let Reacted { signal, removed } =
            serde_json::from_str(&reaction.body).map_err(|error| StoreError::Unexpected(error.into()))?;
        let Some((signal, target)) = Signal::parse(&signal).zip(reaction.target) else { continue };
        let says_how_it_goes = match signal {
            Signal::Blocked => true,
            Signal::Working | Signal::Claimed | Signal::Done | Signal::Declined => !removed,
            Signal::Seen | Signal::Agree | Signal::Queued | Signal::Unclear | Signal::Stop => false,
        };
        // Only the newest such signal of a member on a message counts.
        if !says_how_it_goes
            || !told.insert((reaction.author, target))
            || signal != Signal::Blocked
            || removed
        {
            continue;
        }
        let since = trail::done_by(tx, reaction.author, Some(reaction.id), 0, DONE_SINCE)?;
        if !since.iter().any(|event| event.conversation == id && goes_on(event.kind)) {
            found.push((target, reaction.author, None));
        }
        if found.len() as i64 == MOST {
            break;
        }
    }
    Ok(found)
}

/// Returns `true` if an event of this kind shows that its author goes on.
fn goes_on(kind: EventKind) -> bool {
    matches!(kind, EventKind::Message | EventKind::ToolCall)
}

/// The claim on a message, and the agents knocked about it.
#[derive(Debug, Default)]
pub struct Attended {
    pub held: Option<Holder>,
    /// The handles of the knocked agents, in the order of time.
    pub knocked: Vec<String>,
}

/// The holder of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub handle: String,
    pub until: i64,
    /// `true` if the caller holds the claim.
    pub mine: bool,
}

/// Returns the claims and knocks of these messages, by event id. Messages without any are left out.
pub async fn attended(
    app: &App,
    who: Principal,
    id: ConversationId,
    messages: Vec<EventId>,
) -> Result<HashMap<String, Attended>, Error> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| {
        conversation::as_reader(tx, id, who)?;
        let mut found = HashMap::new();
        for message in &messages {
            let claim = claims::of(tx, *message)?.filter(|claim| claim.conversation == id);
            let held = claim.and_then(|claim| claim.held);
            let mut attended = Attended::default();
            if let Some(held) = held.filter(|held| held.state == ClaimState::Held && held.until > now) {
                let member = members::of(tx, id, held.holder)?;
                let mine = held.holder == who;
                attended.held =
                    member.map(|member| Holder { handle: member.handle, until: held.until, mine });
            }
            for agent in board::knocked(tx, *message, MAX_KNOCKED)? {
                let member = members::of(tx, id, agent.into())?;
                attended.knocked.extend(member.map(|member| member.handle));
            }
            if attended.held.is_some() || !attended.knocked.is_empty() {
                found.insert(message.to_string(), attended);
            }
        }
        Ok(found)
    };
    app.store.read::<_, Error, _>(find).await
}
