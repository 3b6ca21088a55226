//! Claims: the exclusive right, for a limited time, to answer an event that is addressed to several agents.
//!
//! A claim is a state machine. [`Claim::apply`] returns the claim after a request, or the reason for a
//! refusal. A claim never has two holders at once. An event that is offered to one agent first is open to the
//! others once that agent declines or lets the offer pass. An expired claim is offered again in the same
//! order. Nothing has to be written when a claim expires; [`Claim::next_change`] returns the time at which a
//! caller may want to look again. Offers are made to agents and not to people, but a person may take any claim
//! that has no holder.
//!
//! This module decides neither who may see the event nor how a claim affects a reply (see
//! [`crate::outbound`]).

use chorus_protocol::ids::{AgentId, Principal};
use chorus_protocol::words::ClaimState;
use std::cmp::Ordering;
use std::fmt;

/// The duration of a claim if the request gives none.
pub const DEFAULT_TTL_MS: i64 = 300_000;

/// The shortest and the longest time for which a claim is held.
pub const TTL_MS: std::ops::RangeInclusive<i64> = 10_000..=86_400_000;

/// The time during which only the first responder may claim.
pub const OFFER_MS: i64 = 30_000;

/// The claim on one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The agent that may claim before all others. `None` means first come, first served.
    pub first: Option<AgentId>,
    /// The start of the current offer.
    pub offered_at_ms: i64,
    /// The current or the last hold. `None` if the event was never claimed.
    pub held: Option<Held>,
}

/// The current or the last hold on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub holder: Principal,
    pub since_ms: i64,
    /// The end of the hold. The claim is free at this time.
    pub until_ms: i64,
    pub state: ClaimState,
}

/// The set of agents that may claim an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Only the current holder may claim.
    Held(Held),
    /// One agent, until the given time.
    ToOne(AgentId, i64),
    /// The first agent that asks.
    ToAll,
}

/// A request to change a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Takes or renews the claim.
    Take {
        /// The duration, clamped to [`TTL_MS`].
        ttl_ms: Option<i64>,
    },
    /// Releases the claim, or declines an offer. Unregistering an agent does the same.
    Release,
    /// Marks the event as dealt with.
    Resolve,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another agent or person holds the claim.
    ClaimedByOther {
        holder: Principal,
        /// The time until the claim expires.
        retry_after_ms: i64,
    },
    /// Another agent or person has resolved the claim.
    ResolvedByOther {
        /// The agent or person that resolved the claim.
        holder: Principal,
    },
    /// The event is offered to another agent first.
    OfferedToOther {
        /// The time until the offer ends.
        retry_after_ms: i64,
    },
    /// The caller holds no claim and has no offer to decline.
    NotClaimed,
}

impl Refusal {
    /// Returns the stable error code.
    pub fn code(self) -> &'static str {
        match self {
            Self::ClaimedByOther { .. } | Self::ResolvedByOther { .. } => "claimed_by_other",
            Self::OfferedToOther { .. } => "offered_to_other",
            Self::NotClaimed => "not_claimed",
        }
    }

    /// Returns the time after which a retry may succeed.
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
    /// Creates the claim on an event that nobody has claimed yet.
    pub fn offered(first: Option<AgentId>, now_ms: i64) -> Self {
        Self { first, offered_at_ms: now_ms, held: None }
    }

    /// Returns the claim at `now_ms`. An overdue hold has expired, and the claim is offered again from that
    /// time on.
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

    /// Returns the agents that may claim at `now_ms`.
    pub fn open(self, now_ms: i64) -> Open {
        let now = self.at(now_ms);
        let offer_ends = now.offered_at_ms + OFFER_MS;
        match (now.held, now.first) {
            (Some(held), _) if held.state == ClaimState::Held => Open::Held(held),
            (_, Some(first)) if now_ms < offer_ends => Open::ToOne(first, offer_ends),
            _ => Open::ToAll,
        }
    }

    /// Returns the holder at `now_ms`.
    pub fn holder(self, now_ms: i64) -> Option<Principal> {
        match self.open(now_ms) {
            Open::Held(held) => Some(held.holder),
            Open::ToOne(..) | Open::ToAll => None,
        }
    }

    /// Returns the time at which the claim or the offer ends without a request.
    pub fn next_change(self, now_ms: i64) -> Option<i64> {
        match self.open(now_ms) {
            Open::Held(held) => Some(held.until_ms),
            Open::ToOne(_, until_ms) => Some(until_ms),
            Open::ToAll => None,
        }
    }

    /// Returns the claim after the work was stopped: nobody holds it, and it is offered to nobody.
    pub fn stopped(self, now_ms: i64) -> Self {
        let now = self.at(now_ms);
        let release = |held: Held| match held.state {
            ClaimState::Held => Held { until_ms: now_ms, state: ClaimState::Released, ..held },
            ClaimState::Released | ClaimState::Resolved | ClaimState::Expired => held,
        };
        Self { first: None, held: now.held.map(release), ..now }
    }

    /// Returns the refusal for an agent that wants a claim which another has resolved. A person is not
    /// refused: taking a resolved claim asks the question again.
    fn settled_for(self, who: Principal) -> Option<Refusal> {
        let settled = self.held.filter(|held| held.state == ClaimState::Resolved && held.holder != who)?;
        who.agent().map(|_| Refusal::ResolvedByOther { holder: settled.holder })
    }

    /// Returns the claim after a request, or the reason for a refusal.
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
            // An agent that released the claim is not asked first again.
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

/// Returns `true` if `who` must wait for the offer to `first` to end. People never wait.
fn waits_for(first: AgentId, who: Principal) -> bool {
    who.agent().is_some_and(|agent| agent != first)
}

fn open_to(open: Open, who: Principal) -> bool {
    matches!(open, Open::ToOne(first, _) if who == first.into())
}

/// An agent that could answer an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Responder<'a> {
    pub agent: AgentId,
    pub address: &'a str,
    /// The number of events that the agent has claimed or must answer.
    pub load: u32,
    /// The time of the agent's last activity.
    pub active_at_ms: i64,
}

impl Responder<'_> {
    /// Orders responders for an offer: the least loaded first, then the longest idle, then by address.
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |responder: &Self| (responder.load, responder.active_at_ms);
        key(self).cmp(&key(other)).then_with(|| self.address.cmp(other.address))
    }
}

/// Returns the agent that is offered the claim first. This is linear: the others are offered it together and
/// need no order.
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
        // An agent that declines does not keep the others waiting.
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
        // The claim goes back to the agent that it was offered to.
        let back = claim.apply(10, person(), Request::Release).unwrap();
        assert_eq!(back.open(10), Open::ToOne(id(1), 30_010));
        assert_eq!(claim.open(300_005), Open::ToOne(id(1), 330_005));
        // A person cannot take a claim that an agent holds.
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
        // A claim that another agent releases is offered to the first agent again.
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
        /// Checks that no two agents ever believe that they hold the claim, given the answers that each got.
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
