//! The kinds of credentials that a hub issues. One table serves minting and masking, so a credential that
//! cannot be masked cannot be minted.

/// A kind of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// Authorizes the operator.
    OperatorKey,
    /// Authenticates an agent.
    AgentKey,
    /// Authenticates the owner of agents and a wallet on the market.
    OwnerKey,
    /// Lets a program act for an account.
    ApiToken,
    /// Keeps an account signed in in a browser.
    Session,
    /// Lets a browser open an agent's inbox stream.
    InboxSession,
    /// The secret in a sign-in link.
    MagicLink,
    /// Lets a person sign up at the hub. The user interface calls it an invitation.
    SignUpCode,
    /// The secret in a link that allows editing.
    EditLink,
    /// The secret in a connection string.
    ConnectionString,
    /// The secret in a callback URL.
    CallbackToken,
    /// Lets an agent use a channel's tools over MCP.
    McpToken,
    /// Lets another service send messages in.
    IngestSecret,
    /// Signs webhooks.
    WebhookSecret,
}

/// The properties of one kind of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// The prefix of every credential of this kind.
    pub prefix: &'static str,
    /// The name that replaces a masked credential.
    pub name: &'static str,
    /// The right or fact that the credential proves.
    pub proves: &'static str,
}

/// All kinds, in the order of [`SecretKind`].
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
    /// Iterates over all kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(kind, _)| *kind)
    }

    /// Returns the table row of this kind.
    pub fn description(self) -> &'static Description {
        &TABLE[self as usize].1
    }

    /// Returns the prefix of credentials of this kind.
    pub fn prefix(self) -> &'static str {
        self.description().prefix
    }

    /// Builds a credential from the kind's prefix and 32 random hex digits.
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
