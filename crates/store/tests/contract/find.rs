//! Finding agents by parts of names and descriptions, by cards, and by owner.

use crate::support::{Fixture, NODE, NOW, fresh, key, on_both, read, record, write};
use chorus_protocol::ids::{AccountId, AgentId, TraceId};
use chorus_store::directory::{self, Agent, LOOKED_AT, Record, Search};
use chorus_store::{Kind, Store, Tx, TxExt, access, inboxes};
use serde_json::json;

on_both![
    each_thing_asked_must_hold,
    changes_are_followed,
    no_card_has_many_terms,
    a_page_looks_at_so_many,
    a_page_holds_so_many_bytes,
    a_term_of_nobody_ends_no_page,
    filters_use_an_index,
];

async fn add(store: &Store, name: &str, card: Option<String>) -> Agent {
    let (id, record) = (AgentId(fresh()), Record { card, ..record(name, None) });
    write(store, move |tx| directory::insert(tx, id, &record, &key(&record.name), TraceId(id.0), NOW)).await
}

fn card(culture: &str, languages: &[&str]) -> String {
    json!({"user_culture": culture, "supported_languages": languages}).to_string()
}

async fn names(store: &Store, search: Search) -> Vec<String> {
    let found = read(store, move |tx| directory::search(tx, &search, NOW, "", 100, usize::MAX)).await;
    assert_eq!(found.next, None);
    found.agents.into_iter().map(|agent| agent.name).collect()
}

fn text(text: &str) -> Search {
    Search { text: Some(text.into()), ..Search::default() }
}

fn described(text: &str) -> Search {
    Search { text: Some(text.into()), described: true, ..Search::default() }
}

async fn each_thing_asked_must_hold(fixture: Fixture) {
    let store = &fixture.store;
    let ann = AccountId(fresh());
    let alder = add(store, "Alder-1", Some(card("zh-CN", &["zh-CN", "en"]))).await.id;
    let birch = add(store, "birch", Some(card("zh-Hant-TW", &["de"]))).await.id;
    add(store, "b_x", None).await;
    write(store, move |tx| {
        directory::set_owner(tx, alder, Some(ann), Some("Builds HOUSES, 100% of them"))?;
        inboxes::open(tx, birch, fresh(), NODE, NOW + 9).map(drop)
    })
    .await;
    let culture = |range: &str| Search { culture: Some(range.into()), ..Search::default() };
    let language = |range: &str| Search { language: Some(range.into()), ..Search::default() };
    let online = |online| Search { online: Some(online), ..Search::default() };
    for (search, found) in [
        (Search::default(), vec!["Alder-1", "b_x", "birch"]),
        (text(""), vec!["Alder-1", "b_x", "birch"]),
        (text("LDER"), vec!["Alder-1"]),
        (text("alder-1"), vec!["Alder-1"]),
        (text("b"), vec!["b_x", "birch"]),
        (text("_"), vec!["b_x"]),
        (text("%"), vec![]),
        (text("lde-"), vec![]),
        (text("birchx"), vec![]),
        (text("houses"), vec![]),
        (described("houses"), vec!["Alder-1"]),
        (described("s, 100%"), vec!["Alder-1"]),
        (described("%"), vec!["Alder-1"]),
        (described("ir"), vec!["birch"]),
        (culture("zh"), vec!["Alder-1", "birch"]),
        (culture("ZH-cn"), vec!["Alder-1"]),
        (culture("zh-Hant"), vec!["birch"]),
        (culture("z"), vec![]),
        (culture(""), vec![]),
        (culture("zh-"), vec![]),
        (language("en"), vec!["Alder-1"]),
        (language("en-GB"), vec![]),
        (language("zh"), vec!["Alder-1"]),
        (online(true), vec!["birch"]),
        (online(false), vec!["Alder-1", "b_x"]),
        (Search { online: Some(true), ..culture("zh") }, vec!["birch"]),
        (Search { language: Some("en".into()), ..culture("zh") }, vec!["Alder-1"]),
        (Search { owner: Some(ann), ..Search::default() }, vec!["Alder-1"]),
        (Search { owner: Some(AccountId(fresh())), ..Search::default() }, vec![]),
        (
            Search {
                owner: Some(ann),
                language: Some("en".into()),
                culture: Some("zh".into()),
                ..text("al")
            },
            vec!["Alder-1"],
        ),
        (
            Search {
                owner: Some(ann),
                language: Some("de".into()),
                culture: Some("zh".into()),
                ..text("al")
            },
            vec![],
        ),
    ] {
        assert_eq!(names(store, search.clone()).await, found, "{search:?}");
    }
}

