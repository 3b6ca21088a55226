//! Who is woken by what is said: delivery is not injection.
//!
//! The one seam through which every message passes. Today's rule is plain: an agent is woken when it is named, and by
//! everything in a conversation of two; nobody wakes himself, and people are never pushed to.

use chorus_protocol::words::{Directedness, Mode, Policy, Reason};
use chorus_store::conversation::{Scene, Woken};

/// What is expected of an agent that a message is delivered to.
pub struct Attention {
    /// To whom the message is directed.
    pub directedness: Directedness,
    /// What the agent is to do about it.
    pub policy: Policy,
    /// When it enters the agent's work.
    pub mode: Mode,
}

/// Whoever is woken is meant, by today's rule.
pub const WOKEN: Attention =
    Attention { directedness: Directedness::ToMe, policy: Policy::MustRespond, mode: Mode::Immediate };

/// Decides who is woken.
pub fn decide_recipients(scene: &Scene<'_>) -> Vec<Woken> {
    let named = scene.named.iter().map(|member| (member, Reason::DirectMention));
    let pair = scene.pair.iter().map(|member| (member, Reason::DirectMessage));
    let mut woken: Vec<Woken> = vec![];
    for (member, reason) in pair.chain(named) {
        let Some(agent) = member.principal.agent() else { continue };
        if member.principal != scene.author && woken.iter().all(|other| other.agent != agent) {
            woken.push(Woken { agent, handle: member.handle.clone(), reason });
        }
    }
    woken
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::{AccountId, AgentId, Principal};
    use chorus_store::conversations::ConversationKind;
    use chorus_store::members::Member;
    use uuid::Uuid;

    fn member(principal: Principal) -> Member {
        let handle = principal.to_string();
        Member { principal, handle, roles: vec![], lead: false, joined_seq: 0, joined_at: 0 }
    }

    #[test]
    fn the_plain_rule() {
        let agent = |n| Principal::Agent(AgentId(Uuid::from_u128(n)));
        let person = Principal::Account(AccountId(Uuid::from_u128(9)));
        let woken = |kind, author, named: &[Principal], pair: &[Principal]| -> Vec<(Principal, &str)> {
            let named: Vec<_> = named.iter().copied().map(member).collect();
            let pair: Vec<_> = pair.iter().copied().map(member).collect();
            let scene = Scene { kind, author, named: &named, pair: &pair };
            decide_recipients(&scene)
                .into_iter()
                .map(|woken| (woken.agent.into(), woken.reason.as_str()))
                .collect()
        };
        let (channel, dm) = (ConversationKind::Channel, ConversationKind::Dm);
        assert_eq!(woken(channel, person, &[], &[]), []);
        assert_eq!(woken(channel, person, &[agent(1)], &[]), [(agent(1), "direct_mention")]);
        assert_eq!(
            woken(channel, agent(1), &[agent(1), person, agent(2)], &[]),
            [(agent(2), "direct_mention")]
        );
        assert_eq!(woken(dm, person, &[agent(1)], &[agent(1), person]), [(agent(1), "direct_message")]);
        assert_eq!(woken(dm, agent(1), &[], &[agent(1), person]), []);
    }
}
