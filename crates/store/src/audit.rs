//! Who did what to whom: one row for each act that gives or takes rights, written in the transaction of the act itself; and what was
//! said to whoever looked, without credentials, because it is kept nowhere else.
//!
//! Rows are only ever added. They are forgotten when they are old, and of each thing that one agent or account did the first time and
//! the newest [`MOST_OF_ONE`] are kept. So nobody fills the table by doing and undoing, nor hides what it did by doing something
//! else very often: the table grows with who there is, and with what the operator does. A row holds no secret: what it tells
//! besides ids is names and numbers, but for what was shown.

use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{
    AccountId, AgentId, AuditId, ConversationId, CredentialId, Principal, ScoreId, StreamId, WalletId,
};
pub use chorus_protocol::words::Action;
use chorus_protocol::words::{PrincipalKind, SubjectKind};
use uuid::{Builder, Uuid};

/// How long rows are kept.
pub const KEPT_MS: i64 = 400 * 24 * 60 * 60 * 1000;
/// So many times that one agent or account did the same thing are kept, besides the first.
pub const MOST_OF_ONE: i64 = 200;

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// An agent or a person.
    Principal(Principal),
    /// The owner of a wallet.
    Owner(WalletId),
    /// The operator.
    Operator,
    /// Somebody who showed no key.
    Nobody,
}

impl Actor {
    /// What kind of somebody it is.
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

/// Whom or what it was done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A person.
    Account(AccountId),
    /// An agent.
    Agent(AgentId),
    /// A channel.
    Channel(ConversationId),
    /// A token or a sign-up code.
    Credential(CredentialId),
    /// A Score.
    Score(ScoreId),
    /// A work stream.
    Stream(StreamId),
    /// The hub as a whole.
    Hub,
}

impl Subject {
    /// What it is.
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
    /// When.
    pub at: i64,
    /// Who.
    pub actor: Actor,
    /// What.
    pub action: Action,
    /// To whom.
    pub subject: Subject,
    /// What else there is to say, a JSON object without secrets.
    pub detail: String,
    /// The request it was done by; empty if it was none.
    pub request_id: String,
    /// The address it came from; empty if it came from none.
    pub client: String,
}

/// Of one thing somebody did, the newest beyond those that are kept, unless it is the first of all.
const FORGET: &str = "DELETE FROM audit WHERE id =
         (SELECT id FROM audit WHERE actor_id = $1 AND action = $2 ORDER BY id DESC LIMIT 1 OFFSET $3)
     AND id > (SELECT id FROM audit WHERE actor_id = $1 AND action = $2 ORDER BY id LIMIT 1)";

/// Records an act.
pub fn record(tx: &mut dyn Tx, entry: &Entry) -> Result<(), StoreError> {
    let (actor, subject) = (entry.actor.id(), entry.subject.id());
    tx.execute(
        "INSERT INTO audit (id, at, actor_kind, actor_id, action, subject_kind, subject_id, detail, request_id, client)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
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
        ],
    )?;
    if matches!(entry.actor, Actor::Principal(_) | Actor::Owner(_)) {
        tx.execute(FORGET, &[actor.as_str().into(), entry.action.as_str().into(), MOST_OF_ONE.into()])?;
    }
    Ok(())
}

/// An act as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: i64,
    /// Who: kind and id.
    pub actor: (String, String),
    /// What.
    pub action: Action,
    /// To whom: kind and id.
    pub subject: (String, String),
    /// What else there is to say, JSON.
    pub detail: String,
    /// The request it was done by; empty if it was none.
    pub request_id: String,
    /// The address it came from; empty if it came from none.
    pub client: String,
}

/// Which acts are asked for; nothing asks for all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Who did it.
    pub actor: Option<String>,
    /// What was done.
    pub action: Option<Action>,
    /// To whom.
    pub subject: Option<String>,
    /// Not before this time.
    pub since: i64,
}

macro_rules! select {
    ($by:literal) => {
        concat!(
            "SELECT id, at, actor_kind, actor_id, action, subject_kind, subject_id, detail, request_id, client FROM audit
             WHERE ",
            $by,
            "id < $1 AND id >= $2 AND (CAST($3 AS TEXT) = '' OR subject_id = $3)
             AND (CAST($4 AS TEXT) = '' OR actor_id = $4) AND (CAST($5 AS TEXT) = '' OR action = $5)
             ORDER BY id DESC LIMIT $6"
        )
    };
}

const OF_SUBJECT: &str = select!("subject_id = $3 AND ");
const OF_ACTOR: &str = select!("actor_id = $4 AND ");
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
        ("", ..) => OF_ACTOR,
        _ => OF_SUBJECT,
    };
    let params =
        [(&before).into(), (&since).into(), subject.into(), actor.into(), action.into(), limit.into()];
    tx.query(sql, &params)?.into_iter().map(recorded).collect()
}

fn recorded(mut row: Row) -> Result<Recorded, StoreError> {
    Ok(Recorded {
        id: AuditId(row.uuid(0)?),
        at: row.int(1)?,
        actor: (row.text(2)?, row.text(3)?),
        action: Action::parse(&row.text(4)?)
            .ok_or_else(|| StoreError::unexpected("an act of no known kind"))?,
        subject: (row.text(5)?, row.text(6)?),
        detail: row.text(7)?,
        request_id: row.text(8)?,
        client: row.text(9)?,
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

/// Whether this was done to the subject since this time.
pub fn was_done(tx: &mut dyn Tx, action: Action, subject: Subject, since: i64) -> Result<bool, StoreError> {
    let filter = Filter { action: Some(action), subject: Some(subject.id()), since, actor: None };
    Ok(!list(tx, &filter, None, 1)?.is_empty())
}

/// A reconciler: forgets a bounded number of rows that are too old.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    let end = first_of(now - KEPT_MS);
    tx.execute(
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < $1 ORDER BY id LIMIT $2)",
        &[(&end).into(), limit.into()],
    )
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
            (FORGET, "USING COVERING INDEX audit_by_actor_and_action (actor_id=? AND action=?)"),
        ] {
            let params = if sql == FORGET { 3 } else { 6 };
            let sql: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
            let explain = move |tx: &mut dyn Tx| {
                let rows = tx.query(sql, &[crate::Param::Null; 6][..params])?.into_iter();
                rows.map(|mut row| row.text(3)).collect::<Result<Vec<_>, StoreError>>()
            };
            let plan = store.read(explain).await.unwrap().join("\n");
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