async fn changes_are_followed(fixture: Fixture) {
    let store = &fixture.store;
    let anna = add(store, "anna", Some(card("de", &["de"]))).await;
    let english = Search { language: Some("en".into()), ..Search::default() };
    let german = Search { language: Some("de".into()), ..Search::default() };
    let record = Record { card: Some(card("de", &["en"])), ..record("anna", None) };
    write(store, {
        let anna = anna.clone();
        move |tx| directory::update(tx, anna.clone(), &record, None, NOW)
    })
    .await;
    assert_eq!(names(store, english.clone()).await, ["anna"]);
    assert_eq!(names(store, german).await, [""; 0]);
    let (one, other) = (AccountId(fresh()), AccountId(fresh()));
    write(store, move |tx| directory::set_owner(tx, anna.id, Some(one), None)).await;
    write(store, move |tx| directory::set_owner(tx, anna.id, Some(other), None)).await;
    assert_eq!(names(store, Search { owner: Some(one), ..Search::default() }).await, [""; 0]);
    assert_eq!(names(store, Search { owner: Some(other), ..Search::default() }).await, ["anna"]);
    write(store, move |tx| access::delete_agent(tx, anna.id, NOW, &fresh)).await;
    assert_eq!(names(store, english).await, [""; 0]);
    assert_eq!(rows(store).await, 0, "nothing is left behind");
    add(store, "ANNA", None).await;
    assert_eq!(names(store, text("nn")).await, ["ANNA"]);
}

/// Cards may be older than the limit on tag length.
async fn no_card_has_many_terms(fixture: Fixture) {
    let store = &fixture.store;
    let tag = |n: usize| format!("l{n:02}-x{}", "-a".repeat(4000));
    let languages: Vec<_> = (0..100).map(tag).collect();
    let tags: Vec<_> = languages.iter().map(String::as_str).collect();
    let many = card(&tag(0), &tags);
    let anna = add(store, "anna", Some(many.clone())).await;
    // The name has two, three and two parts of one, two and three characters.
    let all = rows(store).await;
    assert!(all <= 7 + 8 * (32 + 1), "{all}");
    let longest = crate::support::count(store, "SELECT MAX(LENGTH(term)) AS count FROM agent_terms").await;
    assert!(longest <= 36, "{longest}");
    let language = |range: &str| Search { language: Some(range.into()), ..Search::default() };
    assert_eq!(names(store, language("l31-x-a-a-a-a-a-a")).await, ["anna"]);
    for range in ["l31-x-a-a-a-a-a-a-a", "l32"] {
        assert_eq!(names(store, language(range)).await, [""; 0], "{range}");
    }

    // Unchanged terms are not written again.
    write(store, |tx: &mut dyn Tx| tx.execute("DELETE FROM agent_terms WHERE term = 'pann'", &[])).await;
    let again = Record { card: Some(many), ..record("anna", None) };
    write(store, move |tx| directory::update(tx, anna.clone(), &again, None, NOW)).await;
    assert_eq!(rows(store).await, all - 1);
}

async fn rows(store: &Store) -> i64 {
    crate::support::count(store, "SELECT COUNT(*) AS count FROM agent_terms").await
}

/// Creates many agents that nobody searches for.
async fn crowd(store: &Store, count: i64) {
    write(store, move |tx| {
        (0..count).try_for_each(|n| {
            let id = AgentId(fresh());
            let record = record(&format!("crowd-{n:05}"), None);
            directory::insert(tx, id, &record, &key(&record.name), TraceId(id.0), NOW).map(drop)
        })
    })
    .await;
}

