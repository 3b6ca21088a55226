//! Choir in the hub: Scores and who may touch them, evidence, receipts, the transparency log.
//!
//! A Score is private to its account, or to whoever holds its edit link until it is claimed; to everybody else it is not
//! there. Receipts, verification and comparisons are public on ids that nobody can guess. What is counted and hashed is the
//! engine's business (`chorus_choir`); raw traces never come this far.

pub mod adapt;
pub mod evidence;
pub mod ingest;
pub mod log;
pub mod receipts;
pub mod scores;
pub mod signing_secrets;

use crate::app::App;
use crate::audit::{Deed, RequestContext};
use crate::caller::Caller;
use crate::error::Error;
use crate::usage::event_bytes;
use chorus_choir::read_score;
use chorus_protocol::canonical;
use chorus_protocol::choir::score::Score;
use chorus_protocol::code::Code;
use chorus_protocol::ids::ScoreId;
use chorus_protocol::redact;
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use chorus_store::choir::{self, ScoreRow};
use serde_json::Value;

/// The most Scores of one account.
const MOST_SCORES: i64 = 1000;
/// The most versions, bundles and receipts of a Score that no account answers for.
const MOST_UNOWNED: i64 = 100;
/// The most bundles of any Score.
const MOST_EVIDENCE: i64 = 10_000;

/// A Score that the caller may read and change; to others it is not there.
fn own(tx: &mut dyn Tx, caller: &Caller, id: ScoreId) -> Result<ScoreRow, Error> {
    check(caller, choir::find(tx, id)?)
}

/// The same, while nobody else changes it, and only if it is not put away.
fn own_to_change(tx: &mut dyn Tx, caller: &Caller, id: ScoreId) -> Result<ScoreRow, Error> {
    open(check(caller, choir::find_to_change(tx, id)?)?)
}

/// The same, looked at without holding it, for what will be added later.
fn own_to_change_later(tx: &mut dyn Tx, caller: &Caller, id: ScoreId) -> Result<ScoreRow, Error> {
    open(own(tx, caller, id)?)
}

/// A Score that is not put away.
fn open(score: ScoreRow) -> Result<ScoreRow, Error> {
    if score.archived_at.is_some() {
        let what = "this Score is archived: it can be read, nothing can be added to it";
        return Err(Error::new(Code::Conflict, what));
    }
    Ok(score)
}

fn check(caller: &Caller, found: Option<ScoreRow>) -> Result<ScoreRow, Error> {
    let missing = || Error::not_found("Score");
    let score = found.ok_or_else(missing)?;
    let may = match caller {
        // A link that was claimed is dead, whatever is remembered of it.
        Caller::EditLink(held) => *held == score.id && score.owner.is_none(),
        caller => score.owner == Some(caller.person()?.id),
    };
    if may { Ok(score) } else { Err(missing()) }
}

/// Whether a caller can have Scores at all: before anything is looked at.
fn may_have(caller: &Caller) -> Result<(), Error> {
    match caller {
        Caller::EditLink(_) => Ok(()),
        caller => caller.person().map(drop),
    }
}

/// The id of a Score; anything else names none.
fn score_id(text: &str) -> Result<ScoreId, Error> {
    ScoreId::parse(text).ok_or_else(|| Error::not_found("Score"))
}

/// A Score that somebody sent, as it is kept.
struct Sent {
    score: Score,
    /// Canonical.
    text: String,
    /// The kinds of credentials that were masked in it: receipts publish it.
    masked: Vec<String>,
    /// Where it has members that no Score has.
    unknown: Vec<String>,
}

/// Reads a Score that somebody sent; its version is the hub's to count.
fn read(value: Value, version: i64) -> Result<Sent, Error> {
    let (value, masked) = redact::masked(value);
    let unknown = Score::unknown_members(&value);
    let mut score = read_score(value)?;
    score.version = version;
    let text = canonical::text(&serde_json::to_value(&score).map_err(Error::internal)?);
    Ok(Sent { score, text, masked: masked.into_iter().map(str::to_owned).collect(), unknown })
}

/// What a version declares.
fn declared(tx: &mut dyn Tx, row: &ScoreRow) -> Result<Score, Error> {
    let body = choir::body(tx, row.id, row.version)?
        .ok_or_else(|| Error::internal("a Score without its version"))?;
    serde_json::from_str(&body).map_err(Error::internal)
}

/// What was done to a Score.
struct Change<'a> {
    by: &'a Caller,
    action: Action,
    detail: Value,
}

/// Writes down what was done to an account's Score. What is done by an edit link is not: whoever has one is nobody, and nobody
/// could be kept from filling the table.
fn record(
    tx: &mut dyn Tx,
    app: &App,
    context: &RequestContext,
    score: &ScoreRow,
    change: Change<'_>,
) -> Result<(), Error> {
    let Change { by, action, detail } = change;
    if score.owner.is_some() {
        context.record(tx, app, Deed::new(by.actor(), action, Subject::Score(score.id), detail))?;
    }
    Ok(())
}

/// Counts what is kept for its Score: for its account, or, where none answers for it, by number.
fn count(app: &App, tx: &mut dyn Tx, score: &ScoreRow, bytes: usize, held: i64) -> Result<(), Error> {
    match score.owner {
        Some(owner) => Ok(app.count_bytes(tx, owner.into(), event_bytes(bytes))?),
        None if held >= MOST_UNOWNED => {
            let what = format_args!(
                "a Score that nobody has claimed holds {MOST_UNOWNED} of these; claim it into an account"
            );
            Err(Error::new(Code::QuotaExceeded, what))
        }
        None => Ok(()),
    }
}
