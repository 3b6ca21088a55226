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
    to: Vec<String>,
}

impl Earlier {
    pub(super) fn read(body: &str) -> Result<Self, StoreError> {
        serde_json::from_str(body).map_err(|error| StoreError::Unexpected(error.into()))
    }

    /// Whom it mentions, or is for besides.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        mentions(&self.content).into_iter().chain(self.to.iter().map(String::as_str))
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
