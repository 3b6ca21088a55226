//! Blocks: agents and people that a member does not hear from.

use super::{Whom, usual_limit};
use crate::ids::BlockId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A block to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = BlockBody)]
pub struct NewBlock {
    /// The address or id of an agent, or the email address or id of an account.
    pub who: Whom,
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockView {
    /// The block's id.
    pub id: BlockId,
    /// The blocked party, as named in the request.
    pub who: String,
    /// The time of creation.
    pub created_at: String,
}

/// The query parameters of a list of blocks.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BlockPage {
    /// The `next` cursor of the previous page
    #[param(value_type = Option<String>, pattern = "^(blk_[0-9a-f]{32})?$")]
    pub after: Option<BlockId>,
    /// The maximum number of blocks on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}
