//! Movements of credits, which the engine plans and the ledger applies.

use super::{Credits, MovementKind};
use crate::ids::{JobId, WalletId};

/// A place where credits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purse {
    /// The wallet of an owner.
    Wallet(WalletId),
    /// The credits held for a job.
    Hold(JobId),
    /// The outside, where credits are created and destroyed.
    Issue,
}

impl Purse {
    /// Returns the wallet's id, or `None` for another place.
    pub fn wallet(self) -> Option<WalletId> {
        match self {
            Self::Wallet(id) => Some(id),
            Self::Hold(_) | Self::Issue => None,
        }
    }
}

/// A movement of credits from one purse to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movement {
    pub kind: MovementKind,
    pub from: Purse,
    pub to: Purse,
    /// The amount, which is never zero.
    pub amount: Credits,
}
