//! The caller of an act: one enum for every kind of principal, and the credential of a request. Keys are
//! identified by their SHA-256.

use crate::error::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AccountId, AgentId, Principal, ScoreId, WalletId};
use chorus_protocol::words::PrincipalKind;
use chorus_store::audit::Actor;
use chorus_store::directory::KeyHash;
use chorus_store::market::wallets::Wallet;
use sha2::{Digest, Sha256};

/// An authenticated or anonymous caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// One agent, by its key.
    Agent(Identity),
    /// One person, by a token or a browser's session.
    Account(Person),
    /// The holder of the edit link of one unclaimed Score.
    EditLink(ScoreId),
    /// The owner of a wallet, by its key.
    Owner(WalletId),
    /// The operator of this hub.
    Operator,
    /// No key was shown.
    Nobody,
}

/// The identity of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub id: AgentId,
    pub name: String,
}

/// The identity of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub id: AccountId,
    pub name: String,
    pub email: String,
}

impl Caller {
    /// Returns whether this caller owns a wallet, by its key or its account, and may spend from it.
    pub fn owns(&self, wallet: &Wallet) -> bool {
        match self {
            Self::Owner(id) => wallet.id == *id,
            Self::Account(person) => wallet.account == Some(person.id),
            Self::Agent(_) | Self::Operator | Self::EditLink(_) | Self::Nobody => false,
        }
    }

    /// Returns the agent or person, which alone can speak in conversations, or an error.
    pub fn principal(&self) -> Result<Principal, Error> {
        match self {
            Self::Agent(identity) => Ok(identity.id.into()),
            Self::Account(person) => Ok(person.id.into()),
            Self::Operator => Err(Error::new(
                Code::Forbidden,
                "the operator is in no conversation; use an account's token or an agent's key",
            )),
            Self::EditLink(_) => Err(edit_link()),
            Self::Owner(_) => Err(Error::new(
                Code::Forbidden,
                "an owner's key is for the market only; use an account's token or an agent's key",
            )),
            Self::Nobody => Err(Error::unauthorized(
                "this needs an account's token or an agent's key: Authorization: Bearer ct_… or ca_…",
            )),
        }
    }

    /// The person, or the reason why this is none.
    pub fn person(&self) -> Result<&Person, Error> {
        match self {
            Self::Account(person) => Ok(person),
            Self::Nobody => Err(Error::unauthorized("this needs an account: sign in, or show a token ct_…")),
            Self::EditLink(_) => Err(edit_link()),
            Self::Agent(_) | Self::Owner(_) | Self::Operator => {
                Err(Error::new(Code::Forbidden, "this is for people's accounts only"))
            }
        }
    }

    /// Checks that the caller is the operator.
    pub fn operator(&self) -> Result<(), Error> {
        match self {
            Self::Operator => Ok(()),
            Self::Nobody => {
                Err(Error::unauthorized("this needs the operator's key: Authorization: Bearer co_…"))
            }
            Self::EditLink(_) => Err(edit_link()),
            Self::Agent(_) | Self::Account(_) | Self::Owner(_) => {
                Err(Error::new(Code::Forbidden, "this is the operator's only"))
            }
        }
    }

    /// The agent, or the reason why this is none.
    pub fn agent(&self) -> Result<&Identity, Error> {
        match self {
            Self::Agent(identity) => Ok(identity),
            Self::EditLink(_) => Err(edit_link()),
            Self::Operator | Self::Account(_) | Self::Owner(_) => Err(Error::new(
                Code::Forbidden,
                "this needs an agent's own key, not the operator's, an owner's or an account's",
            )),
            Self::Nobody => Err(Error::unauthorized("this needs an agent's key: Authorization: Bearer ca_…")),
        }
    }

    /// Checks that the caller showed a valid key.
    pub fn known(&self) -> Result<(), Error> {
        if self.is_known() {
            return Ok(());
        }
        if let Self::EditLink(_) = self {
            return Err(edit_link());
        }
        Err(Error::unauthorized(
            "this needs an account's token or an agent's key: Authorization: Bearer ct_… or ca_…",
        ))
    }

    /// Returns whether the caller showed a valid key. An edit link does not identify its holder.
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Nobody | Self::EditLink(_))
    }

    /// Returns the agent or person, if the caller is one.
    pub fn id(&self) -> Option<Principal> {
        match self {
            Self::Agent(identity) => Some(identity.id.into()),
            Self::Account(person) => Some(person.id.into()),
            Self::Owner(_) | Self::Operator | Self::Nobody | Self::EditLink(_) => None,
        }
    }

    /// Returns the actor for the audit log.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Agent(identity) => Actor::Principal(identity.id.into()),
            Self::Account(person) => Actor::Principal(person.id.into()),
            Self::Owner(wallet) => Actor::Owner(*wallet),
            Self::Operator => Actor::Operator,
            Self::EditLink(_) | Self::Nobody => Actor::Nobody,
        }
    }

    /// Its kind, for the log.
    pub fn kind(&self) -> PrincipalKind {
        self.actor().kind()
    }
}

/// An edit link opens one Score and nothing else.
fn edit_link() -> Error {
    Error::new(Code::Forbidden, "an edit link is good for its own Score only")
}

/// The hash under which a key is known.
pub fn key_hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

/// The credential of a request.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The hash of the secret.
    pub hash: KeyHash,
    pub(crate) scheme: Scheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// A bearer key: an agent's, a token or the operator's.
    Bearer,
    /// The session cookie of a browser.
    Session,
}

impl Shown {
    /// Makes the credential of a bearer key.
    pub fn key(key: &str) -> Self {
        Self { hash: key_hash(key), scheme: Scheme::Bearer }
    }

    /// Makes the credential of a browser's session.
    pub fn session(secret: &str) -> Self {
        Self { hash: key_hash(secret), scheme: Scheme::Session }
    }

    /// Returns whether this is a browser's session.
    pub fn is_session(&self) -> bool {
        self.scheme == Scheme::Session
    }
}

/// The error for a disabled principal with a valid secret. A wrong secret does not reveal this.
pub fn disabled(who: &str) -> Error {
    Error::new(Code::Forbidden, format_args!("this {who} is disabled; ask the operator of this hub"))
}
