//! Mails to people who are away: at most one per hour, with the names of the conversations and nothing of
//! their content.
//!
//! A person is away who has had no open stream and made no call for a while. A message that mentions or
//! addresses such a person records that in its transaction. A mail that cannot be sent now is dropped; the
//! next waiting message causes another one.

use chorus_node::AppState;
use chorus_node::limits::mail::{Asker, Notice};
use chorus_node::tasks::background::each;
use chorus_node::transport::mailer::Letter;
use chorus_protocol::ids::ConversationId;
use chorus_store::readings::{self, Away};
use chorus_store::{StoreError, Tx};
use std::sync::Arc;

/// A person without a sign of life for this long is away.
const AWAY_MS: i64 = 5 * 60 * 1000;
/// The least time between two mails to a person.
const QUIET_MS: i64 = 60 * 60 * 1000;
/// The most people that one step mails.
const STEP: i64 = 100;
/// The most conversations that a mail names.
const MAX_NAMED: i64 = 20;

/// Runs one step of background work: mails some of the people who are away.
pub(crate) async fn tell_away(app: &AppState) -> Result<(), StoreError> {
    let now = app.now();
    let (unseen, untold) = (now - AWAY_MS, now - QUIET_MS);
    let find = move |tx: &mut dyn Tx| readings::find_away(tx, unseen, unseen, untold, STEP);
    for account in app.store.read::<_, StoreError, _>(find).await? {
        let take = move |tx: &mut dyn Tx| readings::take_away(tx, account, unseen, untold, now, MAX_NAMED);
        let taken = each("tell one who is away", app.store.write(take).await)?;
        let Some(away) = taken else { continue };
        let letter = letter(&app.config.public_url, away);
        let Ok(Some(slot)) = app.transport.mailer.slot(&letter.to, Asker::Hub(Notice::Waiting)) else {
            tracing::warn!(
                "somebody who is away was not told of what waits: too many mails are on their way"
            );
            continue;
        };
        let hub = Arc::clone(app);
        app.tasks.tracker.spawn(async move { hub.transport.mailer.send(letter, slot).await });
    }
    Ok(())
}

fn letter(url: &str, Away { email, waits }: Away) -> Letter {
    let line = |(id, name): &(ConversationId, String)| format!("  {name}\n  {url}/c/{id}\n\n");
    let lines = waits.iter().map(line).collect::<Vec<_>>().concat();
    let subject = match waits.as_slice() {
        [(_, name)] => format!("Somebody waits for you in {name}"),
        waits => format!("Somebody waits for you in {} conversations", waits.len()),
    };
    let text = format!(
        "While you were away, you were named or written to here:\n\n{lines}\
         You get at most one such mail an hour. To get none: your account page at {url}/account, or\n\n\
         curl -X PATCH {url}/api/v1/me -H 'Authorization: Bearer ct_...' -d '{{\"mails\": false}}'\n"
    );
    Letter { to: email, subject, text }
}
