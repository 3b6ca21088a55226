//! The audit log: one row for each act that grants or removes rights, written in the act's own transaction;
//! and ephemeral messages, masked, because they are stored nowhere else.
//!
//! Rows are removed by age, never because of later acts. Of each action, the first [`KEPT_WHOLE`] rows of one
//! actor stay as they are. After that, repetitions within one hour are merged into one row that counts them: a
//! row is merged if a newer one from the same address has the same subject and detail, or if the token,
//! sign-up code, signing secret or agent that it names is gone. So the log of one actor grows by at most
//! [`MOST_OF_HOUR`] rows an hour for each action; an actor that does more different things within an hour
//! loses the oldest rows of that hour, which stay counted. Rows of ephemeral messages are never merged, and
//! their bytes count for their author.
//!
//! Apart from ephemeral messages, a row holds ids, names and numbers, and no secrets.

use crate::usage::{self, ROW_BYTES, Refusal, row_bytes};
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{
    AccountId, AgentId, AuditId, ConversationId, CredentialId, Principal, ScoreId, StreamId, WalletId,
};
pub use chorus_protocol::words::Action;
use chorus_protocol::words::{PrincipalKind, SubjectKind};
use serde_json::Value;
use uuid::{Builder, Uuid};

/// The time that rows are kept.
pub const KEPT_MS: i64 = 400 * 24 * 60 * 60 * 1000;
/// So many rows of one actor and action stay as they are before repetitions are merged.
pub const KEPT_WHOLE: i64 = 200;
/// The most rows of one actor, action and hour that stay apart after that. It is more than an account may have of tokens.
const MOST_OF_HOUR: i64 = 200;
/// The number of credentials and agents are looked up to find rows whose object is gone.
const MOST_LOOK_UPS: usize = 20;
const HOUR_MS: i64 = 60 * 60 * 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// An agent or a person.
    Principal(Principal),
    /// The owner of a wallet.
    Owner(WalletId),
    Operator,
    /// Somebody who showed no key.
    Nobody,
}

impl Actor {
    /// Returns the kind of the actor.
    pub fn kind(self) -> PrincipalKind {
        match self {
            Self::Principal(principal) => principal.kind(),
            Self::Owner(_) => PrincipalKind::Owner,
            Self::Operator => PrincipalKind::Operator,
            Self::Nobody => PrincipalKind::Nobody,
        }
    }

    /// The id as people see it; of those who have none, the kind.
    pub fn id(self) -> String {
        match self {
            Self::Principal(principal) => principal.to_string(),
            Self::Owner(wallet) => wallet.to_string(),
            other => other.kind().to_string(),
        }
    }
}

/// The object of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Account(AccountId),
    Agent(AgentId),
    Channel(ConversationId),
    /// A token or a sign-up code.
    Credential(CredentialId),
    Score(ScoreId),
    Stream(StreamId),
    /// The hub as a whole.
    Hub,
}

impl Subject {
    pub fn kind(self) -> SubjectKind {
        match self {
            Self::Account(_) => SubjectKind::Account,
            Self::Agent(_) => SubjectKind::Agent,
            Self::Channel(_) => SubjectKind::Channel,
            Self::Credential(_) => SubjectKind::Credential,
            Self::Score(_) => SubjectKind::Score,
            Self::Stream(_) => SubjectKind::Stream,
            Self::Hub => SubjectKind::Hub,
        }
    }

    /// The id as people see it.
    pub fn id(self) -> String {
        match self {
            Self::Account(id) => id.to_string(),
            Self::Agent(id) => id.to_string(),
            Self::Channel(id) => id.to_string(),
            Self::Credential(id) => id.to_string(),
            Self::Score(id) => id.to_string(),
            Self::Stream(id) => id.to_string(),
            Self::Hub => self.kind().to_string(),
        }
    }
}

/// An act to be recorded.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id, which sorts by time.
    pub id: AuditId,
    pub at: i64,
    pub actor: Actor,
    pub action: Action,
    pub subject: Subject,
    /// Details as a JSON object without secrets.
    pub detail: String,
    /// The hub's own id of the request it was done by; empty if it was none.
    pub request_id: String,
    /// The id that the client gave the request; empty if it gave none. Anybody can write anything here.
    pub client_request_id: String,
    /// The address it came from; empty if it came from none.
    pub client: String,
}

