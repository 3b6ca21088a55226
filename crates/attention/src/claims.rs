//! Claims: the right of one, for a time, to answer an event that is for several.
//!
//! A state machine over what one event's claim is: [`Claim::apply`] gives the claim as it is afterwards, or says why
//! not. Never two hold it at one time. What is offered to one first is open to the rest when that one lets the offer
//! pass or declines; a claim that runs out is offered again in the same order. Time passes by itself: nothing has to
//! be written when a claim expires, but somebody may want to look ([`Claim::next_change`]). Agents are asked, people are
//! not; but a person may take what nobody holds, whoever it is offered to.
//!
//! Who may see the event at all, and what a claim is worth to a sender ([`crate::outbound`]), is not decided here.

use chorus_protocol::ids::{AgentId, Principal};
use chorus_protocol::words::ClaimState;
use std::cmp::Ordering;
use std::fmt;

/// How long a claim holds when nobody says.
pub const DEFAULT_TTL_MS: i64 = 300_000;

/// The shortest and the longest time for which a claim is held.
pub const TTL_MS: std::ops::RangeInclusive<i64> = 10_000..=86_400_000;

/// How long only the first of the responders may claim.
pub const OFFER_MS: i64 = 30_000;

/// The claim on one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Whom it is offered to before others; nobody when the first comes first served.
    pub first: Option<AgentId>,
    /// Since when.
    pub offered_at_ms: i64,
    /// The last that held it, if anybody did.
    pub held: Option<Held>,
}

/// That somebody holds a claim, or held it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Who.
    pub holder: Principal,
    /// Since when.
    pub since_ms: i64,
    /// Until when; at that moment it is free.
    pub until_ms: i64,
    /// What became of it.
    pub state: ClaimState,
}

/// Who may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Nobody but its holder.
    Held(Held),
    /// This one, until then.
    ToOne(AgentId, i64),
    /// Whoever comes first.
    ToAll,
}

/// What somebody wants of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// To hold it, or to go on holding it, for so long.
    Take {
        /// For how long; out of bounds is the nearest bound.
        ttl_ms: Option<i64>,
    },
    /// To give it back, or to let an offer pass. Unregistering does the same.
    Release,
    /// To say that it is dealt with.
    Resolve,
}

/// Why somebody does not get what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another holds it.
    ClaimedByOther {
        /// Who.
        holder: Principal,
        /// How long still.
        retry_after_ms: i64,
    },
    /// Another has dealt with it.
    ResolvedByOther {
        /// Who.
        holder: Principal,
    },
    /// Another may claim it first.
    OfferedToOther {
        /// How long still.
        retry_after_ms: i64,
    },
    /// There is nothing to give back.
    NotClaimed,
}

impl Refusal {
    /// A stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::ClaimedByOther { .. } | Self::ResolvedByOther { .. } => "claimed_by_other",
            Self::OfferedToOther { .. } => "offered_to_other",
            Self::NotClaimed => "not_claimed",
        }
    }

    /// When it is worth trying again.
    pub fn retry_after_ms(self) -> Option<i64> {
        match self {
            Self::ClaimedByOther { retry_after_ms, .. } | Self::OfferedToOther { retry_after_ms } => {
                Some(retry_after_ms)
            }
            Self::ResolvedByOther { .. } | Self::NotClaimed => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaimedByOther { .. } => "another holds the claim on this; leave it to that one",
            Self::ResolvedByOther { .. } => "another has answered this already; leave it at that",
            Self::OfferedToOther { .. } => "this is offered to another agent first; try again later",
            Self::NotClaimed => "you hold no claim on this",
        })
    }
}

impl std::error::Error for Refusal {}

impl Claim {
    /// The claim on an event that nobody has claimed yet.
    pub fn offered(first: Option<AgentId>, now_ms: i64) -> Self {
        Self { first, offered_at_ms: now_ms, held: None }
    }

    /// As it is now: a claim whose time is over has expired, and is offered again from then on.
    pub fn at(self, now_ms: i64) -> Self {
        match self.held {
            Some(held) if held.state == ClaimState::Held && held.until_ms <= now_ms => Self {
                offered_at_ms: held.until_ms,
                held: Some(Held { state: ClaimState::Expired, ..held }),
                ..self
            },
            _ => self,
        }
    }

