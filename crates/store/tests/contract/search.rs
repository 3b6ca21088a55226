//! Message search: the same words find the same messages on both databases.

use crate::attention::post_in;
use crate::channel::{Room, act, delete, edit, join, person, post_of, remove, room, run, say};
use crate::support::{Fixture, on_both, read, write};
use chorus_protocol::ids::{EventId, Principal};
use chorus_store::conversation::Act;
use chorus_store::conversations::History;
use chorus_store::{Kind, Store, Tx, TxExt, search, settings};
use uuid::Uuid;

on_both!(
    words_are_found,
    only_members_find,
    edits_and_deletions_are_followed,
    stays_count,
    the_newest_first_page_by_page,
    nothing_tells_of_others,
    nothing_tells_of_what_was_before,
    one_conversation_alone,
    many_conversations,
    imported_messages_are_indexed,
    large_texts,
);

async fn find(store: &Store, who: Principal, text: &'static str) -> Vec<EventId> {
    let all = move |tx: &mut dyn Tx| {
        let mut page = search::page(tx, who, None, text, None, 100)?;
        let mut events = std::mem::take(&mut page.events);
        while page.next.is_some() && events.len() < 100 {
            page = search::page(tx, who, None, text, page.next, 100 - events.len() as i64)?;
            events.append(&mut page.events);
        }
        Ok(events)
    };
    read(store, all).await
}

async fn words_are_found(fixture: Fixture) {
    let store = &fixture.store;
    let Room { owner, .. } = room(store, History::All).await;
    let room = room(store, History::All).await;
    let text = "Mail Anna_Lee@example.org about foo.bar/baz-2, \"quoted\" NOT NEAR(x*) 下午一起喝杯咖啡 Ünïcode don't 3.14";
    let said = say(store, room, room.owner, text).await;
    say(store, room, room.owner, "something else").await;
    for question in [
        "mail",
        "MAIL",
        "anna",
        "lee",
        "example",
        "org",
        "anna_lee@example.org",
        "foo",
        "bar",
        "baz",
        "2",
        "foo.bar/baz-2",
        "quoted",
        "\"quoted\"",
        "not",
        "near",
        "x",
        "咖啡",
        "咖",
        "一起 咖啡",
        "ÜNÏCODE",
        "don't",
        "3.14",
        "mail 咖啡 quoted",
        "  mail\t",
        "mail!",
        "(mail) AND",
    ] {
        let expected = if question == "(mail) AND" { vec![] } else { vec![said] };
        assert_eq!(find(store, room.owner, question).await, expected, "{question}");
    }
    for question in [
        "",
        " ",
        "\"",
        "*",
        "ma",
        "mai*",
        "mail else",
        "-mail else",
        "content:mail",
        "茶",
        "^",
        "a OR b",
        "''",
    ] {
        assert_eq!(find(store, room.owner, question).await, [], "{question}");
    }
    assert_eq!(find(store, owner, "mail").await, []);
}

async fn only_members_find(fixture: Fixture) {
    let store = &fixture.store;
    let (one, other) = (room(store, History::All).await, room(store, History::All).await);
    let (here, there) =
        (say(store, one, one.owner, "word").await, say(store, other, other.owner, "word").await);
    let bob = person();
    assert_eq!(find(store, bob, "word").await, []);
    join(store, one, bob, "bob").await;
    assert_eq!(find(store, bob, "word").await, [here], "all of it, also from before");
    join(store, other, bob, "bob").await;
    let mut both = find(store, bob, "word").await;
    both.sort();
    let mut expected = [here, there];
    expected.sort();
    assert_eq!(both, expected);
    remove(store, one, "bob").await;
    assert_eq!(find(store, bob, "word").await, [there]);
}

async fn edits_and_deletions_are_followed(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let said = say(store, room, room.owner, "one two").await;
    edit(store, room, room.owner, said, "two three").await;
    assert_eq!(find(store, room.owner, "one").await, []);
    assert_eq!(find(store, room.owner, "two three").await, [said]);
    delete(store, room, room.owner, said).await.unwrap();
    assert_eq!(find(store, room.owner, "two").await, []);
}

