//! What was said before, as far as rules read it.

use chorus_attention::{Event, classify};
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::Intent;
use chorus_store::StoreError;
use serde::Deserialize;

/// A message, as it is kept.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Earlier {
    pub(super) content: String,
    intent: String,
}

impl Earlier {
    pub(super) fn read(body: &str) -> Result<Self, StoreError> {
        serde_json::from_str(body).map_err(|error| StoreError::Unexpected(error.into()))
    }

    pub(super) fn intent(&self) -> Intent {
        let said = Event {
            text: &self.content,
            intent: Intent::parse(&self.intent),
            names_somebody: !mentions(&self.content).is_empty(),
            ..Event::default()
        };
        classify(said).intent
    }
}
