//! The search words of skills, and the cost of registering them.

use crate::market::{credits, wallet};
use crate::market_agents::{everything, found, listed};
use crate::support::{Fixture, NOW, agent, count, fresh, on_both, read, write};
use chorus_protocol::ids::{AgentId, TraceId, WalletId};
use chorus_store::market::agents::{self, NewListing, Skill};
use chorus_store::market::discovery::{self, Search};
use chorus_store::market::word_index::{self, MAX_AGENT_WORDS};
use chorus_store::{Metered, Store, Tx};

on_both![
    words_find_skills,
    missing_words_are_indexed_again,
    a_registration_writes_only_what_changed,
    words_are_capped_and_indexed_in_bounded_steps,
];

/// Runs the reconciler until no words are due.
pub(crate) async fn index(store: &Store) {
    while write(store, |tx| word_index::index_due(tx, 200)).await {}
}

async fn words_find_skills(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let one = listed(store, "analyst", owner, &[("extract_text", 10), ("sum", 20)]).await;
    let other = listed(store, "painter", owner, &[("draw", 10)]).await;
    index(store).await;
    let by = async |words: &[&str], skill: Option<&str>| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        found(store, &Search { words, skill: skill.map(Into::into), ..everything() }).await
    };
    let of = |agent, name: &str| (agent, name.to_owned());
    assert_eq!(by(&["painter"], None).await, [of(other, "draw")]);
    assert_eq!(by(&["text"], None).await, [of(one, "extract_text")]);
    assert_eq!(by(&["does", "analyst"], None).await, [of(one, "extract_text"), of(one, "sum")]);
    assert_eq!(by(&["does", "analyst"], Some("sum")).await, [of(one, "sum")]);
    assert_eq!(by(&["painter", "sum"], None).await, []);
    assert_eq!(by(&["the"], None).await.len(), 3);
    // In scripts without spaces, parts of the text are found.
    let third = listed(store, "文本摘要助手", owner, &[("sign", 10)]).await;
    index(store).await;
    for (asked, expected) in [("摘要", vec![of(third, "sign")]), ("翻译", vec![])] {
        let words: Vec<_> = discovery::words(asked).into_iter().collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        assert_eq!(by(&words, None).await, expected, "{asked}");
    }
    write(store, move |tx| agents::leave(tx, third, NOW)).await;
    write(store, move |tx| agents::leave(tx, one, NOW)).await;
    assert_eq!(by(&["the"], None).await, [of(other, "draw")]);
}

async fn missing_words_are_indexed_again(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    for n in 0..3 {
        listed(store, &format!("worker-{n}"), owner, &[("摘要写作", n), ("draw", n)]).await;
    }
    index(store).await;
    // Some words are missing from the index.
    write(store, |tx| {
        tx.execute("DELETE FROM skill_words WHERE name = $1", &["摘要写作".into()])?;
        tx.execute("UPDATE market_agents SET words_due_at = 0", &[])
    })
    .await;
    let count =
        async |word: &str| found(store, &Search { words: vec![word.into()], ..everything() }).await.len();
    assert_eq!((count("写").await, count("draw").await), (0, 3));
    assert!(write(store, |tx| word_index::index_due(tx, 20)).await, "there is one more");
    assert_eq!(count("写").await, 2);
    let left_out = write(store, |tx| word_index::skip_due(tx)).await;
    assert!(left_out.is_some());
    assert!(!write(store, |tx| word_index::index_due(tx, 20)).await);
    assert_eq!((count("写").await, count("draw").await), (2, 3), "one was left out");
    assert_eq!(write(store, |tx| word_index::skip_due(tx)).await, None);
}

/// Returns a skill with this many words in its description.
fn wordy(n: usize, words: usize) -> Skill {
    let description = (0..words).map(|word| format!("w{n}x{word}")).collect::<Vec<_>>().join(" ");
    Skill {
        name: format!("skill-{n}"),
        description: Some(description),
        cost: credits(10),
        input_schema: Some("{}".into()),
        output_schema: None,
        min_deadline_ms: None,
    }
}

