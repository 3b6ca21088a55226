//! Tells every node that a credential may not hold any more.
//!
//! Each agent, account and wallet has a stream of revocations. It moves in the transaction that takes a key, a token, a session
//! or a connection string away, so that whoever is told of commits hears of it like of anything else: on this node before that
//! transaction is answered, on others by NOTIFY, and by the poll if that is lost. The number says nothing but that there was a
//! change: what still holds is looked up.

use crate::{StoreError, StreamKey, Tx, reply_lines};
use chorus_protocol::ids::Principal;

/// Announces that this transaction takes back a credential of `who`, and ends the replies that were given out to it. Others that
/// announce for the same `who` wait for this transaction.
pub fn announce(tx: &mut dyn Tx, who: impl Into<Principal>) -> Result<(), StoreError> {
    let who = who.into();
    reply_lines::end_all(tx, who.uuid())?;
    tx.next_seq(StreamKey::revocations(who)).map(drop)
}