async fn stays_count(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::Joined).await, person());
    say(store, room, room.owner, "word before").await;
    join(store, room, bob, "bob").await;
    let there = say(store, room, room.owner, "word there").await;
    let changed = say(store, room, room.owner, "word changed").await;
    edit(store, room, room.owner, changed, "word changed while there").await;
    remove(store, room, "bob").await;
    say(store, room, room.owner, "word away").await;
    edit(store, room, room.owner, there, "word and secret").await;
    join(store, room, bob, "bob").await;
    let now = say(store, room, room.owner, "word now").await;
    let sorted = |mut found: Vec<EventId>| {
        found.sort();
        found
    };
    assert_eq!(sorted(find(store, bob, "word").await), sorted(vec![changed, now]));
    assert_eq!(find(store, bob, "secret").await, [], "that was said while it was away");
    assert_eq!(find(store, room.owner, "word").await.len(), 5);
    edit(store, room, room.owner, there, "word and nothing").await;
    assert_eq!(sorted(find(store, bob, "word").await), sorted(vec![there, changed, now]));
}

async fn the_newest_first_page_by_page(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let mut said = vec![];
    for _ in 0..7 {
        said.push(say(store, room, room.owner, "word").await);
    }
    // Ids of this test are not times: PostgreSQL takes the greatest as the newest.
    if store.kind() == Kind::Postgres {
        said.sort();
    }
    said.reverse();
    let (mut found, mut before) = (vec![], None);
    loop {
        let page =
            read(store, move |tx| Ok(search::page(tx, room.owner, None, "word", before, 3)?.events)).await;
        before = page.last().copied();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 3);
        found.extend(page);
    }
    assert_eq!(found, said);
}

/// Posts `word` in a room under ids that are times, as outside of tests.
async fn say_at(store: &Store, room: Room, ids: std::ops::Range<u128>) {
    let all = move |tx: &mut dyn Tx| {
        ids.clone().try_for_each(|n| {
            let act = Act { event: id(n), ..act(room, room.owner) };
            post_in(tx, &act, &post_of("word", &[], None)).map(drop)
        })
    };
    run(store, all).await.unwrap();
}

fn id(n: u128) -> EventId {
    EventId(Uuid::from_u128(n))
}

async fn page(
    store: &Store,
    who: Principal,
    before: Option<u128>,
    limit: i64,
) -> (Vec<EventId>, Option<EventId>) {
    let found = read(store, move |tx| search::page(tx, who, None, "word", before.map(id), limit)).await;
    (found.events, found.next)
}

/// Neither hits nor cursors depend on other people's messages.
async fn nothing_tells_of_others(fixture: Fixture) {
    let store = &fixture.store;
    let (mine, theirs) = (room(store, History::All).await, room(store, History::All).await);
    say_at(store, mine, 1000..1002).await;
    let (who, pages) = (mine.owner, [None, Some(1), Some(1001), Some(1003), Some(5000)]);
    let seen = async || {
        let mut seen = vec![];
        for before in pages {
            for limit in [1, 2, 3] {
                seen.push(page(store, who, before, limit).await);
            }
        }
        seen
    };
    let before = seen().await;
    assert_eq!(before[0], (vec![id(1001)], Some(id(1001))), "one more, and it is readable");
    assert_eq!(before[1], (vec![id(1001), id(1000)], None), "no more");
    say_at(store, theirs, 1..3).await;
    say_at(store, theirs, 1002..1100).await;
    assert_eq!(seen().await, before);
    // Another's id works as a cursor like any other.
    for (theirs, nobodys) in [(1, 3), (1050, 1999), (1002, 2000)] {
        assert_eq!(page(store, who, Some(theirs), 5).await, page(store, who, Some(nobodys), 5).await);
    }
}

/// Hits do not depend on messages of one's own conversation from before joining.
async fn nothing_tells_of_what_was_before(fixture: Fixture) {
    let store = &fixture.store;
    let (mine, joined, bob) = (room(store, History::All).await, room(store, History::Joined).await, person());
    join(store, mine, bob, "bob").await;
    say_at(store, mine, 1..2).await;
    say_at(store, joined, 2..10).await;
    join(store, joined, bob, "bob").await;
    for limit in [1, 2, 8] {
        assert_eq!(page(store, bob, None, limit).await, (vec![id(1)], None), "{limit}");
    }
    say_at(store, joined, 10..12).await;
    assert_eq!(page(store, bob, None, 2).await, (vec![id(11), id(10)], Some(id(10))));
    assert_eq!(page(store, bob, Some(10), 2).await, (vec![id(1)], None));
}

