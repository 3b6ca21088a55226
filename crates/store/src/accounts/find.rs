//! All accounts there are and were, for the operator: in the order in which they were made, and by a part of their name or
//! address.

use super::{Account, account};
use crate::{StoreError, Tx};
use chorus_protocol::ids::AccountId;

/// The maximum number of accounts that one page scans.
pub const LOOKED_AT: i64 = 5000;

/// A page of accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Each with when it was deleted, if it was: then nothing is left of it but its id and a name that says so.
    pub accounts: Vec<(Account, Option<i64>)>,
    /// The last one that was looked at, if there may be more.
    pub next: Option<AccountId>,
}

/// At most `limit` accounts after this one, of those with this text in their name or address. It looks at [`LOOKED_AT`] at
/// most: a page may hold few, or none, although there are more.
pub fn search(
    tx: &mut dyn Tx,
    text: &str,
    after: Option<AccountId>,
    limit: i64,
) -> Result<Found, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), AccountId::as_bytes);
    // Letters are folded here: the databases do not agree about those that are not ASCII.
    let text = text.to_lowercase();
    let is_it = |account: &Account, deleted: bool| {
        account.name.to_lowercase().contains(&text)
            || !deleted && account.email.to_lowercase().contains(&text)
    };
    let sql = "SELECT id, email, name, created_at, disabled_at, seen_at, deleted_at FROM accounts
               WHERE id > $1 ORDER BY id LIMIT $2";
    let (mut found, mut looked_at, mut last) = (Found::default(), 0, None);
    tx.each(sql, &[after.into(), LOOKED_AT.into()], &mut |mut row| {
        let deleted_at = row.opt_int("deleted_at")?;
        let one = account(row)?;
        if is_it(&one, deleted_at.is_some()) {
            if found.accounts.len() as i64 == limit {
                found.next = last;
                return Ok(false);
            }
            last = Some(one.id);
            found.accounts.push((one, deleted_at));
        } else {
            last = Some(one.id);
        }
        looked_at += 1;
        Ok(true)
    })?;
    if looked_at == LOOKED_AT {
        found.next = last;
    }
    Ok(found)
}
