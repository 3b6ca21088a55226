//! Attention's seam: whom an event concerns, and how it gets to them. Delivery is not injection.
//!
//! Everything that is said passes here, inside its transaction: the store has found out what is known, the engine
//! (`chorus-attention`) decides for each agent that it may concern, and the store keeps what was decided with the delivery.
//! Nothing is decided here but which decisions are deliveries at all, by what the way to each agent can show: where there are no
//! knocks, what would be one is found by whoever looks; but of those who have a role, one is always asked.
//!
//! `claiming` is who takes what, `changing` what becomes of it when a message is changed, `digesting` what leads are told of the rest, `disposing` what becomes of what agents were given, `envelopes` the same of what comes by the relay,
//! `replying` who may answer what,
//! `overdue` what time does to all of it.

pub mod changing;
pub mod claiming;
pub mod digesting;
pub mod disposing;
pub mod envelopes;
pub mod loop_guard;
pub mod overdue;
pub mod replying;

use chorus_attention::capabilities::Capabilities;
use chorus_attention::claims::{Responder, first_of};
use chorus_attention::loop_guard::Loop;
use chorus_attention::{AuthorKind, Classified, Event, Happening, classify};
use chorus_protocol::attention::Attention;
use chorus_protocol::c2a::InjectionCapabilities;
use chorus_protocol::ids::{AgentId, EventId, Principal};
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::{Directedness, Intent, Mode, Policy, Priority, Reason, Signal};
use chorus_store::conversation::{self, Candidate, Draft, DraftKind, Reach, Recipient};
use chorus_store::obligations::Obligation;
use chorus_store::{StoreError, Tx, conversations, directory, inboxes, obligations};
use serde::Deserialize;

/// What another service posts to an agent's connection string is for that agent.
pub const FOREIGN: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::MustRespond,
    mode: Mode::Immediate,
    reason: Reason::DirectMessage,
    priority: Priority::Normal,
    deadline_ms: None,
};

/// What a way to an agent shows that knows no knocks: an inbox as server-sent events, an endpoint, a connection string.
const WITHOUT_KNOCKS: Capabilities = Capabilities {
    immediate: true,
    buffered: true,
    notify: false,
    tool_mailbox: true,
    digest: false,
    interrupt: false,
};

/// More than this nobody has to do, as far as it matters who is asked first.
const MOST_LOAD: i64 = 1000;

/// Whom a draft reaches, and who is asked first if it is for whoever takes it.
#[derive(Debug, Default)]
pub struct Decided {
    pub reach: Reach,
    pub offer: Option<Offer>,
    /// What a change takes the place of, by agent.
    pub replaces: Vec<Obligation>,
    /// What a change means for agents that find it as it stands, and are not brought it.
    pub changes: Vec<Obligation>,
    /// It goes on with a loop, and wakes nobody because of that.
    pub stopped: Option<Loop>,
}

impl Decided {
    /// Whether it comes to anybody. Everybody else finds it.
    pub fn wakes(&self) -> bool {
        !self.reach.recipients.is_empty() || !self.replaces.is_empty()
    }
}

/// An event that is for whoever takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Who is asked first.
    pub first: AgentId,
    /// It was shown all of it, because its way knows no knocks: so it has taken it.
    pub taken: bool,
}

