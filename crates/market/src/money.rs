//! The rules for movements between purses. Only the operator creates or destroys credits, and no wallet
//! becomes negative.

use chorus_protocol::ids::{JobId, WalletId};
use chorus_protocol::market::{Credits, MovementKind};
pub use chorus_protocol::market::{Movement, Purse};

/// The maximum supply. It is half of what one wallet can hold, so that every recipient has room for a payment.
pub const MAX_SUPPLY: Credits = match Credits::from_hundredths(Credits::MAX.hundredths() / 2) {
    Some(most) => most,
    None => Credits::ZERO,
};

/// A wallet and its current balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wallet {
    pub id: WalletId,
    pub balance: Credits,
}

/// The reasons for refusing a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The balance is too low.
    #[error("the wallet has {balance} credits, {needed} are needed")]
    Short { balance: Credits, needed: Credits },
    /// The amount is zero.
    #[error("the amount must be more than 0")]
    Nothing,
    /// Payer and payee are the same wallet.
    #[error("payer and payee are the same")]
    Same,
    /// The supply would exceed [`MAX_SUPPLY`].
    #[error("there can be at most {MAX_SUPPLY} credits")]
    TooMany,
}

/// Creates credits in a wallet. `supply` is the current supply.
pub fn mint(to: WalletId, supply: Credits, amount: Credits) -> Result<Movement, Refused> {
    if amount.hundredths() > MAX_SUPPLY.hundredths() - supply.hundredths() {
        return Err(Refused::TooMany);
    }
    movement(MovementKind::Mint, Purse::Issue, Purse::Wallet(to), amount)
}

/// Destroys credits of a wallet.
pub fn burn(from: Wallet, amount: Credits) -> Result<Movement, Refused> {
    covers(from, amount)?;
    movement(MovementKind::Burn, Purse::Wallet(from.id), Purse::Issue, amount)
}

/// Moves credits between the wallets of two owners.
pub fn transfer(from: Wallet, to: WalletId, amount: Credits) -> Result<Movement, Refused> {
    if from.id == to {
        return Err(Refused::Same);
    }
    covers(from, amount)?;
    movement(MovementKind::Transfer, Purse::Wallet(from.id), Purse::Wallet(to), amount)
}

/// Holds credits for a job until it ends. Returns `None` for a budget of zero, which moves nothing.
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

/// Builds a movement, or refuses an amount of zero.
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