/// A full directory does not make a search slow: it stops early and returns a cursor.
async fn a_page_looks_at_so_many(fixture: Fixture) {
    let store = &fixture.store;
    crowd(store, LOOKED_AT + 10).await;
    add(store, "found-crowd", None).await;
    for search in [text("d-crowd"), Search { online: Some(false), ..text("crowd") }] {
        let (mut after, mut pages, mut found) = (String::new(), 0, vec![]);
        loop {
            let search = search.clone();
            let page =
                read(store, move |tx| directory::search(tx, &search, NOW, &after, 200, usize::MAX)).await;
            found.extend(page.agents.into_iter().map(|agent| agent.name));
            pages += 1;
            let Some(next) = page.next else { break };
            after = next;
        }
        let all = if search.online.is_none() { (1, 2) } else { (LOOKED_AT as usize + 11, 6) };
        assert_eq!((found.len(), pages), all);
        assert_eq!(found.last().unwrap(), "found-crowd");
    }
    // A rare part is found at once among all.
    assert_eq!(names(store, text("ound")).await, ["found-crowd"]);
}

async fn a_page_holds_so_many_bytes(fixture: Fixture) {
    let store = &fixture.store;
    for n in 0..30 {
        add(store, &format!("a{n:02}"), Some(format!("{:?}", "x".repeat(998)))).await;
    }
    let page = async |after: &'static str, max_bytes| {
        let search =
            move |tx: &mut dyn Tx| directory::search(tx, &Search::default(), NOW, after, 29, max_bytes);
        let found = read(store, search).await;
        (found.agents.len(), found.next)
    };
    assert_eq!(page("", 0).await, (1, Some("a00".into())));
    assert_eq!(page("a00", 5_000).await, (5, Some("a05".into())));
    assert_eq!(page("", 25_000).await, (25, Some("a24".into())));
    assert_eq!(page("", usize::MAX).await, (29, Some("a28".into())));
    assert_eq!(page("a00", usize::MAX).await, (29, None));
}

/// A page without a cursor is the last one, whatever the term matches.
async fn a_term_of_nobody_ends_no_page(fixture: Fixture) {
    let store = &fixture.store;
    crowd(store, 4).await;
    let gone = "UPDATE agents SET deleted_at = 1 WHERE name_key IN ('crowd-00000', 'crowd-00002')";
    write(store, move |tx: &mut dyn Tx| tx.execute(gone, &[])).await;
    let (mut after, mut found) = (String::new(), vec![]);
    loop {
        let page = move |tx: &mut dyn Tx| directory::search(tx, &text("crowd"), NOW, &after, 1, usize::MAX);
        let page = read(store, page).await;
        found.extend(page.agents.into_iter().map(|agent| agent.name));
        let Some(next) = page.next else { break };
        after = next;
    }
    assert_eq!(found, ["crowd-00001", "crowd-00003"]);
    assert_eq!(names(store, text("crowd")).await, found);
}

/// Returns the query plan of a statement.
async fn plan(store: &Store, sql: &'static str) -> String {
    let explain: &'static str = match store.kind() {
        Kind::Sqlite => Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str()),
        Kind::Postgres => Box::leak(format!("EXPLAIN {sql}").into_boxed_str()),
    };
    let column = if store.kind() == Kind::Sqlite { "detail" } else { "QUERY PLAN" };
    let read = read(store, move |tx| {
        tx.query(explain, &[])?.into_iter().map(|mut row| row.text(column)).collect::<Result<Vec<_>, _>>()
    });
    read.await.join("\n")
}

/// Matches of a term are read in name order, without sorting and without a scan of the directory.
async fn filters_use_an_index(fixture: Fixture) {
    let store = &fixture.store;
    crowd(store, 3000).await;
    if store.kind() == Kind::Postgres {
        write(store, |tx: &mut dyn Tx| tx.execute("ANALYZE agent_terms", &[])).await;
    }
    let plan = plan(
        store,
        "SELECT name_key, agent_id AS id FROM agent_terms WHERE term = 'pabc' AND name_key > 'x' ORDER BY name_key LIMIT 1000",
    )
    .await;
    let index = match store.kind() {
        Kind::Sqlite => "SEARCH agent_terms USING PRIMARY KEY (term=? AND name_key>?)",
        Kind::Postgres => "Index Scan using agent_terms_pkey",
    };
    assert!(plan.contains(index) && !plan.contains("TEMP B-TREE") && !plan.contains("Sort"), "{plan}");
}
