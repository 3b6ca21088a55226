//! The ledger: every movement is one row, and moves what it says in the transaction that writes it.
//!
//! Each wallet numbers its movements in its own row. A transfer is known by its id, and made once.

use super::{credits, wallets};
use crate::error::word;
use crate::usage::{self, Refusal, TRANSFER_BYTES};
use crate::{Param, Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{JobId, TraceId, TransferId, WalletId};
use chorus_protocol::market::{Credits, Movement, MovementKind, Purse};

/// The job or transfer that movements belong to.
#[derive(Debug, Clone, Copy)]
pub struct Cause {
    pub job: Option<JobId>,
    pub transfer: Option<TransferId>,
    pub trace: TraceId,
}

/// Applies what the engine said, in its order. A wallet or a hold that does not have what leaves it ends the transaction.
pub fn apply(tx: &mut dyn Tx, movements: &[Movement], cause: Cause, now: i64) -> Result<(), StoreError> {
    let touched = movements.iter().flat_map(|moved| [moved.from, moved.to]).filter_map(Purse::wallet);
    wallets::hold(tx, touched)?;
    movements.iter().try_for_each(|moved| apply_one(tx, moved, cause, now))
}

fn apply_one(tx: &mut dyn Tx, moved: &Movement, cause: Cause, now: i64) -> Result<(), StoreError> {
    let amount = moved.amount.hundredths();
    let debit = match moved.from {
        Purse::Wallet(id) => Some((id, change(tx, id, -amount)?)),
        Purse::Hold(job) => {
            release(tx, job, amount)?;
            None
        }
        Purse::Issue => None,
    };
    let credit = match (moved.to, moved.from) {
        (Purse::Wallet(id), _) => Some((id, change(tx, id, amount)?)),
        (Purse::Hold(job), Purse::Wallet(payer)) => {
            tx.append(
                "INSERT INTO holds (job_id, wallet_id, amount) VALUES ($1, $2, $3)",
                &[(&job).into(), (&payer).into(), amount.into()],
            )?;
            None
        }
        (Purse::Hold(_), _) => return Err(StoreError::unexpected("a hold that no wallet fills")),
        (Purse::Issue, _) => None,
    };
    tx.append(
        "INSERT INTO ledger (kind, debit_id, debit_seq, debit_balance, credit_id, credit_seq, credit_balance, amount, job_id,
                             transfer_id, created_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            moved.kind.as_str().into(),
            debit.as_ref().map(|(id, _)| id).into(),
            debit.as_ref().map(|(_, after)| after.moves).into(),
            debit.as_ref().map(|(_, after)| after.balance).into(),
            credit.as_ref().map(|(id, _)| id).into(),
            credit.as_ref().map(|(_, after)| after.moves).into(),
            credit.as_ref().map(|(_, after)| after.balance).into(),
            amount.into(),
            cause.job.as_ref().into(),
            cause.transfer.as_ref().into(),
            now.into(),
            (&cause.trace).into(),
        ],
    )
}

/// A wallet after a movement: what is in it, and the how many'th that was.
struct After {
    balance: i64,
    moves: i64,
}

/// Puts so much into a wallet, or takes it out.
fn change(tx: &mut dyn Tx, id: WalletId, by: i64) -> Result<After, StoreError> {
    let row = tx.first(
        "UPDATE wallets SET balance = balance + $2, moves = moves + 1 WHERE id = $1 RETURNING balance, moves",
        &[(&id).into(), by.into()],
    )?;
    let mut row = row.ok_or_else(|| StoreError::unexpected("no such wallet"))?;
    Ok(After { balance: row.int("balance")?, moves: row.int("moves")? })
}

fn release(tx: &mut dyn Tx, job: JobId, amount: i64) -> Result<(), StoreError> {
    let all =
        tx.execute("DELETE FROM holds WHERE job_id = $1 AND amount = $2", &[(&job).into(), amount.into()])?;
    if all == 1 {
        return Ok(());
    }
    let some = tx.execute(
        "UPDATE holds SET amount = amount - $2 WHERE job_id = $1 AND amount > $2",
        &[(&job).into(), amount.into()],
    )?;
    if some == 1 { Ok(()) } else { Err(StoreError::unexpected("not so much is held for the job")) }
}

