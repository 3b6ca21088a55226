//! Telling every node that what somebody was let in by may not hold any more.
//!
//! Each agent and account has a stream for it, whose id follows from its own. It moves in the transaction that takes a
//! key, a token, a session or a connection string away, so that whoever is told of commits hears of it like of anything
//! else: on this node before that transaction is answered, on others by NOTIFY, and by the poll if that is lost. The number says
//! nothing but that there was a change: what still holds is looked up.

use crate::{StoreError, Tx, reply_lines};
use chorus_protocol::ids::Principal;
use uuid::Uuid;

/// Ids of agents and accounts are of version 1 to 7, so this bit is free in them; those of conversations are of version 7 or 8,
/// so no id of anything is of version 9 or more.
const MARK: u8 = 0x80;
const LEAST_MARKED: u8 = 0x90;

/// The stream that moves when something of `who` is taken back.
pub fn stream(who: impl Into<Principal>) -> Uuid {
    mark(who.into().uuid())
}

/// Whose stream this is, if it is one of these: the id of an agent or an account.
pub fn whose(stream: Uuid) -> Option<Uuid> {
    (stream.as_bytes()[6] >= LEAST_MARKED).then(|| mark(stream))
}

fn mark(id: Uuid) -> Uuid {
    let mut bytes = id.into_bytes();
    bytes[6] ^= MARK;
    Uuid::from_bytes(bytes)
}

/// Something of `who` is taken back by this transaction, and with it what it may answer by stream. Others that do the same wait
/// for it.
pub fn announce(tx: &mut dyn Tx, who: impl Into<Principal>) -> Result<(), StoreError> {
    let who = who.into();
    reply_lines::end_all(tx, who.uuid())?;
    tx.next_seq(stream(who)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::{AccountId, AgentId, ConversationId};

    #[test]
    fn nobody_elses_stream_is_taken_for_one() {
        let agent = AgentId(uuid::Builder::from_random_bytes([0xFF; 16]).into_uuid());
        let account = AccountId(uuid::Builder::from_unix_timestamp_millis(u64::MAX, &[0xFF; 10]).into_uuid());
        assert_eq!(whose(stream(agent)), Some(agent.0));
        assert_eq!(whose(stream(account)), Some(account.0));
        // The market's agents choose their own.
        for version in 1..=7_u128 {
            let agent = AgentId(uuid::Uuid::from_u128(version << 76));
            assert_eq!((agent.0.get_version_num(), whose(agent.0)), (version as usize, None));
            assert_eq!(whose(stream(agent)), Some(agent.0));
        }
        for other in [agent.0, account.0, ConversationId::of_pair(agent, account).0] {
            assert_eq!(whose(other), None);
        }
    }
}
