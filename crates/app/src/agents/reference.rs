//! Which agent somebody names: whether an address is of this hub, whose it is, and who may change it.

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use chorus_protocol::address::Address;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::AgentId;
use chorus_store::directory::{self, Agent};
use chorus_store::{StoreError, Tx};

/// An agent as it is named: by its address, its name, or its id.
#[derive(Debug, Clone)]
pub enum AgentRef {
    /// An id, or a name that looks like one.
    Id(AgentId, String),
    Name(String),
    /// Well-formed, but of another hub.
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

/// Its owner, itself, and the operator.
pub fn may_manage(caller: &Caller, agent: &Agent) -> bool {
    match caller {
        Caller::Operator => true,
        Caller::Agent(identity) => identity.id == agent.id,
        Caller::Account(person) => agent.owner == Some(person.id),
        Caller::EditLink(_) | Caller::Owner(_) | Caller::Nobody => false,
    }
}

/// The agent, if the caller may change it.
pub fn managed(tx: &mut dyn Tx, caller: &Caller, agent: &AgentRef) -> Result<Agent, Error> {
    let agent = agent.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
    if !may_manage(caller, &agent) {
        return Err(Error::new(Code::Forbidden, "this is for the agent's owner, and for the agent itself"));
    }
    Ok(agent)
}