/// A transfer as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub id: TransferId,
    pub from: WalletId,
    pub to: WalletId,
    pub amount: Credits,
    pub job: Option<JobId>,
    pub created_at: i64,
}

/// The transfer of this id.
pub fn transfer(tx: &mut dyn Tx, id: TransferId) -> Result<Option<Transfer>, StoreError> {
    let row = tx.first(
        "SELECT from_id, to_id, amount, job_id, created_at FROM transfers WHERE id = $1",
        &[(&id).into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    Ok(Some(Transfer {
        id,
        from: WalletId(row.uuid("from_id")?),
        to: WalletId(row.uuid("to_id")?),
        amount: credits(row.int("amount")?)?,
        job: row.opt_bytes("job_id")?.as_deref().and_then(JobId::from_slice),
        created_at: row.int("created_at")?,
    }))
}

/// Remembers a transfer, and says whether it is new. It counts for the wallet that pays.
pub fn insert_transfer(tx: &mut dyn Tx, new: &Transfer, trace: TraceId) -> Result<bool, StoreError> {
    let payer = usage::payer_by_id(tx, new.from)?;
    usage::charge(tx, payer, TRANSFER_BYTES, Refusal::WhenFull)?;
    let inserted = tx.execute(
        "INSERT INTO transfers (id, from_id, to_id, amount, job_id, created_at, trace_id) VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (id) DO NOTHING",
        &[
            (&new.id).into(),
            (&new.from).into(),
            (&new.to).into(),
            new.amount.hundredths().into(),
            new.job.as_ref().into(),
            new.created_at.into(),
            (&trace).into(),
        ],
    )?;
    Ok(inserted == 1)
}

/// One row of the ledger, as the wallet sees it that was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in that wallet, or among what moved for the job that was asked about.
    pub number: i64,
    pub kind: MovementKind,
    /// The owner of the wallet it left.
    pub debit: Option<String>,
    /// The owner of the wallet it entered.
    pub credit: Option<String>,
    pub amount: Credits,
    pub job: Option<JobId>,
    pub transfer: Option<TransferId>,
    /// The balance of that wallet afterwards.
    pub balance: Option<Credits>,
    pub created_at: i64,
}

macro_rules! select_entries {
    ($number:literal, $balance:literal, $which:literal) => {
        concat!(
            "SELECT ",
            $number,
            " AS number, l.kind, d.owner AS debit, c.owner AS credit, l.amount, l.job_id, l.transfer_id, ",
            $balance,
            " AS balance, l.created_at
              FROM ledger l LEFT JOIN wallets d ON d.id = l.debit_id LEFT JOIN wallets c ON c.id = l.credit_id WHERE ",
            $which
        )
    };
}

fn entry(mut row: Row) -> Result<Entry, StoreError> {
    Ok(Entry {
        number: row.int("number")?,
        kind: word(&row.text("kind")?, MovementKind::parse)?,
        debit: row.opt_text("debit")?,
        credit: row.opt_text("credit")?,
        amount: credits(row.int("amount")?)?,
        job: row.opt_bytes("job_id")?.as_deref().and_then(JobId::from_slice),
        transfer: row.opt_bytes("transfer_id")?.as_deref().and_then(TransferId::from_slice),
        balance: row.opt_int("balance")?.map(credits).transpose()?,
        created_at: row.int("created_at")?,
    })
}

/// Lists movements of a wallet, newest first, below the position `before` and not older than `since`.
pub fn of_wallet(
    tx: &mut dyn Tx,
    id: WalletId,
    before: i64,
    since: i64,
    limit: i64,
) -> Result<Vec<Entry>, StoreError> {
    const OUT: &str = select_entries!(
        "l.debit_seq",
        "l.debit_balance",
        "l.debit_id = $1 AND l.debit_seq < $2 AND l.created_at >= $3 ORDER BY l.debit_seq DESC LIMIT $4"
    );
    const IN: &str = select_entries!(
        "l.credit_seq",
        "l.credit_balance",
        "l.credit_id = $1 AND l.credit_seq < $2 AND l.created_at >= $3 ORDER BY l.credit_seq DESC LIMIT $4"
    );
    let params: [Param<'_>; 4] = [(&id).into(), before.into(), since.into(), limit.into()];
    let mut found = vec![];
    for sql in [OUT, IN] {
        for row in tx.query(sql, &params)? {
            found.push(entry(row)?);
        }
    }
    found.sort_by_key(|entry: &Entry| std::cmp::Reverse(entry.number));
    found.truncate(limit.max(0) as usize);
    Ok(found)
}

/// The movements of a job that a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobLedger {
    All,
    /// Those of the wallet that pays, and the payment out of what was held.
    Payer(WalletId),
    /// Those out of this wallet and into it.
    Own(WalletId),
}

/// Returns what moved for a job, in order. Anybody may name a job in a transfer, so only what is shown is read.
pub fn of_job(tx: &mut dyn Tx, job: JobId, shown: JobLedger, limit: i64) -> Result<Vec<Entry>, StoreError> {
    const ALL: &str = select_entries!(
        "CAST(0 AS BIGINT)",
        "CAST(NULL AS BIGINT)",
        "l.job_id = $1 ORDER BY l.created_at, l.kind LIMIT $2"
    );
    const PAYER: &str = select_entries!(
        "CAST(0 AS BIGINT)",
        "CAST(NULL AS BIGINT)",
        "l.job_id = $1 AND (l.debit_id = $3 OR l.credit_id = $3 OR l.kind = 'settle') ORDER BY l.created_at, l.kind LIMIT $2"
    );
    const OWN: &str = select_entries!(
        "CAST(0 AS BIGINT)",
        "CAST(NULL AS BIGINT)",
        "l.job_id = $1 AND (l.debit_id = $3 OR l.credit_id = $3) ORDER BY l.created_at, l.kind LIMIT $2"
    );
    let (job, limit) = ((&job).into(), limit.into());
    let rows = match &shown {
        JobLedger::All => tx.query(ALL, &[job, limit])?,
        JobLedger::Payer(wallet) => tx.query(PAYER, &[job, limit, wallet.into()])?,
        JobLedger::Own(wallet) => tx.query(OWN, &[job, limit, wallet.into()])?,
    };
    rows.into_iter().map(entry).collect()
}

/// Returns whether a wallet has paid for this job by a transfer.
pub fn was_paid_directly(tx: &mut dyn Tx, job: JobId, payer: WalletId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM ledger WHERE job_id = $1 AND debit_id = $2 AND kind = 'transfer' LIMIT 1";
    Ok(tx.first(sql, &[(&job).into(), (&payer).into()])?.is_some())
}

/// The sum of it all, in hundredths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub minted: i64,
    /// The credits that the operator removed.
    pub burned: i64,
    /// The balances of all wallets.
    pub wallets: i64,
    /// The credits held for jobs.
    pub held: i64,
}

