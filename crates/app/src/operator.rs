//! The operator's acts on accounts and agents, and the operator's views of the hub: one file each.
//!
//! A caller of these has checked the operator's key, which is generated here too.

mod accounts;
mod audit_log;
mod disable;
mod figures;
mod key;
mod limits;
mod names;
mod overview;

pub use accounts::list_accounts;
pub use audit_log::audit_log;
pub(crate) use audit_log::{party_id, party_id_for_owner};
pub use disable::{disable_account, disable_agent, enable_account, enable_agent, end_sessions_of};
pub use figures::figures;
pub use key::keep_operator_key;
pub use limits::{RateLimit, rate_limits};
pub use names::names;
pub use overview::{StoreHealth, overview, store_health};