/// Whom a draft reaches, and what it means for each.
pub fn decide(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Decided, StoreError> {
    match draft.kind {
        DraftKind::Message(_) => {
            decide_said(tx, draft, message(draft)?, &draft.candidates, Changed::default())
        }
        DraftKind::Reaction(target, signal) => decide_reaction(tx, draft, target, signal),
        DraftKind::Edit(target) => changing::decide(tx, draft, target),
        // What it means for those who were given the message is `changing`'s business.
        DraftKind::Deletion(_) => Ok(Decided::default()),
    }
}

/// What a message, as it stands after a change, is to those who have it.
#[derive(Default)]
struct Changed {
    /// Whom the change is brought.
    replaces: Vec<Obligation>,
    /// Who finds it.
    found: Vec<Obligation>,
}

/// Whom something reaches that is said, or changed to say it in place of what agents have.
fn decide_said(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    mut event: Event<'_>,
    candidates: &[Candidate],
    mut changed: Changed,
) -> Result<Decided, StoreError> {
    let known = Known::look_up(tx, draft, candidates)?;
    let mut decided = decide_each(&classify(event), candidates, &known);
    // Who wakes nobody goes on with nothing.
    let wakes = !changed.replaces.is_empty() || decided.iter().any(|one| is_delivered(one.attention.mode));
    let asks = wakes && event.author == AuthorKind::Agent;
    let stopped = if asks { loop_guard::look_for_loop(tx, draft)? } else { None };
    if stopped.is_some() {
        event.damped = true;
        changed = Changed::default();
        decided = decide_each(&classify(event), candidates, &known);
    }
    let (delivered, found): (Vec<_>, Vec<_>) =
        decided.into_iter().partition(|one| is_delivered(one.attention.mode));
    // Bystanders find it too; they are not told of one by one.
    let found = found.into_iter().filter(|one| one.attention.directedness == Directedness::ToMe);
    let reach = conversation::reach(tx, draft.act.author, delivered, found.collect())?;
    let asked = reach.recipients.iter().find(|one| Some(one.agent) == known.first);
    let is_for_several = |reason| matches!(reason, Reason::RoleMention | Reason::StreamOwner);
    let offer = asked.filter(|one| is_for_several(one.attention.reason));
    let offer = offer.map(|one| Offer { first: one.agent, taken: one.attention.mode != Mode::Notify });
    let Changed { replaces, found: changes } = changed;
    Ok(Decided { reach, offer, replaces, changes, stopped })
}

/// Whom a reaction reaches: who said what it is put on, if its session tells such things from messages. Others find it there.
fn decide_reaction(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    target: EventId,
    signal: Signal,
) -> Result<Decided, StoreError> {
    if draft.body.is_true("removed") {
        return Ok(Decided::default());
    }
    let said = conversations::event_by_id(tx, target)?;
    let answers = said.map(|said| Earlier::read(&said.body)).transpose()?.map(|said| said.intent());
    let event = Event { happening: Happening::Reaction(signal), text: "", answers, ..message(draft)? };
    let mut reached = vec![];
    for candidate in draft.candidates.iter().filter(|candidate| candidate.said_target) {
        let shows = shows(tx, candidate.agent, draft.act.now)?;
        let known =
            chorus_attention::Recipient { said_target: true, ..chorus_attention::Recipient::default() };
        let decided = chorus_attention::decide(&classify(event), &known);
        let attention = Attention { mode: shows.fall_back(decided.mode), ..decided };
        if shows.notify && is_delivered(attention.mode) {
            reached.push(Recipient { agent: candidate.agent, handle: candidate.handle.clone(), attention });
        }
    }
    let reach = conversation::reach(tx, draft.act.author, reached, vec![])?;
    Ok(Decided { reach, ..Decided::default() })
}

/// What it means for an agent that a person decided about what it wanted to say, or that nobody did: it ends its wait. Nothing, if
/// its session does not tell such things from messages.
pub fn outcome(
    tx: &mut dyn Tx,
    agent: AgentId,
    signal: Signal,
    now: i64,
) -> Result<Option<Attention>, StoreError> {
    let answers = Some(Intent::ApprovalRequest);
    let event =
        Event { happening: Happening::Reaction(signal), author: AuthorKind::Human, answers, ..Event::EMPTY };
    let known = chorus_attention::Recipient { said_target: true, ..chorus_attention::Recipient::default() };
    let (decided, shows) = (chorus_attention::decide(&classify(event), &known), shows(tx, agent, now)?);
    let attention = Attention { mode: shows.fall_back(decided.mode), ..decided };
    Ok((shows.notify && is_delivered(attention.mode)).then_some(attention))
}

/// What is known of all candidates together.
#[derive(Default)]
struct Known {
    /// Who of a named role, or of the owners of a stream, is asked first.
    first: Option<AgentId>,
    /// Who holds the claim on the thread.
    holder: Option<Principal>,
    /// What the way to each candidate shows, in their order; without knocks where nothing is said.
    shows: Vec<Capabilities>,
    /// They have answered what this changes.
    answered: bool,
}

impl Known {
    fn look_up(tx: &mut dyn Tx, draft: &Draft<'_>, candidates: &[Candidate]) -> Result<Self, StoreError> {
        let now = draft.act.now;
        let mut known = Self::default();
        if let Some(thread) = draft.thread {
            // A person who has taken it on and goes on with it speaks to whoever takes part.
            let holder = claiming::holder(tx, thread, now)?;
            known.holder = holder.filter(|holder| holder.agent().is_some() || *holder != draft.act.author);
        }
        for candidate in candidates {
            known.shows.push(shows(tx, candidate.agent, now)?);
        }
        let asked = if candidates.iter().any(is_asked_by_role) {
            candidates.iter().filter(|candidate| is_asked_by_role(candidate)).collect()
        } else {
            known.owners_to_ask(draft, candidates)
        };
        known.first = first_responder(tx, &asked, now)?;
        Ok(known)
    }

    /// Of several owners of a stream whom nothing else concerns one is asked first, of those that can be knocked. One alone is
    /// knocked without being offered anything.
    fn owners_to_ask<'a>(&self, draft: &Draft<'_>, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
        let owns = |(one, shows): &(&Candidate, &Capabilities)| {
            let takes_part = one.owns_thread || one.participates || one.last_in_thread;
            one.owns_stream && !one.named && shows.notify && !(draft.thread.is_some() && takes_part)
        };
        let owners: Vec<_> = candidates.iter().zip(&self.shows).filter(owns).map(|(one, _)| one).collect();
        if draft.names_somebody || owners.len() < 2 { vec![] } else { owners }
    }
}

