//! The books: each wallet against its own ledger, and each hold against its open job.
//!
//! A check goes through all wallets in bounded steps. Movements are only ever added and have no gaps, so a wallet whose ledger is
//! longer than a step is continued in the next one.

use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{JobId, WalletId};
use std::fmt;
use uuid::Uuid;

/// The position of a check: the movements of `wallet` up to `number` were added up to `sum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BooksCursor {
    wallet: WalletId,
    number: i64,
    sum: i64,
    /// True if the rest of this wallet needs no further look.
    is_done: bool,
}

impl BooksCursor {
    /// The position before all wallets.
    pub const START: Self = Self { wallet: WalletId(Uuid::nil()), number: 0, sum: 0, is_done: true };
}

/// A wallet that does not match its ledger or its open jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discrepancy {
    pub wallet: WalletId,
    /// The owner's name on the wire.
    pub owner: String,
    /// The first fault that was found.
    pub kind: DiscrepancyKind,
}

/// The way in which a wallet is off. Amounts are hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscrepancyKind {
    /// The movements of the wallet do not add up to its balance.
    Balance {
        balance: i64,
        /// The sum of its movements.
        ledger: i64,
    },
    /// A movement is missing, or was numbered twice.
    Gap {
        /// The number of the movement.
        number: i64,
    },
    /// A hold that differs from its open job, or has none.
    Hold {
        /// The job it is held for.
        job: JobId,
        amount: i64,
    },
    /// An open job whose budget is not held.
    Unheld {
        job: JobId,
        /// The amount that should be held.
        budget: i64,
    },
}

impl fmt::Display for DiscrepancyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |hundredths: i64| {
            let (sign, amount) = (if hundredths < 0 { "-" } else { "" }, hundredths.unsigned_abs());
            format!("{sign}{}.{:02}", amount / 100, amount % 100)
        };
        match *self {
            Self::Balance { balance, ledger } => {
                write!(f, "its balance is {}, its movements add up to {}", shown(balance), shown(ledger))
            }
            Self::Gap { number } => write!(f, "movement {number} is missing from its ledger"),
            Self::Hold { job, amount } => {
                write!(f, "{} are held for job {job}, which is not open for that amount", shown(amount))
            }
            Self::Unheld { job, budget } => {
                write!(f, "nothing is held for its open job {job} with a budget of {}", shown(budget))
            }
        }
    }
}

/// The outcome of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BooksStep {
    /// At most one for each wallet.
    pub found: Vec<Discrepancy>,
    /// The position to continue from; `None` after the last wallet.
    pub next: Option<BooksCursor>,
}

struct WalletRow {
    id: WalletId,
    owner: String,
    balance: i64,
    moves: i64,
}

/// Checks the books from a position on: reads at most `limit` movements and as many wallets.
pub fn check(tx: &mut dyn Tx, from: BooksCursor, limit: i64) -> Result<BooksStep, StoreError> {
    let (mut cursor, mut found, mut left) = (from, vec![], limit.max(1));
    while left > 0 {
        let Some(wallet) = wallet_at(tx, cursor)? else { return Ok(BooksStep { found, next: None }) };
        if cursor.is_done || cursor.wallet != wallet.id {
            cursor = BooksCursor { wallet: wallet.id, number: 0, sum: 0, is_done: false };
        }
        left -= 1;
        let read = read_on(tx, &wallet, &mut cursor, left.max(1))?;
        left -= read.count;
        let mut kind = read.gap.map(|number| DiscrepancyKind::Gap { number });
        if kind.is_none() && cursor.number < wallet.moves {
            continue;
        }
        if kind.is_none() && cursor.sum != wallet.balance {
            kind = Some(DiscrepancyKind::Balance { balance: wallet.balance, ledger: cursor.sum });
        }
        if kind.is_none() {
            kind = hold_of(tx, wallet.id)?;
        }
        found.extend(kind.map(|kind| Discrepancy { wallet: wallet.id, owner: wallet.owner, kind }));
        cursor.is_done = true;
    }
    Ok(BooksStep { found, next: Some(cursor) })
}

