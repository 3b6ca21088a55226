//! The agents that a message or an edit may concern, and the decision for each of them.

use super::Effect;
use crate::capabilities::{Abilities, Capabilities, is_delivered};
use crate::claims::{Claim, Request, Responder, first_of};
use crate::decide::{Recipient, decide};
use crate::event::{Classified, Event, classify};
use crate::loop_guard::{Exchange, Loop, Spoken, find_loop};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::{AuthorKind, Directedness, Mode, Policy, Reason};

/// The most agents that one event is delivered to. Later ones find it when they look.
const MAX_RECIPIENTS: usize = 50;

/// An agent that an event may concern, and its relation to the event. It is a present member, and not the author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub agent: AgentId,
    /// The agent's handle in the conversation.
    pub handle: String,
    /// The event mentions the agent, or is addressed to it.
    pub named: bool,
    /// The event mentions a role of the agent.
    pub in_named_role: bool,
    /// The agent began the thread.
    pub owns_thread: bool,
    /// The agent has spoken in the thread, within the loaded history.
    pub participates: bool,
    /// The agent last spoke or was asked in the thread. Several agents that were asked together all count as
    /// last.
    pub last_in_thread: bool,
    /// The agent wrote the message that the event changes, reacts to, or answers in a thread.
    pub said_target: bool,
    /// The agent owns the work stream that the event belongs to.
    pub owns_stream: bool,
    pub abilities: Abilities,
    /// The event stops work of the agent.
    pub is_stopped: bool,
    /// The agent was deleted or blocks the author, so nothing is delivered to it.
    pub is_excluded: bool,
    /// Loaded for agents that [`first_to_ask`] names.
    pub responder: Option<ResponderFacts>,
}

impl Candidate {
    /// Returns a candidate that has nothing to do with the event yet.
    pub fn new(agent: AgentId, handle: String) -> Self {
        Self {
            agent,
            handle,
            named: false,
            in_named_role: false,
            owns_thread: false,
            participates: false,
            last_in_thread: false,
            said_target: false,
            owns_stream: false,
            abilities: Abilities::WITHOUT_KNOCKS,
            is_stopped: false,
            is_excluded: false,
            responder: None,
        }
    }

    fn is_asked_by_role(&self) -> bool {
        self.in_named_role && !self.named
    }
}

/// The facts about an agent that could answer an event for several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponderFacts {
    pub address: String,
    /// The agent can be reached, and is neither disabled nor paused.
    pub is_available: bool,
    /// The number of events that the agent has claimed or must answer.
    pub load: u32,
    /// The time at which the agent was last given an event.
    pub active_at_ms: i64,
}

/// An agent that an event is delivered to or stored for, and the event's attention for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecipient {
    pub agent: AgentId,
    pub handle: String,
    pub attention: Attention,
}

/// The facts that the loop guard needs if an agent wakes others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExchangeFacts {
    /// The exchanges with the agents that the event would wake.
    pub partners: Vec<ExchangePartner>,
    /// The last messages, each with `true` if a person wrote it, and its text.
    pub recent: Vec<(bool, String)>,
    /// The allowed turns; `None` if the guard is off.
    pub limit: Option<u32>,
}

/// An agent that the author of an event wakes, and their exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangePartner {
    pub agent: AgentId,
    /// The messages by which one of the two woke the other since a person spoke.
    pub turns: u32,
    /// See [`Exchange::on_task`].
    pub on_task: bool,
}

impl ExchangeFacts {
    /// Returns the loop that a text continues in the exchange with one agent.
    pub fn find_loop(&self, text: &str, with: &ExchangePartner) -> Option<Loop> {
        let spoken = self.recent.iter().map(|(by_person, text)| Spoken { by_person: *by_person, text });
        let recent: Vec<_> = spoken.collect();
        let exchange = Exchange { turns: with.turns, recent: &recent, on_task: with.on_task };
        find_loop(text, &exchange, self.limit)
    }