fn is_asked_by_role(candidate: &Candidate) -> bool {
    candidate.in_named_role && !candidate.named
}

/// Who of several is asked first: who can be reached, has the least to do, and waits longest for something.
fn first_responder(
    tx: &mut dyn Tx,
    candidates: &[&Candidate],
    now: i64,
) -> Result<Option<AgentId>, StoreError> {
    let mut agents = vec![];
    for candidate in candidates {
        if let Some(agent) = directory::by_id(tx, candidate.agent)? {
            agents.push(agent);
        }
    }
    choose(tx, &agents, now)
}

/// Whom of several something is offered to first.
pub(crate) fn choose(
    tx: &mut dyn Tx,
    agents: &[directory::Agent],
    now: i64,
) -> Result<Option<AgentId>, StoreError> {
    let mut responders = vec![];
    for agent in agents {
        let (load, active_at_ms) = obligations::load(tx, agent.id, MOST_LOAD)?;
        let load = u32::try_from(load).unwrap_or(u32::MAX);
        let can_be_reached = agent.open_until > now
            || agent.harness.is_some()
            || agent.endpoint.is_some()
            || agent.working_connection().is_some();
        let responder = Responder { agent: agent.id, address: &agent.name, load, active_at_ms };
        let takes_work = agent.disabled_at.is_none() && agent.paused_at.is_none();
        responders.push((can_be_reached && takes_work, responder));
    }
    let reached: Vec<_> = responders.iter().filter(|(reached, _)| *reached).map(|(_, one)| *one).collect();
    let all = || responders.iter().map(|(_, one)| *one).collect::<Vec<_>>();
    Ok(first_of(&if reached.is_empty() { all() } else { reached }))
}

