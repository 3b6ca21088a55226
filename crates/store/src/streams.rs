//! Numbered streams: what each one counts, and the heads of many at once.
//!
//! A stream is named by its kind and an id. Callers choose some ids (an agent's, on the market), so an id alone never names
//! a stream: with the kind in the key, two things of one id share neither numbers nor locks nor wake-ups.

use crate::{Param, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, Principal, ScoreId, StreamId, WalletId};
use std::fmt;
use uuid::Uuid;

/// The number of ids that one statement asks for.
const IDS_PER_STATEMENT: usize = 15;

/// The kinds of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// The deliveries of an agent, or the callbacks of a wallet's owner.
    Inbox,
    /// The events of a conversation.
    Conversation,
    /// The events of a work stream.
    WorkStream,
    /// The leaves of the transparency log. There is one.
    Log,
    /// The pieces of answers that grow in a conversation.
    Growth,
    /// The lines that an agent replies with to senders that wait.
    Replies,
    /// The credentials of an agent, an account or a wallet that were taken back.
    Revocations,
    /// An account, which is locked and never numbered.
    Account,
    /// A wallet, which is locked and never numbered.
    Wallet,
    /// A Score, which is locked and never numbered.
    Score,
}

impl StreamKind {
    pub const ALL: [Self; 10] = [
        Self::Inbox,
        Self::Conversation,
        Self::WorkStream,
        Self::Log,
        Self::Growth,
        Self::Replies,
        Self::Revocations,
        Self::Account,
        Self::Wallet,
        Self::Score,
    ];

    /// The word that is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Conversation => "conversation",
            Self::WorkStream => "work",
            Self::Log => "log",
            Self::Growth => "growth",
            Self::Replies => "replies",
            Self::Revocations => "revocations",
            Self::Account => "account",
            Self::Wallet => "wallet",
            Self::Score => "score",
        }
    }

    /// Reads what [`Self::as_str`] gave.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The key of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// Tells apart the streams of one id.
    pub kind: StreamKind,
    /// The id of what is numbered.
    pub id: Uuid,
}

impl StreamKey {
    pub const LOG: Self =
        Self { kind: StreamKind::Log, id: Uuid::from_u128(0x6368_6f69_7200_4000_8000_6c6f_6700_0001) };

    /// Moves when an answer grows in this conversation.
    pub fn growth(conversation: ConversationId) -> Self {
        Self { kind: StreamKind::Growth, id: conversation.0 }
    }

    /// Moves when this agent says something to a sender that waits for it.
    pub fn replies(agent: AgentId) -> Self {
        Self { kind: StreamKind::Replies, id: agent.0 }
    }

    /// Moves when a credential of `who` is taken back.
    pub fn revocations(who: impl Into<Principal>) -> Self {
        Self { kind: StreamKind::Revocations, id: who.into().uuid() }
    }

    /// The key as the two parameters of a statement.
    pub(crate) fn params(&self) -> [Param<'_>; 2] {
        [self.kind.as_str().into(), (&self.id).into()]
    }

    /// Reads what [`fmt::Display`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once('.')?;
        Some(Self { kind: StreamKind::parse(kind)?, id: Uuid::try_parse(id).ok()? })
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.as_str(), self.id.simple())
    }
}

macro_rules! stream_of {
    ($id:ident, $kind:ident) => {
        impl From<$id> for StreamKey {
            fn from(id: $id) -> Self {
                Self { kind: StreamKind::$kind, id: id.0 }
            }
        }
    };
}

stream_of!(AgentId, Inbox);
stream_of!(ConversationId, Conversation);
stream_of!(StreamId, WorkStream);
stream_of!(AccountId, Account);
stream_of!(WalletId, Wallet);
stream_of!(ScoreId, Score);

impl From<Principal> for StreamKey {
    fn from(who: Principal) -> Self {
        match who {
            Principal::Account(id) => id.into(),
            Principal::Agent(id) => id.into(),
        }
    }
}

/// Returns the last sequence numbers of these streams. Streams that were never numbered are left out.
pub fn heads(tx: &mut dyn Tx, streams: &[StreamKey]) -> Result<Vec<(StreamKey, i64)>, StoreError> {
    let mut heads = Vec::with_capacity(streams.len());
    let mut streams = streams.to_vec();
    streams.sort_unstable();
    for of_kind in streams.chunk_by(|one, other| one.kind == other.kind) {
        let kind = of_kind[0].kind;
        for some in of_kind.chunks(IDS_PER_STATEMENT) {
            // The last id stands in for those that are missing.
            let ids = (0..IDS_PER_STATEMENT).map(|n| Param::from(&some[n.min(some.len() - 1)].id));
            let params: Vec<_> = std::iter::once(kind.as_str().into()).chain(ids).collect();
            let sql = "SELECT id, head FROM streams
                       WHERE kind = $1 AND id IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
            for mut row in tx.query(sql, &params)? {
                heads.push((StreamKey { kind, id: row.uuid("id")? }, row.int("head")?));
            }
        }
    }
    Ok(heads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        for kind in StreamKind::ALL {
            let key = StreamKey { kind, id: Uuid::from_u128(7) };
            assert_eq!(StreamKey::parse(&key.to_string()), Some(key));
        }
        for wrong in ["", "inbox", "inbox.", "outbox.00000000000000000000000000000007"] {
            assert_eq!(StreamKey::parse(wrong), None, "{wrong}");
        }
    }
}