    /// Returns the loops that a text continues, each with the agent that it wakes no more.
    fn find_loops(&self, text: &str) -> Vec<(AgentId, Loop)> {
        let found = |with: &ExchangePartner| Some((with.agent, self.find_loop(text, with)?));
        self.partners.iter().filter_map(found).collect()
    }
}

/// A message or an edit, and the agents that it may concern.
#[derive(Debug)]
pub struct Audience<'a> {
    pub event: Event<'a>,
    pub conversation: ConversationId,
    /// The event that agents are given: the message itself, also after an edit.
    pub given: EventId,
    pub author: Principal,
    pub thread: Option<EventId>,
    /// The members and roles that the event names, as `agent:bob role:ops`.
    pub mentions: String,
    pub candidates: Vec<Candidate>,
    /// The claim on the message that began the thread.
    pub thread_claim: Option<Claim>,
    /// Loaded if the author is an agent that wakes another.
    pub exchange: Option<ExchangeFacts>,
}

/// The effects on an audience.
pub(super) struct Reach {
    pub(super) effects: Vec<Effect>,
    /// The agents that the event does not wake, because that would continue a loop.
    pub(super) damped: Vec<AgentId>,
}

impl Audience<'_> {
    /// Returns the agent or person that holds the claim on the thread. A person who holds it and goes on with it speaks to
    /// everyone who takes part.
    pub(super) fn holder(&self, claim: Option<&Claim>, now: i64) -> Option<Principal> {
        let holder = claim.and_then(|claim| claim.holder(now));
        holder.filter(|holder| holder.agent().is_some() || *holder != self.author)
    }

    /// Returns the agents that an agent wakes with this event, which the loop guard has to look at. A person's
    /// event is never a loop.
    pub(super) fn partners(&self, holder: Option<Principal>) -> Vec<AgentId> {
        if self.event.author != AuthorKind::Agent {
            return vec![];
        }
        let decided = self.decide_each(holder, &[]).into_iter();
        let woken = decided.filter(|one| is_delivered(one.attention.mode)).map(|one| one.agent);
        woken.take(MAX_RECIPIENTS).collect()
    }

    /// Returns the agent that is asked first, if the event is for a role or for several owners of a work stream.
    fn first(&self) -> Option<AgentId> {
        let asked = first_to_ask(&self.candidates, self.event.names_somebody, self.thread.is_some());
        let responders = asked.into_iter().filter_map(|place| self.candidates.get(place));
        choose(responders.filter_map(|one| Some((one.agent, one.responder.as_ref()?))))
    }

    /// Decides for all candidates. The event continues a loop with those in `damped`.
    fn decide_each(&self, holder: Option<Principal>, damped: &[AgentId]) -> Vec<EventRecipient> {
        let event = classify(self.event);
        let mut decided = decide_each(&event, &self.candidates, self.first(), holder, false);
        if damped.is_empty() {
            return decided;
        }
        let event = Classified { event: Event { damped: true, ..self.event }, ..event };
        let stopped = decide_each(&event, &self.candidates, self.first(), holder, false);
        for (one, stopped) in decided.iter_mut().zip(stopped) {
            if damped.contains(&one.agent) {
                *one = stopped;
            }
        }
        decided
    }

    /// Decides for all candidates.
    pub(super) fn reach(&self, holder: Option<Principal>, now: i64) -> Reach {
        let exchange = self.exchange.as_ref().filter(|_| self.event.author == AuthorKind::Agent);
        let loops = exchange.map_or(vec![], |exchange| exchange.find_loops(self.event.text));
        let damped: Vec<_> = loops.iter().map(|(agent, _)| *agent).collect();
        let decided = self.decide_each(holder, &damped).into_iter();
        let is_excluded = |agent| self.candidates.iter().any(|one| one.agent == agent && one.is_excluded);
        let reached = decided.filter(|one| !is_excluded(one.agent));
        let (mut delivered, found): (Vec<_>, Vec<_>) =
            reached.partition(|one| is_delivered(one.attention.mode));
        let mut stored = delivered.split_off(MAX_RECIPIENTS.min(delivered.len()));
        for one in &mut stored {
            one.attention.mode = Mode::ToolMailbox;
        }
        // The event is stored for bystanders too, but they are not reported one by one.
        stored.extend(found.into_iter().filter(|one| one.attention.directedness == Directedness::ToMe));
        let claim = self.offer(&delivered, now);
        let mut effects: Vec<_> = loops.first().map(|(_, found)| Effect::Damp(*found)).into_iter().collect();
        effects.extend(delivered.into_iter().map(|to| {
            let taken = claim.filter(|claim| claim.holder(now) == Some(to.agent.into()));
            let claimed_until = taken.as_ref().and_then(super::held_until);
            Effect::Deliver { to, mentions: self.mentions.clone(), claimed_until }
        }));
        effects.extend(stored.into_iter().map(Effect::Store));
        effects.extend(claim.map(|claim| Effect::save_claim(self.conversation, self.given, claim, now)));
        Reach { effects, damped }
    }

    /// Returns the claim on an event that is for several. An agent that was shown all of it at once, because it gets no
    /// knocks, has taken it.
    fn offer(&self, delivered: &[EventRecipient], now: i64) -> Option<Claim> {
        let first = self.first()?;
        let asked = delivered.iter().find(|one| one.agent == first)?;
        if !is_for_several(asked.attention.reason) {
            return None;
        }
        let offered = Claim::offered(Some(first), now);
        if asked.attention.mode == Mode::Notify {
            return Some(offered);
        }
        offered.apply(now, first.into(), Request::Take { ttl_ms: None }).ok()
    }
}

