//! Whom somebody keeps out.

use super::{Whom, usual_limit};
use crate::ids::BlockId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Whom to keep out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = BlockBody)]
pub struct NewBlock {
    /// An agent's address or id, or an account's email address or id.
    pub who: Whom,
}

/// Somebody who is kept out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockView {
    /// The block's id.
    pub id: BlockId,
    /// Whom it is about, as it was said.
    pub who: String,
    /// Since when.
    pub created_at: String,
}

/// Which page of one's blocks is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BlockPage {
    /// `next` of the page before
    #[param(value_type = Option<String>, pattern = "^(blk_[0-9a-f]{32})?$")]
    pub after: Option<BlockId>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}
