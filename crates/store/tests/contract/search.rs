//! Finding messages: the same words, the same messages, on both databases.

use crate::channel::{Room, act, delete, edit, join, person, post_of, remove, room, run, say};
use crate::support::{Fixture, on_both, read};
use chorus_protocol::ids::{EventId, Principal};
use chorus_store::channel::{self, Act};
use chorus_store::conversations::History;
use chorus_store::search::LOOKED_AT;
use chorus_store::{Kind, Store, Tx, search};
use uuid::Uuid;

on_both!(
    words_are_found,
    only_members_find,
    edits_and_deletions_are_followed,
    stays_count,
    the_newest_first_page_by_page,
    a_page_looks_at_so_many,
    large_texts,
);

async fn find(store: &Store, who: Principal, text: &'static str) -> Vec<EventId> {
    let all = move |tx: &mut dyn Tx| {
        let mut page = search::page(tx, who, text, None, 100)?;
        let mut events = std::mem::take(&mut page.events);
        while page.next.is_some() && events.len() < 100 {
            page = search::page(tx, who, text, page.next, 100 - events.len() as i64)?;
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
    // Ids of this test are no times: for PostgreSQL the greatest counts as the newest.
    if store.kind() == Kind::Postgres {
        said.sort();
    }
    said.reverse();
    let (mut found, mut before) = (vec![], None);
    loop {
        let page = read(store, move |tx| Ok(search::page(tx, room.owner, "word", before, 3)?.events)).await;
        before = page.last().copied();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 3);
        found.extend(page);
    }
    assert_eq!(found, said);
}

/// What others say with the same words costs a page no more than so much, and hides nothing.
async fn a_page_looks_at_so_many(fixture: Fixture) {
    let store = &fixture.store;
    let (mine, theirs) = (room(store, History::All).await, room(store, History::All).await);
    // Ids that are times, as everywhere but in tests.
    let say = async |from: u128, count: u128, room: Room| {
        let all = move |tx: &mut dyn Tx| {
            (from..from + count).try_for_each(|n| {
                let act = Act { event: EventId(Uuid::from_u128(n)), ..act(room, room.owner) };
                channel::post(tx, &act, &post_of("word", &[], None), |_| vec![]).map(drop)
            })
        };
        run(store, all).await.unwrap();
    };
    say(1, 2, mine).await;
    say(3, LOOKED_AT as u128, theirs).await;
    let page = async |before| {
        let found = read(store, move |tx| search::page(tx, mine.owner, "word", before, 2)).await;
        (found.events, found.next)
    };
    let (one, two, three) =
        (EventId(Uuid::from_u128(1)), EventId(Uuid::from_u128(2)), EventId(Uuid::from_u128(3)));
    assert_eq!(page(None).await, (vec![], Some(three)), "others' messages, and more to look at");
    assert_eq!(page(Some(three)).await, (vec![two, one], None));
    assert_eq!(find(store, mine.owner, "word").await, [two, one]);
    assert_eq!(find(store, theirs.owner, "word").await.len(), 100);
}

/// The most that a message can hold, all different.
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

/// Three digits of base 36.
fn radix36(mut n: u32) -> String {
    let mut digits = vec![];
    for _ in 0..3 {
        digits.push(char::from_digit(n % 36, 36).unwrap());
        n /= 36;
    }
    digits.iter().rev().collect()
}
