//! Agents: how they are named, and who may change them.

mod reference;

pub use reference::{AgentRef, managed, may_manage};

use crate::app::App;
use serde_json::Value;
use url::Url;

/// Whether a card is as large as it may be, or what is wrong with it.
pub fn card_fits(app: &App, card: &Value) -> Result<(), String> {
    let (bytes, most) = (card.to_string().len() as u64, app.config.quotas.card_bytes);
    if bytes <= most {
        return Ok(());
    }
    Err(format!("has {bytes} bytes and may have {most} on this hub; say less in it"))
}

/// Where a URL leads: the rest of it may be secret.
pub fn host(url: Option<&str>) -> Option<String> {
    Url::parse(url?).ok()?.host_str().map(str::to_owned)
}
