//! What an agent made of an event: which cause leads to which disposition, under which policy.
//!
//! One function for everything that can happen to a delivered event, whatever door it came by. Nothing is read out of
//! prose: a reply, a reaction, a notice, a tool call or silence each mean one thing. What time or an edit does never
//! changes what is final; what the agent itself does later may, until it has responded. What happens when nothing
//! does is [`crate::deadline`]'s.

use chorus_protocol::words::{Disposition, Policy, Signal};
use std::fmt;

/// What happened to an event that an agent was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The harness has taken it.
    Acked,
    /// The agent said something in reply, by whatever door.
    Replied,
    /// It reacted.
    Reacted(Signal),
    /// Its harness says what became of it.
    Noticed(Disposition),
    /// It ended its turn without a word.
    KeptSilent,
    /// It claimed it with the tool.
    Claimed,
    /// Its claim was given back, or ran out.
    ClaimEnded,
    /// It deferred it with the tool.
    Deferred,
    /// It has put off what it deferred for long enough.
    DeferralEnded,
    /// It said with the tool that it is dealt with.
    Resolved,
    /// The message was changed, and the change is an event of its own.
    Edited,
    /// The message was taken back.
    Deleted,
    /// A later message took it into its turn.
    Merged,
    /// Its time is over and nobody waits for it any more.
    TimedOut,
    /// It could not be brought to the agent, or worked on.
    Failed,
}

/// The policy does not allow that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyForbidden {
    /// The policy.
    pub policy: Policy,
}

impl PolicyForbidden {
    /// A stable code.
    pub const CODE: &'static str = "policy_forbidden";
}

impl fmt::Display for PolicyForbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response policy of this event is {}; react, or leave it", self.policy)
    }
}

impl std::error::Error for PolicyForbidden {}

/// What a reaction makes of the event it is put on. Who finds it unclear has not dealt with it.
pub fn of_signal(signal: Signal) -> Option<Disposition> {
    match signal {
        Signal::Seen | Signal::Agree => Some(Disposition::Acknowledged),
        Signal::Working | Signal::Claimed => Some(Disposition::Claimed),
        Signal::Queued | Signal::Blocked => Some(Disposition::Deferred),
        Signal::Done => Some(Disposition::Responded),
        Signal::Declined => Some(Disposition::Ignored),
        Signal::Unclear => None,
    }
}

/// Whether nobody has to look at it again.
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

/// Whether an event with a policy may come to have a disposition. Ignoring what must be answered takes a word: a
/// harness may decline, it may not overlook.
pub fn is_legal(policy: Policy, disposition: Disposition) -> bool {
    use Disposition::{Acknowledged, Failed, Ignored, Superseded};
    match policy {
        Policy::MustRespond | Policy::MayRespond => true,
        Policy::AckOnly => matches!(disposition, Acknowledged | Ignored | Superseded | Failed),
        Policy::MustNotRespond => matches!(disposition, Ignored | Superseded),
    }
}

/// The disposition after something happened; `None` while the event is open.
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
        // The last word was spoken.
        Some(Disposition::Responded | Disposition::Superseded) => current,
        Some(known) if is_final(known) && !own_act => current,
        _ => wanted,
    })
}

/// What a cause leads to, if nothing that is final is in its way.
fn wanted(
    policy: Policy,
    current: Option<Disposition>,
    cause: Cause,
) -> Result<Option<Disposition>, PolicyForbidden> {
    let disposition = match cause {
        Cause::Acked if policy != Policy::MustNotRespond => return Ok(current),
        // Who is silent after it claimed or deferred something is still at it.
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
        Cause::Edited | Cause::Deleted | Cause::Merged => Disposition::Superseded,
        Cause::Failed => Disposition::Failed,
    };
    if is_legal(policy, disposition) {
        return Ok(Some(disposition));
    }
    match (policy, cause) {
        // A word to a courtesy is a courtesy.
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

    /// The document's table of signals.
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
        ] {
            let found = of_signal(Signal::parse(signal).unwrap());
            assert_eq!(found.map_or("-", Disposition::as_str), disposition, "{signal}");
        }
    }

    /// The document's table of dispositions: how each comes about.
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
            // What stays open.
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
            // What is final stays so, whatever time brings.
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
                // Once it is done with, only the agent itself brings it back.
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
