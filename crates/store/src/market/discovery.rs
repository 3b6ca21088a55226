//! Finds skills by name, words, cost and reputation; the best first.
//!
//! The order is that of an index (reputation, then cost, then id), so the cost of a page depends on its rows
//! and on those skipped because their agents are away. Where few agents are online, a search goes through
//! those instead. Words are stored beside the skills; a search by words goes through the skills that have the
//! word expected to be rarest.

use super::agents::Declines;
use super::{credits, shortfall, word_index};
use crate::{Param, Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{Credits, Reputation};
use std::collections::BTreeSet;

/// So many words of a search count.
const SEARCH_WORDS: usize = 4;
/// No more than this are counted.
pub const MOST_COUNTED: i64 = 10_000;
/// So many are looked at to find some that are away.
const MOST_LOOKED_AT: i64 = 1000;
/// So many online are few: going through all of them costs less than passing over the offers of everybody else might.
const FEW_ONLINE: i64 = 1000;

/// A search for skills.
#[derive(Debug, Clone)]
pub struct Search {
    /// The name of the skill.
    pub skill: Option<String>,
    pub min_reputation: Reputation,
    pub max_cost: Credits,
    /// Words that must all be there.
    pub words: Vec<String>,
    /// Agents with a sign of life since this time are online; `None` accepts every agent.
    pub seen_since: Option<i64>,
    /// The current time, for open inboxes.
    pub now: i64,
    pub except: Option<AgentId>,
    /// Those that need no longer than this.
    pub max_deadline_ms: Option<i64>,
    /// True if few agents are online, as [`are_few_online`] returned recently. The result is the same either
    /// way.
    pub few_online: bool,
}

/// The place of a skill in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The difference of the agent's reputation to the best.
    pub shortfall: i64,
    /// The cost in hundredths of a credit.
    pub cost: i64,
    pub agent: AgentId,
    pub name: String,
}

/// A skill that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    /// The agent's name for people.
    pub display_name: String,
    /// The URL that jobs are POSTed to.
    pub endpoint: Option<String>,
    pub description: Option<String>,
    pub cost: Credits,
    /// The shortest deadline that a job may have.
    pub min_deadline_ms: Option<i64>,
    pub reputation: Reputation,
    /// The number of jobs its agent declined.
    pub declines: Declines,
    /// Until when its agent's inbox counts as open.
    pub open_until: i64,
    /// The last other sign of life.
    pub seen_at: i64,
    /// True if deliveries to its agent are paused.
    pub is_paused: bool,
}

/// The words of a search as they are compared: the same that are indexed.
pub fn words(text: &str) -> BTreeSet<String> {
    word_index::words(text).into_iter().collect()
}

/// The conditions of every search: $1 to $4 are the cursor, $5 the largest shortfall, $6 the highest cost, $7
/// and $8 define who is online (a paused agent never is), $9 an excluded agent, $10 the time available.
macro_rules! conditions {
    () => {
        "(s.shortfall, s.cost, s.agent_id, s.name) > ($1, $2, $3, $4) AND s.shortfall <= $5 AND s.cost <= $6
         AND a.deleted_at IS NULL AND a.disabled_at IS NULL AND a.owner_disabled_at IS NULL
         AND (i.open_until > $7 OR i.seen_at >= $8) AND (a.paused_at IS NULL OR $8 < 0) AND s.agent_id <> $9
         AND (s.min_deadline IS NULL OR s.min_deadline <= $10)"
    };
}

macro_rules! joins {
    () => {
        "JOIN market_agents m ON m.agent_id = s.agent_id JOIN agents a ON a.id = s.agent_id
         JOIN inboxes i ON i.agent_id = s.agent_id"
    };
}

macro_rules! select_found {
    ($from:literal, $which:literal) => {
        concat!(
            "SELECT s.shortfall, s.cost, s.agent_id, s.name, m.display_name, m.endpoint, s.description,
                    i.open_until, i.seen_at, a.paused_at, s.min_deadline, m.considered, m.declined FROM ",
            $from,
            " ",
            joins!(),
            " WHERE ",
            conditions!(),
            $which,
            " ORDER BY s.shortfall, s.cost, s.agent_id, s.name LIMIT $11"
        )
    };
}