/// Returns `true` if an event with this reason is for whoever claims it.
pub(super) fn is_for_several(reason: Reason) -> bool {
    matches!(reason, Reason::RoleMention | Reason::StreamOwner)
}

/// Returns the places of the candidates of which one is asked first: the members of a named role, or else several owners of the
/// work stream who can be knocked and whom nothing else concerns.
pub fn first_to_ask(candidates: &[Candidate], names_somebody: bool, in_thread: bool) -> Vec<usize> {
    let places = |asked: &dyn Fn(&Candidate) -> bool| {
        let asked = candidates.iter().enumerate().filter(|(_, one)| asked(one));
        asked.map(|(place, _)| place).collect::<Vec<_>>()
    };
    let by_role = places(&Candidate::is_asked_by_role);
    if !by_role.is_empty() {
        return by_role;
    }
    let owners = places(&|one| {
        let takes_part = one.owns_thread || one.participates || one.last_in_thread;
        one.owns_stream && !one.named && one.abilities.shows.notify && !(in_thread && takes_part)
    });
    if names_somebody || owners.len() < 2 { vec![] } else { owners }
}

/// Returns the agent that is asked first of several: available ones before others, then the least loaded.
pub(super) fn choose<'a>(responders: impl Iterator<Item = (AgentId, &'a ResponderFacts)>) -> Option<AgentId> {
    let responders: Vec<_> = responders.collect();
    let responder = |(agent, facts): &(AgentId, &'a ResponderFacts)| Responder {
        agent: *agent,
        address: &facts.address,
        load: facts.load,
        active_at_ms: facts.active_at_ms,
    };
    let available: Vec<_> =
        responders.iter().filter(|(_, facts)| facts.is_available).map(responder).collect();
    if available.is_empty() {
        first_of(&responders.iter().map(responder).collect::<Vec<_>>())
    } else {
        first_of(&available)
    }
}

