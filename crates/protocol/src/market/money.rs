//! Wallets, the movements between them, and the totals.

use super::{Credits, MovementKind, OwnerId, Timestamp};
use crate::api::usual_limit;
use crate::ids::{AgentId, JobId, TransferId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A transfer of credits between owners.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = TransferBody)]
pub struct Transfer {
    /// The transfer's id, a UUID of the caller that is the same for every retry. The transfer is made once.
    pub transfer_id: TransferId,
    /// The payer: the caller.
    pub from_owner: OwnerId,
    /// The recipient, which must exist.
    pub to_owner: OwnerId,
    /// The amount in credits, more than 0.
    pub amount: Credits,
    /// The job that is paid. Jobs brokered by the hub are already settled and cannot be paid again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The time of sending, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
}

/// A completed transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TransferView {
    /// The transfer's id.
    pub transfer_id: TransferId,
    /// Always "SUCCESS".
    pub status: String,
    /// The payer.
    pub from_owner: String,
    /// The recipient.
    pub to_owner: String,
    /// The amount in credits.
    pub amount: Credits,
    /// The job that was paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The time of the transfer.
    pub timestamp_utc: String,
}

/// The wallet of an owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WalletView {
    /// The owner.
    pub owner: String,
    /// The credits that can be spent.
    pub balance: Credits,
    /// The credits held for open jobs.
    pub held: Credits,
}

/// An owner's new key, which is shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewOwnerKeyView)]
pub struct NewOwnerKey {
    /// The owner.
    pub owner: String,
    /// The key, `cw_…`.
    pub owner_key: String,
    /// The agents that were detached, if `detach` was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detached: Option<OwnerDetachReport>,
}

/// Options of replacing an owner's key.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = OwnerKeyResetBody)]
pub struct OwnerKeyReset {
    /// Undoes what the holder of the old key may have set: agents of this owner that belong to no account spend nothing until
    /// you set an allowance, and their skills, offers, endpoints for jobs and job callbacks are removed. `false` by default.
    #[serde(default)]
    #[schema(nullable)]
    pub detach: bool,
}

/// The agents that were detached with their owner's key. Unregister those that you did not make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = OwnerDetachView)]
pub struct OwnerDetachReport {
    /// The newest first, at most 100.
    pub agents: Vec<DetachedAgentView>,
    /// `true` if more agents have offers. They spend nothing either; call again to detach them.
    pub more: bool,
}

/// An agent that spends nothing and offers nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DetachedAgentView {
    pub agent_id: AgentId,
    /// Its address.
    pub address: String,
}

/// Credits that the operator creates or destroys.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = IssueBody)]
pub struct Issue {
    /// The owner of the wallet.
    pub owner: OwnerId,
    /// The amount in credits, more than 0.
    pub amount: Credits,
}

/// The wallet after credits were created or destroyed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Issued {
    /// The owner of the wallet.
    pub owner: String,
    /// The amount that was created or destroyed.
    pub amount: Credits,
    /// The new balance.
    pub balance: Credits,
}

/// The query parameters of a list of movements.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LedgerSearch {
    /// The owner of the wallet; the caller by default
    #[param(max_length = 254)]
    pub owner: Option<String>,
    /// Only movements of this job
    pub job: Option<JobId>,
    /// Only movements since this RFC 3339 time
    #[param(max_length = 64)]
    pub since: Option<String>,
    /// The `next` cursor of the previous page
    pub after: Option<String>,
    /// The maximum number of movements on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// A movement of credits as one of its two parties sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MovementView {
    /// The position in the wallet's ledger; 0 in the list of a job.
    pub number: i64,
    /// The kind of movement.
    #[schema(value_type = MovementKind)]
    pub kind: Word<MovementKind>,
    /// The owner of the debited wallet; `null` if the credits were created or came from the job's hold.
    pub debit: Option<String>,
    /// The owner of the credited wallet; `null` if the credits were destroyed or went to the job's hold.
    pub credit: Option<String>,
    /// The amount in credits.
    pub amount: Credits,
    /// The job it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The transfer it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<TransferId>,
    /// The balance of the wallet after the movement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Credits>,
    /// The time of the movement.
    pub at: String,
}

/// The totals of the market. Sums are computed in hundredths and are exact up to the precision of a JSON
/// number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Economy {
    /// The credits that were created.
    pub minted: f64,
    /// The credits that were destroyed.
    pub burned: f64,
    /// The sum of all wallets.
    pub wallets: f64,
    /// The credits held for jobs.
    pub held: f64,
    /// `true` if wallets and holds equal the created minus the destroyed credits, and no wallet differs from
    /// its ledger.
    pub balanced: bool,
    /// The wallets that differ from their ledger or their open jobs, as of the last check: the caller's own,
    /// or for the operator up to a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discrepancies: Vec<WalletDiscrepancy>,
}

/// A wallet with inconsistent books.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WalletDiscrepancy {
    /// The owner of the wallet.
    pub owner: String,
    /// The inconsistency, with its figures.
    pub detail: String,
}
