//! Typed ids, so that an agent's id cannot be passed where an event's is wanted.
//!
//! All are 16 bytes, but a delivery's. An agent's id is a plain UUID (the market's document wants one); accounts, events,
//! conversations and deliveries carry a prefix; a trace id is 32 hex digits, the form W3C trace context uses.
//! Ids are made by whoever owns a source of randomness; this module only names, prints and reads them.

use crate::words::PrincipalKind;
use sha2::{Digest, Sha256};
use std::fmt;
use uuid::Uuid;

/// What a UUID looks like: read in either case, and written in lower case (RFC 9562).
pub(crate) const UUID_PATTERN: &str = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $print:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The sixteen bytes, as stored.
            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_bytes()
            }

            /// Reads what [`Self::as_bytes`] gave.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Uuid::from_slice(bytes).ok().map(Self)
            }

            /// Reads the printed form.
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
    /// One agent, for ever: its address may be taken by another after it was deleted, its id never.
    AgentId, "", hyphenated, "the id of an agent"
);
id!(
    /// One event in a conversation.
    EventId, "evt_", simple, "the id of a message"
);
id!(
    /// One conversation: a channel, or what two say to each other.
    ConversationId, "ch_", simple, "the id of a conversation"
);
id!(
    /// One message that waits until a person agrees.
    ApprovalId, "apr_", simple, "the id of a message that waits"
);
id!(
    /// One work stream: a piece of work that goes on in one or more conversations.
    StreamId, "stream_", simple, "the id of a work stream"
);
id!(
    /// One person's account.
    AccountId, "acc_", simple, "the id of an account"
);
id!(
    /// Something that proves who somebody is: a token, a session, a sign-up code. Its id is no secret.
    CredentialId, "crd_", simple, "the id of a credential"
);
id!(
    /// One act in the audit log.
    AuditId, "aud_", simple, "the id of an act"
);
id!(
    /// One invitation into a conversation.
    InvitationId, "inv_", simple, "the id of an invitation"
);
id!(
    /// One block: somebody that somebody keeps out.
    BlockId, "blk_", simple, "the id of a block"
);
id!(
    /// One job on the market, named by whoever asks for it.
    JobId, "", hyphenated, "the id of a job"
);
id!(
    /// One transfer of credits, named by whoever makes it.
    TransferId, "", hyphenated, "the id of a transfer"
);
id!(
    /// One request for offers.
    QuoteId, "", hyphenated, "the id of a request for offers"
);

id!(
    /// One wallet. It is on no wire: there its owner names it.
    WalletId, "", hyphenated, "the id of a wallet"
);
id!(
    /// One Score.
    ScoreId, "sc_", simple, "the id of a Score"
);
id!(
    /// One bundle of evidence that a hub has taken.
    EvidenceId, "ev_", simple, "the id of evidence"
);

/// Whether a text has the form of an id with a prefix. No agent may be called so, or it would be found in place of whoever
/// has the id. (Ids of agents have none; where they are looked up, they come before names.)
pub fn is_id(text: &str) -> bool {
    let prefixes = ["acc_", "ch_", "evt_", "crd_", "aud_", "inv_", "blk_", "apr_", "sc_", "ev_"];
    prefixes.iter().any(|prefix| text.strip_prefix(prefix).is_some_and(|rest| Uuid::try_parse(rest).is_ok()))
}

id!(
    /// What ties everything together that one act caused.
    TraceId, "", simple, "a trace id"
);

impl ConversationId {
    /// The conversation of two. It follows from the pair, so that finding it needs no look-up.
    pub fn of_pair(one: impl Into<Principal>, other: impl Into<Principal>) -> Self {
        let (one, other) = (one.into().uuid(), other.into().uuid());
        let (low, high) = if one <= other { (one, other) } else { (other, one) };
        Self::derived(&[b"dm", low.as_bytes(), high.as_bytes()])
    }

    /// Another service's channel, as one agent of ours sees it.
    pub fn of_foreign(agent: AgentId, channel: &str) -> Self {
        Self::derived(&[b"foreign", agent.as_bytes(), channel.as_bytes()])
    }

    /// What a job is delivered in: its own, so that one that is stuck holds up no other.
    pub fn of_job(job: JobId) -> Self {
        Self::derived(&[b"job", job.as_bytes()])
    }

    /// The stream that moves when an answer grows in it.
    pub fn growth(self) -> Uuid {
        Self::derived(&[b"growing", self.0.as_bytes()]).0
    }

    /// What agents are asked for offers in.
    pub fn of_quote(quote: QuoteId) -> Self {
        Self::derived(&[b"quote", quote.as_bytes()])
    }

    fn derived(parts: &[&[u8]]) -> Self {
        Self(derived(parts))
    }
}

impl AgentId {
    /// Under what a wallet's owner is called back that hires without an agent. Nobody registers it: it is of no version for that.
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

/// Somebody who speaks: a person, by its account, or an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// A person.
    Account(AccountId),
    /// An agent.
    Agent(AgentId),
}

impl Principal {
    /// What [`Self::kind`] and [`Self::uuid`] gave.
    pub fn new(kind: &str, id: Uuid) -> Option<Self> {
        match PrincipalKind::parse(kind)? {
            PrincipalKind::Account => Some(Self::Account(AccountId(id))),
            PrincipalKind::Agent => Some(Self::Agent(AgentId(id))),
            PrincipalKind::Owner | PrincipalKind::Operator | PrincipalKind::Nobody => None,
        }
    }

    /// `account` or `agent`.
    pub fn kind(self) -> PrincipalKind {
        match self {
            Self::Account(_) => PrincipalKind::Account,
            Self::Agent(_) => PrincipalKind::Agent,
        }
    }

    /// The id alone.
    pub fn uuid(self) -> Uuid {
        match self {
            Self::Account(id) => id.0,
            Self::Agent(id) => id.0,
        }
    }

    /// The agent, if it is one.
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

impl AgentId {
    /// The stream that moves when it says something to a sender that waits for it.
    pub fn replies(self) -> Uuid {
        ConversationId::derived(&[b"replies", self.0.as_bytes()]).0
    }
}

impl From<AgentId> for Principal {
    fn from(id: AgentId) -> Self {
        Self::Agent(id)
    }
}

impl fmt::Display for Principal {
    /// The id as it is printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(id) => id.fmt(f),
            Self::Agent(id) => id.fmt(f),
        }
    }
}

/// One event on its way to one agent: its place in that agent's inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// To whom.
    pub agent: AgentId,
    /// Its place.
    pub seq: i64,
}

impl DeliveryId {
    /// Reads the printed form.
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