fn listing(agent: AgentId, wallet: WalletId, skills: Vec<Skill>) -> NewListing {
    let (display_name, trace) = ("worker".to_owned(), TraceId(fresh()));
    NewListing { agent, wallet, display_name, endpoint: None, skills, trace }
}

/// Registers an agent. Returns the writing statements and the bytes passed to them.
async fn writes(store: &Store, new: NewListing) -> (Vec<&'static str>, usize) {
    write(store, move |tx: &mut dyn Tx| {
        let mut metered = Metered::new(tx);
        agents::save(&mut metered, &new, NOW)?;
        let mut statements = metered.statements;
        statements.retain(|sql| !sql.trim_start().starts_with("SELECT"));
        Ok((statements, metered.bytes_written))
    })
    .await
}

async fn a_registration_writes_only_what_changed(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let id = agent(store, "worker").await.id;
    let all: Vec<_> = (0..100).map(|n| wordy(n, 100)).collect();
    let (first, _) = writes(store, listing(id, owner, all.clone())).await;
    assert_eq!(first.len(), 1 + 100, "the listing and its skills, and not one of the words");
    index(store).await;
    assert_eq!(writes(store, listing(id, owner, all.clone())).await, (vec![], 0));
    assert_eq!(
        count(store, "SELECT COUNT(*) AS count FROM market_agents WHERE words_due_at IS NOT NULL").await,
        0
    );

    let mut one = all.clone();
    one[50].cost = credits(11);
    let (changed, bytes) = writes(store, listing(id, owner, one.clone())).await;
    assert_eq!(changed.len(), 2, "{changed:#?}");
    assert!(bytes < 2000, "{bytes}");
    assert_eq!(read(store, move |tx| agents::skills(tx, id)).await, one);
    // One skill is removed at the front and one added at the end: the others stay in place.
    one.remove(0);
    one.push(wordy(100, 1));
    let (changed, _) = writes(store, listing(id, owner, one.clone())).await;
    assert_eq!(changed.len(), 3, "{changed:#?}");
    assert_eq!(read(store, move |tx| agents::skills(tx, id)).await, one);
    one.reverse();
    let (changed, _) = writes(store, listing(id, owner, one.clone())).await;
    assert!(changed.len() <= 1 + 100, "{changed:#?}");
    assert_eq!(read(store, move |tx| agents::skills(tx, id)).await, one);
    let nothing = writes(store, listing(id, owner, vec![])).await.0;
    assert_eq!(nothing.len(), 1 + 100, "{nothing:#?}");
    assert_eq!(writes(store, listing(id, owner, vec![])).await, (vec![], 0));
}

async fn words_are_capped_and_indexed_in_bounded_steps(fixture: Fixture) {
    const ALL: &str = "SELECT COUNT(*) AS count FROM skill_words";
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let mut agents = vec![];
    for n in 0..3 {
        let id = agent(store, &format!("worker-{n}")).await.id;
        writes(store, listing(id, owner, (0..100).map(|n| wordy(n, 100)).collect())).await;
        agents.push(id);
    }
    let id = agents[0];
    let (mut steps, mut more) = (0, true);
    while more {
        let (left, statements) = write(store, |tx: &mut dyn Tx| {
            let mut metered = Metered::new(tx);
            let left = word_index::index_due(&mut metered, 200)?;
            Ok((left, metered.statements.len()))
        })
        .await;
        (more, steps) = (left, steps + 1);
        assert!(statements <= 3 * MAX_AGENT_WORDS, "{statements} in one step");
        assert!(steps < 20, "it comes to an end");
    }
    assert!(steps > 1, "{steps}");
    assert_eq!(count(store, ALL).await, 3 * MAX_AGENT_WORDS as i64);
    // The words of each skill's name find it, however many skills there are.
    let by_name = Search { words: vec!["skill".into(), "99".into()], ..everything() };
    write(store, move |tx| agents.iter().try_for_each(|id| chorus_store::inboxes::seen(tx, *id, NOW))).await;
    assert_eq!(found(store, &by_name).await.len(), 3);
    write(store, move |tx| agents::leave(tx, id, NOW)).await;
    index(store).await;
    assert_eq!(count(store, ALL).await, 2 * MAX_AGENT_WORDS as i64, "whoever left has no words");
}
