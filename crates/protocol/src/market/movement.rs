//! Credits that move: what the engine says, and the ledger applies.

use super::{Credits, MovementKind};
use crate::ids::{JobId, WalletId};

/// Where credits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purse {
    /// In an owner's wallet.
    Wallet(WalletId),
    /// Held for a job.
    Hold(JobId),
    /// Outside: where they are made, and where they end.
    Issue,
}

impl Purse {
    /// The wallet, if it is one.
    pub fn wallet(self) -> Option<WalletId> {
        match self {
            Self::Wallet(id) => Some(id),
            Self::Hold(_) | Self::Issue => None,
        }
    }
}

/// Credits leave one purse and come into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movement {
    /// Why.
    pub kind: MovementKind,
    /// Out of this.
    pub from: Purse,
    /// Into this.
    pub to: Purse,
    /// So much, and never nothing.
    pub amount: Credits,
}
