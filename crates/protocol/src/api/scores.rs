//! Scores, evidence and receipts in `/api/v1`.

use crate::choir::evidence::AdapterWarning;
use crate::choir::receipt::{Dimensions, Finding, Verdict, VerificationStatus};
use crate::choir::score::Score;
use crate::ids::{EvidenceId, ScoreId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType};
use utoipa::openapi::{RefOr, Type};
use utoipa::{IntoParams, ToSchema};

/// The notice shown before and after a receipt is issued.
pub const PUBLISHES: &str =
    "A receipt is public: it publishes a snapshot of the Score, although the Score itself stays private.";

/// A Score that was created, changed or claimed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MadeScore {
    /// The Score's id.
    pub score_id: ScoreId,
    /// The version number.
    pub version: i64,
    /// The edit link of a Score without an account. Anyone who has it may edit the Score until it is claimed.
    /// It is shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_link: Option<String>,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// The paths of unknown members, which were dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A Score in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ScoreView {
    /// The Score's id.
    pub score_id: ScoreId,
    /// The title.
    pub title: String,
    /// The newest version.
    pub version: i64,
    /// The time of creation.
    pub created_at: String,
    /// The time at which this version was created.
    pub updated_at: String,
    /// `true` if the Score is archived.
    pub archived: bool,
}

/// A Score as its owner sees it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ScoreDetail {
    /// The Score's id.
    pub score_id: ScoreId,
    /// The declaration.
    #[serde(flatten)]
    pub score: Score,
    /// The time of creation.
    pub created_at: String,
    /// The time at which this version was created.
    pub updated_at: String,
    /// `true` if the Score is archived.
    pub archived: bool,
    /// `true` if an account owns the Score.
    pub claimed: bool,
    /// The URL for signed evidence.
    pub ingest_url: String,
    /// The active signing secrets, without their secret part.
    pub signing_secrets: Vec<SecretView>,
    /// The consequence of issuing a receipt.
    pub notice: String,
}

/// A claim on a Score.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClaimBody {
    /// The edit link, or the `es_…` in it.
    #[schema(min_length = 1, max_length = 2000)]
    pub edit_link: String,
}

/// A secret that signs evidence.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    /// The secret. It is shown once, at creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The public prefix.
    pub prefix: String,
    /// The URL for signed evidence. Shown together with the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingest_url: Option<String>,
    /// The time of creation.
    pub created_at: String,
}

/// An evidence bundle that was accepted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EvidenceView {
    /// The evidence's id.
    pub evidence_id: EvidenceId,
    /// The degree to which the origin of the evidence is verified.
    pub verification_status: VerificationStatus,
    /// The hash of its canonical form, as received.
    pub bundle_sha256: String,
    /// The hash of a record of answers; `bundle_sha256` is then the bundle that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers_sha256: Option<String>,
    /// The hash of the bundle that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    /// The hash of the bundle that replaces it. It no longer counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// The version of the Score it is about.
    pub score_version: i64,
    /// The number of events, or of answers.
    pub events: i64,
    /// The time of arrival.
    pub received_at: String,
    /// `true` if the same bundle had been accepted before.
    pub duplicate: bool,
    /// The kinds of credentials that were masked in the stored copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Names in the evidence that the Score does not have. Those events count for less than intended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<AdapterWarning>,
}

/// The analysis of a Score without evidence.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RehearsalView {
    /// The dimensions, each from 0 to 100.
    pub dimensions: Dimensions,
    /// The weaknesses of the design.
    pub findings: Vec<Finding>,
    /// The payload of a receipt over no evidence. No receipt was issued.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// The consequence of issuing a receipt.
    pub notice: String,
}

/// The evidence for a receipt.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptBody {
    /// `latest` (all evidence of the strongest class since the last version of the Score), `none`, or ids of
    /// evidence of one class; `latest` by default.
    #[schema(required = false, schema_with = evidence_of_receipt)]
    pub evidence: Option<Value>,
}

/// Builds the schema of a word or a list of ids, which no Rust type expresses.
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
    /// The URL at which anyone can verify it.
    pub verify_url: String,
}

/// A receipt in the list of a Score's receipts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReceiptLine {
    /// The receipt's id.
    pub receipt_id: String,
    /// The time of issue.
    pub generated_at: String,
    /// The kind of claim that the receipt makes.
    pub label: String,
    /// The version of the Score.
    pub score_version: i64,
    /// The verdict.
    pub verdict: Verdict,
    /// The position in the transparency log.
    pub log_index: i64,
}

/// The public verification of a receipt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// The receipt's id.
    pub receipt_id: String,
    /// The time of issue.
    pub generated_at: String,
    /// The hash at the time of issue.
    pub payload_hash: String,
    /// The hash recomputed now.
    pub recomputed_hash: String,
    /// `true` if the stored receipt is what was issued: both hashes are equal, and the log's leaf agrees.
    #[serde(rename = "match")]
    pub matches: bool,
    /// The hashed bytes.
    pub canonical_payload: String,
    /// The kind of claim that the receipt makes.
    pub label: String,
    /// The position in the transparency log.
    #[schema(value_type = Object)]
    pub log: Value,
}

/// Two receipts to compare.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CompareBody {
    /// The ids of both receipts, older first.
    #[schema(min_items = 2, max_items = 2)]
    pub receipts: Vec<String>,
}

/// A public link to a comparison.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ComparisonLink {
    /// The unguessable part of the link.
    pub slug: String,
    /// The public URL of the comparison.
    pub url: String,
}

/// The query parameters of a consistency proof.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Growth {
    /// The number of leaves of the older tree
    #[param(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub from: i64,
    /// The number of leaves of the newer tree; the current number by default
    #[param(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub to: Option<i64>,
}

/// The query parameters of converting a trace: facts about the run that the trace does not hold.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Adapting {
    /// The id of the Score whose voices are used
    pub score: Option<String>,
    /// The id of the run
    #[param(max_length = 200)]
    pub run_id: Option<String>,
    /// The id of the scenario that was run
    #[param(max_length = 200)]
    pub scenario: Option<String>,
    /// The voice of events that name none. Other names of voices are declared as aliases in the Score
    #[param(max_length = 200)]
    pub voice: Option<String>,
    /// Declares that the trace holds every event of the run. A trace that is visibly incomplete overrides it
    #[serde(default)]
    #[param(required = false)]
    pub complete: bool,
}

/// The query parameters of an attestation.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AttestationForm {
    /// The predicate type: `receipt` (the default) or `test_result`
    pub predicate: Option<String>,
}

/// The query parameters of a list of leaf hashes.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LeafRange {
    /// The index of the first leaf
    #[serde(default)]
    #[param(required = false, minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    pub from: i64,
    /// The most leaves to list
    #[serde(default = "most_leaves")]
    #[param(required = false, minimum = 1, maximum = 1000)]
    pub limit: i64,
}

fn most_leaves() -> i64 {
    1000
}