async fn one_conversation_alone(fixture: Fixture) {
    let store = &fixture.store;
    let (one, other, bob) = (room(store, History::All).await, room(store, History::All).await, person());
    for room in [one, other] {
        join(store, room, bob, "bob").await;
    }
    say_at(store, one, 1..4).await;
    say_at(store, other, 4..9).await;
    let within = async |room: Room, who| {
        read(store, move |tx| search::page(tx, who, Some(room.id), "word", None, 2)).await
    };
    let found = within(one, bob).await;
    assert_eq!((found.events, found.next), (vec![id(3), id(2)], Some(id(2))));
    assert_eq!(within(one, other.owner).await.events, []);
}

/// The newest come first over any number of conversations.
async fn many_conversations(fixture: Fixture) {
    let store = &fixture.store;
    let bob = person();
    for n in 0..230 {
        let room = room(store, History::All).await;
        join(store, room, bob, "bob").await;
        say_at(store, room, 1000 - n..1001 - n).await;
    }
    let found = page(store, bob, None, 50).await;
    let expected: Vec<_> = match store.kind() {
        Kind::Postgres => (951..1001).rev().map(id).collect(),
        // They were posted in reverse: the last one posted is the newest.
        Kind::Sqlite => (771..821).map(id).collect(),
    };
    assert_eq!(found, (expected.clone(), expected.last().copied()));
}

/// After an import messages are found by their current text.
async fn imported_messages_are_indexed(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let kept = say(store, room, room.owner, "word kept").await;
    let edited = say(store, room, room.owner, "word before").await;
    edit(store, room, room.owner, edited, "word after").await;
    let gone = say(store, room, room.owner, "word gone").await;
    delete(store, room, room.owner, gone).await.unwrap();
    let begin = |tx: &mut dyn Tx| {
        tx.execute("DELETE FROM search", &[])?;
        settings::set(tx, "search_indexed_from", &Uuid::max().to_string())
    };
    write(store, begin).await;
    assert_eq!(find(store, room.owner, "word").await, []);
    let changed = say(store, room, room.owner, "new word").await;
    let mut steps = 1;
    while write(store, |tx| search::index_imported(tx, 2)).await {
        steps += 1;
    }
    assert!(steps > 2, "{steps}");
    assert!(!write(store, |tx| search::index_imported(tx, 2)).await, "it is done");
    let mut found = find(store, room.owner, "word").await;
    found.sort();
    let mut expected = [kept, edited, changed];
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(find(store, room.owner, "after").await, [edited]);
    assert_eq!(find(store, room.owner, "before").await, []);
}

/// A search does not scan the messages of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_have_an_index_on_postgres() {
    let fixture = Fixture::postgres();
    let fill = |tx: &mut dyn Tx| {
        tx.execute(
            "INSERT INTO search (event_id, terms)
             SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), ARRAY[n, n % 100] FROM generate_series(1, 20000) n",
            &[],
        )?;
        tx.execute("ANALYZE search", &[])
    };
    write(&fixture.store, fill).await;
    let explain = |tx: &mut dyn Tx| {
        let plan = tx.query(
            "EXPLAIN SELECT s.event_id FROM unnest(string_to_array('1 2,3 4', ',')) AS q (terms)
             JOIN search s ON s.terms @> CAST(string_to_array(q.terms, ' ') AS BIGINT[])",
            &[],
        )?;
        plan.into_iter().map(|mut row| row.text("QUERY PLAN")).collect::<Result<Vec<_>, _>>()
    };
    let plan = read(&fixture.store, explain).await.join("\n");
    assert!(plan.contains("search_by_terms") && !plan.contains("Seq Scan on search"), "{plan}");
}

/// The largest message, with all words different.
async fn large_texts(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let words: Vec<_> = (0..46_000).map(|n: u32| format!("{:03}", radix36(n))).collect();
    let said = say(store, room, room.owner, &words.join(" ")).await;
    assert_eq!(find(store, room.owner, "001 zg0").await, [said]);
    let signs: String = ('\u{4e00}'..='\u{9fff}').cycle().take(87_000).collect();
    let said = say(store, room, room.owner, &signs).await;
    assert_eq!(find(store, room.owner, "咖啡").await, [said]);
    let long = "x".repeat(100_000);
    say(store, room, room.owner, &format!("{long} short")).await;
    assert_eq!(find(store, room.owner, "short").await.len(), 1);
}

/// Returns three digits of base 36.
fn radix36(mut n: u32) -> String {
    let mut digits = vec![];
    for _ in 0..3 {
        digits.push(char::from_digit(n % 36, 36).unwrap());
        n /= 36;
    }
    digits.iter().rev().collect()
}
