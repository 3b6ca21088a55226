//! Wallets, what moves between them, and the sum of it all.

use super::{Credits, MovementKind, OwnerId, Timestamp};
use crate::api::usual_limit;
use crate::ids::{JobId, TransferId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Credits from one owner to another.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = TransferBody)]
pub struct Transfer {
    /// A UUID of the caller's own, the same for every retry: it is done once.
    pub transfer_id: TransferId,
    /// Who pays: the caller.
    pub from_owner: OwnerId,
    /// Who is paid; it must be known here.
    pub to_owner: OwnerId,
    /// How much; more than nothing.
    pub amount: Credits,
    /// What for. A job that went through the hub was settled there and cannot be paid again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// When this was sent, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
}

/// A transfer that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TransferView {
    /// Which.
    pub transfer_id: TransferId,
    /// Always "SUCCESS".
    pub status: String,
    /// Who paid.
    pub from_owner: String,
    /// Who was paid.
    pub to_owner: String,
    /// How much.
    pub amount: Credits,
    /// What for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// When.
    pub timestamp_utc: String,
}

/// What an owner has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WalletView {
    /// Whose.
    pub owner: String,
    /// What can be spent.
    pub balance: Credits,
    /// What is held for jobs that have not ended.
    pub held: Credits,
}

/// An owner's new key, which is shown this once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewOwnerKeyView)]
pub struct NewOwnerKey {
    /// Whose.
    pub owner: String,
    /// The key: `cw_…`.
    pub owner_key: String,
}

/// What the operator makes, or takes away.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = IssueBody)]
pub struct Issue {
    /// Whose wallet.
    pub owner: OwnerId,
    /// How much; more than nothing.
    pub amount: Credits,
}

/// What a wallet holds after it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Issued {
    /// Whose.
    pub owner: String,
    /// How much was made or taken away.
    pub amount: Credits,
    /// What can be spent now.
    pub balance: Credits,
}

/// Which movements are looked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LedgerSearch {
    /// Of whose wallet; the caller's own unless said
    #[param(max_length = 254)]
    pub owner: Option<String>,
    /// Of which job
    pub job: Option<JobId>,
    /// Not older than this RFC 3339 time
    #[param(max_length = 64)]
    pub since: Option<String>,
    /// `next` of the page before
    pub after: Option<String>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// One movement of credits, as one of its two ends sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MovementView {
    /// Its place in the wallet it is seen from; 0 in the list of a job.
    pub number: i64,
    /// Why.
    #[schema(value_type = MovementKind)]
    pub kind: Word<MovementKind>,
    /// Whose wallet it left: none if it was made, or came from what was held for the job.
    pub debit: Option<String>,
    /// Whose wallet it came into: none if it was taken away, or is held for the job.
    pub credit: Option<String>,
    /// How much.
    pub amount: Credits,
    /// For which job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// By which transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<TransferId>,
    /// What the wallet held after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Credits>,
    /// When.
    pub at: String,
}

/// The sum of it all. Sums are of hundredths, and exact as long as a number can be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Economy {
    /// What was made.
    pub minted: f64,
    /// What was taken away.
    pub burned: f64,
    /// What all wallets hold.
    pub wallets: f64,
    /// What is held for jobs.
    pub held: f64,
    /// Whether wallets and holds are together what was made and not taken away.
    pub balanced: bool,
}
