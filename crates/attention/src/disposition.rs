//! Dispositions: maps each cause to the disposition that it leads to under a policy.
//!
//! One function handles every cause for a delivered event, through every interface. Nothing is inferred from
//! prose: a reply, a reaction, a notice, a tool call and silence each have one meaning. Time and edits never
//! change a final disposition. The agent itself may change it until it has responded. [`crate::deadline`]
//! handles events without any cause.

use chorus_protocol::words::{Disposition, Policy, Signal};
use std::fmt;

/// The cause of a change to an event that an agent was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The harness acknowledged the event.
    Acked,
    /// The agent replied, through any interface.
    Replied,
    /// The agent reacted with this signal.
    Reacted(Signal),
    /// The harness reported a disposition.
    Noticed(Disposition),
    /// The agent ended its turn without a reply.
    KeptSilent,
    /// The agent called the claim tool.
    Claimed,
    /// The agent's claim was released or expired.
    ClaimEnded,
    /// The agent called the defer tool.
    Deferred,
    /// The time of a deferral is over.
    DeferralEnded,
    /// The agent called the resolve tool.
    Resolved,
    /// The message was edited. The edit is an event of its own.
    Edited,
    /// The message was deleted.
    Deleted,
    /// The event was merged into the turn of a later message.
    Merged,
    /// Somebody with the authority to do so stopped the work.
    Stopped,
    /// The deadline has passed, and nobody waits for an answer any more.
    TimedOut,
    /// The event could not be delivered to the agent, or the agent failed to process it.
    Failed,
}

/// The error for a disposition that the policy does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyForbidden {
    pub policy: Policy,
}

impl PolicyForbidden {
    /// The stable error code.
    pub const CODE: &'static str = "policy_forbidden";
}

impl fmt::Display for PolicyForbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response policy of this event is {}; react, or leave it", self.policy)
    }
}

impl std::error::Error for PolicyForbidden {}

/// Returns the disposition that a reaction gives to its event. A reaction that says the event is unclear
/// leaves it open.
pub fn of_signal(signal: Signal) -> Option<Disposition> {
    match signal {
        Signal::Seen | Signal::Agree => Some(Disposition::Acknowledged),
        Signal::Working | Signal::Claimed => Some(Disposition::Claimed),
        Signal::Queued | Signal::Blocked => Some(Disposition::Deferred),
        Signal::Done => Some(Disposition::Responded),
        Signal::Declined => Some(Disposition::Ignored),
        // A stop says nothing of what the one that reacts does itself.
        Signal::Unclear | Signal::Stop => None,
    }
}

/// Returns `true` if the event needs no further handling.
pub fn is_final(disposition: Disposition) -> bool {
    match disposition {
        Disposition::Responded
        | Disposition::Acknowledged
        | Disposition::Ignored
        | Disposition::Superseded
        | Disposition::Failed => true,
        Disposition::Deferred | Disposition::Claimed => false,
    }
}

/// Returns `true` if a policy allows a disposition. An event that must be answered can be declined explicitly,
/// but not ignored silently.
pub fn is_legal(policy: Policy, disposition: Disposition) -> bool {
    use Disposition::{Acknowledged, Failed, Ignored, Superseded};
    match policy {
        Policy::MustRespond | Policy::MayRespond => true,
        Policy::AckOnly => matches!(disposition, Acknowledged | Ignored | Superseded | Failed),
        Policy::MustNotRespond => matches!(disposition, Ignored | Superseded),
    }
}

/// Returns the disposition after a cause. `None` means that the event is open.
pub fn next(
    policy: Policy,
    current: Option<Disposition>,
    cause: Cause,
) -> Result<Option<Disposition>, PolicyForbidden> {
    let wanted = wanted(policy, current, cause)?;
    let own_act = matches!(
        cause,
        Cause::Replied
            | Cause::Reacted(_)
            | Cause::Noticed(_)
            | Cause::Claimed
            | Cause::Deferred
            | Cause::Resolved
    );
    Ok(match current {
        // These dispositions never change.
        Some(Disposition::Responded | Disposition::Superseded) => current,
        Some(known) if is_final(known) && !own_act => current,
        _ => wanted,
    })
}

