//! References to agents in requests, and the permission to manage an agent.

use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_protocol::address::Address;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::AgentId;
use chorus_store::directory::{self, Agent};
use chorus_store::{StoreError, Tx};

/// A reference to an agent by address, name or id.
#[derive(Debug, Clone)]
pub enum AgentRef {
    /// An id, or a name with the form of an id.
    Id(AgentId, String),
    Name(String),
    /// A well-formed address on another hub.
    Elsewhere,
}

impl AgentRef {
    pub fn parse(app: &App, text: &str) -> Result<Self, Error> {
        if let Some(id) = AgentId::parse(text) {
            return Ok(Self::Id(id, text.to_owned()));
        }
        let address = Address::parse(text).map_err(|fault| Faults::one("agent_id", fault))?;
        Ok(address
            .local_name(&app.config.host_name)
            .map_or(Self::Elsewhere, |name| Self::Name(name.to_owned())))
    }

    pub fn find(&self, tx: &mut dyn Tx) -> Result<Option<Agent>, StoreError> {
        match self {
            Self::Id(id, name) => match directory::by_id(tx, *id)? {
                None => directory::by_name(tx, name),
                found => Ok(found),
            },
            Self::Name(name) => directory::by_name(tx, name),
            Self::Elsewhere => Ok(None),
        }
    }
}

/// Returns `true` for the agent itself, its owner and the operator.
pub fn may_manage(caller: &Caller, agent: &Agent) -> bool {
    match caller {
        Caller::Operator => true,
        Caller::Agent(identity) => identity.id == agent.id,
        Caller::Account(person) => agent.owner == Some(person.id),
        Caller::EditLink(_) | Caller::Owner(_) | Caller::Nobody => false,
    }
}

/// Returns `true` for those that may unregister the agent. An account's agent cannot unregister itself: a thief of its key
/// would free its name for anybody.
pub fn may_unregister(caller: &Caller, agent: &Agent) -> bool {
    let is_itself = matches!(caller, Caller::Agent(_));
    may_manage(caller, agent) && !(is_itself && agent.owner.is_some())
}

/// Returns the referenced agent. Fails if the caller may not manage it.
pub fn managed(tx: &mut dyn Tx, caller: &Caller, agent: &AgentRef) -> Result<Agent, Error> {
    let agent = agent.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
    if !may_manage(caller, &agent) {
        return Err(Error::new(Code::Forbidden, "this is for the agent's owner, and for the agent itself"));
    }
    Ok(agent)
}
