//! Recovers an agent from a thief: withdraws its offers, resets its job routes and payee, and revokes keys
//! issued for it.

use super::who::{self, Fresh};
use chorus_node::App;
use chorus_node::Error;
use chorus_store::Tx;
use chorus_store::directory::Agent;
use chorus_store::market::withdrawal::{WithdrawnOffers, withdraw};
use chorus_store::market::{agents, jobs, wallets};

/// Ids for a wallet that may have to be created, so that a retried transaction creates the same one.
pub(crate) struct MarketDetach(Fresh);

/// The outcome of a detach on the market.
pub(crate) struct MarketDetached {
    pub(crate) offers: WithdrawnOffers,
    /// The number of jobs whose results were to be POSTed somewhere.
    pub(crate) job_callbacks: u64,
    /// Owners whose key was revoked.
    pub(crate) owners: Vec<String>,
}

impl MarketDetach {
    pub(crate) fn new(app: &App) -> Self {
        Self(Fresh::new(app))
    }

    /// Withdraws the agent's offers, revokes owner keys that were issued to a holder of the agent's key, and
    /// makes the owning account the payee.
    pub(crate) fn run(&self, tx: &mut dyn Tx, app: &App, agent: &Agent) -> Result<MarketDetached, Error> {
        let owners = wallets::end_keys_issued_to(tx, agent.id)?;
        let offers = withdraw(tx, agent.id, self.0.now)?;
        let job_callbacks = jobs::remove_callbacks(tx, agent.id)?;
        if let (Some(listing), Some(account)) = (agents::by_id(tx, agent.id)?, agent.owner) {
            let paid = wallets::by_id(tx, listing.wallet)?;
            if paid.is_none_or(|wallet| wallet.account != Some(account)) {
                let own = who::of_account(tx, app, account, &self.0)?;
                agents::set_wallet(tx, agent.id, own.id)?;
            }
        }
        Ok(MarketDetached { offers, job_callbacks, owners })
    }
}
