//! The index of words that skills are found by, kept up to date by a reconciler.
//!
//! A registration only marks its agent as due. Words of skills that are gone find nothing meanwhile, because searches join the
//! skills.

use crate::{StoreError, Tx, TxExt, search};
use chorus_protocol::ids::AgentId;
use std::collections::BTreeSet;

/// The most words indexed for one agent, over all of its skills.
///
/// Skills take turns: the first word of each in the agent's order, then the second of each, and so on. The words of a skill are
/// those of its name, then of its agent's name, then of its description.
pub const MAX_AGENT_WORDS: usize = 500;
/// The most words indexed for one skill.
const MAX_WORDS: usize = 100;
/// A longer word is known by its first characters.
const WORD_LENGTH: usize = 32;
/// The work that ends a step: a row written, or so many bytes of text split into words, is one unit.
const STEP_WORK: usize = 1000;
const BYTES_PER_UNIT: usize = 100;
/// A step takes this fraction of the rows it is given as agents.
const LESS: i64 = 10;

/// A word, and the name of the skill it finds.
type Entry = (String, String);

/// Indexes the words of due agents in one bounded step, the longest due first. Returns whether more may be due. Takes a tenth of
/// `limit` agents at most, and at least one.
pub fn index_due(tx: &mut dyn Tx, limit: i64) -> Result<bool, StoreError> {
    let limit = (limit / LESS).max(1);
    let due = due(tx, limit)?;
    let mut work = 0;
    for agent in &due {
        work += index_agent(tx, *agent)?;
        if work >= STEP_WORK {
            return Ok(true);
        }
    }
    Ok(due.len() as i64 == limit)
}

/// Leaves out the agent that [`index_due`] would begin with, and returns its id.
pub fn skip_due(tx: &mut dyn Tx) -> Result<Option<String>, StoreError> {
    let due = due(tx, 1)?;
    for agent in &due {
        take(tx, *agent)?;
    }
    Ok(due.first().map(AgentId::to_string))
}

fn due(tx: &mut dyn Tx, limit: i64) -> Result<Vec<AgentId>, StoreError> {
    let sql = "SELECT agent_id FROM market_agents WHERE words_due_at IS NOT NULL ORDER BY words_due_at, agent_id LIMIT $1";
    tx.query(sql, &[limit.into()])?.into_iter().map(|mut row| Ok(AgentId(row.uuid("agent_id")?))).collect()
}

/// Takes an agent off the list, and with it the row that registrations of this agent write first: one that comes meanwhile waits, and
/// marks the agent again. Returns whether the agent was due.
fn take(tx: &mut dyn Tx, agent: AgentId) -> Result<bool, StoreError> {
    let sql = "UPDATE market_agents SET words_due_at = NULL WHERE agent_id = $1 AND words_due_at IS NOT NULL";
    Ok(tx.execute(sql, &[(&agent).into()])? == 1)
}

/// Brings the words of one agent up to date. Returns the work it took.
fn index_agent(tx: &mut dyn Tx, agent: AgentId) -> Result<usize, StoreError> {
    if !take(tx, agent)? {
        return Ok(1);
    }
    let (wanted, bytes) = wanted(tx, agent)?;
    let rows = tx.query("SELECT word, name FROM skill_words WHERE agent_id = $1", &[(&agent).into()])?;
    let indexed: BTreeSet<Entry> = rows
        .into_iter()
        .map(|mut row| Ok((row.text("word")?, row.text("name")?)))
        .collect::<Result<_, StoreError>>()?;
    let mut work = 1 + bytes / BYTES_PER_UNIT;
    for (word, name) in indexed.difference(&wanted) {
        let sql = "DELETE FROM skill_words WHERE word = $1 AND agent_id = $2 AND name = $3";
        tx.execute(sql, &[word.as_str().into(), (&agent).into(), name.as_str().into()])?;
        work += 1;
    }
    for (word, name) in wanted.difference(&indexed) {
        let sql = "INSERT INTO skill_words (word, agent_id, name) VALUES ($1, $2, $3)";
        tx.execute(sql, &[word.as_str().into(), (&agent).into(), name.as_str().into()])?;
        work += 1;
    }
    Ok(work)
}

/// The words that an agent's skills are to be found by, and how many bytes of text they are taken from.
fn wanted(tx: &mut dyn Tx, agent: AgentId) -> Result<(BTreeSet<Entry>, usize), StoreError> {
    let rows = tx.query(
        "SELECT s.name, m.display_name, s.description FROM skills s JOIN market_agents m ON m.agent_id = s.agent_id
         WHERE s.agent_id = $1 ORDER BY s.place",
        &[(&agent).into()],
    )?;
    let (mut skills, mut bytes) = (vec![], 0);
    for mut row in rows {
        let (name, display_name) = (row.text("name")?, row.text("display_name")?);
        let text = [&*name, &*display_name, &*row.opt_text("description")?.unwrap_or_default()].join(" ");
        bytes += text.len();
        skills.push((name, words(&text)));
    }
    Ok((take_turns(&skills), bytes))
}

/// The first [`MAX_AGENT_WORDS`] of all skills' words, one of each skill in turn.
fn take_turns(skills: &[(String, Vec<String>)]) -> BTreeSet<Entry> {
    let turns = (0..MAX_WORDS).flat_map(|turn| {
        skills.iter().filter_map(move |(name, words)| Some((words.get(turn)?.clone(), name.clone())))
    });
    turns.take(MAX_AGENT_WORDS).collect()
}

/// The first [`MAX_WORDS`] words of a text as they are compared, in order and each once.
pub(super) fn words(text: &str) -> Vec<String> {
    let (mut known, mut words) = (BTreeSet::new(), vec![]);
    for word in search::words(text) {
        if words.len() == MAX_WORDS {
            break;
        }
        let word: String = word.chars().take(WORD_LENGTH).collect();
        if known.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skill_keeps_its_first_words() {
        let skill = |n: usize| {
            let words = (0..MAX_WORDS).map(|word| format!("w{word}")).collect();
            (format!("skill-{n}"), words)
        };
        let skills: Vec<_> = (0..100).map(skill).collect();
        let kept = take_turns(&skills);
        assert_eq!(kept.len(), MAX_AGENT_WORDS);
        for (name, _) in &skills {
            let words: Vec<_> = kept.iter().filter(|(_, of)| of == name).map(|(word, _)| &**word).collect();
            assert_eq!(words, ["w0", "w1", "w2", "w3", "w4"], "{name}");
        }
        // Words that one skill does not use are available to the others.
        let few = [("few".to_owned(), vec!["one".to_owned()]), skill(1), skill(2)];
        assert_eq!(take_turns(&few).len(), 1 + 2 * MAX_WORDS);
        assert_eq!(words("The Sum, the sum of it"), ["the", "sum", "of", "it"]);
    }
}