macro_rules! count_found {
    ($from:literal, $which:literal) => {
        concat!(
            "SELECT COUNT(*) AS count FROM (SELECT 1 AS one FROM ",
            $from,
            " ",
            joins!(),
            " WHERE ",
            conditions!(),
            $which,
            " LIMIT $11) AS found"
        )
    };
}

/// Selects candidates with their signs of life, and whether their endpoint can be probed. An inbox cannot.
macro_rules! select_signs {
    ($from:literal, $which:literal) => {
        concat!(
            "SELECT s.agent_id, i.open_until, i.seen_at,
                    CAST(CASE WHEN m.endpoint IS NOT NULL OR a.harness IS NOT NULL OR (a.connection IS NOT NULL AND a.broken IS NULL)
                              THEN 1 ELSE 0 END AS BIGINT) AS can_be_asked,
                    CAST(CASE WHEN a.paused_at IS NULL THEN 0 ELSE 1 END AS BIGINT) AS is_paused FROM ",
            $from,
            " ",
            joins!(),
            " WHERE ",
            conditions!(),
            $which,
            " ORDER BY s.shortfall, s.cost, s.agent_id, s.name LIMIT $11"
        )
    };
}

const BY_NAME: [&str; 3] = [
    select_found!("skills s", " AND s.name = $12"),
    count_found!("skills s", " AND s.name = $12"),
    select_signs!("skills s", " AND s.name = $12"),
];
const ALL: [&str; 3] =
    [select_found!("skills s", ""), count_found!("skills s", ""), select_signs!("skills s", "")];

/// Those that have the first word, and of these those that have the others.
macro_rules! by_words {
    ($query:ident) => {
        $query!(
            "skill_words w JOIN skills s ON s.agent_id = w.agent_id AND s.name = w.name",
            " AND w.word = $12
             AND EXISTS (SELECT 1 FROM skill_words o WHERE o.word = $13 AND o.agent_id = s.agent_id AND o.name = s.name)
             AND EXISTS (SELECT 1 FROM skill_words o WHERE o.word = $14 AND o.agent_id = s.agent_id AND o.name = s.name)
             AND EXISTS (SELECT 1 FROM skill_words o WHERE o.word = $15 AND o.agent_id = s.agent_id AND o.name = s.name)
             AND ($16 = '' OR s.name = $16)"
        )
    };
}
const BY_WORDS: [&str; 3] = [by_words!(select_found), by_words!(count_found), by_words!(select_signs)];

/// Everybody who is online; of these whoever offers what is looked for. Words are at $12 to $15, the skill at $16; empty is any.
/// The order of the joins is meant: `CROSS JOIN` keeps it.
macro_rules! among_online {
    ($select:literal, $rest:literal) => {
        concat!(
            $select,
            " FROM (SELECT agent_id, open_until, seen_at FROM inboxes WHERE open_until > $7
                    UNION ALL SELECT agent_id, open_until, seen_at FROM inboxes WHERE seen_at >= $8 AND open_until <= $7) i
             CROSS JOIN skills s CROSS JOIN market_agents m CROSS JOIN agents a
             WHERE s.agent_id = i.agent_id AND m.agent_id = s.agent_id AND a.id = s.agent_id AND ",
            conditions!(),
            " AND ($16 = '' OR s.name = $16)
             AND ($12 = '' OR EXISTS (SELECT 1 FROM skill_words o WHERE o.word = $12 AND o.agent_id = s.agent_id AND o.name = s.name))
             AND ($13 = '' OR EXISTS (SELECT 1 FROM skill_words o WHERE o.word = $13 AND o.agent_id = s.agent_id AND o.name = s.name))
             AND ($14 = '' OR EXISTS (SELECT 1 FROM skill_words o WHERE o.word = $14 AND o.agent_id = s.agent_id AND o.name = s.name))
             AND ($15 = '' OR EXISTS (SELECT 1 FROM skill_words o WHERE o.word = $15 AND o.agent_id = s.agent_id AND o.name = s.name)) ",
            $rest
        )
    };
}
const AMONG_ONLINE: [&str; 2] = [
    among_online!(
        "SELECT s.shortfall, s.cost, s.agent_id, s.name, m.display_name, m.endpoint, s.description,
                i.open_until, i.seen_at, a.paused_at, s.min_deadline, m.considered, m.declined",
        "ORDER BY s.shortfall, s.cost, s.agent_id, s.name LIMIT $11"
    ),
    among_online!("SELECT COUNT(*) AS count FROM (SELECT 1 AS one", "LIMIT $11) AS found"),
];

