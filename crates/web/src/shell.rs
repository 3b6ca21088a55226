//! What surrounds every page: the rail with where one can go, and whose page it is.

use crate::assets;
use crate::face::Face;
use chorus_app::caller::Person;
use chorus_app::conversation::{self, Surroundings};
use chorus_app::{App, Error};
use chorus_protocol::api::fleet::{FleetAgent, FleetState};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{ConversationKind, PrincipalKind};

/// Which page this is, for the rail.
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
    /// What this hub is called.
    pub(crate) host: String,
    pub(crate) person: Option<Whose>,
    pub(crate) channels: Vec<Entry>,
    pub(crate) direct: Vec<Entry>,
    /// What the hub's clock says, for what is counted in the page.
    pub(crate) now: i64,
    /// How many agents need somebody, where that was looked for.
    pub(crate) troubled: usize,
    /// How many conversations hold something for this person, and how much else waits for its answer.
    pub(crate) waiting: usize,
    here: Here,
}

/// Whose page it is.
pub(crate) struct Whose {
    pub(crate) name: String,
    pub(crate) face: Face,
}

/// A conversation in the rail.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Of the other one, in a conversation of two.
    pub(crate) face: Option<Face>,
    pub(crate) new: i64,
    /// Something of what is new is for this person.
    pub(crate) asked: bool,
    /// Since when an agent is at work there, where that was looked for.
    pub(crate) at_work: Option<i64>,
    pub(crate) here: bool,
}

impl Shell {
    /// Around a page for everybody.
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

    /// Around a page of this person.
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

    /// Around a page for everybody, as this one sees it.
    pub(crate) async fn maybe_of(app: &App, person: Option<&Person>, here: Here) -> Result<Self, Error> {
        match person {
            Some(person) => Self::of(app, person, here).await,
            None => Ok(Self::bare(app, here)),
        }
    }

    /// Says where agents are at work, and how many need somebody.
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

    /// Marks the entry of the page that is looked at.
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
