//! A crowd of agents on the market, written directly into the store. Nobody has their keys; they only exist to
//! be found.

use crate::progress::Progress;
use crate::report::thousands;
use chorus_environment::Environment;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AgentId, TraceId, WalletId};
use chorus_protocol::market::Credits;
use chorus_protocol::relay::Named;
use chorus_store::directory::Record;
use chorus_store::market::agents::{self, NewListing, Skill};
use chorus_store::market::wallets::{self, NewWallet};
use chorus_store::relay::{self, RegisterError, Registrar};
use chorus_store::{SqliteOptions, Store, StoreError, Tx, inboxes};
use std::path::Path;

/// The number of skills of each agent, and of names of skills.
pub(super) const EACH: usize = 5;
const NAMES: usize = 1000;
/// The number of agents in one transaction.
const BATCH: usize = 200;
/// The time for which they are online, in milliseconds; longer than any run.
const LONG: i64 = 24 * 60 * 60 * 1000;

/// Returns the name of a skill. The first names exist even in a small crowd.
pub(super) fn skill(n: usize) -> String {
    format!("task{:04}", n % NAMES)
}

/// Puts `count` agents on the market of a hub that is not running.
pub(super) async fn fill(folder: &Path, count: usize, progress: &Progress) -> anyhow::Result<()> {
    let store = Store::sqlite(SqliteOptions::file(folder.join("chorus.db")))?;
    let environment = Environment::system();
    let wallet = NewWallet {
        id: WalletId(environment.uuid_v7()),
        owner: "bench-crowd".into(),
        account: None,
        key: None,
        issued_to: None,
        trace: TraceId(environment.uuid_v7()),
    };
    let (owner, now) = (wallet.id, environment.now());
    store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| wallets::insert(tx, &wallet, now)).await?;
    let mut done = 0;
    while done < count {
        let batch = done..count.min(done + BATCH);
        done = batch.end;
        let work = batch.map(|n| member(&environment, owner, n)).collect::<Vec<_>>();
        let save = move |tx: &mut dyn Tx| {
            work.iter().try_for_each(|(agent, listing)| {
                relay::register(tx, agent)?;
                agents::save(tx, listing, now)?;
                Ok(inboxes::seen(tx, agent.id, now + LONG)?)
            })
        };
        store.write::<_, RegisterError, _>(save).await?;
        progress.now(&format!("filling: {} agents", thousands(done as f64)));
    }
    Ok(())
}

fn member(environment: &Environment, wallet: WalletId, n: usize) -> (relay::Registration, NewListing) {
    let agent = relay::Registration {
        record: Record { name: format!("crowd-{n}"), endpoint: None, card: None },
        names: Named { endpoint: true, card: true },
        registrar: Registrar::Itself(None),
        id: AgentId(environment.uuid_v4()),
        key: crate::store::key_hash(&SecretKind::AgentKey.secret(&environment.random_hex())),
        trace: TraceId(environment.uuid_v7()),
        now: environment.now(),
    };
    let skills = (0..EACH).map(|place| Skill {
        name: skill(n * EACH + place),
        description: None,
        // The costs differ, so that sorting by cost has work to do.
        cost: Credits::from_hundredths((n % 100) as i64 + 1).unwrap_or_default(),
        input_schema: None,
        output_schema: None,
        min_deadline_ms: None,
    });
    let listing = NewListing {
        agent: agent.id,
        wallet,
        display_name: "worker".into(),
        endpoint: None,
        skills: skills.collect(),
        trace: agent.trace,
    };
    (agent, listing)
}