pub fn record(tx: &mut dyn Tx, entry: &Entry) -> Result<(), StoreError> {
    if let (Action::MessageShown, Actor::Principal(author)) = (entry.action, entry.actor) {
        usage::charge(tx, author, row_bytes([entry.detail.len()]), Refusal::WhenFull)?;
    }
    let (actor, subject) = (entry.actor.id(), entry.subject.id());
    tx.execute(
        "INSERT INTO audit (id, at, actor_kind, actor_id, action, subject_kind, subject_id, detail, request_id, client,
                            client_request_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            (&entry.id).into(),
            entry.at.into(),
            entry.actor.kind().as_str().into(),
            actor.as_str().into(),
            entry.action.as_str().into(),
            entry.subject.kind().as_str().into(),
            subject.as_str().into(),
            entry.detail.as_str().into(),
            entry.request_id.as_str().into(),
            entry.client.as_str().into(),
            entry.client_request_id.as_str().into(),
        ],
    )?;
    let repeats_count = entry.action != Action::MessageShown;
    if repeats_count && matches!(entry.actor, Actor::Principal(_) | Actor::Owner(_)) {
        merge_repetitions(tx, entry, &actor)?;
    }
    Ok(())
}

/// The last of the rows of an actor and action that stay as they are.
const LAST_WHOLE: &str =
    "SELECT id FROM audit WHERE actor_id = $1 AND action = $2 ORDER BY id LIMIT 1 OFFSET $3";
/// The newest rows of an actor and action after one row, from a place on.
const OF_HOUR: &str = "SELECT id, subject_kind, subject_id, detail, repeats, client FROM audit
     WHERE actor_id = $1 AND action = $2 AND id > $3 AND id >= $4 ORDER BY id DESC LIMIT $5";

/// Merges earlier rows of the same hour into a new one, which counts them.
fn merge_repetitions(tx: &mut dyn Tx, new: &Entry, actor: &str) -> Result<(), StoreError> {
    let action = new.action.as_str();
    let whole = tx.first(LAST_WHOLE, &[actor.into(), action.into(), (KEPT_WHOLE - 1).into()])?;
    let Some(mut whole) = whole else { return Ok(()) };
    let (last_whole, hour) = (whole.uuid("id")?, first_of(new.at - new.at.rem_euclid(HOUR_MS)));
    if new.id.0 <= last_whole {
        return Ok(());
    }
    let subject = (new.subject.kind().as_str().to_owned(), new.subject.id());
    let params =
        [actor.into(), action.into(), (&last_whole).into(), (&hour).into(), (MOST_OF_HOUR + 1).into()];
    let (mut merged, mut look_ups) = (0, 0);
    for (place, mut row) in tx.query(OF_HOUR, &params)?.into_iter().enumerate() {
        let id = row.uuid("id")?;
        if id == new.id.0 {
            continue;
        }
        let (of, detail, repeats) =
            ((row.text("subject_kind")?, row.text("subject_id")?), row.text("detail")?, row.int("repeats")?);
        let is_beyond = place as i64 >= MOST_OF_HOUR;
        let is_repetition = row.text("client")? == new.client
            && if of == subject && new.action != Action::SigningSecretMade {
                detail == new.detail
            } else {
                look_ups += 1;
                look_ups <= MOST_LOOK_UPS && !names_living(tx, new.action, &of.0, &of.1, &detail)?
            };
        if is_beyond || is_repetition {
            tx.execute("DELETE FROM audit WHERE id = $1", &[(&id).into()])?;
            merged += 1 + repeats;
        }
    }
    if merged > 0 {
        let sql = "UPDATE audit SET repeats = repeats + $2 WHERE id = $1";
        tx.execute(sql, &[(&new.id).into(), merged.into()])?;
    }
    Ok(())
}

