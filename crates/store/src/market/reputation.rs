//! Reputations of agents, with a line for every job that was considered.

use super::jobs::Agreed;
use super::shortfall;
use crate::error::word;
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, JobId, WalletId};
use chorus_protocol::market::{JobStatus, Reputation, UncountedReason};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The number of the change, from 1.
    pub number: i64,
    pub job: JobId,
    pub status: JobStatus,
    pub old: Reputation,
    pub new: Reputation,
    pub arithmetic: String,
    /// The reason that the job did not count.
    pub not_counted: Option<UncountedReason>,
    pub created_at: i64,
}

impl Change {
    fn is_declined(&self) -> bool {
        self.not_counted == Some(UncountedReason::Declined)
    }

    /// Returns whether the job counts, or would have if the agent had not declined it.
    fn is_considered(&self) -> bool {
        self.not_counted.is_none() || self.is_declined()
    }
}

/// Records a line of a job that `payer` paid for, and sets the score. The line's number is given here.
pub fn record(tx: &mut dyn Tx, agent: AgentId, payer: WalletId, change: &Change) -> Result<(), StoreError> {
    let (considered, declined) = (change.is_considered(), change.is_declined());
    let row = tx.first(
        "UPDATE market_agents SET reputation = $2, changes = changes + 1, considered = considered + $3, declined = declined + $4
         WHERE agent_id = $1 RETURNING changes",
        &[
            (&agent).into(),
            change.new.ten_thousandths().into(),
            i64::from(considered).into(),
            i64::from(declined).into(),
        ],
    )?;
    let number = row.ok_or_else(|| StoreError::unexpected("no such agent on the market"))?.int("changes")?;
    tx.append(
        "INSERT INTO reputation_changes (agent_id, number, job_id, status, old_score, new_score, arithmetic, created_at,
                                         not_counted, payer_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            (&agent).into(),
            number.into(),
            (&change.job).into(),
            change.status.as_str().into(),
            change.old.ten_thousandths().into(),
            change.new.ten_thousandths().into(),
            change.arithmetic.as_str().into(),
            change.created_at.into(),
            change.not_counted.map(UncountedReason::as_str).into(),
            considered.then_some(&payer).into(),
        ],
    )?;
    // An agent at an end of the scale keeps its place among the others.
    if change.new != change.old {
        tx.execute(
            "UPDATE skills SET shortfall = $2 WHERE agent_id = $1",
            &[(&agent).into(), shortfall(change.new).into()],
        )?;
    }
    Ok(())
}

/// The stored facts that decide whether a job counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// The time when the agent got the job; none if it did not, or if that is not written down yet.
    pub handed_at: Option<i64>,
    /// True if the two owners paid each other, by jobs or transfers, including this job. A payment by the
    /// payee after the job was requested does not count, because it could buy off a failure.
    pub paid_both_ways: bool,
    /// The number of jobs of this payer and this agent that counted.
    pub counted: i64,
    /// The number of jobs of this payer that this agent declined.
    pub declined: i64,
}

/// Payments go between owners: an account may use several wallets, and counts as one.
macro_rules! wallets_of {
    ($wallet:literal) => {
        concat!(
            "(SELECT id FROM wallets WHERE id = ",
            $wallet,
            " UNION SELECT w.id FROM wallets w JOIN wallets v ON v.account_id = w.account_id WHERE v.id = ",
            $wallet,
            ")"
        )
    };
}

