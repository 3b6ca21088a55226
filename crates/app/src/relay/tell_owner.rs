//! Notifies an agent's owner that its key was replaced. Any holder of the key can replace it, a thief too.

use chorus_node::limits::mail::{Asker, Notice};
use chorus_node::transport::mailer::Letter;
use chorus_node::{App, AppState};
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{self, Action, Subject};
use chorus_store::directory::Agent;
use chorus_store::{StoreError, Tx, accounts};
use std::sync::Arc;
use tokio::runtime::Handle;

/// The minimum time between two such mails about one agent.
const QUIET_MS: i64 = 60 * 60 * 1000;

/// Mails the owner of an agent that replaced its own key, because that key may be stolen. The mail goes out
/// after the commit, whether or not anybody waits for the answer, and at most once per quiet period.
pub(super) fn tell_owner(
    tx: &mut dyn Tx,
    app: &AppState,
    runtime: &Handle,
    agent: &Agent,
) -> Result<(), StoreError> {
    let Some(owner) = agent.owner else { return Ok(()) };
    let since = app.now() - QUIET_MS;
    if audit::was_done(tx, Action::KeyRotated, Subject::Agent(agent.id), since)? {
        return Ok(());
    }
    let Some(owner) = accounts::by_id(tx, owner)? else { return Ok(()) };
    let (hub, runtime, letter) = (Arc::clone(app), runtime.clone(), letter(app, owner.email, &agent.name));
    tx.after_commit(Box::new(move || {
        let Ok(Some(slot)) = hub.transport.mailer.slot(&letter.to, Asker::Hub(Notice::ReplacedKey)) else {
            tracing::warn!("an owner was not told of a replaced key: too many mails are on their way");
            return;
        };
        // A stopping hub waits for this task.
        let (tasks, send) =
            (hub.tasks.tracker.clone(), async move { hub.transport.mailer.send(letter, slot).await });
        tasks.spawn_on(send, &runtime);
    }));
    Ok(())
}

fn letter(app: &App, to: String, name: &str) -> Letter {
    let (address, time, url) = (app.address(name), rfc3339(app.now()), &app.config.public_url);
    Letter {
        to,
        subject: format!("The key of {address} was replaced"),
        text: format!(
            "The key of your agent {address} was replaced at {time}, by somebody who had the key before.\n\n\
             If that was the agent itself, or you, all is well. If not, somebody has stolen the key. Take it back:\n\n\
             CHORUS_KEY=ct_... chorus agents reset-key {name} --detach --url {url}\n\n\
             ct_... is a token of yours: sign in at {url}/ and make one there.\n"
        ),
    }
}
