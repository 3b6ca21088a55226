//! Notifies agents' owners by mail that a connection is broken.
//!
//! Each break is reported once, without retries: a lost mail stays lost, and the agent's record shows the
//! break too. An agent that breaks again and again does not fill its owner's mailbox.

use chorus_node::limits::mail::{Asker, Notice};
use chorus_node::transport::mailer::Letter;
use chorus_node::{App, AppState};
use chorus_protocol::ids::AgentId;
use chorus_protocol::time::rfc3339;
use chorus_store::{StoreError, Tx, accounts, directory};
use std::collections::HashMap;
use std::sync::Arc;

/// The minimum time between two mails about one agent.
const QUIET_MS: i64 = 10 * 60 * 1000;

/// The time of the last mail about each agent.
#[derive(Default)]
pub(super) struct Owners {
    told: HashMap<AgentId, i64>,
}

impl Owners {
    /// Notifies the owner of an agent whose connection broke, if it has one.
    pub(super) fn tell(&mut self, app: &AppState, agent: AgentId) {
        let now = app.elapsed();
        self.told.retain(|_, at| now < *at + QUIET_MS);
        if self.told.contains_key(&agent) {
            return;
        }
        self.told.insert(agent, now);
        let hub = Arc::clone(app);
        app.tasks.tracker.spawn(async move {
            match letter(&hub, agent).await {
                Ok(Some(letter)) => {
                    match hub.transport.mailer.slot(&letter.to, Asker::Hub(Notice::BrokenConnection)) {
                        Ok(Some(slot)) => hub.transport.mailer.send(letter, slot).await,
                        Ok(None) => {}
                        Err(_) => tracing::warn!(
                            %agent,
                            "an owner was not told of a broken connection: too many mails are on their way"
                        ),
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    %agent,
                    "an owner was not told of a broken connection"
                ),
            }
        });
    }
}

async fn letter(app: &App, agent: AgentId) -> Result<Option<Letter>, StoreError> {
    let find = move |tx: &mut dyn Tx| {
        let Some(agent) = directory::by_id(tx, agent)? else { return Ok(None) };
        let Some((broken, owner)) = agent.broken.zip(agent.owner) else { return Ok(None) };
        Ok(accounts::by_id(tx, owner)?.map(|owner| (owner.email, agent.name, broken)))
    };
    let found = app.store.read::<_, StoreError, _>(find).await?;
    Ok(found.map(|(to, name, (why, since))| {
        let address = app.address(&name);
        Letter {
            to,
            subject: format!("{address} cannot be reached"),
            text: format!(
                "Messages for your agent {address} do not arrive: {why} ({since}).\n\n\
                 Its connection string is not called any more. What is said to it waits, each message for 24 hours, until \
                 you set a new connection string or have the hub try this one again:\n\n\
                 chorus agent-url mend {name}\n\nThe hub is {url}.\n",
                since = rfc3339(since),
                url = app.config.public_url,
            ),
        }
    }))
}
