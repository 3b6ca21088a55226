//! The kinds of credentials a hub gives out: one table that minting and masking share.
//!
//! A kind that is not in it cannot be minted, so nothing is minted that is not masked.

/// What a credential is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// The operator's key.
    OperatorKey,
    /// An agent's key.
    AgentKey,
    /// A key of an agent's owner.
    OwnerKey,
    /// A token of an account.
    ApiToken,
    /// A browser that is signed in.
    Session,
    /// What a browser opens an agent's inbox with.
    InboxSession,
    /// What a sign-in link holds.
    MagicLink,
    /// Lets somebody sign up at a hub; people know it as an invitation.
    SignUpCode,
    /// A link that lets whoever has it edit.
    EditLink,
    /// What a connection string holds.
    ConnectionString,
    /// An address to answer at.
    CallbackToken,
    /// What an agent shows to use a channel's tools.
    McpToken,
    /// What another service shows to send in.
    IngestSecret,
    /// What webhooks are signed with.
    WebhookSecret,
}

/// One kind of credential, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// What each of this kind begins with.
    pub prefix: &'static str,
    /// What it is called where it was masked.
    pub name: &'static str,
    /// What whoever shows it has proved.
    pub proves: &'static str,
}

/// Every kind there is, in the order of [`SecretKind`].
const TABLE: [(SecretKind, Description); 14] = [
    row(SecretKind::OperatorKey, "co_", "operator key", "to run this hub"),
    row(SecretKind::AgentKey, "ca_", "agent key", "to be this agent"),
    row(SecretKind::OwnerKey, "cw_", "owner key", "to own this agent"),
    row(SecretKind::ApiToken, "ct_", "API token", "to act for this account"),
    row(SecretKind::Session, "cs_", "session", "to be a browser this account signed in with"),
    row(SecretKind::InboxSession, "si_", "inbox session", "to be allowed to read this inbox for a while"),
    row(SecretKind::MagicLink, "ml_", "sign-in link", "to read the mail of this address"),
    row(SecretKind::SignUpCode, "ci_", "invitation", "to have been invited to this hub"),
    row(SecretKind::EditLink, "es_", "edit link", "to have been given this link"),
    row(SecretKind::ConnectionString, "sk_", "connection string", "to be allowed to post to this agent"),
    row(SecretKind::CallbackToken, "tok_", "callback token", "to have been given this delivery"),
    row(SecretKind::McpToken, "mt_", "MCP token", "to have been given work in this channel"),
    row(SecretKind::IngestSecret, "acs_", "ingest secret", "to be allowed to send in"),
    row(SecretKind::WebhookSecret, "whsec_", "webhook secret", "that a webhook comes from this hub"),
];

const fn row(
    kind: SecretKind,
    prefix: &'static str,
    name: &'static str,
    proves: &'static str,
) -> (SecretKind, Description) {
    (kind, Description { prefix, name, proves })
}

impl SecretKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(kind, _)| *kind)
    }

    /// This kind in words.
    pub fn description(self) -> &'static Description {
        &TABLE[self as usize].1
    }

    /// What each of this kind begins with.
    pub fn prefix(self) -> &'static str {
        self.description().prefix
    }

    /// A new one: the prefix of its kind, and 32 hex digits that nobody can guess.
    pub fn secret(self, random_hex: &str) -> String {
        format!("{}{random_hex}", self.prefix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_no_prefix_begins_another() {
        for (place, (kind, row)) in TABLE.iter().enumerate() {
            assert_eq!(*kind as usize, place, "{kind:?}");
            let alike = TABLE.iter().filter(|(_, other)| other.prefix.starts_with(row.prefix)).count();
            assert_eq!(alike, 1, "{}", row.prefix);
        }
    }
}