/// What the way to an agent shows now.
pub(crate) fn shows(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Capabilities, StoreError> {
    Ok(inboxes::shows(tx, agent, now)?.map_or(WITHOUT_KNOCKS, |words| of_words(&words)))
}

/// What a session shows that is kept with these words.
pub(crate) fn of_words(words: &str) -> Capabilities {
    let has = |mode: Mode| words.split(' ').any(|word| word == mode.as_str());
    Capabilities {
        immediate: has(Mode::Immediate),
        buffered: has(Mode::Buffered),
        notify: has(Mode::Notify),
        tool_mailbox: has(Mode::ToolMailbox),
        digest: has(Mode::Digest),
        interrupt: false,
    }
}

/// The same as the words that a session is kept with.
pub(crate) fn words(shows: InjectionCapabilities) -> String {
    // What must be answered is brought to every session: one that names no way to be shown anything is shown it at once.
    let immediate = shows.immediate || !(shows.buffered || shows.notify);
    let modes = [
        (immediate, Mode::Immediate),
        (shows.buffered, Mode::Buffered),
        (shows.notify, Mode::Notify),
        (shows.tool_mailbox, Mode::ToolMailbox),
        (shows.digest, Mode::Digest),
    ];
    let words: Vec<_> = modes.iter().filter(|(has, _)| *has).map(|(_, mode)| mode.as_str()).collect();
    words.join(" ")
}

fn message<'a>(draft: &'a Draft<'_>) -> Result<Event<'a>, StoreError> {
    let body = &*draft.body;
    let answers = draft.answers.as_ref().map(|answered| Earlier::read(&answered.body)).transpose()?;
    Ok(Event {
        happening: Happening::Message,
        conversation: draft.conversation.kind,
        in_thread: draft.thread.is_some(),
        author: match draft.act.author {
            Principal::Account(_) => AuthorKind::Human,
            Principal::Agent(_) => AuthorKind::Agent,
        },
        author_leads: draft.author_leads,
        text: body.text("content"),
        names_somebody: draft.names_somebody,
        intent: Intent::parse(body.text("intent")),
        directedness: Directedness::parse(body.text("directedness")),
        priority: Priority::parse(body.text("priority")),
        deadline_ms: body.integer("deadline_ms"),
        answers: answers.map(|answered| answered.intent()),
        damped: false,
    })
}

/// What was said before, as far as rules read it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Earlier {
    content: String,
    intent: String,
}

impl Earlier {
    fn read(body: &str) -> Result<Self, StoreError> {
        serde_json::from_str(body).map_err(|error| StoreError::Unexpected(error.into()))
    }

    fn intent(&self) -> Intent {
        let said = Event {
            text: &self.content,
            intent: Intent::parse(&self.intent),
            names_somebody: !mentions(&self.content).is_empty(),
            ..Event::default()
        };
        classify(said).intent
    }
}

fn decide_each(event: &Classified<'_>, candidates: &[Candidate], all: &Known) -> Vec<Recipient> {
    // What answers an agent is for that one; what a person adds to a thread, for whoever it was about last. An agent that
    // answers somebody else has nothing to say to the others there.
    let answers_agent = candidates.iter().any(|candidate| candidate.said_target);
    let by_person = event.event.author == AuthorKind::Human;
    let decided = candidates.iter().enumerate().map(|(place, candidate)| {
        let is_next = by_person && candidate.last_in_thread;
        let known = chorus_attention::Recipient {
            named: candidate.named,
            in_named_role: candidate.in_named_role,
            offered_to_other: all.first.is_some_and(|first| first != candidate.agent),
            holds_claim: all.holder == Some(candidate.agent.into()),
            claimed_by_other: all.holder.is_some_and(|holder| holder != candidate.agent.into()),
            owns_thread: candidate.owns_thread,
            participates: candidate.participates,
            owns_stream: candidate.owns_stream,
            answered: all.answered,
            asked_in_thread: if answers_agent { candidate.said_target } else { is_next },
            ..chorus_attention::Recipient::default()
        };
        let attention = chorus_attention::decide(event, &known);
        let shows = all.shows.get(place).copied().unwrap_or(WITHOUT_KNOCKS);
        let mode = match shows.fall_back(attention.mode) {
            // Where there are no knocks, whoever is asked first is shown all of it, and has taken it. So is whom a person goes
            // on with in a thread.
            Mode::ToolMailbox
                if attention.mode == Mode::Notify
                    && match attention.reason {
                        Reason::RoleMention => true,
                        Reason::ThreadParticipation => known.is_meant(event.event.author),
                        _ => false,
                    } =>
            {
                shows.fall_back(Mode::Buffered)
            }
            // Nothing keeps an agent from answering what it is sent yet, or two would go on telling each other to stop.
            Mode::Immediate | Mode::Buffered if attention.policy == Policy::MustNotRespond => {
                Mode::ToolMailbox
            }
            mode => mode,
        };
        let attention = Attention { mode, ..attention };
        Recipient { agent: candidate.agent, handle: candidate.handle.clone(), attention }
    });
    decided.collect()
}

/// Whether something of this mode is brought to an agent. Everything else it finds when it looks.
fn is_delivered(mode: Mode) -> bool {
    match mode {
        Mode::Immediate | Mode::Buffered | Mode::Notify => true,
        Mode::ToolMailbox | Mode::Digest | Mode::Silent => false,
    }
}

#[cfg(test)]
mod tests;
