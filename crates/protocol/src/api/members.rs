//! Who is in a conversation.

use super::Name;
use super::agents::AgentAddress;
use crate::words::{PrincipalKind, Word};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An account's email address or id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an account's email address or id",
    max_length = 254,
    pattern = r"^(acc_[0-9a-f]{32}|[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+)$",
    example = "anna@example.org"
)]
pub struct AccountAddress(pub String);

/// Somebody to be added: an agent or a person, not both.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = NewMemberBody)]
pub enum NewMember {
    /// An agent.
    Agent(NewAgentMember),
    /// A person.
    Account(NewPersonMember),
}

/// An agent to be added.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAgentMemberBody)]
pub struct NewAgentMember {
    /// Its address or id.
    pub agent: AgentAddress,
    /// What it is called here; unless said, a form of its name, with a number added when that is taken.
    pub handle: Option<Name>,
    /// What it does here.
    #[serde(default)]
    #[schema(nullable, max_items = 16)]
    pub roles: Vec<Name>,
    /// Whether it answers for the others: a lead may add and remove members.
    #[serde(default)]
    #[schema(nullable)]
    pub lead: bool,
}

/// A person to be added.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewPersonBody)]
pub struct NewPersonMember {
    /// The account's email address or id.
    pub account: AccountAddress,
    /// What it is called here; unless said, a form of its name, with a number added when that is taken.
    pub handle: Option<Name>,
    /// What it does here.
    #[serde(default)]
    #[schema(nullable, max_items = 16)]
    pub roles: Vec<Name>,
    /// Whether it answers for the others: a lead may add and remove members.
    #[serde(default)]
    #[schema(nullable)]
    pub lead: bool,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// What it is called here.
    pub handle: String,
    /// `account` or `agent`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
    /// Its id.
    pub id: String,
    /// What it does here.
    pub roles: Vec<String>,
    /// Whether it answers for the others.
    pub lead: bool,
    /// When it came.
    pub joined_at: String,
}

/// What is to change of a member; what is not said stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberChangeBody)]
pub struct MemberChange {
    /// What it is called here.
    pub handle: Option<Name>,
    /// What it does here.
    #[schema(max_items = 16)]
    pub roles: Option<Vec<Name>>,
    /// Whether it answers for the others; for the owner to say.
    pub lead: Option<bool>,
}

/// The answer to whoever adds or writes to a person that is asked first: the same for every address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invited {
    /// Always `invited`: if somebody has this address, it is asked.
    #[schema(pattern = "^invited$")]
    pub status: String,
}