/// Decides the attention and the mode for each candidate. `answered` is `true` if the candidates have answered
/// the message that the event changes.
pub(super) fn decide_each(
    event: &Classified<'_>,
    candidates: &[Candidate],
    first: Option<AgentId>,
    holder: Option<Principal>,
    answered: bool,
) -> Vec<EventRecipient> {
    // A reply to an agent is for that agent. A person's further message in a thread is for the agent that last
    // spoke or was asked.
    let answers_agent = candidates.iter().any(|candidate| candidate.said_target);
    // A stop is for the agents whose work it stops, and for those that it names.
    let stops = candidates.iter().any(|candidate| candidate.is_stopped);
    let one = |candidate: &Candidate| {
        let stops_other = stops && !candidate.is_stopped;
        decide_one(event, candidate, first, holder, Surroundings { answers_agent, stops_other, answered })
    };
    candidates.iter().map(one).collect()
}

/// The facts about an event that hold for several candidates.
#[derive(Debug, Clone, Copy, Default)]
struct Surroundings {
    /// The event answers one of the candidates.
    answers_agent: bool,
    /// The event stops work of other agents only.
    stops_other: bool,
    /// The candidates have answered the message that the event changes.
    answered: bool,
}

fn decide_one(
    event: &Classified<'_>,
    candidate: &Candidate,
    first: Option<AgentId>,
    holder: Option<Principal>,
    Surroundings { answers_agent, stops_other, answered }: Surroundings,
) -> EventRecipient {
    let is_next = event.event.author == AuthorKind::Human && candidate.last_in_thread;
    let known = Recipient {
        named: candidate.named,
        in_named_role: candidate.in_named_role,
        offered_to_other: first.is_some_and(|first| first != candidate.agent),
        holds_claim: holder == Some(candidate.agent.into()),
        claimed_by_other: stops_other || holder.is_some_and(|holder| holder != candidate.agent.into()),
        stopped: candidate.is_stopped,
        owns_thread: candidate.owns_thread,
        participates: candidate.participates,
        owns_stream: candidate.owns_stream,
        answered,
        asked_in_thread: if answers_agent { candidate.said_target } else { is_next },
        ..Recipient::default()
    };
    let attention = decide(event, &known);
    let mode = shown_mode(attention, candidate.abilities.shows, known.is_meant(event.event.author));
    let attention = Attention { mode, ..attention };
    EventRecipient { agent: candidate.agent, handle: candidate.handle.clone(), attention }
}

/// Returns the mode in which a decision is shown to an agent.
fn shown_mode(attention: Attention, shows: Capabilities, is_meant: bool) -> Mode {
    // The agent that is asked first gets the whole content if its harness supports no knocks. So does the
    // agent that a person continues with in a thread.
    let is_shown_all = match attention.reason {
        Reason::RoleMention => true,
        Reason::ThreadParticipation => is_meant,
        _ => false,
    };
    match shows.fall_back(attention.mode) {
        Mode::ToolMailbox if attention.mode == Mode::Notify && is_shown_all => {
            shows.fall_back(Mode::Buffered)
        }
        // Agents answer every event that they are sent, so two agents would keep telling each other to stop.
        Mode::Immediate | Mode::Buffered if attention.policy == Policy::MustNotRespond => Mode::ToolMailbox,
        mode => mode,
    }
}

/// Returns the attention of an event for an agent that was not given it. The holder of the claim on an event
/// for nobody may answer it.
pub fn meaning_of_found(event: Event<'_>, candidate: Candidate, holds_claim: bool) -> Attention {
    let candidate = Candidate {
        abilities: Abilities { shows: Capabilities::default(), ..candidate.abilities },
        ..candidate
    };
    let mut attention =
        decide_one(&classify(event), &candidate, None, None, Surroundings::default()).attention;
    if holds_claim
        && attention.policy == Policy::MustNotRespond
        && attention.directedness == Directedness::Ambient
    {
        attention.policy = Policy::MayRespond;
    }
    attention
}

#[cfg(test)]
mod tests;
