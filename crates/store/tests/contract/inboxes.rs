//! Open inboxes.

use crate::support::{Fixture, NODE, NOW, agent, deliver, fresh, message, on_both, read, write};
use chorus_protocol::ids::AgentId;
use chorus_store::inboxes::{self, Open, Opened};
use chorus_store::{Kind, Store, Tx, directory};
use uuid::Uuid;

on_both![
    an_opened_inbox_says_where_it_begins,
    opening_takes_over,
    only_the_holder_closes,
    the_watermark_only_rises,
    renewing_concerns_one_node,
    a_node_sees_what_it_holds,
    whoever_is_disconnected_is_gone,
    a_new_process_finds_only_what_may_still_live,
];

async fn open(store: &Store, agent: AgentId, session: Uuid, node: Uuid, until: i64) -> Option<Opened> {
    write(store, move |tx: &mut dyn Tx| inboxes::open(tx, agent, session, node, until)).await
}

async fn open_until(store: &Store, agent: AgentId) -> i64 {
    read(store, move |tx| directory::by_id(tx, agent)).await.unwrap().open_until
}

async fn on_node(store: &Store, node: Uuid) -> Vec<Open> {
    let mut open = read(store, move |tx| inboxes::on_node(tx, node)).await;
    open.sort_by_key(|open| open.agent);
    open
}

async fn an_opened_inbox_says_where_it_begins(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let opened = open(store, bob.id, fresh(), NODE, NOW + 9).await;
    assert_eq!(opened, Some(Opened { handed_through: 0, oldest: 1, head: 0 }));
    assert_eq!(open_until(store, bob.id).await, NOW + 9);
    for _ in 0..3 {
        deliver(store, message(&anna, &bob)).await;
    }
    write(store, move |tx| inboxes::hand_through(tx, bob.id, 2, 0)).await;
    let opened = open(store, bob.id, fresh(), NODE, NOW + 9).await;
    assert_eq!(opened, Some(Opened { handed_through: 2, oldest: 1, head: 3 }));
    assert_eq!(open(store, AgentId(fresh()), fresh(), NODE, NOW + 9).await, None);
}

async fn opening_takes_over(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await.id;
    let (first, second, elsewhere) = (fresh(), fresh(), fresh());
    open(store, bob, first, NODE, NOW + 1).await;
    open(store, bob, second, NODE, NOW + 2).await;
    assert_eq!(on_node(store, NODE).await, [Open { agent: bob, session: second, head: 0 }]);
    open(store, bob, first, elsewhere, NOW + 3).await;
    assert_eq!(on_node(store, NODE).await, []);
    assert_eq!(on_node(store, elsewhere).await, [Open { agent: bob, session: first, head: 0 }]);
    assert_eq!(open_until(store, bob).await, NOW + 3);
}

async fn only_the_holder_closes(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await.id;
    let (former, holder) = (fresh(), fresh());
    open(store, bob, former, NODE, NOW + 9).await;
    open(store, bob, holder, NODE, NOW + 9).await;
    write(store, move |tx| inboxes::close(tx, bob, former, NOW)).await;
    assert_eq!(on_node(store, NODE).await, [Open { agent: bob, session: holder, head: 0 }]);
    write(store, move |tx| inboxes::close(tx, bob, holder, NOW)).await;
    assert_eq!(on_node(store, NODE).await, []);
    assert_eq!(open_until(store, bob).await, 0);
    write(store, move |tx| inboxes::close(tx, bob, holder, NOW + 1)).await;
    let seen_at = async || read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().seen_at;
    assert_eq!(seen_at().await, NOW, "it was seen when it closed, and that once");
    for (now, expected) in [(NOW - 1, NOW), (NOW + 5, NOW + 5)] {
        write(store, move |tx| inboxes::seen(tx, bob, now)).await;
        assert_eq!(seen_at().await, expected);
    }
}

async fn the_watermark_only_rises(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, carl) = (agent(store, "bob").await.id, agent(store, "carl").await.id);
    for (hand, expected) in [(3, 3), (2, 3), (3, 3), (0, 3), (7, 7)] {
        write(store, move |tx| inboxes::hand_through(tx, bob, hand, 0)).await;
        assert_eq!(read(store, move |tx| inboxes::handed_through(tx, bob)).await, expected);
    }
    assert_eq!(read(store, move |tx| inboxes::handed_through(tx, carl)).await, 0);
    assert_eq!(read(store, |tx| inboxes::handed_through(tx, AgentId(fresh()))).await, 0);
    // A new connection resumes after the last one, however that ended.
    let opened = open(store, bob, fresh(), NODE, NOW).await.unwrap();
    assert_eq!(opened.handed_through, 7);
}

async fn renewing_concerns_one_node(fixture: Fixture) {
    let store = &fixture.store;
    let (mine, closed, theirs) =
        (agent(store, "mine").await.id, agent(store, "closed").await.id, agent(store, "theirs").await.id);
    let (elsewhere, session) = (fresh(), fresh());
    open(store, mine, fresh(), NODE, NOW + 1).await;
    open(store, closed, session, NODE, NOW + 1).await;
    open(store, theirs, fresh(), elsewhere, NOW + 1).await;
    write(store, move |tx| inboxes::close(tx, closed, session, NOW)).await;
    assert_eq!(write(store, |tx| inboxes::renew(tx, NODE, NOW + 50)).await, 1);
    assert_eq!(open_until(store, mine).await, NOW + 50);
    assert_eq!(open_until(store, closed).await, 0);
    assert_eq!(open_until(store, theirs).await, NOW + 1);
    assert_eq!(write(store, |tx| inboxes::renew(tx, fresh(), NOW + 50)).await, 0);
}

async fn a_node_sees_what_it_holds(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let (one, other) = (fresh(), fresh());
    open(store, anna.id, one, NODE, NOW + 9).await;
    open(store, bob.id, other, NODE, NOW + 9).await;
    for _ in 0..2 {
        deliver(store, message(&anna, &bob)).await;
    }
    let mut expected =
        [Open { agent: anna.id, session: one, head: 0 }, Open { agent: bob.id, session: other, head: 2 }];
    expected.sort_by_key(|open| open.agent);
    assert_eq!(on_node(store, NODE).await, expected);
}

async fn whoever_is_disconnected_is_gone(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await.id;
    open(store, bob, fresh(), NODE, NOW + 9).await;
    write(store, move |tx| inboxes::disconnect(tx, bob)).await;
    assert_eq!(on_node(store, NODE).await, []);
    assert_eq!(open_until(store, bob).await, 0);
    assert_eq!(write(store, |tx| inboxes::renew(tx, NODE, NOW + 50)).await, 0);
    assert_eq!(open_until(store, bob).await, 0, "renewing brings nobody back");
}

/// A file has one process, so leases of a former one have ended. A server has many: leases decide there.
async fn a_new_process_finds_only_what_may_still_live(fixture: Fixture) {
    let bob = agent(&fixture.store, "bob").await.id;
    open(&fixture.store, bob, fresh(), NODE, NOW + 9).await;
    write(&fixture.store, move |tx| inboxes::hand_through(tx, bob, 5, 0)).await;
    let fixture = fixture.reopen();
    let expected = match fixture.store.kind() {
        Kind::Sqlite => (0, 0),
        Kind::Postgres => (1, NOW + 9),
    };
    let found = (on_node(&fixture.store, NODE).await.len(), open_until(&fixture.store, bob).await);
    assert_eq!(found, expected);
    assert_eq!(read(&fixture.store, move |tx| inboxes::handed_through(tx, bob)).await, 5);
}
