//! References to principals in requests: an existing agent, or a person who may have no account yet; and
//! default handles for both.

use crate::agents::AgentRef;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::config::mail::check_address;
use chorus_protocol::api;
use chorus_protocol::api::agents::AgentAddress;
use chorus_protocol::api::members::AccountAddress;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::AccountId;
use chorus_protocol::mentions::MAX_HANDLE;
use chorus_store::accounts::{self, Account};
use chorus_store::directory::Agent;
use chorus_store::invitations::Invitee;
use chorus_store::{StoreError, Tx};

/// A principal as a request names it.
#[derive(Debug, Clone)]
pub(crate) struct PrincipalRef {
    agent: Option<AgentRef>,
    account: Option<AccountRef>,
}

#[derive(Debug, Clone)]
pub(crate) enum AccountRef {
    Id(AccountId),
    Email(String),
}

impl AccountRef {
    fn parse(text: &str) -> Option<Self> {
        if let Some(id) = AccountId::parse(text) {
            return Some(Self::Id(id));
        }
        check_address(text).ok().map(|()| Self::Email(text.to_owned()))
    }

    /// Returns the account if there is one, and the invitee for an invitation.
    pub(crate) fn find(&self, tx: &mut dyn Tx) -> Result<(Option<Account>, Invitee), StoreError> {
        let account = match self {
            Self::Id(id) => accounts::by_id(tx, *id)?,
            Self::Email(email) => accounts::by_email(tx, email)?,
        };
        let invitee = match self {
            Self::Id(id) => Invitee::Id(*id, account.as_ref().map(|account| account.email.clone())),
            Self::Email(email) => Invitee::Email(email.clone(), account.as_ref().map(|account| account.id)),
        };
        Ok((account, invitee))
    }
}

impl PrincipalRef {
    /// Parses an agent's address or id.
    pub(crate) fn agent(app: &App, AgentAddress(text): &AgentAddress) -> Result<Self, Faults> {
        let agent = AgentRef::parse(app, text);
        let agent = agent.map_err(|_| Faults::one("agent", "must be an agent's address or id"))?;
        Ok(Self { agent: Some(agent), account: None })
    }

    /// Parses a person's email address or id.
    pub(crate) fn account(AccountAddress(text): &AccountAddress) -> Result<Self, Faults> {
        let account = AccountRef::parse(text);
        let account =
            account.ok_or_else(|| Faults::one("account", "must be an account's email address or id"))?;
        Ok(Self { agent: None, account: Some(account) })
    }

    /// Parses a reference to an agent or a person from the member `name` of a request. An address of an agent
    /// means that agent.
    pub(crate) fn anybody(app: &App, name: &str, api::Whom(text): &api::Whom) -> Result<Self, Faults> {
        let (agent, account) = (AgentRef::parse(app, text).ok(), AccountRef::parse(text));
        if agent.is_none() && account.is_none() {
            let what = "must be an agent's address or id, or an account's email address or id";
            return Err(Faults::one(name, what));
        }
        Ok(Self { agent, account })
    }

    /// Resolves the reference to an existing agent, or to a person who may have no account yet.
    pub(crate) fn find(&self, tx: &mut dyn Tx) -> Result<Found<'_>, Error> {
        if let Some(agent) = &self.agent
            && let Some(agent) = agent.find(tx)?
        {
            return Ok(Found::Agent(Box::new(agent)));
        }
        self.account.as_ref().map(Found::Person).ok_or_else(|| Error::not_found("agent"))
    }
}

/// A resolved reference.
pub(crate) enum Found<'a> {
    Agent(Box<Agent>),
    Person(&'a AccountRef),
}

/// Returns the default handle of the caller.
pub(crate) fn own_handle(caller: &Caller) -> String {
    match caller {
        Caller::Agent(identity) => agent_handle(&identity.name),
        Caller::Account(person) => person_handle(&person.name, &person.email),
        Caller::Operator | Caller::EditLink(_) | Caller::Owner(_) | Caller::Nobody => {
            caller.kind().to_string()
        }
    }
}

/// Returns the default handle of an agent.
pub(crate) fn agent_handle(name: &str) -> String {
    name.chars().take(MAX_HANDLE).collect()
}

/// Returns the default handle of a person.
pub(crate) fn person_handle(name: &str, email: &str) -> String {
    let local = email.split_once('@').map_or(email, |(local, _)| local);
    let mut slugs = [name, local].into_iter().map(slug).filter(|slug| !slug.is_empty());
    slugs.next().unwrap_or_else(|| "member".into())
}

/// Makes a handle from a text: lower case, with one dash for each run of characters that a handle cannot have.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for sign in text.chars().flat_map(char::to_lowercase) {
        if sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-') {
            slug.push(sign);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let apart = ['.', '_', '-'];
    slug.trim_matches(apart).chars().take(MAX_HANDLE).collect::<String>().trim_end_matches(apart).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_called_by_their_names() {
        for (name, email, handle) in [
            ("Anna", "a@example.org", "anna"),
            ("Anna  Lee-Smith (dev)", "a@example.org", "anna-lee-smith-dev"),
            ("Анна", "anna.k@example.org", "anna.k"),
            ("", "Anna+x@example.org", "anna-x"),
            ("", "-@example.org", "member"),
        ] {
            assert_eq!(person_handle(name, email), handle);
        }
        assert_eq!(slug(&"x.".repeat(60)).len(), 63);
    }
}
