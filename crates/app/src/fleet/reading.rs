//! The state and activity of one agent, as one caller sees it.

use crate::agents::{may_manage, view};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_protocol::api::fleet::{
    Activity, BlockedOn, Doing, FleetAgent, FleetPlace, FleetState, FleetWay, Turns,
};
use chorus_protocol::channel::Lifecycle;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{EventKind, Signal};
use chorus_store::conversations::Event;
use chorus_store::deliveries::{self, Way};
use chorus_store::directory::Agent;
use chorus_store::fleet::{self, InHand, Troubles};
use chorus_store::members::MembershipInterval;
use chorus_store::{StoreError, Tx, conversations, inboxes, log, members};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The time for which a step counts as the agent's current activity.
const STEP_MS: i64 = 10 * 60_000;
/// The agent's latest events that are read.
const STEPS: i64 = 10;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// Characters of an agent's own text that are shown.
const MAX_TEXT: usize = 200;

/// An agent with its activity.
pub(super) struct Known {
    agent: Agent,
    mine: bool,
    troubles: Troubles,
    reached_by: FleetWay,
    doing: Option<Doing>,
    /// The event by which the agent said that it is blocked, if it did nothing since.
    blocked: Option<Event>,
    pub(super) state: FleetState,
}

impl Known {
    /// Returns the sort key among agents of the same state.
    pub(super) fn key(&self) -> String {
        self.agent.name.to_ascii_lowercase()
    }
}

/// The caller, with what it may see.
pub(super) struct Looker<'a> {
    app: &'a App,
    caller: &'a Caller,
    who: Option<Principal>,
    /// The conversations of which the caller is a member.
    places: HashSet<ConversationId>,
    midnight: i64,
    /// The position at midnight in each conversation. `messages` caches the counts after a position.
    began: HashMap<ConversationId, i64>,
    messages: HashMap<(ConversationId, i64), i64>,
    now: i64,
}

impl<'a> Looker<'a> {
    pub(super) fn new(
        tx: &mut dyn Tx,
        app: &'a App,
        caller: &'a Caller,
        who: Option<Principal>,
    ) -> Result<Self, Error> {
        let places = who.map_or(Ok(vec![]), |who| members::conversations_of(tx, who))?;
        let now = app.now();
        Ok(Self {
            app,
            caller,
            who,
            places: places.into_iter().collect(),
            midnight: now - now.rem_euclid(DAY_MS),
            began: HashMap::new(),
            messages: HashMap::new(),
            now,
        })
    }

    /// Returns whether the caller may see activity in a conversation.
    fn sees(&self, conversation: ConversationId) -> bool {
        self.who.is_none() || self.places.contains(&conversation)
    }

    /// Reads the state and activity of an agent.
    pub(super) fn look(&self, tx: &mut dyn Tx, agent: Agent) -> Result<Known, Error> {
        let mine = may_manage(self.caller, &agent);
        let troubles = if mine { fleet::troubles(tx, agent.id)? } else { Troubles::default() };
        let reached_by = way(tx, &agent, self.now)?;
        let mut steps = fleet::last_done(tx, agent.id.into(), STEPS)?;
        steps.retain(|event| mine || self.sees(event.conversation));
        let says = steps.iter().find_map(|event| Some((says_blocked(event)?, event)));
        let blocked = says.filter(|(blocked, _)| *blocked).map(|(_, event)| event.clone());
        let doing = self.doing(tx, &agent, mine, &steps)?;
        let state = match state(&agent, mine, troubles, reached_by, doing.is_some()) {
            FleetState::Failing => FleetState::Failing,
            _ if blocked.is_some() => FleetState::Blocked,
            state => state,
        };
        Ok(Known { agent, mine, troubles, reached_by, doing, blocked, state })
    }

    /// Returns an agent's activity: its current step, else its running turn, else its claims. Callers that do
    /// not manage the agent see nothing of its activity elsewhere, not even that it is busy.
    fn doing(
        &self,
        tx: &mut dyn Tx,
        agent: &Agent,
        mine: bool,
        steps: &[Event],
    ) -> Result<Option<Doing>, Error> {
        let told = |conversation| mine || self.sees(conversation);
        let step = steps.iter().find_map(|event| Some((step_of(event)?, event)));
        if let Some((Step::Doing(what), event)) = step
            && event.created_at > self.now - STEP_MS
        {
            return self.step(tx, what, event).map(Some);
        }
        let mut turns = fleet::turns(tx, agent.id)?;
        turns.retain(|turn| told(turn.conversation));
        if let Some(newest) = turns.first() {
            return self.holding(tx, Activity::Turn, &turns, newest.since).map(Some);
        }
        let mut claims = fleet::claims(tx, agent.id, self.now)?;
        claims.retain(|claim| told(claim.conversation));
        match claims.first() {
            Some(newest) => self.holding(tx, Activity::Claim, &claims, newest.since).map(Some),
            None => Ok(None),
        }
    }

