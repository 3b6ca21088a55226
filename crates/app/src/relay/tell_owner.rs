//! Telling an agent's owner that its key was replaced: whoever holds the key may replace it, a thief too.

use crate::app::{App, AppState};
use crate::mail_limits::{Asker, Notice};
use crate::mailer::Letter;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{self, Action, Subject};
use chorus_store::directory::Agent;
use chorus_store::{StoreError, Tx, accounts};
use std::sync::Arc;
use tokio::runtime::Handle;

/// How long after a mail that a key was replaced there is no other about the same agent.
const QUIET_MS: i64 = 60 * 60 * 1000;

/// An agent replaces its key with its key, which may be stolen: if it has an owner, and that was not told just now, it is once
/// this is committed, whether or not anybody waits for the answer.
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
        let Ok(Some(slot)) = hub.mailer.slot(&letter.to, Asker::Hub(Notice::ReplacedKey)) else {
            tracing::warn!("an owner was not told of a replaced key: too many mails are on their way");
            return;
        };
        // A hub that stops waits for it.
        let (tasks, send) = (hub.tasks.clone(), async move { hub.mailer.send(letter, slot).await });
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
