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
        DraftKind::Message(_) => decide_said(tx, draft, message(draft)?, &draft.candidates, vec![]),
        DraftKind::Reaction(target, signal) => decide_reaction(tx, draft, target, signal),
        DraftKind::Edit(target) => changing::decide(tx, draft, target),
        // What it means for those who were given the message is `changing`'s business.
        DraftKind::Deletion(_) => Ok(Decided::default()),
    }
}

/// Whom something reaches that is said, or changed to say it in place of what agents have.
fn decide_said(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    mut event: Event<'_>,
    candidates: &[Candidate],
    mut replaces: Vec<Obligation>,
) -> Result<Decided, StoreError> {
    let known = Known::look_up(tx, draft, candidates)?;
    let mut decided = decide_each(&classify(event), candidates, &known);
    // Who wakes nobody goes on with nothing.
    let wakes = !replaces.is_empty() || decided.iter().any(|one| is_delivered(one.attention.mode));
    if wakes && event.author == AuthorKind::Agent && loop_guard::is_loop(tx, draft)? {
        event.damped = true;
        replaces.clear();
        decided = decide_each(&classify(event), candidates, &known);
    }
    let (delivered, found): (Vec<_>, Vec<_>) =
        decided.into_iter().partition(|one| is_delivered(one.attention.mode));
    // Bystanders find it too; they are not told of one by one.
    let found = found.into_iter().filter(|one| one.attention.directedness == Directedness::ToMe);
    let reach = conversation::reach(tx, draft.act.author, delivered, found.collect())?;
    let asked = reach.recipients.iter().find(|one| Some(one.agent) == known.first);
    let offer = asked.filter(|one| one.attention.reason == Reason::RoleMention);
    let offer = offer.map(|one| Offer { first: one.agent, taken: one.attention.mode != Mode::Notify });
    Ok(Decided { reach, offer, replaces })
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
    /// Who of a named role is asked first.
    first: Option<AgentId>,
    /// Who holds the claim on the thread.
    holder: Option<AgentId>,
    /// What the way to each candidate shows, in their order; without knocks where nothing is said.
    shows: Vec<Capabilities>,
}

impl Known {
    fn look_up(tx: &mut dyn Tx, draft: &Draft<'_>, candidates: &[Candidate]) -> Result<Self, StoreError> {
        let now = draft.act.now;
        let mut known = Self { first: first_responder(tx, candidates, now)?, ..Self::default() };
        if let Some(thread) = draft.thread {
            known.holder = claiming::of(tx, thread)?.and_then(|claim| claim.holder(now));
        }
        for candidate in candidates {
            known.shows.push(shows(tx, candidate.agent, now)?);
        }
        Ok(known)
    }
}

