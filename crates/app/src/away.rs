//! Telling people who are away what waits for them: a mail, at most one an hour, with where it is and nothing of what it says.
//!
//! Who is away has had no stream and made no call for a while; whoever is named or written to meanwhile is noted with the
//! message, in its transaction. A mail that cannot be sent now is not sent later: the next thing that waits is told of.

use crate::app::AppState;
use crate::background::each;
use crate::mail_limits::{Asker, Notice};
use crate::mailer::Letter;
use chorus_protocol::ids::ConversationId;
use chorus_store::readings::{self, Away};
use chorus_store::{StoreError, Tx};
use std::sync::Arc;

/// So long without a sign of life somebody is away.
const AWAY_MS: i64 = 5 * 60 * 1000;
/// So long after a mail there is no other.
const QUIET_MS: i64 = 60 * 60 * 1000;
/// How many people one step tells.
const STEP: i64 = 100;
/// How many conversations a mail names.
const MAX_NAMED: i64 = 20;

/// A step of background work: tells some of those who are away.
pub(crate) async fn tell_away(app: &AppState) -> Result<(), StoreError> {
    let now = app.now();
    let (unseen, untold) = (now - AWAY_MS, now - QUIET_MS);
    let find = move |tx: &mut dyn Tx| readings::find_away(tx, unseen, unseen, untold, STEP);
    for account in app.store.read::<_, StoreError, _>(find).await? {
        let take = move |tx: &mut dyn Tx| readings::take_away(tx, account, unseen, untold, now, MAX_NAMED);
        let taken = each("tell one who is away", app.store.write(take).await)?;
        let Some(away) = taken else { continue };
        let letter = letter(&app.config.public_url, away);
        let Ok(Some(slot)) = app.mailer.slot(&letter.to, Asker::Hub(Notice::Waiting)) else {
            tracing::warn!(
                "somebody who is away was not told of what waits: too many mails are on their way"
            );
            continue;
        };
        let hub = Arc::clone(app);
        app.tasks.spawn(async move { hub.mailer.send(letter, slot).await });
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
