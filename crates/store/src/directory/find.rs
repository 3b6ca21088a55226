//! Finds agents by a part of their name or description, by their card, or by their owner.
//!
//! Everything that can be searched for is a term, stored beside the record and read by index in the order of
//! names: parts of one to three characters of the name and the description, ranges of its culture and
//! languages, its owner. A card yields at most [`MAX_RANGES`] terms for each of [`MAX_LANGUAGES`] languages. A
//! page scans a limited number of agents that have the term expected to be rarest, whatever the directory
//! contains.

use super::{Agent, Record, agent, name_key, select_agent};
use crate::{Kind, Param, StoreError, Tx};
use chorus_protocol::ids::{AccountId, AgentId};
use chorus_protocol::relay::MAX_LANGUAGE_TAG;
use serde_json::Value;
use std::collections::BTreeSet;
use uuid::Uuid;

/// The number of agents that one page scans.
pub const LOOKED_AT: i64 = 1000;
/// The longest part of a text that is a term, in characters.
const LONGEST_PART: usize = 3;
/// The most languages of a card that are terms; it may name more.
const MAX_LANGUAGES: usize = 32;
/// The most ranges of one language tag that are terms.
const MAX_RANGES: usize = 8;
/// So many agents are read together.
const TOGETHER: usize = 20;

/// The searchable fields of an agent's record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Findable<'a> {
    pub(super) name: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) card: Option<&'a str>,
    pub(super) owner: Option<AccountId>,
}

impl<'a> From<&'a Agent> for Findable<'a> {
    fn from(agent: &'a Agent) -> Self {
        Self {
            name: &agent.name,
            description: agent.description.as_deref(),
            card: agent.card.as_deref(),
            owner: agent.owner,
        }
    }
}

impl<'a> From<&'a Record> for Findable<'a> {
    fn from(record: &'a Record) -> Self {
        Self { name: &record.name, description: None, card: record.card.as_deref(), owner: None }
    }
}

impl Findable<'_> {
    fn terms(&self) -> BTreeSet<String> {
        let mut terms = BTreeSet::new();
        for text in [name_key(self.name), self.description.unwrap_or_default().to_lowercase()] {
            let signs: Vec<char> = text.chars().collect();
            for length in 1..=LONGEST_PART {
                terms.extend(signs.windows(length).map(part_term));
            }
        }
        let card: Value = self.card.and_then(|card| serde_json::from_str(card).ok()).unwrap_or_default();
        terms.extend(ranges(&card["user_culture"]).map(|range| culture_term(&range)));
        let languages = card["supported_languages"].as_array().into_iter().flatten().take(MAX_LANGUAGES);
        terms.extend(languages.flat_map(ranges).map(|range| language_term(&range)));
        terms.extend(self.owner.map(owner_term));
        terms
    }
}

fn part_term(signs: &[char]) -> String {
    std::iter::once('p').chain(signs.iter().copied()).collect()
}

fn culture_term(range: &str) -> String {
    format!("c{}", range.to_ascii_lowercase())
}

fn language_term(range: &str) -> String {
    format!("l{}", range.to_ascii_lowercase())
}

fn owner_term(owner: AccountId) -> String {
    format!("o{}", owner.0.simple())
}

/// The ranges a language tag is in (RFC 4647, basic filtering): `zh-CN` is in `zh` and in `zh-CN`. Of a tag with many subtags,
/// or from before tags had a longest, the first ones.
fn ranges(tag: &Value) -> impl Iterator<Item = String> + use<> {
    let tag = tag.as_str().unwrap_or_default().to_owned();
    let ends = tag.match_indices('-').map(|(end, _)| end).chain([tag.len()]);
    let ends = ends.filter(|end| (1..=MAX_LANGUAGE_TAG).contains(end)).take(MAX_RANGES);
    let ends: Vec<_> = ends.collect();
    ends.into_iter().map(move |end| tag[..end].to_owned())
}

