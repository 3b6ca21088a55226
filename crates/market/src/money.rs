//! What may move between purses. Nothing is made or lost but by the operator's hand, and no wallet goes below nothing.

use chorus_protocol::ids::{JobId, WalletId};
use chorus_protocol::market::{Credits, MovementKind};
pub use chorus_protocol::market::{Movement, Purse};

/// The most that may be in the world at a time. It is half of what one wallet can hold, so that whoever is paid has room for it.
pub const MAX_SUPPLY: Credits = match Credits::from_hundredths(Credits::MAX.hundredths() / 2) {
    Some(most) => most,
    None => Credits::ZERO,
};

/// A wallet as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wallet {
    /// Whose.
    pub id: WalletId,
    /// What is in it.
    pub balance: Credits,
}

/// Why nothing moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The wallet cannot cover it.
    #[error("the wallet has {balance} credits, {needed} are needed")]
    Short {
        /// What is in it.
        balance: Credits,
        /// What would have to be.
        needed: Credits,
    },
    /// Nothing would be moved.
    #[error("the amount must be more than 0")]
    Nothing,
    /// From a wallet into itself.
    #[error("payer and payee are the same")]
    Same,
    /// There would be more credits than can be counted exactly.
    #[error("there can be at most {MAX_SUPPLY} credits")]
    TooMany,
}

/// The operator makes credits, where there are `supply` already.
pub fn mint(to: WalletId, supply: Credits, amount: Credits) -> Result<Movement, Refused> {
    if amount.hundredths() > MAX_SUPPLY.hundredths() - supply.hundredths() {
        return Err(Refused::TooMany);
    }
    movement(MovementKind::Mint, Purse::Issue, Purse::Wallet(to), amount)
}

/// The operator takes credits away.
pub fn burn(from: Wallet, amount: Credits) -> Result<Movement, Refused> {
    covers(from, amount)?;
    movement(MovementKind::Burn, Purse::Wallet(from.id), Purse::Issue, amount)
}

/// One owner gives to another.
pub fn transfer(from: Wallet, to: WalletId, amount: Credits) -> Result<Movement, Refused> {
    if from.id == to {
        return Err(Refused::Same);
    }
    covers(from, amount)?;
    movement(MovementKind::Transfer, Purse::Wallet(from.id), Purse::Wallet(to), amount)
}

/// So much is kept for a job, until it has ended. A job may cost nothing: then nothing moves.
pub fn hold(payer: Wallet, job: JobId, budget: Credits) -> Result<Option<Movement>, Refused> {
    covers(payer, budget)?;
    let moved = movement(MovementKind::Hold, Purse::Wallet(payer.id), Purse::Hold(job), budget);
    Ok(moved.ok())
}

fn covers(from: Wallet, amount: Credits) -> Result<(), Refused> {
    if from.balance < amount {
        return Err(Refused::Short { balance: from.balance, needed: amount });
    }
    Ok(())
}

/// A movement, if anything would move.
pub(crate) fn movement(
    kind: MovementKind,
    from: Purse,
    to: Purse,
    amount: Credits,
) -> Result<Movement, Refused> {
    if amount.is_zero() {
        return Err(Refused::Nothing);
    }
    Ok(Movement { kind, from, to, amount })
}

#[cfg(test)]
mod tests;
