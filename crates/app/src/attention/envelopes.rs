//! Attention for relay envelopes and for posts of other services.
//!
//! The rules are those of direct messages, but an envelope always arrives: a mode that only stores the event
//! is replaced by one that shows it. Neither a relay send nor an acknowledgement stores an obligation, because
//! the position of the inbox tells how far the agent has read. The obligation is stored once the agent reports
//! more: that the envelope is in a turn, or its disposition. From then on it is an obligation like any other,
//! except that it is never escalated: only its sender waits for it. An envelope without such a report counts
//! as ignored after its deadline. No row records that, because nobody is notified of it.

use chorus_attention::capabilities::{Abilities, Capabilities};
use chorus_attention::deadline::{Pending, Stage, Step, given_up};
use chorus_attention::outbound::{self, Reply};
use chorus_attention::{AuthorKind, Event, classify};
use chorus_node::{Error, Refused};
use chorus_protocol::attention::Attention;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::relay::EnvelopeText;
use chorus_protocol::words::{ConversationKind, Disposition, EventKind, Mode, Policy, Reason};
use chorus_store::attention::abilities;
use chorus_store::conversations::{self, Event as Envelope};
use chorus_store::deliveries::{Bringing, Chat};
use chorus_store::obligations::{self, Obligation, Unkept};
use chorus_store::{StoreError, Tx, inboxes, sent};
use serde_json::Value;

/// The longest wait of an envelope whose deadline counts from its creation. The deadline of an older envelope
/// counts from its arrival at the agent.
const FRESH_MS: i64 = 30_000;

/// Returns the attention of an envelope for a harness with the capabilities `shows`. An envelope at the end of
/// too long a chain of answers must not be answered.
pub fn meaning(envelope: &EnvelopeText, shows: Capabilities) -> Attention {
    let text = envelope.original_text.as_deref().unwrap_or_default();
    let decided = meaning_of_direct(AuthorKind::Agent, text, shows);
    if envelope.is_too_deep() {
        return Attention { policy: Policy::MustNotRespond, reason: Reason::LoopGuard, ..decided };
    }
    decided
}

/// Returns the attention of a post by another service. Its protocol does not tell people from agents, so the
/// author counts as a person.
pub fn meaning_of_post(text: &str, shows: Capabilities) -> Attention {
    meaning_of_direct(AuthorKind::Human, text, shows)
}

/// Returns the attention of a post for the agent's current session. An agent that does not speak C2A answers
/// outside the hub, so its events have no deadline.
pub fn meaning_of_post_for(
    tx: &mut dyn Tx,
    text: &str,
    agent: AgentId,
    now: i64,
) -> Result<Attention, StoreError> {
    let agreed = inboxes::shows(tx, agent, now)?;
    let decided = meaning_of_post(text, Abilities::of_words(agreed.as_deref()).shows);
    Ok(Attention { deadline_ms: decided.deadline_ms.filter(|_| agreed.is_some()), ..decided })
}

/// Returns the attention of a direct message to an agent.
fn meaning_of_direct(author: AuthorKind, text: &str, shows: Capabilities) -> Attention {
    let event = Event { author, conversation: ConversationKind::Dm, text, ..Event::default() };
    let decided = chorus_attention::decide(&classify(event), &chorus_attention::Recipient::default());
    // A knock would withhold a text that is meant for this agent alone.
    let mode = if decided.mode == Mode::Immediate { Mode::Immediate } else { Mode::Buffered };
    let mode = match shows.fall_back(mode) {
        Mode::Buffered => Mode::Buffered,
        _ => Mode::Immediate,
    };
    Attention { mode, ..decided }
}

/// Returns the attention of an envelope for the agent's current session.
pub fn meaning_for(
    tx: &mut dyn Tx,
    envelope: &Envelope,
    agent: AgentId,
    now: i64,
) -> Result<Attention, StoreError> {
    let shows = abilities(tx, agent, now)?.shows;
    Ok(meaning(&EnvelopeText::read(&envelope.body), shows))
}

