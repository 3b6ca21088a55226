//! The frame of every page: the rail with its navigation, and the signed-in person.

use crate::assets;
use crate::face::Face;
use chorus_app::conversation::{self, Surroundings};
use chorus_node::caller::Person;
use chorus_node::{App, Error};
use chorus_protocol::api::fleet::{FleetAgent, FleetState};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{ConversationKind, PrincipalKind};

/// The current page, which the rail highlights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Here {
    First,
    Inbox,
    Fleet,
    Streams,
    Agents,
    Market,
    Scores,
    Operator,
    Search,
    Account,
    Api,
    Conversation(String),
    Elsewhere,
}

/// The shell of one page.
pub(crate) struct Shell {
    pub(crate) style: &'static str,
    pub(crate) script: &'static str,
    pub(crate) mark: &'static str,
    /// The host name of this hub.
    pub(crate) host: String,
    pub(crate) person: Option<Whose>,
    pub(crate) channels: Vec<Entry>,
    pub(crate) direct: Vec<Entry>,
    /// The hub's current time in milliseconds, from which scripts count.
    pub(crate) now: i64,
    /// The number of agents that need attention; 0 if the page did not load the fleet.
    pub(crate) troubled: usize,
    /// The number of conversations with something addressed to this person, plus open approvals and
    /// invitations.
    pub(crate) waiting: usize,
    here: Here,
}

/// The signed-in person, as the rail shows them.
pub(crate) struct Whose {
    pub(crate) name: String,
    pub(crate) face: Face,
}

/// A conversation in the rail.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The avatar of the other member of a direct conversation.
    pub(crate) face: Option<Face>,
    pub(crate) new: i64,
    /// True if an unread message is addressed to this person.
    pub(crate) asked: bool,
    /// The time since which an agent works there; `None` if the page did not load the fleet.
    pub(crate) at_work: Option<i64>,
    pub(crate) here: bool,
}

impl Shell {
    /// Returns the shell of a public page without a visitor.
    pub(crate) fn bare(app: &App, here: Here) -> Self {
        Self {
            style: assets::style(),
            script: assets::script(),
            mark: assets::mark(),
            host: app.config.host_name.clone(),
            person: None,
            channels: vec![],
            direct: vec![],
            now: app.now(),
            troubled: 0,
            waiting: 0,
            here,
        }
    }

    /// Returns the shell of a page of this person.
    pub(crate) async fn of(app: &App, person: &Person, here: Here) -> Result<Self, Error> {
        let mut shell = Self::bare(app, here);
        let Surroundings { standings, asks } = conversation::surroundings(app, person).await?;
        shell.waiting = asks + standings.iter().filter(|standing| standing.is_asked()).count();
        for standing in standings {
            let asked = standing.is_asked();
            let id = standing.conversation.to_string();
            let here = shell.here == Here::Conversation(id.clone());
            let new = standing.new;
            let entry = Entry { id, name: standing.name, face: None, new, asked, at_work: None, here };
            match (standing.kind, standing.other) {
                (ConversationKind::Dm, Some((who, handle))) => {
                    let is_agent = who.kind() == PrincipalKind::Agent;
                    let face = Some(Face::of(is_agent, &who.to_string(), &handle).small());
                    shell.direct.push(Entry { name: handle, face, ..entry });
                }
                (ConversationKind::Dm, None) => shell.direct.push(entry),
                _ => shell.channels.push(entry),
            }
        }
        shell.channels.sort_by_key(|entry| entry.name.to_lowercase());
        let face = Face::person(&person.id.to_string(), &person.name).medium();
        shell.person = Some(Whose { name: person.name.clone(), face });
        Ok(shell)
    }

    /// Returns the shell of a public page, with the visitor's rail if somebody is signed in.
    pub(crate) async fn maybe_of(app: &App, person: Option<&Person>, here: Here) -> Result<Self, Error> {
        match person {
            Some(person) => Self::of(app, person, here).await,
            None => Ok(Self::bare(app, here)),
        }
    }

    /// Adds to the rail where agents work, and how many need attention.
    pub(crate) fn add_fleet(&mut self, agents: &[FleetAgent]) {
        for agent in agents {
            self.troubled += usize::from(matches!(agent.state, FleetState::Failing | FleetState::Blocked));
            let Some(doing) = agent.doing.as_ref().filter(|_| agent.state == FleetState::Working) else {
                continue;
            };
            let Some(since) = parse_rfc3339(&doing.since) else { continue };
            let place = doing.channel.as_ref().map(|place| &*place.id);
            let mut entries = self.channels.iter_mut().chain(&mut self.direct);
            if let Some(entry) = entries.find(|entry| Some(&*entry.id) == place) {
                entry.at_work = Some(entry.at_work.map_or(since, |first| first.min(since)));
            }
        }
    }

    /// Returns the attribute that marks the entry of the current page.
    pub(crate) fn at(&self, page: &str) -> &'static str {
        let here = match self.here {
            Here::First => "first",
            Here::Inbox => "inbox",
            Here::Fleet => "fleet",
            Here::Streams => "streams",
            Here::Agents => "agents",
            Here::Market => "market",
            Here::Scores => "scores",
            Here::Operator => "operator",
            Here::Search => "search",
            Here::Account => "account",
            Here::Api => "api",
            Here::Conversation(_) | Here::Elsewhere => "",
        };
        if here == page { r#" aria-current="page""# } else { "" }
    }
}
