//! Checks that an agent may reply to an event, by the event's policy and by its claim.
//!
//! Reactions are not checked here, because they are not chat; see [`crate::disposition`]. Rate limits and
//! messages that are not replies are not checked here either.

use crate::claims::{self, Claim, Request};
use crate::disposition::PolicyForbidden;
use chorus_protocol::ids::Principal;
use chorus_protocol::words::Policy;
use std::fmt;

/// The longest reply to a courtesy, in characters.
pub const LONGEST_RECEIPT: usize = 200;

/// A reply to an event.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The policy of the event for the author of the reply.
    pub policy: Policy,
    /// The event names the author of the reply by handle, or is a direct message to it.
    pub named: bool,
    /// The event names a role of the author of the reply, so that a reply needs the claim.
    pub needs_claim: bool,
    /// The claim on the event or its thread, if there is one.
    pub claim: Option<Claim>,
    /// Another agent or person has dealt with the event.
    pub answered: bool,
    pub text: &'a str,
    /// The reply mentions somebody.
    pub mentions: bool,
}

/// The reason why a reply is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The policy allows no reply.
    Policy(PolicyForbidden),
    /// The reply to a courtesy is longer than [`LONGEST_RECEIPT`].
    TooLong,
    /// The reply to a courtesy mentions somebody, and would create a new obligation.
    Mentions,
    /// Another member of the role has dealt with the event.
    Answered,
    /// The event is claimed by or offered to another.
    Claim(claims::Refusal),
}

impl Refusal {
    /// Returns the stable error code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Policy(_) | Self::TooLong | Self::Mentions | Self::Answered => PolicyForbidden::CODE,
            Self::Claim(refusal) => refusal.code(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(refusal) => refusal.fmt(f),
            Self::TooLong => write!(
                f,
                "the response policy of this event is ack_only: a receipt has {LONGEST_RECEIPT} characters at most"
            ),
            Self::Mentions => {
                f.write_str("the response policy of this event is ack_only: a receipt mentions nobody")
            }
            Self::Answered => f.write_str("another has answered this already; leave it at that"),
            Self::Claim(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks that `who` may reply. Returns the claim that the reply makes, if it makes one.
pub fn check(now_ms: i64, who: Principal, reply: &Reply<'_>) -> Result<Option<Claim>, Refusal> {
    match reply.policy {
        Policy::MustNotRespond => return Err(Refusal::Policy(PolicyForbidden { policy: reply.policy })),
        Policy::AckOnly if reply.mentions => return Err(Refusal::Mentions),
        Policy::AckOnly if reply.text.chars().nth(LONGEST_RECEIPT).is_some() => {
            return Err(Refusal::TooLong);
        }
        Policy::AckOnly | Policy::MayRespond | Policy::MustRespond => {}
    }
    if reply.named {
        return Ok(None);
    }
    if reply.needs_claim && reply.answered {
        return Err(Refusal::Answered);
    }
    let Some(claim) = reply.claim else {
        let first = Claim::offered(None, now_ms);
        let made = reply.needs_claim.then(|| first.apply(now_ms, who, Request::Take { ttl_ms: None }));
        return made.transpose().map_err(Refusal::Claim);
    };
    if claim.holder(now_ms) == Some(who) {
        return Ok(None);
    }
    // An agent that may not take the claim may not reply, even if the reply needs no claim.
    let made = claim.apply(now_ms, who, Request::Take { ttl_ms: None }).map_err(Refusal::Claim)?;
    Ok(reply.needs_claim.then_some(made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;
    use proptest::prelude::*;

    fn id(number: u8) -> AgentId {
        AgentId::from_slice(&[number; 16]).unwrap()
    }

    fn agent(number: u8) -> Principal {
        id(number).into()
    }

    fn reply(policy: Policy) -> Reply<'static> {
        Reply {
            policy,
            named: false,
            needs_claim: false,
            claim: None,
            answered: false,
            text: "done",
            mentions: false,
        }
    }

    fn code(reply: &Reply<'_>) -> &'static str {
        check(0, agent(1), reply).map_or_else(Refusal::code, |claim| claim.map_or("ok", |_| "claims"))
    }

    /// Checks the specification's table of policies.
    #[test]
    fn policies() {
        let long = "a".repeat(201);
        let receipt = "ä".repeat(200);
        for (policy, text, mentions, expected) in [
            (Policy::MustRespond, long.as_str(), true, "ok"),
            (Policy::MayRespond, long.as_str(), true, "ok"),
            (Policy::AckOnly, receipt.as_str(), false, "ok"),
            (Policy::AckOnly, long.as_str(), false, "policy_forbidden"),
            (Policy::AckOnly, "thanks @bob", true, "policy_forbidden"),
            (Policy::MustNotRespond, "ok", false, "policy_forbidden"),
        ] {
            assert_eq!(code(&Reply { text, mentions, ..reply(policy) }), expected, "{policy} {mentions}");
        }
    }

    #[test]
    fn claims() {
        let take = Request::Take { ttl_ms: None };
        let mine = Claim::offered(None, 0).apply(0, agent(1), take).unwrap();
        let anothers = Claim::offered(None, 0).apply(0, agent(2), take).unwrap();
        let offered_to_me = Claim::offered(Some(id(1)), 0);
        let offered_to_another = Claim::offered(Some(id(2)), 0);
        for (needs_claim, claim, unnamed, named) in [
            (true, None, "claims", "ok"),
            (false, None, "ok", "ok"),
            (true, Some(mine), "ok", "ok"),
            (true, Some(anothers), "claimed_by_other", "ok"),
            (false, Some(anothers), "claimed_by_other", "ok"),
            (true, Some(offered_to_me), "claims", "ok"),
            (true, Some(offered_to_another), "offered_to_other", "ok"),
        ] {
            let reply = Reply { needs_claim, claim, ..reply(Policy::MayRespond) };
            assert_eq!(code(&reply), unnamed, "{claim:?}");
            assert_eq!(code(&Reply { named: true, ..reply }), named, "{claim:?}");
        }
    }

    #[test]
    fn a_role_is_answered_once() {
        let answered = Reply { needs_claim: true, answered: true, ..reply(Policy::MayRespond) };
        assert_eq!(code(&answered), "policy_forbidden");
        assert_eq!(code(&Reply { named: true, ..answered }), "ok");
        assert_eq!(code(&Reply { needs_claim: false, ..answered }), "ok");
    }

    proptest! {
        #[test]
        fn what_is_forbidden_is_never_sent(text in any::<String>(), named: bool, needs_claim: bool, mentions: bool) {
            let forbidden = reply(Policy::MustNotRespond);
            let forbidden = Reply { named, needs_claim, text: &text, mentions, ..forbidden };
            prop_assert_eq!(code(&forbidden), "policy_forbidden");
            // Only one of two members of a role can answer the same mention.
            let first = Reply { policy: Policy::MayRespond, named: false, needs_claim: true, ..forbidden };
            let claim = check(0, agent(1), &first).unwrap();
            prop_assert!(claim.is_some());
            let second = Reply { claim, ..first };
            prop_assert!(check(1, agent(2), &second).is_err());
        }
    }
}