/// Returns whether few agents are online. It counts only up to that limit.
pub fn are_few_online(tx: &mut dyn Tx, now: i64, seen_since: i64) -> Result<bool, StoreError> {
    are_few_among(tx, now, seen_since, FEW_ONLINE)
}

/// The same, with another number for few.
pub fn are_few_among(tx: &mut dyn Tx, now: i64, seen_since: i64, few: i64) -> Result<bool, StoreError> {
    let mut online = 0;
    // Each by itself: who is in both counts twice.
    for (sql, since) in [
        (
            "SELECT COUNT(*) AS count FROM (SELECT 1 AS one FROM inboxes WHERE open_until > $1 LIMIT $2) AS found",
            now,
        ),
        (
            "SELECT COUNT(*) AS count FROM (SELECT 1 AS one FROM inboxes WHERE seen_at >= $1 LIMIT $2) AS found",
            seen_since,
        ),
    ] {
        let row = tx.first(sql, &[since.into(), (few + 1).into()])?;
        online += row.map_or(Ok(0), |mut row| row.int("count"))?;
    }
    Ok(online <= few)
}

/// Skills after a place, the best first.
pub fn search(
    tx: &mut dyn Tx,
    search: &Search,
    after: Option<&Place>,
    limit: i64,
) -> Result<Vec<Found>, StoreError> {
    let mut found = vec![];
    run(tx, search, after, limit, 0, &mut |row| {
        found.push(read(row)?);
        Ok(true)
    })?;
    Ok(found)
}

/// Counts the results, up to a limit.
pub fn count(tx: &mut dyn Tx, search: &Search) -> Result<i64, StoreError> {
    let mut total = 0;
    run(tx, search, None, MOST_COUNTED, 1, &mut |mut row| {
        total = row.int("count")?;
        Ok(false)
    })?;
    Ok(total)
}

/// Lists the best agents that this search would find if they were online, and whose endpoint can be probed:
/// those that are `wanted`, at most `limit` of the first [`MOST_LOOKED_AT`]. Agents ranked behind `enough`
/// online ones are left out, because they would not be shown.
pub fn away(
    tx: &mut dyn Tx,
    search: &Search,
    seen_since: i64,
    limit: usize,
    enough: usize,
    wanted: &dyn Fn(AgentId) -> bool,
) -> Result<Vec<AgentId>, StoreError> {
    let everybody = Search { seen_since: None, ..search.clone() };
    let (mut found, mut online): (Vec<AgentId>, usize) = (vec![], 0);
    run(tx, &everybody, None, MOST_LOOKED_AT, 2, &mut |mut row| {
        let (agent, open_until, seen_at) =
            (AgentId(row.uuid("agent_id")?), row.int("open_until")?, row.int("seen_at")?);
        let (can_be_asked, is_paused) = (row.int("can_be_asked")? == 1, row.int("is_paused")? == 1);
        if is_paused {
            return Ok(true);
        }
        if open_until > search.now || seen_at >= seen_since {
            online += 1;
        } else if can_be_asked && !found.contains(&agent) && wanted(agent) {
            found.push(agent);
        }
        Ok(found.len() < limit && online < enough)
    })?;
    Ok(found)
}

