//! Members of a conversation.

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

/// A member to add: either an agent or a person.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = NewMemberBody)]
pub enum NewMember {
    Agent(NewAgentMember),
    Account(NewPersonMember),
}

/// An agent to add to a conversation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAgentMemberBody)]
pub struct NewAgentMember {
    /// The agent's address or id.
    pub agent: AgentAddress,
    /// The handle; by default derived from the name, with a number if it is taken.
    pub handle: Option<Name>,
    /// The agent's roles in the conversation.
    #[serde(default)]
    #[schema(nullable, max_items = 16)]
    pub roles: Vec<Name>,
    /// Makes the agent a lead, who answers for the others and may add and remove members.
    #[serde(default)]
    #[schema(nullable)]
    pub lead: bool,
}

/// A person to add to a conversation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewPersonBody)]
pub struct NewPersonMember {
    /// The account's email address or id.
    pub account: AccountAddress,
    /// The handle; by default derived from the name, with a number if it is taken.
    pub handle: Option<Name>,
    /// The person's roles in the conversation.
    #[serde(default)]
    #[schema(nullable, max_items = 16)]
    pub roles: Vec<Name>,
    /// Makes the person a lead, who answers for the others and may add and remove members.
    #[serde(default)]
    #[schema(nullable)]
    pub lead: bool,
}

/// A member of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// The member's handle in the conversation.
    pub handle: String,
    /// The kind: `account` or `agent`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
    /// The id of the account or agent.
    pub id: String,
    /// The member's roles.
    pub roles: Vec<String>,
    /// `true` if the member is a lead, who answers for the others.
    pub lead: bool,
    /// The time of joining.
    pub joined_at: String,
}

/// Changes to a member. Absent members of the body stay unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberChangeBody)]
pub struct MemberChange {
    /// The new handle.
    pub handle: Option<Name>,
    /// The new roles.
    #[schema(max_items = 16)]
    pub roles: Option<Vec<Name>>,
    /// Makes the member a lead, or ends that. Only the owner may set it.
    pub lead: Option<bool>,
}

/// The response to adding or writing to a person who must accept first. It is the same for every address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invited {
    /// Always `invited`. If the address belongs to an account, that person is invited.
    #[schema(pattern = "^invited$")]
    pub status: String,
}
