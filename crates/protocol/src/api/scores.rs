//! Scores, evidence and receipts, as `/api/v1` takes and gives them.

use crate::choir::evidence::AdapterWarning;
use crate::choir::receipt::{Dimensions, Finding, Verdict, VerificationStatus};
use crate::choir::score::Score;
use crate::ids::{EvidenceId, ScoreId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType};
use utoipa::openapi::{RefOr, Type};
use utoipa::{IntoParams, ToSchema};

/// What is said when a receipt is about to be issued, or was.
pub const PUBLISHES: &str =
    "A receipt is public: it publishes a snapshot of the Score, although the Score itself stays private.";

/// A Score that was made, changed or claimed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MadeScore {
    /// Its id.
    pub score_id: ScoreId,
    /// Which version this is.
    pub version: i64,
    /// Without an account: whoever has this may edit it, until it is claimed. Shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_link: Option<String>,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Members that no Score has, by their paths: they were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A Score in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ScoreView {
    /// Its id.
    pub score_id: ScoreId,
    /// What people call it.
    pub title: String,
    /// Its newest version.
    pub version: i64,
    /// When it was made.
    pub created_at: String,
    /// When this version was made.
    pub updated_at: String,
    /// Whether it was put away.
    pub archived: bool,
}

/// A Score as its owner sees it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ScoreDetail {
    /// Its id.
    pub score_id: ScoreId,
    /// What was declared.
    #[serde(flatten)]
    pub score: Score,
    /// When it was made.
    pub created_at: String,
    /// When this version was made.
    pub updated_at: String,
    /// Whether it was put away.
    pub archived: bool,
    /// Whether an account owns it.
    pub claimed: bool,
    /// Where signed evidence goes.
    pub ingest_url: String,
    /// Secrets that are in use, without what makes them secret.
    pub signing_secrets: Vec<SecretView>,
    /// What issuing a receipt does.
    pub notice: String,
}

/// Claims a Score.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClaimBody {
    /// The link, or the `es_…` in it.
    #[schema(min_length = 1, max_length = 2000)]
    pub edit_link: String,
}

/// A signing secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    /// Shown once, when it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Its public beginning.
    pub prefix: String,
    /// Where signed evidence goes; with the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingest_url: Option<String>,
    /// When it was made.
    pub created_at: String,
}

/// Evidence that was taken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EvidenceView {
    /// Its id.
    pub evidence_id: EvidenceId,
    /// What is known of where it comes from.
    pub verification_status: VerificationStatus,
    /// The hash of the canonical form, as received.
    pub bundle_sha256: String,
    /// For which version of the Score.
    pub score_version: i64,
    /// How many events it has.
    pub events: i64,
    /// When it came in.
    pub received_at: String,
    /// It was there already.
    pub duplicate: bool,
    /// The kinds of credentials that were masked in what is kept of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// What it names that the Score does not have: it counts for less than was meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<AdapterWarning>,
}

/// What follows from the Score alone.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RehearsalView {
    /// From 0 to 100.
    pub dimensions: Dimensions,
    /// What is fragile by design.
    pub findings: Vec<Finding>,
    /// The draft that a receipt over no evidence would hold. Nothing was issued.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// What issuing a receipt does.
    pub notice: String,
}

/// Which evidence goes into a receipt.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptBody {
    /// `latest` (all of the strongest class since the Score's last version), `none`, or ids of one class. `latest`, unless said.
    #[schema(required = false, schema_with = evidence_of_receipt)]
    pub evidence: Option<Value>,
}

/// A word or ids, which no one type says.
fn evidence_of_receipt() -> RefOr<Schema> {
    let id = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^ev_[0-9a-f]{32}$"));
    ArrayBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Array, Type::Null]))
        .items(id)
        .min_items(Some(1))
        .max_items(Some(20))
        .into()
}

/// A receipt that was issued.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct IssuedReceipt {
    /// The receipt.
    #[serde(flatten)]
    pub receipt: crate::choir::receipt::Receipt,
    /// Where anybody can check it.
    pub verify_url: String,
}

/// A receipt in a list of its Score's.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReceiptLine {
    /// Its id.
    pub receipt_id: String,
    /// When it was issued.
    pub generated_at: String,
    /// What it claims to be.
    pub label: String,
    /// Over which version of the Score.
    pub score_version: i64,
    /// What it says.
    pub verdict: Verdict,
    /// Its place in the transparency log.
    pub log_index: i64,
}

/// What anybody can check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// The receipt's id.
    pub receipt_id: String,
    /// When it was issued.
    pub generated_at: String,
    /// As it was issued.
    pub payload_hash: String,
    /// As it was recomputed now.
    pub recomputed_hash: String,
    /// Whether both are the same.
    #[serde(rename = "match")]
    pub matches: bool,
    /// The bytes that are hashed.
    pub canonical_payload: String,
    /// What the receipt claims to be.
    pub label: String,
    /// Its place in the transparency log.
    #[schema(value_type = Object)]
    pub log: Value,
}

/// Two receipts to be compared.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CompareBody {
    /// The ids of both, the older first.
    #[schema(min_items = 2, max_items = 2)]
    pub receipts: Vec<String>,
}

/// A public link to a comparison.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ComparisonLink {
    /// Nobody can guess it.
    pub slug: String,
    /// Where anybody can read it.
    pub url: String,
}

/// Which part of the log grew.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Growth {
    /// How many leaves there were.
    #[param(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub from: i64,
    /// How many there are; as many as there are now, unless said.
    #[param(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub to: Option<i64>,
}

/// What a caller knows of a run that its trace does not say.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Adapting {
    /// The id of the Score whose voices are meant.
    pub score: Option<String>,
    /// What the run is called.
    #[param(max_length = 200)]
    pub run_id: Option<String>,
    /// The id of the scenario that was run.
    #[param(max_length = 200)]
    pub scenario: Option<String>,
    /// Whose events are that name nobody. Other names of voices are the Score's to say, as aliases.
    #[param(max_length = 200)]
    pub voice: Option<String>,
    /// Whether the trace holds everything that happened. A trace that shows that it does not is believed more.
    #[serde(default)]
    #[param(required = false)]
    pub complete: bool,
}

/// Which form of an attestation.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AttestationForm {
    /// `receipt`, unless `test_result` is said.
    pub predicate: Option<String>,
}