/// Returns the disposition that a cause leads to if no final disposition prevents it.
fn wanted(
    policy: Policy,
    current: Option<Disposition>,
    cause: Cause,
) -> Result<Option<Disposition>, PolicyForbidden> {
    let disposition = match cause {
        Cause::Acked if policy != Policy::MustNotRespond => return Ok(current),
        // An agent that is silent after a claim or a deferral still works on the event.
        Cause::KeptSilent if current.is_some() => return Ok(current),
        Cause::KeptSilent | Cause::TimedOut | Cause::Noticed(Disposition::Ignored)
            if policy == Policy::MustRespond =>
        {
            return Ok(current);
        }
        Cause::ClaimEnded => return Ok(current.filter(|known| *known != Disposition::Claimed)),
        Cause::DeferralEnded => return Ok(current.filter(|known| *known != Disposition::Deferred)),
        Cause::Reacted(signal) => match of_signal(signal) {
            Some(disposition) => disposition,
            None => return Ok(current),
        },
        Cause::Noticed(disposition) => disposition,
        Cause::Acked | Cause::KeptSilent | Cause::TimedOut => Disposition::Ignored,
        Cause::Replied | Cause::Resolved => Disposition::Responded,
        Cause::Claimed => Disposition::Claimed,
        Cause::Deferred => Disposition::Deferred,
        Cause::Edited | Cause::Deleted | Cause::Merged | Cause::Stopped => Disposition::Superseded,
        Cause::Failed => Disposition::Failed,
    };
    if is_legal(policy, disposition) {
        return Ok(Some(disposition));
    }
    match (policy, cause) {
        // A reply to a courtesy counts as an acknowledgement.
        (Policy::AckOnly, _) => Ok(Some(Disposition::Acknowledged)),
        // A reaction is no chat, and what failed to be overlooked was not needed.
        (
            _,
            Cause::Reacted(_)
            | Cause::Failed
            | Cause::Noticed(Disposition::Failed | Disposition::Acknowledged),
        ) => Ok(Some(Disposition::Ignored)),
        _ => Err(PolicyForbidden { policy }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the specification's table of signals.
    #[test]
    fn signals() {
        for (signal, disposition) in [
            ("seen", "acknowledged"),
            ("agree", "acknowledged"),
            ("working", "claimed"),
            ("queued", "deferred"),
            ("claimed", "claimed"),
            ("done", "responded"),
            ("declined", "ignored"),
            ("blocked", "deferred"),
            ("unclear", "-"),
            ("stop", "-"),
        ] {
            let found = of_signal(Signal::parse(signal).unwrap());
            assert_eq!(found.map_or("-", Disposition::as_str), disposition, "{signal}");
        }
    }

    /// Checks the specification's table of dispositions and their causes.
    #[test]
    fn dispositions() {
        use Policy::{AckOnly, MayRespond, MustNotRespond, MustRespond};
        let rows = [
            (MustRespond, Cause::Replied, "responded"),
            (MustRespond, Cause::Resolved, "responded"),
            (MustRespond, Cause::Reacted(Signal::Done), "responded"),
            (MustRespond, Cause::Reacted(Signal::Agree), "acknowledged"),
            (AckOnly, Cause::Replied, "acknowledged"),
            (AckOnly, Cause::Reacted(Signal::Working), "acknowledged"),
            (MustRespond, Cause::Deferred, "deferred"),
            (MustRespond, Cause::Reacted(Signal::Queued), "deferred"),
            (MayRespond, Cause::Claimed, "claimed"),
            (MustRespond, Cause::Reacted(Signal::Working), "claimed"),
            (MustNotRespond, Cause::Acked, "ignored"),
            (MustNotRespond, Cause::Reacted(Signal::Seen), "ignored"),
            (MayRespond, Cause::KeptSilent, "ignored"),
            (AckOnly, Cause::KeptSilent, "ignored"),
            (AckOnly, Cause::TimedOut, "ignored"),
            (MustRespond, Cause::Reacted(Signal::Declined), "ignored"),
            (MustRespond, Cause::Edited, "superseded"),
            (MustNotRespond, Cause::Deleted, "superseded"),
            (MustRespond, Cause::Merged, "superseded"),
            (MustRespond, Cause::Failed, "failed"),
            // Causes that leave the event open.
            (MustRespond, Cause::Acked, "-"),
            (MustRespond, Cause::KeptSilent, "-"),
            (MustRespond, Cause::TimedOut, "-"),
            (MustRespond, Cause::Noticed(Disposition::Ignored), "-"),
            (MustRespond, Cause::Reacted(Signal::Unclear), "-"),
            (AckOnly, Cause::Acked, "-"),
            (MayRespond, Cause::Acked, "-"),
        ];
        for (policy, cause, expected) in rows {
            let found = next(policy, None, cause).unwrap();
            assert_eq!(found.map_or("-", Disposition::as_str), expected, "{policy} {cause:?}");
        }
        for cause in [Cause::Replied, Cause::Claimed, Cause::Deferred, Cause::Resolved] {
            let refused = next(MustNotRespond, None, cause).unwrap_err();
            assert_eq!(refused, PolicyForbidden { policy: MustNotRespond });
        }
    }

    #[test]
    fn one_after_the_other() {
        use Disposition::{Acknowledged, Claimed, Deferred, Failed, Ignored, Responded, Superseded};
        let rows = [
            (Some(Acknowledged), Cause::Reacted(Signal::Working), Some(Claimed)),
            (Some(Claimed), Cause::Reacted(Signal::Done), Some(Responded)),
            (Some(Claimed), Cause::ClaimEnded, None),
            (Some(Deferred), Cause::DeferralEnded, None),
            (Some(Deferred), Cause::ClaimEnded, Some(Deferred)),
            (Some(Deferred), Cause::Replied, Some(Responded)),
            (Some(Deferred), Cause::KeptSilent, Some(Deferred)),
            (Some(Claimed), Cause::Reacted(Signal::Declined), Some(Ignored)),
            (Some(Claimed), Cause::Edited, Some(Superseded)),
            (Some(Ignored), Cause::Replied, Some(Responded)),
            (Some(Failed), Cause::Replied, Some(Responded)),
            // Time does not change a final disposition.
            (Some(Acknowledged), Cause::TimedOut, Some(Acknowledged)),
            (Some(Acknowledged), Cause::Edited, Some(Acknowledged)),
            (Some(Ignored), Cause::Failed, Some(Ignored)),
            (Some(Responded), Cause::Reacted(Signal::Declined), Some(Responded)),
            (Some(Responded), Cause::Deleted, Some(Responded)),
            (Some(Superseded), Cause::Replied, Some(Superseded)),
        ];
        for (current, cause, expected) in rows {
            assert_eq!(next(Policy::MustRespond, current, cause), Ok(expected), "{current:?} {cause:?}");
        }
    }

    fn any_cause() -> impl Strategy<Value = Cause> {
        prop_oneof![
            prop::sample::select(Signal::ALL).prop_map(Cause::Reacted),
            prop::sample::select(Disposition::ALL).prop_map(Cause::Noticed),
            prop::sample::select(vec![
                Cause::Acked,
                Cause::Replied,
                Cause::KeptSilent,
                Cause::Claimed,
                Cause::ClaimEnded,
                Cause::Deferred,
                Cause::DeferralEnded,
                Cause::Resolved,
                Cause::Edited,
                Cause::Deleted,
                Cause::Merged,
                Cause::TimedOut,
                Cause::Failed,
            ]),
        ]
    }

    proptest! {
        #[test]
        fn only_what_the_policy_allows(
            policy in prop::sample::select(Policy::ALL),
            causes in prop::collection::vec(any_cause(), 0..20),
        ) {
            let mut current = None;
            for cause in causes {
                let Ok(following) = next(policy, current, cause) else { continue };
                prop_assert!(following.is_none_or(|disposition| is_legal(policy, disposition)));
                if matches!(current, Some(Disposition::Responded | Disposition::Superseded)) {
                    prop_assert_eq!(following, current);
                }
                // Only the agent itself can change a final disposition.
                let passive = matches!(cause, Cause::TimedOut | Cause::Edited | Cause::Deleted | Cause::Acked);
                if current.is_some_and(is_final) && passive {
                    prop_assert_eq!(following, current);
                }
                current = following;
            }
        }

        #[test]
        fn nobody_overlooks_what_must_be_answered(current in prop::option::of(Just(Disposition::Claimed))) {
            for cause in [Cause::Acked, Cause::KeptSilent, Cause::TimedOut, Cause::Noticed(Disposition::Ignored)] {
                prop_assert_eq!(next(Policy::MustRespond, current, cause), Ok(current));
            }
        }
    }
}