    /// Who may claim now.
    pub fn open(self, now_ms: i64) -> Open {
        let now = self.at(now_ms);
        let offer_ends = now.offered_at_ms + OFFER_MS;
        match (now.held, now.first) {
            (Some(held), _) if held.state == ClaimState::Held => Open::Held(held),
            (_, Some(first)) if now_ms < offer_ends => Open::ToOne(first, offer_ends),
            _ => Open::ToAll,
        }
    }

    /// Who holds it now.
    pub fn holder(self, now_ms: i64) -> Option<Principal> {
        match self.open(now_ms) {
            Open::Held(held) => Some(held.holder),
            Open::ToOne(..) | Open::ToAll => None,
        }
    }

    /// When something changes by itself.
    pub fn next_change(self, now_ms: i64) -> Option<i64> {
        match self.open(now_ms) {
            Open::Held(held) => Some(held.until_ms),
            Open::ToOne(_, until_ms) => Some(until_ms),
            Open::ToAll => None,
        }
    }

    /// Why an agent does not take what another has dealt with. A person may: it asks again by that.
    fn settled_for(self, who: Principal) -> Option<Refusal> {
        let settled = self.held.filter(|held| held.state == ClaimState::Resolved && held.holder != who)?;
        who.agent().map(|_| Refusal::ResolvedByOther { holder: settled.holder })
    }

    /// The claim after somebody's request.
    pub fn apply(self, now_ms: i64, who: Principal, request: Request) -> Result<Self, Refusal> {
        let open = self.open(now_ms);
        let now = self.at(now_ms);
        let held = match open {
            Open::Held(held) if held.holder != who => {
                let retry_after_ms = held.until_ms - now_ms;
                return Err(Refusal::ClaimedByOther { holder: held.holder, retry_after_ms });
            }
            Open::ToOne(first, until_ms) if waits_for(first, who) && request != Request::Release => {
                return Err(Refusal::OfferedToOther { retry_after_ms: until_ms - now_ms });
            }
            Open::Held(held) => Some(held),
            Open::ToOne(..) | Open::ToAll => None,
        };
        let since_ms = held.map_or(now_ms, |held| held.since_ms);
        let hold = |until_ms, state| Some(Held { holder: who, since_ms, until_ms, state });
        match request {
            Request::Take { ttl_ms } => {
                if let Some(settled) = self.settled_for(who) {
                    return Err(settled);
                }
                let ttl_ms = ttl_ms.unwrap_or(DEFAULT_TTL_MS).clamp(*TTL_MS.start(), *TTL_MS.end());
                Ok(Self { held: hold(now_ms + ttl_ms, ClaimState::Held), ..now })
            }
            Request::Resolve => Ok(Self { first: None, held: hold(now_ms, ClaimState::Resolved), ..now }),
            // Whoever gave it back is not asked first again.
            Request::Release if held.is_some() => {
                let first = now.first.filter(|first| Principal::from(*first) != who);
                let held = hold(now_ms, ClaimState::Released);
                Ok(Self { first, offered_at_ms: now_ms, held })
            }
            Request::Release if open_to(open, who) => Ok(Self { first: None, ..now }),
            Request::Release => Err(Refusal::NotClaimed),
        }
    }
}

/// An offer to one agent keeps other agents waiting, and no person.
fn waits_for(first: AgentId, who: Principal) -> bool {
    who.agent().is_some_and(|agent| agent != first)
}

fn open_to(open: Open, who: Principal) -> bool {
    matches!(open, Open::ToOne(first, _) if who == first.into())
}

/// One of those who could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Responder<'a> {
    /// Who.
    pub agent: AgentId,
    /// Its address.
    pub address: &'a str,
    /// How many events it has claimed or must answer.
    pub load: u32,
    /// When it did something last.
    pub active_at_ms: i64,
}

impl Responder<'_> {
    /// Who is offered something before another: the least loaded, then the longest idle, then by address.
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |responder: &Self| (responder.load, responder.active_at_ms);
        key(self).cmp(&key(other)).then_with(|| self.address.cmp(other.address))
    }
}

