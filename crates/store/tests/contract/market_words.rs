//! The words that skills are found by.

use crate::market::wallet;
use crate::market_agents::{everything, found, listed};
use crate::support::{Fixture, NOW, on_both, read, write};
use chorus_store::market::discovery::{self, Search};
use chorus_store::market::{agents, reindex};
use chorus_store::settings;

on_both![words_find_skills, words_of_before_are_brought_up_to_date];

async fn words_find_skills(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let one = listed(store, "analyst", owner, &[("extract_text", 10), ("sum", 20)]).await;
    let other = listed(store, "painter", owner, &[("draw", 10)]).await;
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
    // Where there are no spaces between words, parts of what is written are found.
    let third = listed(store, "文本摘要助手", owner, &[("sign", 10)]).await;
    for (asked, expected) in [("摘要", vec![of(third, "sign")]), ("翻译", vec![])] {
        let words: Vec<_> = discovery::words(asked).into_iter().collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        assert_eq!(by(&words, None).await, expected, "{asked}");
    }
    write(store, move |tx| agents::leave(tx, third, NOW)).await;
    write(store, move |tx| agents::leave(tx, one, NOW)).await;
    assert_eq!(by(&["the"], None).await, [of(other, "draw")]);
}

async fn words_of_before_are_brought_up_to_date(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    for n in 0..3 {
        listed(store, &format!("worker-{n}"), owner, &[("摘要写作", n), ("draw", n)]).await;
    }
    // As a former program kept them: a run of signs was one word.
    write(store, |tx| {
        tx.execute("DELETE FROM skill_words WHERE name = $1", &["摘要写作".into()])?;
        settings::set(tx, "skills_indexed_through", "")
    })
    .await;
    let count =
        async |word: &str| found(store, &Search { words: vec![word.into()], ..everything() }).await.len();
    assert_eq!((count("写").await, count("draw").await), (0, 3));
    assert!(write(store, |tx| reindex::index_old(tx, 20)).await, "there is one more");
    assert_eq!(count("写").await, 2);
    let left_out = write(store, |tx| reindex::skip_old(tx)).await;
    assert!(left_out.is_some());
    assert!(!write(store, |tx| reindex::index_old(tx, 20)).await);
    assert_eq!((count("写").await, count("draw").await), (2, 3), "one was left out");
    assert_eq!(read(store, |tx| settings::get(tx, "skills_indexed_through")).await, None);
    assert!(!write(store, |tx| reindex::index_old(tx, 20)).await);
}
