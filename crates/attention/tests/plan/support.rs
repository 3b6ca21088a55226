//! Default facts for the tests, and a textual form of effects.

use chorus_attention::claims::{Claim, Request};
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{Effect, Facts, PlanRefusal, plan};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, DeliveryId, EventId, Principal};
use chorus_protocol::words::{Directedness, Disposition, Mode, Policy, Priority, Reason};

/// The time of all decisions.
pub(crate) const NOW: i64 = 1_000_000;

pub(crate) fn agent(n: u8) -> AgentId {
    AgentId::from_slice(&[n; 16]).unwrap()
}

pub(crate) fn person() -> Principal {
    AccountId::from_slice(&[99; 16]).unwrap().into()
}

pub(crate) fn event(n: u8) -> EventId {
    EventId::from_slice(&[n; 16]).unwrap()
}

pub(crate) fn conversation() -> ConversationId {
    ConversationId::from_slice(&[7; 16]).unwrap()
}

pub(crate) fn attention(policy: Policy, reason: Reason) -> Attention {
    let directedness =
        if reason == Reason::DirectMention { Directedness::ToMe } else { Directedness::ToMyRole };
    Attention {
        directedness,
        policy,
        mode: Mode::Buffered,
        reason,
        priority: Priority::Normal,
        deadline_ms: Some(1_000),
    }
}

/// Returns an obligation that agent 1 was given and has acknowledged.
pub(crate) fn obligation(policy: Policy, reason: Reason) -> Obligation {
    Obligation {
        id: DeliveryId { agent: agent(1), seq: 5 },
        event: event(1),
        conversation: conversation(),
        attention: attention(policy, reason),
        sent_at: NOW - 1_000,
        sent: 1,
        mentions: "role:ops".into(),
        supersedes: None,
        acked: true,
        waits: false,
        connected: true,
        injected_at: None,
        reminded_at: None,
        escalated_at: None,
        disposition: None,
        until_at: None,
        next_at: Some(NOW),
    }
}

pub(crate) fn held_by(who: impl Into<Principal>) -> Claim {
    let take = Request::Take { ttl_ms: None };
    Claim::offered(None, NOW - 10).apply(NOW - 10, who.into(), take).unwrap()
}

/// Returns the effects of a plan as words, or its refusal.
pub(crate) fn planned(facts: &Facts<'_>) -> String {
    match plan(facts, NOW) {
        Ok(effects) => effects.iter().map(word).collect::<Vec<_>>().join(", "),
        Err(PlanRefusal::Policy(_)) => "refused: policy".into(),
        Err(PlanRefusal::Reply(refusal)) => format!("refused: {}", refusal.code()),
        Err(PlanRefusal::Claim(refusal)) => format!("refused: {}", refusal.code()),
        Err(PlanRefusal::Superseded(_)) => "refused: superseded".into(),
        Err(PlanRefusal::NotGiven) => "refused: not given".into(),
        Err(PlanRefusal::MayNotStop) => "refused: may not stop".into(),
    }
}

fn word(effect: &Effect) -> String {
    let disposition = |known: &Obligation| known.disposition.map_or("open", Disposition::as_str);
    match effect {
        Effect::Damp(_) => "damp".into(),
        Effect::Deliver { to, claimed_until, .. } => {
            let taken = if claimed_until.is_some() { " and claim" } else { "" };
            format!("deliver {}{taken}", to.attention.mode)
        }
        Effect::Store(_) => "store".into(),
        Effect::Redeliver(known) => format!("redeliver {}", disposition(known)),
        Effect::Supersede(_) => "supersede".into(),
        Effect::Dispose(known) => format!("dispose {}", disposition(known)),
        Effect::Reschedule(known) => {
            let at = known.next_at.map_or("never".into(), |at| format!("{:+}", at - NOW));
            format!("reschedule {at}")
        }
        Effect::Revise(_) => "revise".into(),
        Effect::Unschedule(_) => "unschedule".into(),
        Effect::Cancel { .. } => "cancel".into(),
        Effect::Stop { .. } => "stop".into(),
        Effect::SaveClaim { claim, next_at, .. } => {
            let state = claim.held.map_or("offered".into(), |held| held.state.to_string());
            let due = if *next_at == Some(NOW) { " now" } else { "" };
            format!("claim {state}{due}")
        }
        Effect::Escalate { .. } => "escalate".into(),
        Effect::CountTurn { with } => {
            let numbers: Vec<_> = with.iter().map(|agent| agent.0.as_bytes()[0].to_string()).collect();
            format!("count turn with {}", numbers.join(" "))
        }
        Effect::ResetTurns => "reset turns".into(),
    }
}
