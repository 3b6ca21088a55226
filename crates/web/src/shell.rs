//! What surrounds every page: the rail with where one can go, and whose page it is.

use crate::assets;
use crate::face::Face;
use chorus_app::caller::Person;
use chorus_app::{App, Error, conversation};
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
            here,
        }
    }

    /// Around a page of this person.
    pub(crate) async fn of(app: &App, person: &Person, here: Here) -> Result<Self, Error> {
        let mut shell = Self::bare(app, here);
        for standing in conversation::standings(app, person.id).await? {
            let id = standing.conversation.to_string();
            let here = shell.here == Here::Conversation(id.clone());
            let entry = Entry { id, name: standing.name, face: None, new: standing.new, here };
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

    /// How many conversations of two have something new.
    pub(crate) fn waiting(&self) -> usize {
        self.direct.iter().filter(|entry| entry.new > 0).count()
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
