//! Who the caller is, and how much of each quota it uses.

use crate::app::{App, AppState};
use crate::caller::Caller;
use crate::error::Error;
use crate::quotas::OFF;
use chorus_protocol::api::accounts::{Me, Quota};
use chorus_protocol::ids::Principal;
use chorus_store::{Tx, usage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who the caller is, and how much it uses of what it may have.
pub async fn me(app: &AppState, caller: Caller) -> Result<Me, Error> {
    let (kind, who) = (caller.kind(), caller.id());
    let (id, name, email, address) = match caller {
        Caller::Account(person) => (person.id.to_string(), person.name, Some(person.email), None),
        Caller::Agent(agent) => {
            let address = app.address(&agent.name);
            (agent.id.to_string(), agent.name, None, Some(address))
        }
        Caller::Owner(wallet) => (wallet.to_string(), kind.to_string(), None, None),
        Caller::Operator => (kind.to_string(), kind.to_string(), None, None),
        Caller::Nobody => return Err(Error::unauthorized("nobody is signed in, and no key was sent")),
    };
    let hub = Arc::clone(app);
    let quotas = match who {
        Some(who) => app.store.read::<_, Error, _>(move |tx: &mut dyn Tx| quotas(&hub, tx, who)).await?,
        None => BTreeMap::new(),
    };
    Ok(Me { kind: kind.into(), id, name, email, address, quotas })
}

fn quotas(app: &App, tx: &mut dyn Tx, who: Principal) -> Result<BTreeMap<String, Quota>, Error> {
    let quota = |used, limit| Quota { used, limit: (limit != OFF).then_some(limit) };
    let (bytes, used, limit) = app.usage.of(tx, who)?;
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
