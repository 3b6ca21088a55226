//! Sign-up codes that wait to be used: one's own, and for the operator everybody's.

use super::{Credential, CredentialKind, credential};
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, CredentialId};

/// The sign-up codes that can still be used, of one account or of everybody, in the order of their ids, after `after`.
pub fn sign_up_codes(
    tx: &mut dyn Tx,
    of: Option<AccountId>,
    now: i64,
    after: Option<CredentialId>,
    limit: i64,
) -> Result<Vec<Credential>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), CredentialId::as_bytes);
    let kind = CredentialKind::SignUpCode.as_str();
    let rows = match of {
        Some(account) => tx.query(
            "SELECT id, label, created_at, expires_at, email FROM credentials
             WHERE account_id = $1 AND kind = $2 AND expires_at > $3 AND id > $4 ORDER BY id LIMIT $5",
            &[(&account).into(), kind.into(), now.into(), after.into(), limit.into()],
        ),
        None => tx.query(
            "SELECT id, label, created_at, expires_at, email FROM credentials
             WHERE kind = $1 AND expires_at > $2 AND id > $3 ORDER BY id LIMIT $4",
            &[kind.into(), now.into(), after.into(), limit.into()],
        ),
    };
    rows?.into_iter().map(credential).collect()
}

/// Revokes a sign-up code, one's own or for the operator anybody's, and says whether there was one.
pub fn revoke_sign_up_code(
    tx: &mut dyn Tx,
    of: Option<AccountId>,
    id: CredentialId,
) -> Result<bool, StoreError> {
    let kind = CredentialKind::SignUpCode.as_str();
    let revoked = match of {
        Some(account) => tx.execute(
            "DELETE FROM credentials WHERE id = $1 AND kind = $2 AND account_id = $3",
            &[(&id).into(), kind.into(), (&account).into()],
        ),
        None => {
            tx.execute("DELETE FROM credentials WHERE id = $1 AND kind = $2", &[(&id).into(), kind.into()])
        }
    };
    Ok(revoked? == 1)
}