/// Returns `true` if a row names a credential or agent that exists, or something that is never gone.
fn names_living(
    tx: &mut dyn Tx,
    action: Action,
    kind: &str,
    id: &str,
    detail: &str,
) -> Result<bool, StoreError> {
    if action == Action::SigningSecretMade {
        // Its subject is the Score, which has several.
        let detail: Value = serde_json::from_str(detail).map_err(StoreError::unexpected)?;
        let prefix = detail["prefix"].as_str().unwrap_or_default();
        let Some(score) = ScoreId::parse(id) else { return Ok(false) };
        let sql = "SELECT 1 FROM signing_secrets WHERE score_id = $1 AND prefix = $2 AND revoked_at IS NULL";
        return Ok(tx.first(sql, &[(&score).into(), prefix.into()])?.is_some());
    }
    match SubjectKind::parse(kind) {
        Some(SubjectKind::Credential) => {
            let Some(id) = CredentialId::parse(id) else { return Ok(false) };
            Ok(tx.first("SELECT 1 FROM credentials WHERE id = $1", &[(&id).into()])?.is_some())
        }
        Some(SubjectKind::Agent) => {
            let Some(id) = AgentId::parse(id) else { return Ok(false) };
            let sql = "SELECT 1 FROM agents WHERE id = $1 AND deleted_at IS NULL";
            Ok(tx.first(sql, &[(&id).into()])?.is_some())
        }
        _ => Ok(true),
    }
}

/// An act as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub id: AuditId,
    pub at: i64,
    /// The actor's kind and id.
    pub actor: (String, String),
    pub action: Action,
    /// To whom: kind and id.
    pub subject: (String, String),
    /// Details as JSON.
    pub detail: String,
    /// The hub's own id of the request it was done by; empty if it was none.
    pub request_id: String,
    /// The id that the client gave the request; empty if it gave none.
    pub client_request_id: String,
    /// The address it came from; empty if it came from none.
    pub client: String,
    /// The number of further acts of this kind by the same actor, earlier in the same hour, this row stands for.
    pub repeats: i64,
}

/// A filter for acts. Absent fields match everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub actor: Option<String>,
    pub action: Option<Action>,
    pub subject: Option<String>,
    /// Not before this time.
    pub since: i64,
}

macro_rules! select {
    ($by:literal) => {
        concat!(
            "SELECT id, at, actor_kind, actor_id, action, subject_kind, subject_id, detail, request_id, client,
                    client_request_id, repeats
             FROM audit WHERE ",
            $by,
            "id < $1 AND id >= $2 AND (CAST($3 AS TEXT) = '' OR subject_id = $3)
             AND (CAST($4 AS TEXT) = '' OR actor_id = $4) AND (CAST($5 AS TEXT) = '' OR action = $5)
             ORDER BY id DESC LIMIT $6"
        )
    };
}

const OF_SUBJECT: &str = select!("subject_id = $3 AND ");
const OF_ACTOR: &str = select!("actor_id = $4 AND ");
const OF_ACTOR_AND_ACTION: &str = select!("actor_id = $4 AND action = $5 AND ");
const OF_ACTION: &str = select!("action = $5 AND ");
const OF_ALL: &str = select!("");

/// A page of what was done, the newest first, before the act `before`.
pub fn list(
    tx: &mut dyn Tx,
    filter: &Filter,
    before: Option<AuditId>,
    limit: i64,
) -> Result<Vec<Recorded>, StoreError> {
    let (before, since) = (before.map_or(Uuid::max(), |id| id.0), first_of(filter.since));
    let (subject, actor) =
        (filter.subject.as_deref().unwrap_or_default(), filter.actor.as_deref().unwrap_or_default());
    let action = filter.action.map_or("", Action::as_str);
    let sql = match (subject, actor, action) {
        ("", "", "") => OF_ALL,
        ("", "", _) => OF_ACTION,
        ("", _, "") => OF_ACTOR,
        ("", ..) => OF_ACTOR_AND_ACTION,
        _ => OF_SUBJECT,
    };
    let params =
        [(&before).into(), (&since).into(), subject.into(), actor.into(), action.into(), limit.into()];
    tx.query(sql, &params)?.into_iter().map(recorded).collect()
}

fn recorded(mut row: Row) -> Result<Recorded, StoreError> {
    Ok(Recorded {
        id: AuditId(row.uuid("id")?),
        at: row.int("at")?,
        actor: (row.text("actor_kind")?, row.text("actor_id")?),
        action: Action::parse(&row.text("action")?)
            .ok_or_else(|| StoreError::unexpected("an act of no known kind"))?,
        subject: (row.text("subject_kind")?, row.text("subject_id")?),
        detail: row.text("detail")?,
        request_id: row.text("request_id")?,
        client: row.text("client")?,
        client_request_id: row.text("client_request_id")?,
        repeats: row.int("repeats")?,
    })
}

