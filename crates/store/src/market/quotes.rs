//! Offers that stand for a while, each at the price of when it was asked for.

use super::credits;
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, JobId, QuoteId, TraceId, WalletId};
use chorus_protocol::market::{Credits, Reputation};

/// Offers that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// Which.
    pub id: QuoteId,
    /// Whose wallet would pay.
    pub payer: WalletId,
    /// For what.
    pub skill: String,
    /// With what, JSON.
    pub input: Option<String>,
    /// What it became.
    pub job: Option<JobId>,
    /// Until when one can be taken.
    pub valid_until: i64,
    /// When they were asked for.
    pub created_at: i64,
    /// What it belongs to.
    pub trace: TraceId,
    /// The best first.
    pub offers: Vec<Offer>,
}

/// One agent's offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Whose.
    pub agent: AgentId,
    /// What it asks.
    pub price: Credits,
    /// How long it usually takes.
    pub expected_ms: Option<i64>,
    /// What is thought of it.
    pub reputation: Reputation,
}

/// Remembers offers.
pub fn insert(tx: &mut dyn Tx, quote: &Quote) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO quotes (id, payer_id, skill, input, valid_until, created_at, trace_id) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            (&quote.id).into(),
            (&quote.payer).into(),
            quote.skill.as_str().into(),
            quote.input.as_deref().into(),
            quote.valid_until.into(),
            quote.created_at.into(),
            (&quote.trace).into(),
        ],
    )?;
    for (place, offer) in (0_i64..).zip(&quote.offers) {
        tx.execute(
            "INSERT INTO offers (quote_id, place, agent_id, price, expected_ms, reputation) VALUES ($1, $2, $3, $4, $5, $6)",
            &[
                (&quote.id).into(),
                place.into(),
                (&offer.agent).into(),
                offer.price.hundredths().into(),
                offer.expected_ms.into(),
                offer.reputation.ten_thousandths().into(),
            ],
        )?;
    }
    Ok(())
}

/// The offers of this id.
pub fn by_id(tx: &mut dyn Tx, id: QuoteId) -> Result<Option<Quote>, StoreError> {
    let row = tx.first(
        "SELECT payer_id, skill, input, job_id, valid_until, created_at, trace_id FROM quotes WHERE id = $1",
        &[(&id).into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    let offers = tx.query(
        "SELECT agent_id, price, expected_ms, reputation FROM offers WHERE quote_id = $1 ORDER BY place",
        &[(&id).into()],
    )?;
    let offers = offers.into_iter().map(|mut row| {
        Ok(Offer {
            agent: AgentId(row.uuid(0)?),
            price: credits(row.int(1)?)?,
            expected_ms: row.opt_int(2)?,
            reputation: Reputation::clamped(row.int(3)?),
        })
    });
    Ok(Some(Quote {
        id,
        payer: WalletId(row.uuid(0)?),
        skill: row.text(1)?,
        input: row.opt_text(2)?,
        job: row.opt_bytes(3)?.as_deref().and_then(JobId::from_slice),
        valid_until: row.int(4)?,
        created_at: row.int(5)?,
        trace: TraceId(row.uuid(6)?),
        offers: offers.collect::<Result<_, StoreError>>()?,
    }))
}

/// One offer is taken, and says whether none was before.
pub fn accept(tx: &mut dyn Tx, id: QuoteId, job: JobId) -> Result<bool, StoreError> {
    let taken = tx.execute(
        "UPDATE quotes SET job_id = $2 WHERE id = $1 AND job_id IS NULL",
        &[(&id).into(), (&job).into()],
    )?;
    Ok(taken == 1)
}

/// A reconciler: forgets offers that ended before `cutoff`, a bounded number at a time.
pub fn remove_before(tx: &mut dyn Tx, cutoff: i64, limit: i64) -> Result<u64, StoreError> {
    let old =
        tx.query("SELECT id FROM quotes WHERE valid_until < $1 LIMIT $2", &[cutoff.into(), limit.into()])?;
    let count = old.len() as u64;
    for mut row in old {
        let id = QuoteId(row.uuid(0)?);
        tx.execute("DELETE FROM offers WHERE quote_id = $1", &[(&id).into()])?;
        tx.execute("DELETE FROM quotes WHERE id = $1", &[(&id).into()])?;
    }
    Ok(count)
}