/// Returns the current attention of an envelope without a stored obligation, and its final disposition with
/// its time. Both follow from the time alone, and equal the result of storing each step.
pub fn stands(
    attention: Attention,
    stored_at: i64,
    acked: bool,
    now: i64,
) -> (Attention, Option<(Disposition, i64)>) {
    let mut pending = Pending {
        policy: attention.policy,
        since_ms: stored_at,
        deadline_ms: attention.deadline_ms,
        attempt: 1,
        sent_at_ms: stored_at,
        acked,
        connected: false,
        stage: Stage::InTime,
        disposition: None,
        until_ms: stored_at,
    };
    let mut attention = attention;
    while let Some((step, at)) = pending.next_step().filter(|(_, at)| *at <= now) {
        match step {
            Step::End(disposition) => return (attention, Some((disposition, at))),
            Step::Escalate => attention = given_up(attention),
            Step::Redeliver | Step::Remind | Step::Reopen => {}
        }
        pending = pending.after(step, at);
    }
    (attention, None)
}

/// Returns the original text of an envelope.
pub fn text(body: &str) -> String {
    let envelope: Value = serde_json::from_str(body).unwrap_or_default();
    envelope["original_text"].as_str().unwrap_or_default().to_owned()
}

/// Returns `true` if the event is an envelope to the agent.
pub fn is_to(event: &Envelope, agent: AgentId) -> bool {
    match (event.kind, event.author) {
        (EventKind::Envelope, Principal::Agent(sender)) => {
            sender != agent && event.conversation == ConversationId::of_pair(sender, agent)
        }
        _ => false,
    }
}

/// Stores and returns the obligation for an envelope that was delivered to an agent. Returns `None` if the
/// event is not an envelope to this agent.
pub fn take_in(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    now: i64,
) -> Result<Option<Obligation>, StoreError> {
    let Some(envelope) = conversations::event_by_id(tx, event)?.filter(|event| is_to(event, agent)) else {
        return Ok(None);
    };
    let Some((id, stored_at)) = sent::delivery_of(tx, &envelope, agent)? else { return Ok(None) };
    let shows = abilities(tx, agent, now)?.shows;
    keep(tx, (&envelope, Unkept { id, event, stored_at }), shows, now)?;
    // An agent that reports on an envelope has received it.
    obligations::ack(tx, agent, &[id.seq], now)?;
    obligations::of(tx, event, agent, now)
}

/// Stores the obligations for envelopes that were delivered to an agent.
pub fn take_in_all(tx: &mut dyn Tx, agent: AgentId, brought: &[Unkept], now: i64) -> Result<(), StoreError> {
    if brought.is_empty() {
        return Ok(());
    }
    let shows = abilities(tx, agent, now)?.shows;
    for unkept in brought {
        if let Some(envelope) =
            conversations::event_by_id(tx, unkept.event)?.filter(|event| is_to(event, agent))
        {
            keep(tx, (&envelope, *unkept), shows, now)?;
        }
    }
    Ok(())
}

fn keep(
    tx: &mut dyn Tx,
    (envelope, Unkept { id, event, stored_at }): (&Envelope, Unkept),
    shows: Capabilities,
    now: i64,
) -> Result<(), StoreError> {
    let attention = meaning(&EnvelopeText::read(&envelope.body), shows);
    let waited = Some(now - stored_at).filter(|waited| *waited > FRESH_MS).unwrap_or(0);
    let deadline_ms = attention.deadline_ms.map(|deadline| deadline + waited);
    let attention = Attention { deadline_ms, ..attention };
    let chat = Chat {
        conversation: envelope.conversation,
        attention,
        push: None,
        bringing: Bringing::FIRST,
        next_at: Some(stored_at + deadline_ms.unwrap_or(0)),
    };
    obligations::keep(tx, id, event, &chat, stored_at)
}