/// Returns the wallet under inspection, or the one after it.
fn wallet_at(tx: &mut dyn Tx, cursor: BooksCursor) -> Result<Option<WalletRow>, StoreError> {
    const NEXT: &str = "SELECT id, owner, balance, moves FROM wallets WHERE id > $1 ORDER BY id LIMIT 1";
    const SAME: &str = "SELECT id, owner, balance, moves FROM wallets WHERE id >= $1 ORDER BY id LIMIT 1";
    let row = tx.first(if cursor.is_done { NEXT } else { SAME }, &[(&cursor.wallet).into()])?;
    let read = |mut row: Row| {
        let (id, owner) = (WalletId(row.uuid("id")?), row.text("owner")?);
        Ok(WalletRow { id, owner, balance: row.int("balance")?, moves: row.int("moves")? })
    };
    row.map(read).transpose()
}

/// The part of a ledger that one step read.
struct LedgerPart {
    count: i64,
    /// The number of the first movement that is not there.
    gap: Option<i64>,
}

/// Adds up the next movements of a wallet. Those that are added after the wallet was read are left to the next check.
fn read_on(
    tx: &mut dyn Tx,
    wallet: &WalletRow,
    cursor: &mut BooksCursor,
    limit: i64,
) -> Result<LedgerPart, StoreError> {
    const OUT: &str =
        "SELECT debit_seq AS number, -amount AS amount FROM ledger WHERE debit_id = $1 AND debit_seq > $2 AND debit_seq <= $3
         ORDER BY debit_seq LIMIT $4";
    const IN: &str =
        "SELECT credit_seq AS number, amount FROM ledger WHERE credit_id = $1 AND credit_seq > $2 AND credit_seq <= $3
         ORDER BY credit_seq LIMIT $4";
    let params = [(&wallet.id).into(), cursor.number.into(), wallet.moves.into(), limit.into()];
    let mut moved = vec![];
    for sql in [OUT, IN] {
        for mut row in tx.query(sql, &params)? {
            moved.push((row.int("number")?, row.int("amount")?));
        }
    }
    moved.sort_unstable();
    moved.truncate(limit.max(0) as usize);
    let (count, expected) = (moved.len() as i64, limit.min(wallet.moves - cursor.number));
    for (number, amount) in moved {
        if number != cursor.number + 1 {
            return Ok(LedgerPart { count, gap: Some(cursor.number + 1) });
        }
        (cursor.number, cursor.sum) = (number, cursor.sum + amount);
    }
    Ok(LedgerPart { count, gap: (count < expected).then_some(cursor.number + 1) })
}

/// Returns a hold of a wallet that is not the budget of one of its open jobs, or an open job without one. There are as many of both
/// as an owner may have open jobs.
fn hold_of(tx: &mut dyn Tx, wallet: WalletId) -> Result<Option<DiscrepancyKind>, StoreError> {
    let hold = tx.first(
        "SELECT h.job_id, h.amount FROM holds h LEFT JOIN jobs j ON j.id = h.job_id
         WHERE h.wallet_id = $1 AND (j.id IS NULL OR j.status <> 'PENDING' OR j.payer_id <> h.wallet_id OR j.budget <> h.amount)
         LIMIT 1",
        &[(&wallet).into()],
    )?;
    if let Some(mut row) = hold {
        return Ok(Some(DiscrepancyKind::Hold {
            job: JobId(row.uuid("job_id")?),
            amount: row.int("amount")?,
        }));
    }
    let unheld = tx.first(
        "SELECT j.id, j.budget FROM jobs j LEFT JOIN holds h ON h.job_id = j.id AND h.wallet_id = j.payer_id
         WHERE j.payer_id = $1 AND j.status = 'PENDING' AND j.budget > 0 AND h.job_id IS NULL LIMIT 1",
        &[(&wallet).into()],
    )?;
    let read = |mut row: Row| {
        Ok(DiscrepancyKind::Unheld { job: JobId(row.uuid("id")?), budget: row.int("budget")? })
    };
    unheld.map(read).transpose()
}