impl Sums {
    /// Returns whether credits were made and removed only by the operator.
    pub fn balanced(&self) -> bool {
        self.wallets + self.held == self.minted - self.burned
    }
}

/// Adds it all up, in one snapshot: one statement is one on both databases.
pub fn sums(tx: &mut dyn Tx) -> Result<Sums, StoreError> {
    let row = tx.first(
        "SELECT CAST((SELECT COALESCE(SUM(amount), 0) FROM ledger WHERE kind = 'mint') AS BIGINT) AS minted,
                CAST((SELECT COALESCE(SUM(amount), 0) FROM ledger WHERE kind = 'burn') AS BIGINT) AS burned,
                CAST((SELECT COALESCE(SUM(balance), 0) FROM wallets) AS BIGINT) AS in_wallets,
                CAST((SELECT COALESCE(SUM(amount), 0) FROM holds) AS BIGINT) AS in_holds",
        &[],
    )?;
    let Some(mut row) = row else { return Ok(Sums::default()) };
    Ok(Sums {
        minted: row.int("minted")?,
        burned: row.int("burned")?,
        wallets: row.int("in_wallets")?,
        held: row.int("in_holds")?,
    })
}

/// Returns the total of existing credits: those made minus those removed.
pub fn supply(tx: &mut dyn Tx) -> Result<Credits, StoreError> {
    let row = tx.first(
        "SELECT CAST((SELECT COALESCE(SUM(amount), 0) FROM ledger WHERE kind = 'mint') AS BIGINT)
              - CAST((SELECT COALESCE(SUM(amount), 0) FROM ledger WHERE kind = 'burn') AS BIGINT) AS supply",
        &[],
    )?;
    credits(row.map_or(Ok(0), |mut row| row.int("supply"))?)
}