    /// Renders a step, as far as the caller may read it.
    fn step(&self, tx: &mut dyn Tx, what: Activity, event: &Event) -> Result<Doing, Error> {
        if !self.sees(event.conversation) {
            return Ok(busy(event.created_at));
        }
        let conversation = conversations::by_id(tx, event.conversation)?;
        // A member may not be able to read events from before it joined, and the operator is in no
        // conversation.
        let readable = match (&conversation, self.who) {
            (Some(conversation), Some(who)) => {
                MembershipInterval::any_holds(&log::readable(tx, conversation, who)?, event.seq)
            }
            _ => what == Activity::Tool,
        };
        let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
        let name = if what == Activity::Tool { "name" } else { "status" };
        let text = body[name].as_str().filter(|_| readable && what != Activity::Turn);
        Ok(Doing {
            what,
            text: text.map(|text| text.chars().take(MAX_TEXT).collect()),
            event_id: None,
            channel: conversation.map(place),
            since: rfc3339(event.created_at),
        })
    }

    /// Renders the first held item that the caller may see.
    fn holding(&self, tx: &mut dyn Tx, what: Activity, held: &[InHand], since: i64) -> Result<Doing, Error> {
        let Some(held) = held.iter().find(|held| self.sees(held.conversation)) else {
            return Ok(busy(since));
        };
        Ok(Doing {
            what,
            text: None,
            event_id: Some(held.event.to_string()),
            channel: conversations::by_id(tx, held.conversation)?.map(place),
            since: rfc3339(held.since),
        })
    }

    /// Returns the agent's blocker, for members of that conversation.
    fn blocked_on(&self, tx: &mut dyn Tx, said: Option<Event>) -> Result<Option<BlockedOn>, Error> {
        let said = said.filter(|event| self.who.is_some() && self.sees(event.conversation));
        let Some((target, event)) = said.and_then(|event| Some((event.target?, event))) else {
            return Ok(None);
        };
        let conversation = conversations::by_id(tx, event.conversation)?;
        Ok(conversation.map(|conversation| BlockedOn {
            event_id: target.to_string(),
            channel: place(conversation),
            since: rfc3339(event.created_at),
        }))
    }

    /// Renders an agent for the caller.
    pub(super) fn show(&mut self, tx: &mut dyn Tx, known: Known) -> Result<FleetAgent, Error> {
        let Known { agent, mine, troubles, reached_by, doing, blocked, state } = known;
        let shown = view(self.app, self.caller, &agent);
        let (last_hour, turns_today, last_at) = self.lately(tx, &agent, mine)?;
        let since = match (state, &doing) {
            (FleetState::Failing, _) => agent.broken.as_ref().map(|(_, since)| rfc3339(*since)),
            (FleetState::Blocked, _) => {
                let said = blocked.as_ref().map(|event| event.created_at);
                agent.disabled_at.or(agent.paused_at).or(said).map(rfc3339)
            }
            (FleetState::Working, Some(doing)) => Some(doing.since.clone()),
            (FleetState::Idle, _) => last_at.map(rfc3339),
            _ => shown.last_seen.clone(),
        };
        Ok(FleetAgent {
            agent_id: agent.id,
            address: shown.address,
            name: shown.name,
            description: shown.description,
            mine,
            state,
            why: why(&agent, troubles).filter(|_| mine).or_else(|| {
                blocked
                    .as_ref()
                    .map(|_| "It says that something is missing, and that it cannot go on.".into())
            }),
            doing,
            blocked_on: self.blocked_on(tx, blocked)?,
            since,
            last_seen: shown.last_seen,
            reached_by,
            dead: troubles.dead,
            waiting: troubles.waiting,
            last_hour,
            turns_today,
            cursor: String::new(),
        })
    }

    /// Returns the agent's events and deliveries per minute of the last hour, today's turns, and the time of
    /// the latest of these. Those who manage the agent see its turns in all conversations.
    fn lately(
        &mut self,
        tx: &mut dyn Tx,
        agent: &Agent,
        mine: bool,
    ) -> Result<(Vec<i64>, Turns, Option<i64>), Error> {
        let hour = self.now - 60 * MINUTE_MS;
        let since = hour.min(self.midnight);
        let mut done = fleet::done_since(tx, agent.id, since)?;
        let mut given = fleet::given_since(tx, agent.id, since)?;
        done.retain(|one| mine || self.sees(one.conversation));
        given.retain(|(one, _)| mine || self.sees(one.conversation));
        let woken = given.iter().filter(|(one, woke)| *woke && one.at >= self.midnight).count() as i64;
        let given: Vec<_> = given.into_iter().map(|(one, _)| one).collect();
        let mut minutes = vec![0; 60];
        for one in done.iter().chain(&given).filter(|one| one.at > hour) {
            let ago = (self.now - one.at).clamp(0, 60 * MINUTE_MS - 1) / MINUTE_MS;
            minutes[59 - ago as usize] += 1;
        }
        let today = |happened: &[fleet::AgentActivity]| {
            happened.iter().filter(|one| one.counts && one.at >= self.midnight).count() as i64
        };
        let (said, spent) = (today(&done), today(&given));
        let mut messages = 0;
        for (conversation, joined) in fleet::places(tx, agent.id)? {
            if mine || self.sees(conversation) {
                messages += self.messages_since(tx, conversation, joined)?;
            }
        }
        let last_at = done.iter().chain(&given).map(|one| one.at).max();
        Ok((minutes, Turns { spent, saved: (messages - said - woken).max(0) }, last_at))
    }