/// Makes an agent findable by what its record says `now`, and no more by what it said `before`.
pub(super) fn index(
    tx: &mut dyn Tx,
    id: AgentId,
    before: Option<Findable<'_>>,
    now: Option<Findable<'_>>,
) -> Result<(), StoreError> {
    let Some(name) = now.or(before).map(|record| name_key(record.name)) else { return Ok(()) };
    let terms = |record: Option<Findable<'_>>| record.map_or_else(BTreeSet::new, |record| record.terms());
    let (before, now) = (terms(before), terms(now));
    let (remove, insert) = match tx.kind() {
        Kind::Sqlite => (
            "DELETE FROM agent_terms WHERE name_key = $2 AND agent_id = $3 AND term IN (SELECT value FROM json_each($1))",
            "INSERT INTO agent_terms (term, name_key, agent_id) SELECT value, $2, $3 FROM json_each($1) WHERE TRUE
             ON CONFLICT (term, name_key) DO UPDATE SET agent_id = excluded.agent_id WHERE agent_terms.agent_id <> excluded.agent_id",
        ),
        Kind::Postgres => (
            "DELETE FROM agent_terms WHERE name_key = $2 AND agent_id = $3
                 AND term IN (SELECT jsonb_array_elements_text(CAST(CAST($1 AS TEXT) AS JSONB)))",
            "INSERT INTO agent_terms (term, name_key, agent_id)
             SELECT value, $2, $3 FROM jsonb_array_elements_text(CAST(CAST($1 AS TEXT) AS JSONB)) WHERE TRUE
             ON CONFLICT (term, name_key) DO UPDATE SET agent_id = excluded.agent_id WHERE agent_terms.agent_id <> excluded.agent_id",
        ),
    };
    for (sql, some) in [(remove, before.difference(&now)), (insert, now.difference(&before))] {
        let some: Vec<_> = some.collect();
        if !some.is_empty() {
            let some = serde_json::to_string(&some).map_err(StoreError::unexpected)?;
            tx.execute(sql, &[some.as_str().into(), name.as_str().into(), (&id).into()])?;
        }
    }
    Ok(())
}

/// A search for agents. Absent fields match everything.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// A part of the name.
    pub text: Option<String>,
    /// True if the text may also be a part of the description.
    pub described: bool,
    /// The range their user's culture is in: `zh` finds `zh-CN`.
    pub culture: Option<String>,
    /// The range one of their languages is in.
    pub language: Option<String>,
    pub online: Option<bool>,
    pub owner: Option<AccountId>,
}

impl Search {
    /// Returns the terms that matching agents have. The first is used for the lookup.
    fn terms(&self) -> Vec<String> {
        let mut terms: Vec<_> = self.owner.map(owner_term).into_iter().collect();
        let signs: Vec<char> = self.text.as_deref().unwrap_or_default().to_lowercase().chars().collect();
        if !signs.is_empty() {
            // The last part first: names that are made in numbers begin alike.
            let part = &signs[signs.len() - signs.len().min(LONGEST_PART)..];
            terms.push(part_term(part));
        }
        terms.extend(self.culture.as_deref().map(culture_term));
        terms.extend(self.language.as_deref().map(language_term));
        terms
    }

    /// The text as a pattern of LIKE; empty for none.
    fn pattern(&self) -> String {
        let Some(text) = self.text.as_deref().filter(|text| !text.is_empty()) else { return String::new() };
        let mut pattern = String::from("%");
        for sign in text.to_lowercase().chars() {
            if matches!(sign, '%' | '_' | '!') {
                pattern.push('!');
            }
            pattern.push(sign);
        }
        pattern.push('%');
        pattern
    }
}

/// Of the agents that are looked at, whether each is one that is asked for.
macro_rules! looked_at {
    ($looked_at:literal) => {
        concat!(
            "SELECT t.name_key, t.id, CASE WHEN a.deleted_at IS NULL
                 AND ($3 = '' OR t.name_key LIKE $3 ESCAPE '!'
                    OR (CAST($5 AS BIGINT) = 1 AND LOWER(COALESCE(a.description, '')) LIKE $3 ESCAPE '!'))
                 AND CAST($6 AS BIGINT) IN (0, CASE WHEN COALESCE(i.open_until, 0) > $4 THEN 1 ELSE 2 END)
                 AND ($7 = '' OR EXISTS (SELECT 1 FROM agent_terms o WHERE o.term = $7 AND o.name_key = t.name_key))
                 AND ($8 = '' OR EXISTS (SELECT 1 FROM agent_terms o WHERE o.term = $8 AND o.name_key = t.name_key))
                 AND ($9 = '' OR EXISTS (SELECT 1 FROM agent_terms o WHERE o.term = $9 AND o.name_key = t.name_key))
               THEN 1 ELSE 0 END AS is_match
             FROM (",
            $looked_at,
            " ORDER BY name_key LIMIT $2) t
             JOIN agents a ON a.id = t.id LEFT JOIN inboxes i ON i.agent_id = t.id ORDER BY t.name_key"
        )
    };
}

const EVERYBODY: &str =
    looked_at!("SELECT name_key, id FROM agents WHERE deleted_at IS NULL AND name_key > $1");
const OF_TERM: &str =
    looked_at!("SELECT name_key, agent_id AS id FROM agent_terms WHERE term = $10 AND name_key > $1");
// Those that are open are found first: they are no more than there are connections.
const ONLINE: &str = looked_at!(
    "SELECT o.name_key, o.id FROM
         (SELECT agent_id, open_until FROM inboxes WHERE node IS NOT NULL LIMIT 100000) c
     JOIN agents o ON o.id = c.agent_id WHERE c.open_until > $4 AND o.deleted_at IS NULL AND o.name_key > $1"
);

const BY_IDS: &str = select_agent!(
    "a.id IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
     ORDER BY a.name_key"
);

/// A page of agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of names.
    pub agents: Vec<Agent>,
    /// The `after` with which the search goes on, if it did not come to its end.
    pub next: Option<String>,
}

