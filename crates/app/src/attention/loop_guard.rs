//! The loop guard's seam: what is known of the past when an agent is about to wake another, and what is remembered of it.
//!
//! What was said lately is read from the log; only how often agents woke each other since a person spoke is counted. Whether they
//! are on a task, because one has taken on what the other asked for or works on its job, is looked up when it matters.

use super::earlier::Earlier;
use chorus_attention::loop_guard::{DEFAULT_TURNS, Exchange, Loop, RECENT, Spoken, find_loop};
use chorus_protocol::ids::Principal;
use chorus_store::conversation::{Candidate, Draft, DraftKind};
use chorus_store::conversations::Event;
use chorus_store::{StoreError, Tx, directory, log, loop_guards};
use serde_json::{Map, Value, json};

/// An exchange in which no agent woke another for so long is over: where there is no person, none could end it.
const FORGOTTEN_MS: i64 = 60 * 60 * 1000;

/// Of more than these it is not looked up whether they work together: who names many is not at work with one.
const MAX_ADDRESSED: usize = 8;

/// Whether a message of an agent goes on with a loop, and why.
pub(super) fn look_for_loop(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Option<Loop>, StoreError> {
    let conversation = draft.act.conversation;
    let turns = loop_guards::turns(tx, conversation, draft.act.now - FORGOTTEN_MS)?;
    let messages = log::last_messages(tx, conversation, draft.thread, RECENT as i64)?;
    let mut recent = vec![];
    // Who mends a message says it again; that is no repetition.
    let changed = draft.changed_seq;
    for message in messages.iter().filter(|message| Some(message.seq) != changed) {
        let by_person = matches!(message.author, Principal::Account(_));
        recent.push((by_person, Earlier::read(&message.body)?.content));
    }
    let recent: Vec<_> =
        recent.iter().map(|(by_person, text)| Spoken { by_person: *by_person, text }).collect();
    let exchange = Exchange { turns, recent: &recent, on_task: false };
    let (text, limit) = (draft.body.text("content"), limit(tx, draft)?);
    if find_loop(text, &exchange, limit).is_none() {
        return Ok(None);
    }
    let on_task = is_on_task(tx, draft)?;
    Ok(find_loop(text, &Exchange { on_task, ..exchange }, limit))
}

/// Whether a message was stopped, and no person has spoken since: until then nobody answers it.
pub(super) fn stands(tx: &mut dyn Tx, said: &Event, body: &Value) -> Result<bool, StoreError> {
    Ok(body.get(NOTE).is_some() && !log::person_spoke_after(tx, said.conversation, said.seq)?)
}

/// The member of a message that says that it was stopped.
const NOTE: &str = "loop_guard";

/// What is noted with a message that was stopped, for whoever reads the log: after how many turns, or that it repeats.
pub fn note(found: Loop) -> Map<String, Value> {
    let why = match found {
        Loop::Turns(turns) => json!({"turns": turns}),
        Loop::Repeats => json!({"repeats": true}),
    };
    Map::from_iter([(NOTE.to_owned(), why)])
}

/// How many turns agents may take among themselves in a conversation; none, if its owner turned the guard off. The owner may
/// loosen it for agents of its own: others did not agree to pay for them.
fn limit(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Option<u32>, StoreError> {
    let set = match draft.conversation.loop_turns.map(u32::try_from) {
        None | Some(Err(_)) => return Ok(Some(DEFAULT_TURNS)),
        Some(Ok(turns)) => Some(turns).filter(|turns| *turns > 0),
    };
    let is_strict = set.is_some_and(|turns| turns <= DEFAULT_TURNS);
    Ok(if is_strict || are_all_of_owner(tx, draft)? { set } else { Some(DEFAULT_TURNS) })
}

/// Whether the author, and all whom the message may concern, are agents of the conversation's owner.
fn are_all_of_owner(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<bool, StoreError> {
    let owner = draft.conversation.owner;
    let account = match owner {
        Principal::Account(account) => Some(account),
        Principal::Agent(agent) => directory::by_id(tx, agent)?.and_then(|agent| agent.owner),
    };
    let concerned = draft.candidates.iter().map(|candidate| candidate.agent);
    for agent in draft.act.author.agent().into_iter().chain(concerned) {
        let is_own = owner == agent.into()
            || account.is_some() && directory::by_id(tx, agent)?.and_then(|agent| agent.owner) == account;
        if !is_own {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the author works for one of those that it addresses, or one of them for it.
fn is_on_task(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<bool, StoreError> {
    let Some(author) = draft.act.author.agent() else { return Ok(false) };
    let addressed = |one: &&Candidate| one.named || one.said_target || draft.candidates.len() == 1;
    for other in draft.candidates.iter().filter(addressed).take(MAX_ADDRESSED) {
        if loop_guards::work_together(tx, draft.act.conversation, (author, other.agent))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A message was posted or changed: an agent that woke another took a turn, a person who speaks ends the exchange.
pub fn remember(tx: &mut dyn Tx, draft: &Draft<'_>, wakes: bool) -> Result<(), StoreError> {
    match (draft.kind, draft.act.author) {
        (DraftKind::Message(_), Principal::Account(_)) => loop_guards::reset(tx, draft.act.conversation),
        (DraftKind::Message(_) | DraftKind::Edit(_), Principal::Agent(_)) if wakes => {
            let (conversation, now) = (draft.act.conversation, draft.act.now);
            loop_guards::count(tx, conversation, now - FORGOTTEN_MS, now)
        }
        _ => Ok(()),
    }
}
