//! Attention's seam: whom an event concerns, and how it gets to them. Delivery is not injection.
//!
//! Everything that is said passes here, inside its transaction: the store has found out what is known, the engine
//! (`chorus-attention`) decides for each agent that it may concern, and the store keeps what was decided with the delivery.
//! Nothing is decided here but which decisions are deliveries at all, by what the way to each agent can show: where there are no
//! knocks, what would be one is found by whoever looks; but of those who have a role, one is always asked.
//!
//! `claiming` is who has what, `taking` what becomes of it then, `changing` what becomes of it when a message is changed,
//! `cancelling` how a harness is told that it has nothing to do with it any more, `digesting` what leads are told of the rest,
//! `disposing` what becomes of what agents were given, `envelopes` the same of what comes by the relay, `replying` who may answer
//! what, `overdue` what time does to all of it, `offering` what it does to claims.

pub(crate) mod cancelling;
pub mod changing;
pub mod claiming;
mod deciding;
pub mod digesting;
pub mod disposing;
mod earlier;
pub mod envelopes;
pub mod loop_guard;
pub mod offering;
pub mod overdue;
pub mod replying;
pub mod taking;
mod ways;

pub use claiming::Offer;
pub use deciding::Decided;
pub(crate) use ways::{agreed_to_repeats, has_agreed, of_words, words};

use self::deciding::{Changed, decide_said, message};
use self::earlier::Earlier;
use self::ways::{is_delivered, knows_signals, shows};
use chorus_attention::{AuthorKind, Event, Happening, classify};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::words::{Directedness, Intent, Mode, Policy, Priority, Reason, Signal};
use chorus_store::conversation::{self, Draft, DraftKind, Recipient};
use chorus_store::{StoreError, Tx, conversations, members};

/// What another service posts to an agent's connection string is for that agent.
pub const FOREIGN: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::MustRespond,
    mode: Mode::Immediate,
    reason: Reason::DirectMessage,
    priority: Priority::Normal,
    deadline_ms: None,
};

/// Whom a draft reaches, and what it means for each.
pub fn decide(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Decided, StoreError> {
    match draft.kind {
        DraftKind::Message(_) => {
            decide_said(tx, draft, message(draft)?, &draft.candidates, Changed::default())
        }
        DraftKind::Reaction(target, signal) => decide_reaction(tx, draft, target, signal),
        DraftKind::Edit(target) => changing::decide(tx, draft, target),
        // What it means for those who were given the message is `changing`'s business.
        DraftKind::Deletion(_) => Ok(Decided::default()),
    }
}

/// Whom a reaction reaches: who said what it is put on, if its session tells such things from messages. Others find it there.
fn decide_reaction(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    target: EventId,
    signal: Signal,
) -> Result<Decided, StoreError> {
    if draft.body.is_true("removed") {
        return Ok(Decided::default());
    }
    let said = conversations::event_by_id(tx, target)?;
    let said = said.map(|said| Earlier::read(&said.body)).transpose()?;
    let answers = match &said {
        Some(said) if is_for(tx, draft, said)? => Some(said.intent()),
        // What was put to another that one answers.
        _ => None,
    };
    let event = Event { happening: Happening::Reaction(signal), text: "", answers, ..message(draft)? };
    let mut reached = vec![];
    for candidate in draft.candidates.iter().filter(|candidate| candidate.said_target) {
        let shows = shows(tx, candidate.agent, draft.act.now)?;
        let known =
            chorus_attention::Recipient { said_target: true, ..chorus_attention::Recipient::default() };
        let decided = chorus_attention::decide(&classify(event), &known);
        let attention = Attention { mode: shows.fall_back(decided.mode), ..decided };
        if knows_signals(tx, candidate.agent, draft.act.now)? && is_delivered(attention.mode) {
            reached.push(Recipient { agent: candidate.agent, handle: candidate.handle.clone(), attention });
        }
    }
    let reach = conversation::reach(tx, draft.act.author, reached, vec![])?;
    Ok(Decided { reach, ..Decided::default() })
}

/// Whether a message is for whoever reacts to it: it names nobody here, or that one, or a role of its.
fn is_for(tx: &mut dyn Tx, draft: &Draft<'_>, said: &Earlier) -> Result<bool, StoreError> {
    let conversation = draft.act.conversation;
    let Some(reacts) = members::of(tx, conversation, draft.act.author)? else { return Ok(false) };
    let mut names_other = false;
    for name in said.names() {
        match members::by_handle(tx, conversation, name)? {
            Some(member) if member.principal == reacts.principal => return Ok(true),
            Some(_) => names_other = true,
            None if reacts.roles.iter().any(|role| role.eq_ignore_ascii_case(name)) => return Ok(true),
            None => names_other |= !members::in_role(tx, conversation, name, 1)?.is_empty(),
        }
    }
    Ok(!names_other)
}

/// What it means for an agent that a person decided about what it wanted to say, or that nobody did: it ends its wait. Nothing, if
/// its session does not tell such things from messages.
pub fn outcome(
    tx: &mut dyn Tx,
    agent: AgentId,
    signal: Signal,
    now: i64,
) -> Result<Option<Attention>, StoreError> {
    let answers = Some(Intent::ApprovalRequest);
    let event =
        Event { happening: Happening::Reaction(signal), author: AuthorKind::Human, answers, ..Event::EMPTY };
    let known = chorus_attention::Recipient { said_target: true, ..chorus_attention::Recipient::default() };
    let (decided, shows) = (chorus_attention::decide(&classify(event), &known), shows(tx, agent, now)?);
    let attention = Attention { mode: shows.fall_back(decided.mode), ..decided };
    Ok((knows_signals(tx, agent, now)? && is_delivered(attention.mode)).then_some(attention))
}
