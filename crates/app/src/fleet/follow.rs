//! The fleet as it changes: the first page again and again, and of it only what is new.
//!
//! It is looked at every few seconds, because what an agent does is written in many places and by every node. Before each
//! look the caller is looked up anew, so that one whose key was taken back sees nothing more.

use crate::app::AppState;
use crate::authenticate;
use crate::caller::{Caller, Shown};
use crate::error::Error;
use crate::transport::dialect::Dialect;
use bytes::{Bytes, BytesMut};
use chorus_protocol::api::Page;
use chorus_protocol::api::fleet::{FleetAgent, FleetNotice};
use chorus_protocol::ids::AgentId;
use chorus_protocol::sse;
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// One connection that watches the fleet.
pub struct Watcher {
    app: AppState,
    shown: Shown,
    caller: Caller,
    limit: i64,
    /// As it was told.
    told: HashMap<AgentId, FleetAgent>,
    /// What is said before anything else.
    greeting: Option<Bytes>,
    ping_at: i64,
}

impl Watcher {
    /// Begins with the fleet as it is.
    pub async fn open(app: AppState, caller: Caller, shown: Shown, limit: i64) -> Result<Self, Error> {
        let page = super::list(&app, &caller, Page { after: None, limit }).await?;
        let data = serde_json::to_string(&page).map_err(Error::internal)?;
        let told = page.items.into_iter().map(|agent| (agent.agent_id, agent)).collect();
        let greeting = Some(sse::encode(FleetNotice::Fleet.as_str(), None, &data).into());
        let ping_at = app.elapsed() + app.config.times.ping.as_millis() as i64;
        Ok(Self { app, shown, caller, limit, told, greeting, ping_at })
    }

    /// The next bytes for the connection; none at the end of the stream.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            tokio::select! {
                () = self.app.stopping.cancelled() => return None,
                () = tokio::time::sleep(LOOK) => {}
            }
            // Whoever is not known for certain to be the same connects again.
            let caller = match &self.caller {
                // Its key is good as long as the hub runs.
                Caller::Operator => Caller::Operator,
                _ => authenticate::look_up(&self.app, &self.shown).await.ok()?,
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

    /// What changed since it was told.
    async fn look(&mut self) -> Result<Bytes, Error> {
        let page = super::list(&self.app, &self.caller, Page { after: None, limit: self.limit }).await?;
        let mut bytes = BytesMut::new();
        let mut say = |event: FleetNotice, data: &serde_json::Value| {
            bytes.extend_from_slice(sse::encode(event.as_str(), None, &data.to_string()).as_ref());
        };
        let mut now = HashMap::new();
        for agent in page.items {
            // That it is still there is no news.
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