const EVIDENCE: &str = concat!(
    "SELECT (SELECT COALESCE(j.handed_at, c.handed_at, c.acked_at,
                     (SELECT h.at FROM handed h WHERE h.agent_id = c.agent_id AND h.through >= c.seq AND d.transport = 'inbox'
                      ORDER BY h.through LIMIT 1),
                     CASE WHEN d.transport = 'inbox' AND d.seq <= i.handed_through THEN c.created_at END)
             FROM jobs j LEFT JOIN chats c ON c.event_id = j.event_id AND c.agent_id = j.agent_id
             LEFT JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
             LEFT JOIN inboxes i ON i.agent_id = j.agent_id WHERE j.id = $1 LIMIT 1) AS handed_at,
            CASE WHEN (EXISTS (SELECT 1 FROM transfers WHERE from_id IN ",
    wallets_of!("$2"),
    " AND to_id IN ",
    wallets_of!("$3"),
    " AND created_at > $4 AND created_at <= $7) OR EXISTS (SELECT 1 FROM jobs WHERE paid > 0 AND payer_id IN ",
    wallets_of!("$2"),
    " AND payee_id IN ",
    wallets_of!("$3"),
    " AND ended_at > $4 AND ended_at <= $7)) AND (EXISTS (SELECT 1 FROM transfers WHERE from_id IN ",
    wallets_of!("$3"),
    " AND to_id IN ",
    wallets_of!("$2"),
    " AND created_at > $4) OR EXISTS (SELECT 1 FROM jobs WHERE paid > 0 AND payer_id IN ",
    wallets_of!("$3"),
    " AND payee_id IN ",
    wallets_of!("$2"),
    " AND ended_at > $4)) THEN 1 ELSE 0 END AS paid_both_ways,
            (SELECT COALESCE(SUM(CASE WHEN not_counted IS NULL THEN 1 ELSE 0 END), 0) FROM reputation_changes
             WHERE agent_id = $5 AND created_at > $6 AND payer_id IN ",
    wallets_of!("$3"),
    ") AS counted,
            (SELECT COALESCE(SUM(CASE WHEN not_counted = 'declined' THEN 1 ELSE 0 END), 0) FROM reputation_changes
             WHERE agent_id = $5 AND created_at > $6 AND payer_id IN ",
    wallets_of!("$3"),
    ") AS declined"
);

/// Reads the facts of a job: payments since `paid_since`, and jobs that counted since `counted_since`.
pub fn evidence(
    tx: &mut dyn Tx,
    job: &Agreed,
    paid_since: i64,
    counted_since: i64,
) -> Result<Evidence, StoreError> {
    let row = tx.first(
        EVIDENCE,
        &[
            (&job.id).into(),
            (&job.payee).into(),
            (&job.payer).into(),
            paid_since.into(),
            (&job.agent).into(),
            counted_since.into(),
            job.created_at.into(),
        ],
    )?;
    let mut row = row.ok_or_else(|| StoreError::unexpected("a row without a table"))?;
    Ok(Evidence {
        handed_at: row.opt_int("handed_at")?,
        paid_both_ways: row.int("paid_both_ways")? == 1,
        counted: row.int("counted")?,
        declined: row.int("declined")?,
    })
}

/// Returns an agent's lines before a number, the newest first.
pub fn changes(tx: &mut dyn Tx, agent: AgentId, before: i64, limit: i64) -> Result<Vec<Change>, StoreError> {
    tx.query(
        "SELECT number, job_id, status, old_score, new_score, arithmetic, created_at, not_counted FROM reputation_changes
         WHERE agent_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
        &[(&agent).into(), before.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| {
        Ok(Change {
            number: row.int("number")?,
            job: JobId(row.uuid("job_id")?),
            status: word(&row.text("status")?, JobStatus::parse)?,
            old: Reputation::clamped(row.int("old_score")?),
            new: Reputation::clamped(row.int("new_score")?),
            arithmetic: row.text("arithmetic")?,
            created_at: row.int("created_at")?,
            not_counted: row.opt_text("not_counted")?.map(|reason| word(&reason, UncountedReason::parse)).transpose()?,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// However many jobs and payments there were: only those of the two owners are looked at.
    #[tokio::test]
    async fn evidence_is_found_by_indexes() {
        let plan = plan_of(EVIDENCE, 7).await;
        for index in
            ["transfers_by_pair", "jobs_paid_by_pair", "reputation_changes_by_payer", "chats_by_event"]
        {
            assert!(plan.contains(index), "{index}: {plan}");
        }
        assert!(
            !plan.contains("SCAN jobs") && !plan.contains("SCAN transfers") && !plan.contains("SCAN w"),
            "{plan}"
        );
    }
}
