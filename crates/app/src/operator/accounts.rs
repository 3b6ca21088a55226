//! Accounts, as the operator sees them.

use chorus_node::App;
use chorus_node::Error;
use chorus_node::page::fitting;
use chorus_protocol::api::Items;
use chorus_protocol::api::operator::{Account, AccountSearch};
use chorus_protocol::time::rfc3339;
use chorus_store::{Tx, accounts};

/// Lists the accounts with a text in their name or address, the oldest first, including deleted ones.
pub async fn list_accounts(app: &App, asked: AccountSearch) -> Result<Items<Account>, Error> {
    let AccountSearch { q, after, limit } = asked;
    let text = q.unwrap_or_default();
    let find = move |tx: &mut dyn Tx| Ok(accounts::search(tx, &text, after, limit)?);
    let found = app.store.read::<_, Error, _>(find).await?;
    let shown = found.accounts.into_iter().map(|(account, deleted_at)| shown(account, deleted_at)).collect();
    let next = found.next.map(|last| last.to_string());
    Ok(fitting(app, shown, next, |account: &Account| account.account_id.to_string()))
}

pub(super) fn shown(account: accounts::Account, deleted_at: Option<i64>) -> Account {
    Account {
        account_id: account.id,
        email: deleted_at.is_none().then_some(account.email),
        name: account.name,
        created_at: rfc3339(account.created_at),
        disabled_since: account.disabled_at.map(rfc3339),
        deleted_at: deleted_at.map(rfc3339),
    }
}