/// Checks that an agent may answer an envelope or a post of another service, by the rules for every reply.
pub fn check_answer(
    tx: &mut dyn Tx,
    envelope: &Envelope,
    agent: AgentId,
    text: &str,
    now: i64,
) -> Result<(), Error> {
    let known = match obligations::of(tx, envelope.id, agent, now)? {
        Some(known) => Some(known),
        None => take_in(tx, envelope.id, agent, now)?,
    };
    let policy = known.map_or(Policy::MayRespond, |known| known.attention.policy);
    let reply = Reply {
        policy,
        named: true,
        needs_claim: false,
        claim: None,
        answered: false,
        text,
        mentions: false,
    };
    let refused = |refusal| Error::new(Code::PolicyForbidden, refusal).refused(Refused::Policy);
    outbound::check(now, agent.into(), &reply).map(drop).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::relay::MAX_REPLY_DEPTH;
    use chorus_protocol::words::Directedness;

    fn saying(text: &str) -> EnvelopeText {
        EnvelopeText { original_text: Some(text.to_owned()), ..EnvelopeText::default() }
    }

    #[test]
    fn an_envelope_is_a_message_of_two_that_always_arrives() {
        let all = Capabilities::default();
        for (text, policy, reason, mode) in [
            ("Coffee?", Policy::MustRespond, Reason::DirectMessage, Mode::Buffered),
            ("Please look at the build.", Policy::MustRespond, Reason::DirectMessage, Mode::Buffered),
            ("Thanks!", Policy::AckOnly, Reason::Thanks, Mode::Buffered),
            ("Stop, that is the wrong database!", Policy::MustRespond, Reason::DirectMessage, Mode::Buffered),
        ] {
            let decided = meaning(&saying(text), all);
            assert_eq!((decided.policy, decided.reason, decided.mode), (policy, reason, mode), "{text}");
            assert_eq!((decided.directedness, decided.deadline_ms), (Directedness::ToMe, Some(300_000)));
        }
        let only = |buffered| Capabilities { buffered, immediate: !buffered, notify: true, ..all };
        assert_eq!(meaning(&saying("Coffee?"), only(false)).mode, Mode::Immediate);
        assert_eq!(meaning(&saying("Coffee?"), only(true)).mode, Mode::Buffered);
    }

    #[test]
    fn an_answer_to_many_answers_is_not_answered() {
        for (depth, policy) in [
            (0, Policy::MustRespond),
            (MAX_REPLY_DEPTH - 1, Policy::MustRespond),
            (MAX_REPLY_DEPTH, Policy::MustNotRespond),
            (u64::MAX, Policy::MustNotRespond),
        ] {
            let envelope = EnvelopeText { reply_depth: Some(depth), ..saying("Coffee?") };
            assert_eq!(meaning(&envelope, Capabilities::default()).policy, policy, "{depth}");
        }
    }

    #[test]
    fn what_nobody_speaks_of_ends_by_time() {
        let all = Capabilities::default();
        let minute = 60_000;
        for (text, acked, minutes, policy, end) in [
            ("Coffee?", true, 4, Policy::MustRespond, None),
            ("Coffee?", true, 10, Policy::MayRespond, None),
            ("Coffee?", true, 15, Policy::MayRespond, Some(Disposition::Ignored)),
            ("Coffee?", false, 15, Policy::MayRespond, None),
            ("Coffee?", false, 24 * 60, Policy::MayRespond, Some(Disposition::Failed)),
            ("Thanks!", true, 4, Policy::AckOnly, None),
            ("Thanks!", true, 5, Policy::AckOnly, Some(Disposition::Ignored)),
            ("Status: all green", true, 0, Policy::MustNotRespond, Some(Disposition::Ignored)),
        ] {
            let (attention, found) = stands(meaning(&saying(text), all), 7, acked, 7 + minutes * minute);
            let found = found.map(|(disposition, _)| disposition);
            assert_eq!((attention.policy, found), (policy, end), "{text} after {minutes} minutes");
        }
    }
}
