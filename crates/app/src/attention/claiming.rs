//! Who takes an event that is for several: the engine's claims, kept in the store.
//!
//! Each function is part of a transaction that holds the conversation, so that of two who want the same claim one comes
//! first. Who may see the event at all is for the caller to know.

use crate::error::{Error, Refused};
use chorus_attention::claims::{Claim, Held, Open, Refusal, Request};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::ClaimState;
use chorus_store::{StoreError, Tx, claims, members};
use serde_json::json;

/// An event that is for whoever takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Who is asked first.
    pub first: AgentId,
    /// It was shown all of it, because its way knows no knocks: so it has taken it.
    pub taken: bool,
}

/// The claim on an event, as the engine knows it.
pub fn of(tx: &mut dyn Tx, event: EventId) -> Result<Option<Claim>, StoreError> {
    Ok(claims::of(tx, event)?.map(|row| from_row(&row)))
}

fn from_row(row: &claims::Claim) -> Claim {
    let held = row.held.map(|held| Held {
        holder: held.holder,
        since_ms: held.since,
        until_ms: held.until,
        state: held.state,
    });
    Claim { first: row.first, offered_at_ms: row.offered_at, held }
}

/// Keeps it.
pub(crate) fn keep(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    event: EventId,
    claim: Claim,
    now: i64,
) -> Result<(), StoreError> {
    let held = claim.held.map(|held| claims::Held {
        holder: held.holder,
        since: held.since_ms,
        until: held.until_ms,
        state: held.state,
    });
    let row = claims::Claim {
        event,
        conversation,
        first: claim.first,
        offered_at: claim.offered_at_ms,
        held,
        next_at: claim.next_change(now),
    };
    claims::put(tx, &row)
}

/// How a claim stands after somebody asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub state: ClaimState,
    /// Whose it is; the caller's, if it just gave it back.
    pub holder: Principal,
    pub until: i64,
}

/// Somebody wants something of the claim on an event: it gets it, or is told why not.
pub fn ask(
    tx: &mut dyn Tx,
    (conversation, event): (ConversationId, EventId),
    who: Principal,
    request: Request,
    now: i64,
) -> Result<Standing, Error> {
    let known = of(tx, event)?;
    let claim = known.unwrap_or(Claim::offered(None, now));
    let next = claim.apply(now, who, request);
    let next = match next {
        Ok(next) => next,
        Err(refusal) => return Err(refused(tx, conversation, refusal)?),
    };
    keep(tx, conversation, event, next, now)?;
    if request == Request::Release {
        // Whoever is asked next is asked at once, by whoever looks after claims.
        claims::look_at(tx, event, now)?;
    }
    let held = next.held.filter(|held| held.holder == who);
    let standing = held.map_or(Standing { state: ClaimState::Released, holder: who, until: now }, |held| {
        Standing { state: held.state, holder: held.holder, until: held.until_ms }
    });
    Ok(standing)
}

/// Who holds the claim on an event now.
pub fn holder(tx: &mut dyn Tx, event: EventId, now: i64) -> Result<Option<Principal>, StoreError> {
    Ok(of(tx, event)?.and_then(|claim| claim.holder(now)))
}

/// What only the holder of the claim on an event asks for: it gets it, and of everybody else nothing is asked.
pub(super) fn ask_as_holder(
    tx: &mut dyn Tx,
    event: EventId,
    who: Principal,
    request: Request,
    now: i64,
) -> Result<(), Error> {
    if let Some(row) = claims::of(tx, event)?
        && from_row(&row).holder(now) == Some(who)
    {
        ask(tx, (row.conversation, event), who, request, now)?;
    }
    Ok(())
}

/// Whether somebody holds the claim on an event, or is asked first.
pub fn may_give_back(tx: &mut dyn Tx, event: EventId, who: Principal, now: i64) -> Result<bool, StoreError> {
    Ok(match of(tx, event)?.map(|claim| claim.open(now)) {
        Some(Open::Held(held)) => held.holder == who,
        Some(Open::ToOne(first, _)) => who == first.into(),
        Some(Open::ToAll) | None => false,
    })
}

/// Why somebody does not get a claim, with the handle of whoever has it.
pub(crate) fn refused(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    refusal: Refusal,
) -> Result<Error, StoreError> {
    let holder = match refusal {
        Refusal::ClaimedByOther { holder, .. } | Refusal::ResolvedByOther { holder } => {
            members::of(tx, conversation, holder)?
        }
        Refusal::OfferedToOther { .. } | Refusal::NotClaimed => None,
    };
    let mut details = json!({"refusal": refusal.code()});
    let message = match &holder {
        Some(holder) => {
            details["holder"] = json!(holder.handle);
            let whose = if matches!(refusal, Refusal::ResolvedByOther { .. }) { "was" } else { "is" };
            format!("{refusal}: it {whose} {}'s", holder.handle)
        }
        None => refusal.to_string(),
    };
    let (code, refused) = match refusal {
        Refusal::ClaimedByOther { .. } | Refusal::ResolvedByOther { .. } => {
            (Code::PolicyForbidden, Refused::ClaimedByOther)
        }
        Refusal::OfferedToOther { .. } => (Code::PolicyForbidden, Refused::OfferedToOther),
        Refusal::NotClaimed => (Code::Conflict, Refused::NotClaimed),
    };
    let mut error = Error::new(code, message).details(details).refused(refused);
    error.retry_after_ms = refusal.retry_after_ms();
    Ok(error)
}
