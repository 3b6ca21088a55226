//! The evidence that one rehearsal reads: bundles and answers of one verification class.

use crate::answers::TakenAnswers;
use crate::evidence::Taken;
use chorus_protocol::choir::receipt::VerificationStatus;
use serde_json::Value;

/// The evidence of one verification class.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The degree to which its origin is verified.
    pub status: VerificationStatus,
    /// The bundles, in any order. A bundle that another of them supersedes does not count.
    pub bundles: Vec<Taken>,
    /// The hashes of bundles that were superseded and are not among `bundles`.
    pub superseded: Vec<String>,
    /// The records of answers about these bundles, in the order in which they came.
    pub answers: Vec<TakenAnswers>,
    /// The hub's attestation of a run that it carried.
    pub hub: Option<Value>,
}

impl Evidence {
    /// Returns evidence that is only its bundles.
    pub fn new(status: VerificationStatus, bundles: Vec<Taken>) -> Self {
        Self { status, bundles, superseded: vec![], answers: vec![], hub: None }
    }
}
