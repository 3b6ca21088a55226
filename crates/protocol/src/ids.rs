//! Typed ids, so that an agent's id cannot be passed in place of an event's id.
//!
//! All ids but a delivery's are 16 bytes. An agent's id is a plain UUID, as the market document requires.
//! Accounts, events, conversations and deliveries carry a prefix. A trace id is 32 hex digits, as in W3C trace
//! context. This module only names, prints and parses ids; callers with a source of randomness create them.

use crate::words::PrincipalKind;
use sha2::{Digest, Sha256};
use std::fmt;
use uuid::Uuid;

/// The pattern of a UUID. Either case is accepted; the hub writes lower case (RFC 9562).
pub(crate) const UUID_PATTERN: &str = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $print:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Returns the sixteen bytes, as stored.
            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_bytes()
            }

            /// Converts bytes from [`Self::as_bytes`] back.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Uuid::from_slice(bytes).ok().map(Self)
            }

            /// Parses the printed form.
            pub fn parse(text: &str) -> Option<Self> {
                Uuid::try_parse(text.strip_prefix($prefix)?).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.$print())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom(concat!("not a ", stringify!($name))))
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let (title, digits) = match stringify!($print) {
                    "simple" => (concat!($what, ": ", $prefix, " and 32 hex digits"), "[0-9a-f]{32}"),
                    _ => ($what, UUID_PATTERN),
                };
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::Type::String)
                    .title(Some(title))
                    .pattern(Some(format!(concat!("^", $prefix, "{}$"), digits)))
                    .into()
            }
        }
    };
}

id!(
    /// The permanent id of an agent. After an agent is deleted its address may be reused, its id never.
    AgentId, "", hyphenated, "the id of an agent"
);
id!(EventId, "evt_", simple, "the id of a message");
id!(
    /// The id of a channel or of a direct conversation.
    ConversationId, "ch_", simple, "the id of a conversation"
);
id!(
    /// The id of a message held for a person's approval.
    ApprovalId, "apr_", simple, "the id of a message that waits"
);
id!(
    /// The id of a work stream: a piece of work that may span several conversations.
    StreamId, "stream_", simple, "the id of a work stream"
);
id!(AccountId, "acc_", simple, "the id of an account");
id!(
    /// The public id of a credential, such as a token, a session or a sign-up code. It is not secret.
    CredentialId, "crd_", simple, "the id of a credential"
);
id!(
    /// The id of an entry in the audit log.
    AuditId, "aud_", simple, "the id of an act"
);
id!(InvitationId, "inv_", simple, "the id of an invitation");
id!(BlockId, "blk_", simple, "the id of a block");
id!(
    /// The id of a job on the market, chosen by its client.
    JobId, "", hyphenated, "the id of a job"
);
id!(
    /// The id of a transfer of credits, chosen by its sender.
    TransferId, "", hyphenated, "the id of a transfer"
);
id!(QuoteId, "", hyphenated, "the id of a request for offers");

id!(
    /// The id of a wallet. It never appears on the wire; there the wallet is named by its owner.
    WalletId, "", hyphenated, "the id of a wallet"
);
id!(ScoreId, "sc_", simple, "the id of a Score");
id!(
    /// The id of an evidence bundle stored by a hub.
    EvidenceId, "ev_", simple, "the id of evidence"
);

/// Returns `true` for a text in the form of an id, with a prefix or as a bare UUID. No agent and no member may be called so: a
/// request that names somebody by id would find the impostor.
pub fn is_id(text: &str) -> bool {
    if Uuid::try_parse(text).is_ok() {
        return true;
    }
    let prefixes = ["acc_", "ch_", "evt_", "crd_", "aud_", "inv_", "blk_", "apr_", "sc_", "ev_"];
    prefixes.iter().any(|prefix| text.strip_prefix(prefix).is_some_and(|rest| Uuid::try_parse(rest).is_ok()))
}

id!(
    /// The id shared by everything that one request caused.
    TraceId, "", simple, "a trace id"
);

impl ConversationId {
    /// Returns the id of the direct conversation between two principals. It is derived from the pair, so it
    /// needs no lookup.
    pub fn of_pair(one: impl Into<Principal>, other: impl Into<Principal>) -> Self {
        let (one, other) = (one.into().uuid(), other.into().uuid());
        let (low, high) = if one <= other { (one, other) } else { (other, one) };
        Self::derived(&[b"dm", low.as_bytes(), high.as_bytes()])
    }

    /// Returns the id of another service's channel as seen by one local agent.
    pub fn of_foreign(agent: AgentId, channel: &str) -> Self {
        Self::derived(&[b"foreign", agent.as_bytes(), channel.as_bytes()])
    }

    /// Returns the id of the conversation that carries one job. Each job has its own, so that a stuck job does
    /// not delay others.
    pub fn of_job(job: JobId) -> Self {
        Self::derived(&[b"job", job.as_bytes()])
    }

