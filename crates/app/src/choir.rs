//! Choir in the hub: Scores and their permissions, evidence, receipts and the transparency log.
//!
//! A Score is private to its account, or to the holder of its edit link until it is claimed. For any other
//! caller it does not exist. Receipts, verification and comparisons are public, under ids that cannot be
//! guessed. The engine (`chorus_choir`) counts and hashes; raw traces do not reach this module.

pub mod adapt;
pub mod answers;
pub mod evidence;
pub mod ingest;
pub mod log;
pub mod log_integrity;
pub mod receipts;
pub mod scores;
pub mod signing_secrets;

use chorus_choir::read_score;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::source::Source;
use chorus_protocol::canonical;
use chorus_protocol::choir::score::Score;
use chorus_protocol::code::Code;
use chorus_protocol::ids::ScoreId;
use chorus_protocol::redact;
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use chorus_store::choir::{self, ScoreRow};
use serde_json::Value;
use uuid::Uuid;

/// The most Scores of one account.
const MOST_SCORES: i64 = 1000;
/// The most versions, bundles and receipts of a Score without an account.
const MOST_UNOWNED: i64 = 100;
/// The most bundles of any Score.
const MOST_EVIDENCE: i64 = 10_000;

/// Returns a Score that the caller may read and change. For other callers it does not exist.
fn own(tx: &mut dyn Tx, caller: &Caller, id: ScoreId) -> Result<ScoreRow, Error> {
    check(caller, choir::find(tx, id)?)
}

/// Returns a Score that the caller may change, and locks it. Fails if it is archived.
fn own_to_change(tx: &mut dyn Tx, caller: &Caller, id: ScoreId) -> Result<ScoreRow, Error> {
    open(check(caller, choir::find_to_change(tx, id)?)?)
}

/// Returns a Score that the caller may change, without locking it. Fails if it is archived. A later
/// transaction makes the change.
fn own_to_change_later(tx: &mut dyn Tx, caller: &Caller, id: ScoreId) -> Result<ScoreRow, Error> {
    open(own(tx, caller, id)?)
}

/// Fails if a Score is archived.
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
        // The edit link of a claimed Score is dead, even if the caller's identity is cached.
        Caller::EditLink(held) => *held == score.id && score.owner.is_none(),
        caller => score.owner == Some(caller.person()?.id),
    };
    if may { Ok(score) } else { Err(missing()) }
}

/// Checks that a caller can have Scores at all, before anything is looked up.
fn may_have(caller: &Caller) -> Result<(), Error> {
    match caller {
        Caller::EditLink(_) => Ok(()),
        caller => caller.person().map(drop),
    }
}

/// Parses the id of a Score. A malformed id is answered like an unknown one.
fn score_id(text: &str) -> Result<ScoreId, Error> {
    ScoreId::parse(text).ok_or_else(|| Error::not_found("Score"))
}

/// A Score from a request, in the form that is stored.
struct Sent {
    score: Score,
    /// The canonical JSON.
    text: String,
    /// The kinds of credentials that were masked in it, because receipts publish it.
    masked: Vec<String>,
    /// The paths of members that the format does not know.
    unknown: Vec<String>,
}

/// Parses a Score from a request. The hub sets its version.
fn read(value: Value, version: i64) -> Result<Sent, Error> {
    let (value, masked) = redact::masked(value);
    let unknown = Score::unknown_members(&value);
    let mut score = read_score(value)?;
    score.version = version;
    let text = canonical::text(&serde_json::to_value(&score).map_err(Error::internal)?);
    Ok(Sent { score, text, masked: masked.into_iter().map(str::to_owned).collect(), unknown })
}

/// Returns the current version of a Score.
fn declared(tx: &mut dyn Tx, row: &ScoreRow) -> Result<Score, Error> {
    let body = choir::body(tx, row.id, row.version)?
        .ok_or_else(|| Error::internal("a Score without its version"))?;
    serde_json::from_str(&body).map_err(Error::internal)
}

/// A change of a Score, for the audit log.
struct Change<'a> {
    by: &'a Caller,
    action: Action,
    detail: Value,
}

/// Records a change of an account's Score in the audit log. Changes by an edit link are not recorded, because
/// its holder is anonymous and could fill the table.
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

/// Counts bytes to be stored for a Score that no account owns by the address they come from, because they count for no quota.
fn count_unowned(app: &App, is_unowned: bool, source: Source, bytes: usize) -> Result<(), Error> {
    if !is_unowned {
        return Ok(());
    }
    app.limits.count_registered_bytes(source, i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Returns whether a caller's Score belongs to no account: an edit link ends when its Score is claimed.
fn is_unowned_by(caller: &Caller) -> bool {
    matches!(caller, Caller::EditLink(_) | Caller::Nobody)
}

/// Refuses more parts of a Score that no account owns. The Scores of an account are limited by their bytes.
fn check_unowned(score: &ScoreRow, held: i64) -> Result<(), Error> {
    if score.owner.is_none() && held >= MOST_UNOWNED {
        let what = format_args!(
            "a Score that nobody has claimed holds {MOST_UNOWNED} of these; claim it into an account"
        );
        return Err(Error::new(Code::QuotaExceeded, what));
    }
    Ok(())
}

/// Returns the id under which a caller is limited to one piece of long work at a time.
fn queue_id(caller: &Caller) -> Uuid {
    match caller {
        Caller::Agent(identity) => identity.id.0,
        Caller::Account(person) => person.id.0,
        Caller::EditLink(score) => score.0,
        Caller::Owner(wallet) => wallet.0,
        // The operator has an id of its own, so that anonymous work does not block it.
        Caller::Operator => Uuid::max(),
        Caller::Nobody => Uuid::nil(),
    }
}