    /// Counts the messages of a conversation since midnight, from this sequence number on.
    fn messages_since(
        &mut self,
        tx: &mut dyn Tx,
        conversation: ConversationId,
        joined: i64,
    ) -> Result<i64, StoreError> {
        let began = match self.began.get(&conversation) {
            Some(began) => *began,
            None => fleet::place_at(tx, conversation, self.midnight)?,
        };
        self.began.insert(conversation, began);
        let from = began.max(joined);
        let messages = match self.messages.get(&(conversation, from)) {
            Some(messages) => *messages,
            None => fleet::messages_after(tx, conversation, from)?,
        };
        self.messages.insert((conversation, from), messages);
        Ok(messages)
    }
}

fn busy(since: i64) -> Doing {
    Doing { what: Activity::Busy, text: None, event_id: None, channel: None, since: rfc3339(since) }
}

fn place(conversation: conversations::Conversation) -> FleetPlace {
    FleetPlace { id: conversation.id.to_string(), name: conversation.name.into() }
}

/// The meaning of an event for its author's activity.
enum Step {
    Doing(Activity),
    Over,
}

/// Returns the step that an event reports. The newest event with one decides.
fn step_of(event: &Event) -> Option<Step> {
    let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    let status = body["status"].as_str().unwrap_or_default();
    match event.kind {
        EventKind::ToolCall => Some(Step::Doing(Activity::Tool)),
        EventKind::ToolResult => Some(Step::Doing(Activity::Turn)),
        EventKind::Status if !status.is_empty() => Some(Step::Doing(Activity::Status)),
        EventKind::Lifecycle if status == Lifecycle::Processing.as_str() => Some(Step::Doing(Activity::Turn)),
        EventKind::Status | EventKind::Lifecycle | EventKind::Error | EventKind::Message => Some(Step::Over),
        _ => None,
    }
}

/// Returns whether an event says that its author is blocked or continues. The end or failure of a turn says
/// neither.
fn says_blocked(event: &Event) -> Option<bool> {
    let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    match event.kind {
        EventKind::Reaction => match body["signal"].as_str().and_then(Signal::parse)? {
            Signal::Blocked => Some(body["removed"] != Value::Bool(true)),
            Signal::Working | Signal::Claimed | Signal::Done | Signal::Declined => Some(false),
            Signal::Seen | Signal::Agree | Signal::Queued | Signal::Unclear | Signal::Stop => None,
        },
        EventKind::Message => Some(false),
        _ => matches!(step_of(event)?, Step::Doing(_)).then_some(false),
    }
}

fn state(agent: &Agent, mine: bool, troubles: Troubles, way: FleetWay, works: bool) -> FleetState {
    let held = agent.disabled_at.is_some() || agent.paused_at.is_some();
    if mine && (agent.broken.is_some() || troubles.dead > 0) {
        FleetState::Failing
    } else if mine && (held || troubles.waiting > 0 || troubles.overdue > 0) {
        FleetState::Blocked
    } else if works {
        FleetState::Working
    } else if way == FleetWay::Waits {
        FleetState::Offline
    } else {
        FleetState::Idle
    }
}

/// Describes the agent's problem in a sentence for those who manage it.
fn why(agent: &Agent, troubles: Troubles) -> Option<String> {
    let Troubles { dead, waiting, overdue } = troubles;
    if let Some((why, _)) = &agent.broken {
        return Some(format!("Its connection string is broken: {why}. Paste a new one."));
    }
    if dead > 0 {
        let (what, they) = if dead == 1 { ("delivery was", "It") } else { ("deliveries were", "They") };
        return Some(format!("{dead} {what} refused or given up. {they} can be replayed."));
    }
    if agent.disabled_at.is_some() {
        return Some("It is kept out by the operator.".into());
    }
    if agent.paused_at.is_some() {
        return Some("It is paused; what is for it waits.".into());
    }
    if waiting > 0 {
        let what =
            if waiting == 1 { "delivery waits for it, and is" } else { "deliveries wait for it, and are" };
        return Some(format!("{waiting} {what} tried again."));
    }
    let what = if overdue == 1 { "message was" } else { "messages were" };
    (overdue > 0).then(|| format!("{overdue} {what} not answered in time."))
}

/// Returns the agent's current route.
fn way(tx: &mut dyn Tx, agent: &Agent, now: i64) -> Result<FleetWay, StoreError> {
    Ok(match deliveries::way(agent, None, now) {
        Way::Session if inboxes::shows(tx, agent.id, now)?.is_some() => FleetWay::C2a,
        Way::Session => FleetWay::Inbox,
        Way::Harness => FleetWay::Harness,
        Way::Webhook => FleetWay::Webhook,
        Way::Connection => FleetWay::ConnectionString,
        Way::Inbox | Way::WaitForOwner(_) | Way::WaitBehind(_) => FleetWay::Waits,
    })
}
