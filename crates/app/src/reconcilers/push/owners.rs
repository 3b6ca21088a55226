//! Telling agents' owners that a connection is broken.
//!
//! Once for each break, by mail, and as well as can be: what is lost is lost, and the agent's record says it too. An agent that is
//! mended and breaks again and again does not fill its owner's mailbox.

use crate::app::{App, AppState};
use crate::mail_limits::{Asker, Notice};
use crate::mailer::Letter;
use chorus_protocol::ids::AgentId;
use chorus_protocol::time::rfc3339;
use chorus_store::{StoreError, Tx, accounts, directory};
use std::collections::HashMap;
use std::sync::Arc;

/// How long after a mail about an agent there is no other.
const QUIET_MS: i64 = 10 * 60 * 1000;

/// Who was written to about which agent, and when.
#[derive(Default)]
pub(super) struct Owners {
    told: HashMap<AgentId, i64>,
}

impl Owners {
    /// Writes to the owner of an agent whose connection broke, if it has one.
    pub(super) fn tell(&mut self, app: &AppState, agent: AgentId) {
        let now = app.elapsed();
        self.told.retain(|_, at| now < *at + QUIET_MS);
        if self.told.contains_key(&agent) {
            return;
        }
        self.told.insert(agent, now);
        let hub = Arc::clone(app);
        app.tasks.spawn(async move {
            match letter(&hub, agent).await {
                Ok(Some(letter)) => match hub.mailer.slot(&letter.to, Asker::Hub(Notice::BrokenConnection)) {
                    Ok(Some(slot)) => hub.mailer.send(letter, slot).await,
                    Ok(None) => {}
                    Err(_) => tracing::warn!(
                        %agent,
                        "an owner was not told of a broken connection: too many mails are on their way"
                    ),
                },
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
