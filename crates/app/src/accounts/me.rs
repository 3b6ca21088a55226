//! The caller's identity and its use of each quota.

use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::config::quotas::OFF;
use chorus_node::{App, AppState};
use chorus_protocol::api::accounts::{Me, Quota};
use chorus_protocol::ids::Principal;
use chorus_store::{Tx, accounts, usage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the caller's identity and its use of each quota.
pub async fn me(app: &AppState, caller: Caller) -> Result<Me, Error> {
    let (kind, who) = (caller.kind(), caller.id());
    let wallet = if let Caller::Owner(wallet) = &caller { Some(*wallet) } else { None };
    let (id, name, email, address) = match caller {
        Caller::Account(person) => (person.id.to_string(), person.name, Some(person.email), None),
        Caller::Agent(agent) => {
            let address = app.address(&agent.name);
            (agent.id.to_string(), agent.name, None, Some(address))
        }
        Caller::Owner(wallet) => (wallet.to_string(), kind.to_string(), None, None),
        Caller::Operator => (kind.to_string(), kind.to_string(), None, None),
        Caller::EditLink(_) => {
            return Err(caller.known().err().unwrap_or_else(|| Error::not_found("account")));
        }
        Caller::Nobody => return Err(Error::unauthorized("nobody is signed in, and no key was sent")),
    };
    let (hub, wallet) = (Arc::clone(app), wallet);
    let read = move |tx: &mut dyn Tx| {
        let mails = match who {
            Some(Principal::Account(account)) => Some(accounts::wants_mails(tx, account)?),
            _ => None,
        };
        // An owner's key shows the usage of the payer behind its wallet.
        let who = wallet.map_or(Ok(who), |wallet| usage::payer_by_id(tx, wallet).map(Some))?;
        Ok((who.map_or_else(|| Ok(BTreeMap::new()), |who| quotas(&hub, tx, who))?, mails))
    };
    let (quotas, mails) = app.store.read::<_, Error, _>(read).await?;
    Ok(Me { kind: kind.into(), id, name, email, address, mails, quotas })
}

fn quotas(app: &App, tx: &mut dyn Tx, who: Principal) -> Result<BTreeMap<String, Quota>, Error> {
    let quota = |used, limit| Quota { used, limit: (limit != OFF).then_some(limit) };
    let (bytes, used, limit) = app.limits.usage.of(tx, who)?;
    let channels = usage::channels(tx, who)?.max(0) as u64;
    let mut quotas = BTreeMap::from([
        (bytes.to_owned(), quota(used, limit)),
        ("channels".to_owned(), quota(channels, app.config.quotas.channels)),
    ]);
    if let Principal::Account(account) = who {
        let agents = usage::agents(tx, account)?.max(0) as u64;
        quotas.insert("agents".to_owned(), quota(agents, app.config.quotas.agents));
    }
    Ok(quotas)
}
