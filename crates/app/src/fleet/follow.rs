//! The fleet as a live stream: reads the first page again and again, and sends only the changes.
//!
//! The page is read every few seconds, because an agent's activity is written in many places and by every
//! node. Before each read the caller is authenticated again, so that a revoked key sees nothing more.

use bytes::{Bytes, BytesMut};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::authentication;
use chorus_node::caller::{Caller, Shown};
use chorus_node::transport::dialect::Dialect;
use chorus_protocol::api::Page;
use chorus_protocol::api::fleet::{FleetAgent, FleetNotice};
use chorus_protocol::ids::AgentId;
use chorus_protocol::sse;
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;

/// The interval between reads.
const LOOK: Duration = Duration::from_secs(2);

/// A connection that watches the fleet.
pub struct Watcher {
    app: AppState,
    shown: Shown,
    caller: Caller,
    limit: i64,
    /// The agents as they were last sent.
    told: HashMap<AgentId, FleetAgent>,
    /// The first bytes of the stream.
    greeting: Option<Bytes>,
    ping_at: i64,
}

impl Watcher {
    /// Opens a stream that begins with the current fleet.
    pub async fn open(app: AppState, caller: Caller, shown: Shown, limit: i64) -> Result<Self, Error> {
        let page = super::list(&app, &caller, Page { after: None, limit }).await?;
        let data = serde_json::to_string(&page).map_err(Error::internal)?;
        let told = page.items.into_iter().map(|agent| (agent.agent_id, agent)).collect();
        let greeting = Some(sse::encode(FleetNotice::Fleet.as_str(), None, &data).into());
        let ping_at = app.elapsed() + app.config.times.ping.as_millis() as i64;
        Ok(Self { app, shown, caller, limit, told, greeting, ping_at })
    }

    /// Returns the next bytes for the connection, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            tokio::select! {
                () = self.app.tasks.stopping.cancelled() => return None,
                () = tokio::time::sleep(LOOK) => {}
            }
            // A caller that can no longer be authenticated must reconnect.
            let caller = match &self.caller {
                // The operator's key is valid as long as the hub runs.
                Caller::Operator => Caller::Operator,
                _ => authentication::look_up(&self.app, &self.shown).await.ok()?,
            };
            if caller != self.caller {
                return None;
            }
            let bytes = self.look().await.inspect_err(|error| {
                tracing::warn!(error = error.message, "the fleet could not be watched");
            });
            let bytes = bytes.ok()?;
            if !bytes.is_empty() {
                return Some(bytes);
            }
            if self.app.elapsed() >= self.ping_at {
                self.ping_at = self.app.elapsed() + self.app.config.times.ping.as_millis() as i64;
                return Some(Dialect::Sse.ping());
            }
        }
    }

    /// Returns the changes since the last read.
    async fn look(&mut self) -> Result<Bytes, Error> {
        let page = super::list(&self.app, &self.caller, Page { after: None, limit: self.limit }).await?;
        let mut bytes = BytesMut::new();
        let mut say = |event: FleetNotice, data: &serde_json::Value| {
            bytes.extend_from_slice(sse::encode(event.as_str(), None, &data.to_string()).as_ref());
        };
        let mut now = HashMap::new();
        for agent in page.items {
            // A newer `last_seen` alone is not a change.
            let seen = |told: &FleetAgent| FleetAgent { last_seen: agent.last_seen.clone(), ..told.clone() };
            if self.told.get(&agent.agent_id).map(seen).as_ref() != Some(&agent) {
                say(FleetNotice::Agent, &json!(agent));
            }
            now.insert(agent.agent_id, agent);
        }
        for gone in self.told.keys().filter(|id| !now.contains_key(*id)) {
            say(FleetNotice::Gone, &json!({"agent_id": gone}));
        }
        self.told = now;
        Ok(bytes.freeze())
    }
}