fn run(
    tx: &mut dyn Tx,
    search: &Search,
    after: Option<&Place>,
    limit: i64,
    query: usize,
    take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let first = Place { shortfall: -1, cost: 0, agent: AgentId(uuid::Uuid::nil()), name: String::new() };
    let after = after.unwrap_or(&first);
    let except = search.except.unwrap_or(AgentId(uuid::Uuid::nil()));
    let mut params: Vec<Param<'_>> = vec![
        after.shortfall.into(),
        after.cost.into(),
        (&after.agent).into(),
        after.name.as_str().into(),
        shortfall(search.min_reputation).into(),
        search.max_cost.hundredths().into(),
        search.now.into(),
        search.seen_since.unwrap_or(i64::MIN).into(),
        (&except).into(),
        search.max_deadline_ms.unwrap_or(i64::MAX).into(),
        limit.into(),
    ];
    // The longest is likely the rarest.
    let mut words: Vec<&str> = search.words.iter().map(String::as_str).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    if search.few_online
        && search.seen_since.is_some()
        && let Some(sql) = AMONG_ONLINE.get(query)
    {
        let wanted = words.iter().copied().chain(std::iter::repeat("")).take(SEARCH_WORDS);
        params.extend(wanted.map(Param::from));
        params.push(search.skill.as_deref().unwrap_or_default().into());
        return tx.each(sql, &params, take);
    }
    let sql = match (words.first(), &search.skill) {
        (Some(rarest), skill) => {
            let wanted = words.iter().copied().chain(std::iter::repeat(*rarest)).take(SEARCH_WORDS);
            params.extend(wanted.map(Param::from));
            params.push(skill.as_deref().unwrap_or_default().into());
            BY_WORDS
        }
        (None, Some(skill)) => {
            params.push(skill.as_str().into());
            BY_NAME
        }
        (None, None) => ALL,
    };
    tx.each(sql[query], &params, take)
}

fn read(mut row: Row) -> Result<Found, StoreError> {
    let place = Place {
        shortfall: row.int("shortfall")?,
        cost: row.int("cost")?,
        agent: AgentId(row.uuid("agent_id")?),
        name: row.text("name")?,
    };
    Ok(Found {
        display_name: row.text("display_name")?,
        endpoint: row.opt_text("endpoint")?,
        description: row.opt_text("description")?,
        cost: credits(place.cost)?,
        reputation: Reputation::clamped(Reputation::MAX.ten_thousandths() - place.shortfall),
        open_until: row.int("open_until")?,
        seen_at: row.int("seen_at")?,
        is_paused: row.opt_int("paused_at")?.is_some(),
        min_deadline_ms: row.opt_int("min_deadline")?,
        declines: Declines { considered: row.int("considered")?, declined: row.int("declined")? },
        place,
    })
}

/// A name that agents offer skills under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub name: String,
    /// The number of agents that offer it.
    pub agents: i64,
    pub lowest_cost: Credits,
}

/// The names of skills after this one, in order.
pub fn names(tx: &mut dyn Tx, after: &str, limit: i64) -> Result<Vec<Summary>, StoreError> {
    tx.query(
        "SELECT name, COUNT(*) AS count, MIN(cost) AS min_cost FROM skills WHERE name > $1 GROUP BY name ORDER BY name LIMIT $2",
        &[after.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| {
        Ok(Summary { name: row.text("name")?, agents: row.int("count")?, lowest_cost: credits(row.int("min_cost")?)? })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// The order of a page is that of its index: nothing is sorted, and nobody else's skills are looked at.
    #[tokio::test]
    async fn each_search_has_its_index() {
        for (sql, params, index) in [
            (BY_NAME[0], 12, "skills_by_name"),
            (BY_NAME[2], 12, "skills_by_name"),
            (ALL[0], 11, "skills_by_rank"),
            (ALL[2], 11, "skills_by_rank"),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.starts_with("SEARCH s USING ") && plan.contains(index), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
        }
        // If few are online, the plan scans only those.
        for sql in AMONG_ONLINE {
            let plan = plan_of(sql, 16).await;
            for index in ["inboxes_by_open", "inboxes_by_seen"] {
                assert!(plan.contains(index), "{plan}");
            }
            assert!(!plan.contains("SCAN s") && !plan.contains("SCAN inboxes"), "{plan}");
        }
        let plan = plan_of(BY_WORDS[0], 16).await;
        assert!(plan.contains("(word=?)") && !plan.contains("SCAN"), "{plan}");
    }

    #[test]
    fn words_are_compared_without_case_and_signs() {
        let found = words("Extracts STRUCTURED-data, from (text)… Ärger 下午");
        let expected = ["data", "extracts", "from", "structured", "text", "ärger", "下", "午"];
        assert_eq!(found, expected.into_iter().map(str::to_owned).collect());
    }
}