/// Who of a named role is asked first: who can be reached, has the least to do, and waits longest for something.
fn first_responder(
    tx: &mut dyn Tx,
    candidates: &[Candidate],
    now: i64,
) -> Result<Option<AgentId>, StoreError> {
    let mut agents = vec![];
    for candidate in candidates.iter().filter(|candidate| candidate.in_named_role && !candidate.named) {
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
        responders.push((can_be_reached && agent.disabled_at.is_none(), responder));
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
            holds_claim: all.holder == Some(candidate.agent),
            claimed_by_other: all.holder.is_some_and(|holder| holder != candidate.agent),
            owns_thread: candidate.owns_thread,
            participates: candidate.participates,
            owns_stream: candidate.owns_stream,
            asked_in_thread: if answers_agent { candidate.said_target } else { is_next },
            ..chorus_attention::Recipient::default()
        };
        let attention = chorus_attention::decide(event, &known);
        let shows = all.shows.get(place).copied().unwrap_or(WITHOUT_KNOCKS);
        let mode = match shows.fall_back(attention.mode) {
            // Where there are no knocks, whoever is asked first is shown all of it, and has taken it.
            Mode::ToolMailbox
                if attention.mode == Mode::Notify && attention.reason == Reason::RoleMention =>
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
mod tests {
    use super::*;
    use chorus_protocol::words::ConversationKind;
    use uuid::Uuid;

    fn candidate(n: u128) -> Candidate {
        Candidate {
            agent: AgentId(Uuid::from_u128(n)),
            handle: n.to_string(),
            named: false,
            in_named_role: false,
            owns_thread: false,
            participates: false,
            last_in_thread: false,
            said_target: false,
            owns_stream: false,
        }
    }

    fn said(text: &str) -> Event<'_> {
        Event { text, names_somebody: text.contains('@'), in_thread: true, ..Event::default() }
    }

    /// Who is woken, and why.
    fn woken(event: Event<'_>, candidates: &[Candidate]) -> Vec<(String, Reason)> {
        let decided = decide_each(&classify(event), candidates, &Known::default());
        let woken = decided.into_iter().filter(|one| is_delivered(one.attention.mode));
        woken.map(|one| (one.handle, one.attention.reason)).collect()
    }

    #[test]
    fn who_is_named_is_woken_and_in_a_conversation_of_two_the_other() {
        let named = Candidate { named: true, ..candidate(1) };
        let ask = said("@1 please look at this");
        assert_eq!(woken(ask, &[]), []);
        let mention = ("1".to_owned(), Reason::DirectMention);
        assert_eq!(woken(ask, std::slice::from_ref(&named)), [mention]);
        let dm = Event { conversation: ConversationKind::Dm, ..ask };
        let direct = |n: &str| (n.to_owned(), Reason::DirectMessage);
        assert_eq!(woken(dm, &[named, candidate(2)]), [direct("1"), direct("2")]);
    }

    #[test]
    fn of_a_role_one_is_asked_and_where_there_are_knocks_by_one() {
        let [one, two] = [1, 2].map(|n| Candidate { in_named_role: true, ..candidate(n) });
        let first = Known { first: Some(two.agent), ..Known::default() };
        let decided = |all: &Known| {
            let event = Event { names_somebody: true, ..said("can somebody look at the build?") };
            let decided = decide_each(&classify(event), &[one.clone(), two.clone()], all);
            decided.into_iter().map(|one| (one.attention.mode, one.attention.policy)).collect::<Vec<_>>()
        };
        let other = (Mode::ToolMailbox, Policy::MayRespond);
        assert_eq!(decided(&first), [other, (Mode::Buffered, Policy::MayRespond)]);
        let knocks = Known { shows: vec![Capabilities::default(); 2], ..first };
        assert_eq!(decided(&knocks), [other, (Mode::Notify, Policy::MayRespond)]);
    }

    #[test]
    fn what_a_session_can_show_is_kept_in_words() {
        let some = InjectionCapabilities { notify: true, buffered: true, ..InjectionCapabilities::default() };
        assert_eq!(words(some), "buffered notify");
        assert_eq!(words(InjectionCapabilities::ALL), "immediate buffered notify tool_mailbox digest");
    }

    #[test]
    fn what_would_be_a_knock_wakes_nobody() {
        let named = Candidate { named: true, ..candidate(1) };
        for text in ["@1 thanks!", "@1 ok", "@1 👍"] {
            assert_eq!(woken(said(text), std::slice::from_ref(&named)), [], "{text}");
            let decided = decide_each(&classify(said(text)), std::slice::from_ref(&named), &Known::default());
            assert_eq!(decided[0].attention.mode, Mode::ToolMailbox);
            assert_eq!(decided[0].attention.policy, Policy::AckOnly);
        }
    }

    #[test]
    fn what_comes_next_in_a_thread_is_for_whom_it_was_about() {
        let spoke = Candidate { participates: true, ..candidate(1) };
        let last = Candidate { participates: true, last_in_thread: true, ..candidate(2) };
        let two = [spoke.clone(), last.clone()];
        let question = said("and on Windows?");
        assert_eq!(woken(question, &two), [("2".to_owned(), Reason::ThreadQuestion)]);
        let correction = said("I meant the other one");
        assert_eq!(woken(correction, &two), [("2".to_owned(), Reason::ThreadParticipation)]);
        // What says whom it answers is for that one; what an agent says to a person, for no other agent.
        let answers = [Candidate { said_target: true, ..spoke }, last];
        assert_eq!(woken(question, &answers), [("1".to_owned(), Reason::ThreadQuestion)]);
        let by_agent = Event { author: AuthorKind::Agent, ..question };
        assert_eq!(woken(by_agent, &two), []);
        assert_eq!(woken(by_agent, &answers), [("1".to_owned(), Reason::ThreadQuestion)]);
    }

    #[test]
    fn what_is_damped_wakes_nobody_whatever_it_says() {
        let named = [Candidate { named: true, ..candidate(1) }];
        for text in ["@1 please go on", "@1 stop!", "@1 emergency: the disk is full"] {
            let event = Event { author: AuthorKind::Agent, ..said(text) };
            assert_eq!(woken(event, &named).len(), 1, "{text}");
            assert_eq!(woken(Event { damped: true, ..event }, &named), [], "{text}");
        }
    }

    #[test]
    fn the_whole_decision_goes_with_the_recipient() {
        let event = Event { priority: Some(Priority::Urgent), deadline_ms: Some(5_000), ..said("@1 go on") };
        let decided =
            decide_each(&classify(event), &[Candidate { named: true, ..candidate(1) }], &Known::default());
        let attention = Attention {
            priority: Priority::Urgent,
            deadline_ms: Some(5_000),
            reason: Reason::DirectMention,
            ..FOREIGN
        };
        assert_eq!(decided, [Recipient { agent: candidate(1).agent, handle: "1".into(), attention }]);
    }

    #[test]
    fn what_was_said_before_is_read_as_it_was_meant() {
        let intent = |body: &str| Earlier::read(body).unwrap().intent();
        assert_eq!(intent(r#"{"content": "Shall I deploy it?"}"#), Intent::ApprovalRequest);
        assert_eq!(intent(r#"{"content": "Shall I?", "intent": "chat"}"#), Intent::Chat);
        assert_eq!(intent(r#"{"content": "@bob fix the parser"}"#), Intent::Assignment);
    }
}
