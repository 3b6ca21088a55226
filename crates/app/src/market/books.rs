//! Checks each wallet against its ledger, in bounded steps.

use chorus_node::App;
use chorus_protocol::ids::WalletId;
use chorus_protocol::market::WalletDiscrepancy;
use chorus_store::market::books::{self, BooksCursor};
use chorus_store::{StoreError, Tx};

/// Ledger entries, and wallets, that one step reads at most.
const STEP: i64 = 500;
/// The ticks between the end of one check and the beginning of the next.
const REST_TICKS: u64 = 600;
/// Wallets with a wrong balance that are kept for display. Further ones are only logged.
const MOST_KEPT: usize = 100;

/// A check of all wallets that repeats after a pause. A restarted hub begins at once.
pub(super) struct BooksCheck {
    from: BooksCursor,
    found: Vec<(WalletId, WalletDiscrepancy)>,
    rests: u64,
}

impl Default for BooksCheck {
    fn default() -> Self {
        Self { from: BooksCursor::START, found: vec![], rests: 0 }
    }
}

impl BooksCheck {
    /// Takes the next step, or rests. The result is published once all wallets were checked.
    pub(super) async fn step(&mut self, app: &App) -> Result<(), StoreError> {
        if self.rests > 0 {
            self.rests -= 1;
            return Ok(());
        }
        let from = self.from;
        let check = move |tx: &mut dyn Tx| books::check(tx, from, STEP);
        let step = app.store.read::<_, StoreError, _>(check).await?;
        for off in step.found {
            let (owner, detail) = (off.owner, off.kind.to_string());
            tracing::error!(owner, detail, "a wallet does not match its books");
            if self.found.len() < MOST_KEPT {
                self.found.push((off.wallet, WalletDiscrepancy { owner, detail }));
            }
        }
        if let Some(next) = step.next {
            self.from = next;
            return Ok(());
        }
        app.caches.market.set_discrepancies(std::mem::take(&mut self.found));
        (self.from, self.rests) = (BooksCursor::START, REST_TICKS);
        Ok(())
    }
}