/// Whom something is offered to first. Linear: the rest need no order, they are offered it together.
pub fn first_of(responders: &[Responder<'_>]) -> Option<AgentId> {
    responders.iter().min_by(|one, other| one.order(other)).map(|first| first.agent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AccountId;
    use proptest::prelude::*;

    fn id(number: u8) -> AgentId {
        AgentId::from_slice(&[number; 16]).unwrap()
    }

    fn agent(number: u8) -> Principal {
        id(number).into()
    }

    fn person() -> Principal {
        AccountId::from_slice(&[99; 16]).unwrap().into()
    }

    const TAKE: Request = Request::Take { ttl_ms: None };

    #[test]
    fn first_claim_wins() {
        let claim = Claim::offered(None, 0).apply(5, agent(1), TAKE).unwrap();
        assert_eq!(claim.holder(5), Some(agent(1)));
        let refusal = claim.apply(10, agent(2), TAKE).unwrap_err();
        assert_eq!(refusal, Refusal::ClaimedByOther { holder: agent(1), retry_after_ms: 299_995 });
        assert_eq!(refusal.code(), "claimed_by_other");
        for request in [Request::Release, Request::Resolve] {
            assert_eq!(claim.apply(10, agent(2), request), Err(refusal));
        }
        let renewed = claim.apply(10, agent(1), Request::Take { ttl_ms: Some(60_000) }).unwrap();
        let expected = Held { holder: agent(1), since_ms: 5, until_ms: 60_010, state: ClaimState::Held };
        assert_eq!(renewed.held, Some(expected));
        assert_eq!(renewed.next_change(10), Some(60_010));
    }

    #[test]
    fn times_have_bounds() {
        for (ttl_ms, expected) in [(None, 300_000), (Some(1), 10_000), (Some(i64::MAX), 86_400_000)] {
            let claim = Claim::offered(None, 0).apply(0, agent(1), Request::Take { ttl_ms }).unwrap();
            assert_eq!(claim.next_change(0), Some(expected));
        }
    }

    #[test]
    fn one_is_asked_first_then_the_rest() {
        let claim = Claim::offered(Some(id(1)), 0);
        assert_eq!(claim.open(29_999), Open::ToOne(id(1), 30_000));
        let refusal = claim.apply(10_000, agent(2), TAKE).unwrap_err();
        assert_eq!(refusal, Refusal::OfferedToOther { retry_after_ms: 20_000 });
        assert!(claim.apply(10_000, agent(1), TAKE).is_ok());
        assert_eq!(claim.open(30_000), Open::ToAll);
        assert!(claim.apply(30_000, agent(2), TAKE).is_ok());
        // Who declines does not keep the rest waiting.
        let declined = claim.apply(1_000, agent(1), Request::Release).unwrap();
        assert_eq!(declined.open(1_000), Open::ToAll);
        assert_eq!(claim.apply(1_000, agent(2), Request::Release), Err(Refusal::NotClaimed));
    }

    #[test]
    fn a_person_takes_what_nobody_holds() {
        let offered = Claim::offered(Some(id(1)), 0);
        let claim = offered.apply(5, person(), TAKE).unwrap();
        assert_eq!(claim.holder(5), Some(person()));
        let refusal = Refusal::ClaimedByOther { holder: person(), retry_after_ms: 299_999 };
        assert_eq!(claim.apply(6, agent(1), TAKE), Err(refusal), "whoever is asked first waits too");
        // It goes back to whom it was offered.
        let back = claim.apply(10, person(), Request::Release).unwrap();
        assert_eq!(back.open(10), Open::ToOne(id(1), 30_010));
        assert_eq!(claim.open(300_005), Open::ToOne(id(1), 330_005));
        // What an agent holds is that agent's.
        let theirs = offered.apply(5, agent(1), TAKE).unwrap();
        assert!(matches!(theirs.apply(6, person(), TAKE), Err(Refusal::ClaimedByOther { .. })));
    }

    #[test]
    fn what_runs_out_is_offered_again() {
        let claim = Claim::offered(Some(id(1)), 0).apply(0, agent(1), TAKE).unwrap();
        assert_eq!(claim.holder(299_999), Some(agent(1)));
        assert_eq!(claim.open(300_000), Open::ToOne(id(1), 330_000));
        assert_eq!(claim.at(300_000).held.unwrap().state, ClaimState::Expired);
        let other = claim.apply(330_000, agent(2), TAKE).unwrap();
        assert_eq!(other.holder(330_000), Some(agent(2)));
        assert_eq!(other.held.unwrap().since_ms, 330_000);
    }

    #[test]
    fn freed_by_release_and_by_resolve() {
        let claim = Claim::offered(Some(id(1)), 0).apply(0, agent(1), TAKE).unwrap();
        let released = claim.apply(10, agent(1), Request::Release).unwrap();
        assert_eq!((released.holder(10), released.open(10)), (None, Open::ToAll));
        assert_eq!(released.held.unwrap().state, ClaimState::Released);
        assert_eq!(released.apply(11, agent(1), Request::Release), Err(Refusal::NotClaimed));
        let resolved = claim.apply(10, agent(1), Request::Resolve).unwrap();
        assert_eq!(resolved.held.unwrap().state, ClaimState::Resolved);
        assert_eq!(resolved.open(10), Open::ToAll);
        let settled = Refusal::ResolvedByOther { holder: agent(1) };
        assert_eq!(
            [agent(1), agent(2), person()].map(|who| resolved.settled_for(who)),
            [None, Some(settled), None]
        );
        assert_eq!(
            (settled.code(), claim.settled_for(agent(2)), released.settled_for(agent(2))),
            ("claimed_by_other", None, None)
        );
        // What another gave back goes to the first again.
        let late = Claim::offered(Some(id(1)), 0).apply(40_000, agent(2), TAKE).unwrap();
        let back = late.apply(50_000, agent(2), Request::Release).unwrap();
        assert_eq!(back.open(50_000), Open::ToOne(id(1), 80_000));
    }

    #[test]
    fn who_is_asked_first() {
        let responder = |number, address, load, active_at_ms| Responder {
            agent: id(number),
            address,
            load,
            active_at_ms,
        };
        let rows: [(&[Responder<'_>], Option<u8>); 5] = [
            (&[], None),
            (&[responder(1, "a@x", 2, 0), responder(2, "b@x", 1, 9)], Some(2)),
            (&[responder(1, "a@x", 1, 9), responder(2, "b@x", 1, 8)], Some(2)),
            (&[responder(2, "b@x", 1, 9), responder(1, "a@x", 1, 9)], Some(1)),
            (&[responder(3, "c@x", 0, 100)], Some(3)),
        ];
        for (responders, expected) in rows {
            assert_eq!(first_of(responders), expected.map(id));
        }
    }

    fn any_request() -> impl Strategy<Value = Request> {
        prop_oneof![
            3 => prop::option::of(0i64..200_000).prop_map(|ttl_ms| Request::Take { ttl_ms }),
            1 => Just(Request::Release),
            1 => Just(Request::Resolve),
        ]
    }

    proptest! {
        /// Each agent believes what it was answered; no two ever believe that they hold it.
        #[test]
        fn never_two_holders(
            first in prop::option::of(0u8..4),
            steps in prop::collection::vec((0i64..60_000, 0u8..4, any_request()), 1..60),
        ) {
            let mut claim = Claim::offered(first.map(id), 0);
            let mut holds_until = [i64::MIN; 4];
            let mut now = 0;
            for (passed, who, request) in steps {
                now += passed;
                if let Ok(next) = claim.apply(now, agent(who), request) {
                    claim = next;
                    let held = claim.held.filter(|held| held.state == ClaimState::Held);
                    let own = held.filter(|held| held.holder == agent(who));
                    holds_until[usize::from(who)] = own.map_or(i64::MIN, |held| held.until_ms);
                }
                let believers: Vec<_> = (0..4u8).filter(|who| holds_until[usize::from(*who)] > now).collect();
                prop_assert!(believers.len() <= 1);
                prop_assert_eq!(claim.holder(now), believers.first().map(|who| agent(*who)));
                prop_assert!(claim.next_change(now).is_none_or(|change| change > now));
            }
        }
    }
}