    /// Returns the id of the conversation that carries one request for offers.
    pub fn of_quote(quote: QuoteId) -> Self {
        Self::derived(&[b"quote", quote.as_bytes()])
    }

    fn derived(parts: &[&[u8]]) -> Self {
        Self(derived(parts))
    }
}

impl AgentId {
    /// Returns the agent id under which the owner of a wallet is called back when it hires without an agent.
    /// No agent can register it, because the market rejects ids of its UUID version.
    pub fn of_wallet(wallet: WalletId) -> Self {
        Self(derived(&[b"wallet", wallet.as_bytes()]))
    }
}

fn derived(parts: &[&[u8]]) -> Uuid {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    let digest = digest.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// A speaker: a person, identified by an account, or an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    Account(AccountId),
    Agent(AgentId),
}

impl Principal {
    /// Rebuilds a principal from [`Self::kind`] and [`Self::uuid`]. Returns `None` for kinds that are neither
    /// account nor agent.
    pub fn new(kind: &str, id: Uuid) -> Option<Self> {
        match PrincipalKind::parse(kind)? {
            PrincipalKind::Account => Some(Self::Account(AccountId(id))),
            PrincipalKind::Agent => Some(Self::Agent(AgentId(id))),
            PrincipalKind::Owner
            | PrincipalKind::Operator
            | PrincipalKind::Nobody
            | PrincipalKind::System => None,
        }
    }

    /// Returns `account` or `agent`.
    pub fn kind(self) -> PrincipalKind {
        match self {
            Self::Account(_) => PrincipalKind::Account,
            Self::Agent(_) => PrincipalKind::Agent,
        }
    }

    /// Returns the id without its kind.
    pub fn uuid(self) -> Uuid {
        match self {
            Self::Account(id) => id.0,
            Self::Agent(id) => id.0,
        }
    }

    /// Returns the agent's id, or `None` for an account.
    pub fn agent(self) -> Option<AgentId> {
        match self {
            Self::Agent(id) => Some(id),
            Self::Account(_) => None,
        }
    }
}

impl From<AccountId> for Principal {
    fn from(id: AccountId) -> Self {
        Self::Account(id)
    }
}

impl From<AgentId> for Principal {
    fn from(id: AgentId) -> Self {
        Self::Agent(id)
    }
}

impl fmt::Display for Principal {
    /// Writes the id in its printed form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(id) => id.fmt(f),
            Self::Agent(id) => id.fmt(f),
        }
    }
}

/// The id of one event's delivery to one agent: its position in that agent's inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    pub agent: AgentId,
    /// The position in the recipient's inbox.
    pub seq: i64,
}

impl DeliveryId {
    /// Parses the printed form.
    pub fn parse(text: &str) -> Option<Self> {
        let (agent, seq) = text.strip_prefix("dlv_")?.split_once('_')?;
        let digits = seq.len() <= 18 && seq.bytes().all(|byte| byte.is_ascii_digit());
        let seq = seq.parse().ok().filter(|_| digits)?;
        Some(Self { agent: AgentId(Uuid::try_parse(agent).ok()?), seq })
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dlv_{}_{}", self.agent.0.simple(), self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_and_read() {
        let uuid = Uuid::from_u128(0xa3b8_d1b6_0b3b_4b1a_9c1a_1a2b_3c4d_5e6f);
        assert_eq!(AgentId(uuid).to_string(), "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f");
        assert_eq!(EventId(uuid).to_string(), "evt_a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f");
        assert_eq!(EventId::parse(&EventId(uuid).to_string()), Some(EventId(uuid)));
        assert_eq!(EventId::parse("a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f"), None);
        assert_eq!(TraceId::from_slice(TraceId(uuid).as_bytes()), Some(TraceId(uuid)));
        let delivery = DeliveryId { agent: AgentId(uuid), seq: 7 };
        assert_eq!(DeliveryId::parse(&delivery.to_string()), Some(delivery));
        for wrong in
            ["", "dlv_", "dlv_a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f_", "dlv_a3b8d1b60b3b4b1a9c1a1a2b3c4d5e6f_+1"]
        {
            assert_eq!(DeliveryId::parse(wrong), None, "{wrong}");
        }
        for principal in [Principal::Account(AccountId(uuid)), Principal::Agent(AgentId(uuid))] {
            assert_eq!(Principal::new(principal.kind().as_str(), principal.uuid()), Some(principal));
        }
    }

    #[test]
    fn a_pair_has_one_conversation() {
        let (a, b, c) =
            (AgentId(Uuid::from_u128(1)), AgentId(Uuid::from_u128(2)), AgentId(Uuid::from_u128(3)));
        assert_eq!(ConversationId::of_pair(a, b), ConversationId::of_pair(b, a));
        assert_ne!(ConversationId::of_pair(a, b), ConversationId::of_pair(a, c));
    }
}