/// A page of what a search finds, in the order of names, after the name `after`: at most `limit` agents, and no more once
/// they hold `max_bytes`. It looks at [`LOOKED_AT`] agents at most: a page may hold few, or none, although there are more.
pub fn search(
    tx: &mut dyn Tx,
    search: &Search,
    now: i64,
    after: &str,
    limit: i64,
    max_bytes: usize,
) -> Result<Found, StoreError> {
    let (terms, pattern, after) = (search.terms(), search.pattern(), name_key(after));
    let online = search.online.map_or(0, |online| if online { 1 } else { 2 });
    let all = terms.is_empty() && online == 0;
    let most = if all { limit + 1 } else { LOOKED_AT };
    let mut params: Vec<Param<'_>> = vec![
        after.as_str().into(),
        most.into(),
        pattern.as_str().into(),
        now.into(),
        i64::from(search.described).into(),
        online.into(),
    ];
    params.extend((1..4).map(|n| Param::from(terms.get(n).map_or("", String::as_str))));
    params.extend(terms.first().map(|term| Param::from(term.as_str())));
    let sql = match (terms.is_empty(), search.online) {
        (false, _) => OF_TERM,
        (true, Some(true)) => ONLINE,
        (true, _) => EVERYBODY,
    };
    let (mut ids, mut looked_at, mut last) = (vec![], 0, String::new());
    let mut next = None;
    tx.each(sql, &params, &mut |mut row| {
        let name = row.text("name_key")?;
        looked_at += 1;
        if row.int("is_match")? == 1 {
            if ids.len() as i64 == limit {
                next = Some(std::mem::take(&mut last));
                return Ok(false);
            }
            ids.push(row.uuid("id")?);
        }
        last = name;
        Ok(true)
    })?;
    if next.is_none() && looked_at == most && !all {
        next = Some(last);
    }
    let (agents, cut) = read(tx, &ids, max_bytes)?;
    if cut {
        next = agents.last().map(|last| name_key(&last.name));
    }
    Ok(Found { agents, next })
}

/// The agents of these ids, until they hold so many bytes, and whether some are left.
fn read(tx: &mut dyn Tx, ids: &[Uuid], max_bytes: usize) -> Result<(Vec<Agent>, bool), StoreError> {
    let (mut agents, mut bytes, mut cut) = (vec![], 0, false);
    for ids in ids.chunks(TOGETHER) {
        let mut params: Vec<Param<'_>> = ids.iter().map(Param::from).collect();
        if let Some(last) = params.last().copied() {
            params.resize(TOGETHER, last);
        }
        tx.each(BY_IDS, &params, &mut |row| {
            // The first one always: a page without any would never end.
            cut = bytes >= max_bytes && !agents.is_empty();
            if !cut {
                let agent = agent(row)?;
                bytes += agent.card.as_ref().map_or(0, String::len);
                agents.push(agent);
            }
            Ok(!cut)
        })?;
        if cut {
            break;
        }
    }
    Ok((agents, cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// Nobody goes through the directory for what a term finds, nor sorts it.
    #[tokio::test]
    async fn each_question_has_its_index() {
        for (sql, params, index) in [
            (EVERYBODY, 9, "SEARCH agents USING INDEX agents_by_name (name_key>?)"),
            (OF_TERM, 10, "SEARCH agent_terms USING PRIMARY KEY (term=? AND name_key>?)"),
            (ONLINE, 9, "inboxes USING INDEX inboxes_by_node"),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("SCAN agents") && !plan.contains("SCAN agent_terms"), "{plan}");
            assert!(sql == ONLINE || !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
