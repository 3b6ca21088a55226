//! The board of a conversation: what is open there just now, and whose it is.
//!
//! Read, never written. Somebody sees what was said in its own time there, as it stands now; what was taken back is gone.

use crate::app::App;
use crate::error::Error;
use crate::views::{self, EventView};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, EventKind, Signal};
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::members::{self, MembershipInterval};
use chorus_store::{StoreError, Tx, board, claims, conversation, log, trail};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

/// As many of each are shown.
const MOST: i64 = 20;
/// So many of the last reactions are looked at for who is blocked, and so much of what each of those did since.
const LOOKED_BACK: i64 = 200;
const DONE_SINCE: i64 = 50;
/// As many of those that were knocked are named.
const MAX_KNOCKED: i64 = 5;

/// What is open in a conversation.
#[derive(Debug, Default)]
pub struct Board {
    /// What somebody has taken on, until when.
    pub held: Vec<Open>,
    /// What an agent must answer, until when.
    pub awaited: Vec<Open>,
    /// What somebody cannot go on with.
    pub blocked: Vec<Open>,
}

/// Something that is open.
#[derive(Debug)]
pub struct Open {
    pub message: EventView,
    /// Whose turn it is.
    pub who: Principal,
    pub handle: String,
    pub until: Option<i64>,
}

/// What is open in a conversation.
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

/// What somebody may read of it, and what members are called.
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

/// The message that something is about: itself, or what a change changes.
fn message(tx: &mut dyn Tx, place: &Conversation, event: EventId) -> Result<Option<Event>, StoreError> {
    let mut said = conversations::event_by_id(tx, event)?;
    if let Some((EventKind::Edit, Some(changed))) = said.as_ref().map(|said| (said.kind, said.target)) {
        said = conversations::event_by_id(tx, changed)?;
    }
    Ok(said.filter(|said| said.conversation == place.id && said.kind == EventKind::Message))
}

/// What a reaction says.
#[derive(Deserialize)]
struct Reacted {
    signal: String,
    #[serde(default)]
    removed: bool,
}

/// Messages that somebody signalled to be blocked by, and has neither said otherwise since nor gone on.
fn blocked(tx: &mut dyn Tx, id: ConversationId) -> Result<Vec<Row>, StoreError> {
    let (mut told, mut found) = (HashSet::new(), vec![]);
    for reaction in board::reactions_in(tx, id, LOOKED_BACK)? {
        let Reacted { signal, removed } =
            serde_json::from_str(&reaction.body).map_err(|error| StoreError::Unexpected(error.into()))?;
        let Some((signal, target)) = Signal::parse(&signal).zip(reaction.target) else { continue };
        let says_how_it_goes = match signal {
            Signal::Blocked => true,
            Signal::Working | Signal::Claimed | Signal::Done | Signal::Declined => !removed,
            Signal::Seen | Signal::Agree | Signal::Queued | Signal::Unclear => false,
        };
        // The newest that says anything tells.
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

/// Whether who does this goes on.
fn goes_on(kind: EventKind) -> bool {
    matches!(kind, EventKind::Message | EventKind::ToolCall)
}

/// What became of a message so far.
#[derive(Debug, Default)]
pub struct Attended {
    pub held: Option<Holder>,
    /// What those are called that were knocked about it, in the order of time.
    pub knocked: Vec<String>,
}

/// Who has taken a message on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub handle: String,
    pub until: i64,
    /// It is whoever asks.
    pub mine: bool,
}

/// What became of these messages of a conversation so far, of those that anything did.
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
