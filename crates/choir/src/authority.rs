//! Declared authority: the list of the Score that a tool call breaks, if any.
//!
//! Names of actions are compared without regard to case. The lists are indexed once, because a receipt may
//! have thousands of calls and a Score thousands of listed actions.

use crate::names::key;
use chorus_protocol::choir::evidence::{Event, EventType};
use chorus_protocol::choir::receipt::BrokenList;
use chorus_protocol::choir::score::{Label, Scenario, Score, Voice};
use std::collections::{HashMap, HashSet};

/// A tool call outside declared authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) broke: BrokenList,
    /// The voice to which the action is exclusive.
    owner: Option<String>,
}

impl Breach {
    /// Says what the list declares about the action.
    pub(crate) fn declared(&self, voice: Option<&Voice>, action: &str, scenario: Option<&str>) -> String {
        let who = voice.map_or("the caller", |voice| &*voice.name);
        match self.broke {
            BrokenList::Exclusive => {
                format!("{action} is exclusive to {}", self.owner.as_deref().unwrap_or("another voice"))
            }
            BrokenList::Forbidden => format!("{action} is forbidden to {who}"),
            BrokenList::Scenario => {
                format!("{} forbids {action}", scenario.unwrap_or("the scenario"))
            }
            BrokenList::Allowed => {
                let allowed = voice.and_then(|voice| voice.authority.as_ref());
                let allowed = allowed.map(|authority| joined(&authority.allowed_actions)).unwrap_or_default();
                format!("{who} may call {allowed}")
            }
        }
    }

    /// Says which tool was called, and which list that broke.
    pub(crate) fn observed(&self, event: &Event) -> String {
        let who = event.voice_name.as_deref().unwrap_or("a voice that is not named");
        let action = event.action.as_deref().unwrap_or_default();
        let scenario = event.scenario_id.as_deref();
        let place = scenario.map(|id| format!(", in {id}")).unwrap_or_default();
        match self.broke {
            BrokenList::Exclusive => format!(
                "{who} called {action}, which is exclusive to {}{place}",
                self.owner.as_deref().unwrap_or("another voice")
            ),
            BrokenList::Forbidden => format!("{who} called {action}, which is forbidden to it{place}"),
            BrokenList::Scenario => {
                format!("{who} called {action}, which {} forbids", scenario.unwrap_or("the scenario"))
            }
            BrokenList::Allowed => {
                format!("{who} called {action}, which is not among its allowed actions{place}")
            }
        }
    }
}

fn joined(labels: &[Label]) -> String {
    labels.iter().map(|label| &**label).collect::<Vec<_>>().join(", ")
}

fn keys(labels: &[Label]) -> HashSet<String> {
    labels.iter().map(|label| key(label)).collect()
}

/// The lists of one voice.
struct Lists {
    allowed: HashSet<String>,
    forbidden: HashSet<String>,
    exclusive: HashSet<String>,
}

/// The indexed authority of all voices and scenarios of a Score.
pub(crate) struct Authorities<'s> {
    voices: HashMap<&'s str, Lists>,
    scenarios: HashMap<&'s str, HashSet<String>>,
    /// The first voice that holds each exclusive action.
    exclusive: HashMap<String, &'s str>,
}

impl<'s> Authorities<'s> {
    pub(crate) fn of(score: &'s Score) -> Self {
        let (mut voices, mut exclusive) = (HashMap::new(), HashMap::new());
        for voice in &score.voices {
            let Some(authority) = &voice.authority else { continue };
            let lists = Lists {
                allowed: keys(&authority.allowed_actions),
                forbidden: keys(&authority.forbidden_actions),
                exclusive: keys(&authority.exclusive_actions),
            };
            for action in &authority.exclusive_actions {
                exclusive.entry(key(action)).or_insert(&*voice.name);
            }
            voices.insert(&*voice.name, lists);
        }
        let scenarios = score.scenarios.iter().map(|one| (&*one.id, keys(&one.forbidden_actions))).collect();
        Self { voices, scenarios, exclusive }
    }

    /// Returns the first list that a tool call breaks. A call without a caller breaks only the list of its
    /// scenario.
    pub(crate) fn breach(
        &self,
        event: &Event,
        voice: Option<&Voice>,
        scenario: Option<&Scenario>,
    ) -> Option<Breach> {
        let action = event.action.as_deref().filter(|_| event.event_type == EventType::ToolCall)?;
        self.breach_of(&key(action), event.voice_name.is_some(), voice, scenario)
    }

    /// Returns `true` if not every declared voice may call this tool.
    pub(crate) fn is_restricted(&self, action: &str, voices: &[Voice]) -> bool {
        let action = key(action);
        voices.iter().any(|voice| self.breach_of(&action, true, Some(voice), None).is_some())
    }

    fn breach_of(
        &self,
        action: &str,
        is_named: bool,
        voice: Option<&Voice>,
        scenario: Option<&Scenario>,
    ) -> Option<Breach> {
        let lists = voice.and_then(|voice| self.voices.get(&*voice.name));
        let holds = lists.is_some_and(|lists| lists.exclusive.contains(action));
        let found = |broke: BrokenList| Some(Breach { broke, owner: None });
        if let Some(owner) = self.exclusive.get(action).filter(|_| is_named && !holds) {
            return Some(Breach { broke: BrokenList::Exclusive, owner: Some((*owner).to_owned()) });
        }
        if lists.is_some_and(|lists| lists.forbidden.contains(action)) {
            return found(BrokenList::Forbidden);
        }
        let forbidden = scenario.and_then(|scenario| self.scenarios.get(&*scenario.id));
        if forbidden.is_some_and(|forbidden| forbidden.contains(action)) {
            return found(BrokenList::Scenario);
        }
        let outside = |lists: &Lists| !lists.allowed.is_empty() && !lists.allowed.contains(action) && !holds;
        lists.filter(|lists| outside(lists)).and_then(|_| found(BrokenList::Allowed))
    }
}
