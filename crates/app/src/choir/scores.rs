//! Scores: making, changing, reading, claiming and archiving them, and the structural rehearsal.

use super::{
    MOST_SCORES, Sent, check_unowned, count_unowned, declared, is_unowned_by, own, own_to_change, read,
    score_id, signing_secrets,
};
use chorus_choir::rehearse;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Caller, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_node::page::page;
use chorus_node::source::{Source, rate_key};
use chorus_node::{App, AppState};
use chorus_protocol::api::scores::{ClaimBody, MadeScore, PUBLISHES, RehearsalView, ScoreDetail, ScoreView};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::choir::score::{Scenario, Score};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, ScoreId, TraceId};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::choir::{self, ScoreRow};
use serde_json::{Value, json};
use std::sync::Arc;

/// Makes a Score for an account, or, if this hub allows it, for the holder of a new edit link.
pub async fn make(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    body: Value,
    once: Once,
) -> Result<Done<MadeScore>, Error> {
    let anonymous = caller == Caller::Nobody && app.config.anonymous_scores;
    let owner = if anonymous { None } else { Some(caller.person()?.id) };
    if anonymous {
        app.limits.count_registration(rate_key(context.client))?;
    }
    let Sent { score, text, masked, unknown } = read(body, 1)?;
    count_unowned(app, anonymous, context.source(), text.len())?;
    let (now, link) = (app.now(), owner.is_none().then(|| app.secret(SecretKind::EditLink)));
    let new = ScoreRow {
        id: ScoreId(app.environment.uuid_v7()),
        owner,
        ingest: app.environment.random_hex(),
        title: score.title.0,
        version: 1,
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    let edit_link =
        link.as_ref().map(|link| format!("{}/scores/{}/edit/{link}", app.config.public_url, new.id));
    let (hash, trace) = (link.map(|link| key_hash(&link)), TraceId(app.environment.uuid_v7()));
    let made = MadeScore { score_id: new.id, version: 1, edit_link, masked, unknown };
    let work = move |tx: &mut dyn Tx| {
        if let Some(owner) = new.owner {
            room(tx, owner)?;
        }
        choir::insert(tx, &new, hash.as_ref().map(<[u8; 32]>::as_slice), &text, trace)?;
        Ok(made.clone())
    };
    // Anonymous callers share one namespace of idempotency keys, so a repeated key could reveal another
    // caller's edit link.
    app.once(if anonymous { Once::NO_KEY } else { once }, |_| Ok(()), work).await
}

fn room(tx: &mut dyn Tx, owner: AccountId) -> Result<(), Error> {
    // The lock makes the second of two concurrent requests count the first.
    tx.lock(owner.into())?;
    if choir::count(tx, owner)? >= MOST_SCORES {
        let full = format_args!("you have {MOST_SCORES} Scores, which is all that an account may have");
        return Err(Error::new(Code::QuotaExceeded, full));
    }
    Ok(())
}

/// Makes the next version of a Score.
pub async fn change(
    app: &AppState,
    caller: Caller,
    source: Source,
    id: &str,
    body: Value,
    once: Once,
) -> Result<Done<MadeScore>, Error> {
    super::may_have(&caller)?;
    let (id, now) = (score_id(id)?, app.now());
    let sent = read(body.clone(), 1)?;
    count_unowned(app, is_unowned_by(&caller), source, sent.text.len())?;
    let by = caller.clone();
    let work = move |tx: &mut dyn Tx| {
        let row = own_to_change(tx, &caller, id)?;
        let version = row.version + 1;
        let Sent { score, text, masked, unknown } = read(body.clone(), version)?;
        check_unowned(&row, version)?;
        choir::add_version(tx, id, version, &score.title, &text, now)?;
        Ok(MadeScore { score_id: id, version, edit_link: None, masked, unknown })
    };
    app.once(once, move |tx| own(tx, &by, id).map(drop), work).await
}

/// Returns a Score with everything that its owner may see.
pub async fn show(app: &AppState, caller: Caller, id: &str) -> Result<ScoreDetail, Error> {
    super::may_have(&caller)?;
    let (id, hub) = (score_id(id)?, Arc::clone(app));
    let find = move |tx: &mut dyn Tx| {
        let row = own(tx, &caller, id)?;
        let secrets = choir::secrets(tx, id)?;
        Ok(ScoreDetail {
            score_id: id,
            score: declared(tx, &row)?,
            created_at: rfc3339(row.created_at),
            updated_at: rfc3339(row.updated_at),
            archived: row.archived_at.is_some(),
            claimed: row.owner.is_some(),
            ingest_url: signing_secrets::ingest_url(&hub, &row.ingest),
            signing_secrets: secrets.into_iter().map(signing_secrets::shown).collect(),
            notice: PUBLISHES.into(),
        })
    };
    app.store.read::<_, Error, _>(find).await
}

/// Returns a page of an account's Scores.
pub async fn list(app: &App, owner: AccountId, asked: Page) -> Result<Items<ScoreView>, Error> {
    let after = asked.after.as_deref().map(|text| {
        ScoreId::parse(text).ok_or_else(|| Faults::one("after", "must be `next` of the page before"))
    });
    let (after, limit) = (after.transpose()?, asked.limit);
    let find = move |tx: &mut dyn Tx| Ok(choir::page(tx, owner, after, limit + 1)?);
    let found = app.store.read::<_, Error, _>(find).await?.into_iter().map(|row| ScoreView {
        score_id: row.id,
        title: row.title,
        version: row.version,
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
        archived: row.archived_at.is_some(),
    });
    Ok(page(app, found.collect(), limit, |last: &ScoreView| last.score_id.to_string()))
}

/// Archives a Score. Nothing can be added to it afterwards; its receipts stay.
pub async fn archive(app: &App, caller: Caller, id: &str) -> Result<(), Error> {
    super::may_have(&caller)?;
    let (id, now) = (score_id(id)?, app.now());
    let work = move |tx: &mut dyn Tx| {
        own(tx, &caller, id)?;
        Ok(choir::archive(tx, id, now)?)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Gives a Score with an edit link to an account. This cannot be undone. The link stops working, and the
/// signing secrets made with it are revoked.
pub async fn claim(
    app: &AppState,
    context: RequestContext,
    owner: AccountId,
    id: &str,
    ClaimBody { edit_link }: ClaimBody,
    once: Once,
) -> Result<Done<MadeScore>, Error> {
    let (id, now) = (score_id(id)?, app.now());
    let secret = edit_link.rsplit('/').next().unwrap_or_default();
    let (hash, hub) = (key_hash(secret.trim()), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        room(tx, owner)?;
        // The lock prevents a new secret from being made with the link at the same time.
        let held = choir::find_to_change(tx, id)?;
        // The error does not tell whether the Score, the link or the absence of an owner is the problem.
        let row = match held {
            Some(row) if choir::claim(tx, id, &hash, owner)? => row,
            _ => return Err(Error::not_found("unclaimed Score with this edit link")),
        };
        choir::revoke_secrets(tx, id, now)?;
        let (actor, subject) = (Actor::Principal(owner.into()), Subject::Score(id));
        context.record(tx, &hub, Deed::new(actor, Action::ScoreClaimed, subject, json!({})))?;
        Ok(MadeScore { score_id: id, version: row.version, edit_link: None, masked: vec![], unknown: vec![] })
    };
    app.once(once, |_| Ok(()), work).await
}

/// Returns the ids of all structural rules.
pub fn rule_ids() -> Vec<&'static str> {
    chorus_choir::rules::STRUCTURAL.iter().map(|rule| rule.id).collect()
}

/// Returns the library of scenarios.
pub fn library() -> Vec<Scenario> {
    chorus_choir::library::scenarios()
}

/// Returns every rule with its weight, as published.
pub fn rules() -> Value {
    chorus_choir::rules::table()
}

/// Rehearses a Score without evidence, and returns its structural findings. No receipt is issued.
pub async fn on_paper(app: &App, caller: Caller, id: &str) -> Result<RehearsalView, Error> {
    super::may_have(&caller)?;
    let id = score_id(id)?;
    let find = move |tx: &mut dyn Tx| {
        let row = own(tx, &caller, id)?;
        declared(tx, &row)
    };
    view(&app.store.read::<_, Error, _>(find).await?)
}

/// Rehearses a draft of a Score without storing it. Fails if the caller may not have Scores.
pub fn draft_on_paper(app: &App, caller: &Caller, body: Value) -> Result<RehearsalView, Error> {
    if !(*caller == Caller::Nobody && app.config.anonymous_scores) {
        super::may_have(caller)?;
    }
    view(&read(body, 1)?.score)
}

fn view(score: &Score) -> Result<RehearsalView, Error> {
    let payload = rehearse(score, None).map_err(Error::validation)?;
    Ok(RehearsalView {
        dimensions: payload.dimensions,
        findings: payload.structural.findings.clone(),
        payload: serde_json::to_value(&payload).map_err(Error::internal)?,
        notice: PUBLISHES.into(),
    })
}