/// The smallest id of this time.
pub(crate) fn first_of(time: i64) -> Uuid {
    Builder::from_unix_timestamp_millis(time.max(0) as u64, &[0; 10]).into_uuid()
}

/// The time of an id. An act's own time is its id's, so that both sort alike.
pub fn time_of(id: Uuid) -> i64 {
    (id.as_u128() >> 80) as i64
}

/// Returns whether this was done to the subject since this time.
pub fn was_done(tx: &mut dyn Tx, action: Action, subject: Subject, since: i64) -> Result<bool, StoreError> {
    let filter = Filter { action: Some(action), subject: Some(subject.id()), since, actor: None };
    Ok(!list(tx, &filter, None, 1)?.is_empty())
}

/// A reconciler: forgets a bounded number of rows that are too old.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    let end = first_of(now - KEPT_MS);
    let gone = tx.query(
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < $1 ORDER BY id LIMIT $2)
         RETURNING action, actor_id, OCTET_LENGTH(detail) AS detail_bytes",
        &[(&end).into(), limit.into()],
    )?;
    let removed = gone.len() as u64;
    for mut row in gone {
        if row.text("action")? == Action::MessageShown.as_str()
            && let Some(author) = author(&row.text("actor_id")?)
        {
            usage::give_back(tx, author, row.int("detail_bytes")? + ROW_BYTES)?;
        }
    }
    Ok(removed)
}

/// The agent or account of this id.
fn author(id: &str) -> Option<Principal> {
    AccountId::parse(id).map(Into::into).or_else(|| AgentId::parse(id).map(Into::into))
}

/// Returns the bytes of ephemeral messages, which are kept here alone, by author.
pub(crate) fn shown_bytes(tx: &mut dyn Tx) -> Result<Vec<(Principal, i64)>, StoreError> {
    let rows = tx.query(
        "SELECT actor_id, CAST(COUNT(*) * 256 + SUM(OCTET_LENGTH(detail)) AS BIGINT) AS bytes FROM audit WHERE action = $1
         GROUP BY actor_id",
        &[Action::MessageShown.as_str().into()],
    )?;
    let found = rows.into_iter().map(|mut row| Ok((author(&row.text("actor_id")?), row.int("bytes")?)));
    let found = found.collect::<Result<Vec<_>, StoreError>>()?;
    Ok(found.into_iter().filter_map(|(author, bytes)| Some((author?, bytes))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn an_id_tells_its_time() {
        let time = 1_774_000_800_123;
        assert_eq!(time_of(first_of(time)), time);
    }

    #[test]
    fn every_action_is_read_back() {
        for action in Action::ALL {
            assert_eq!(Action::parse(action.as_str()), Some(*action));
        }
        assert_eq!(Action::parse("key.stolen"), None);
    }

    /// However long the log is.
    #[tokio::test]
    async fn each_question_has_its_index() {
        let store = Store::in_memory().unwrap();
        for (sql, index) in [
            (OF_SUBJECT, "USING INDEX audit_by_subject (subject_id=? AND id>? AND id<?)"),
            (OF_ACTOR, "USING INDEX audit_by_actor (actor_id=? AND id>? AND id<?)"),
            (OF_ACTION, "USING INDEX audit_by_action (action=? AND id>? AND id<?)"),
            (OF_ALL, "USING PRIMARY KEY (id>? AND id<?)"),
            (LAST_WHOLE, "USING COVERING INDEX audit_by_actor_and_action (actor_id=? AND action=?)"),
            (OF_HOUR, "USING INDEX audit_by_actor_and_action (actor_id=? AND action=? AND id>?"),
        ] {
            let params = [LAST_WHOLE, OF_HOUR].iter().position(|one| *one == sql).map_or(6, |n| 3 + 2 * n);
            let sql: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
            let explain = move |tx: &mut dyn Tx| {
                let rows = tx.query(sql, &[crate::Param::Null; 6][..params])?.into_iter();
                rows.map(|mut row| row.text("detail")).collect::<Result<Vec<_>, StoreError>>()
            };
            let plan = store.read(explain).await.unwrap().join("\n");
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
