//! Places in streams: without gaps, in the order of commits.

use crate::support::{
    Fixture, agent, deliver, entries, fresh, hold, message, on_both, queue, read, soon, write,
};
use chorus_store::relay;
use chorus_store::{StoreError, Tx, deliveries, settings, streams};
use std::collections::BTreeMap;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both![
    a_stream_counts_from_one,
    concurrent_writers_leave_no_gap,
    a_reader_never_skips_one,
    heads_survive_reopening,
    many_heads_at_once,
    two_who_write_to_each_other_do_not_get_stuck;
    with_threads: what_is_rolled_back_leaves_no_gap,
];

async fn head(fixture: &Fixture, stream: Uuid) -> i64 {
    read(&fixture.store, move |tx| tx.head(stream)).await
}

async fn a_stream_counts_from_one(fixture: Fixture) {
    let (one, other) = (fresh(), fresh());
    assert_eq!(head(&fixture, one).await, 0);
    let taken = write(&fixture.store, move |tx| {
        let taken = [tx.head(one)?, tx.next_seq(one)?, tx.head(one)?, tx.next_seq(one)?, tx.next_seq(other)?];
        Ok((taken, tx.head(one)?))
    });
    assert_eq!(taken.await, ([0, 1, 1, 2, 1], 2));
    assert_eq!((head(&fixture, one).await, head(&fixture, other).await), (2, 1));
    assert_eq!(write(&fixture.store, move |tx| tx.next_seq(one)).await, 3);
}

async fn many_heads_at_once(fixture: Fixture) {
    let all: Vec<_> = (0..40).map(|_| fresh()).collect();
    let (moved, asked) = (all.clone(), all.clone());
    write(&fixture.store, move |tx| {
        for (n, stream) in moved.iter().enumerate().skip(1) {
            for _ in 0..=n % 3 {
                tx.next_seq(*stream)?;
            }
        }
        Ok(())
    })
    .await;
    let found = read(&fixture.store, move |tx| streams::heads(tx, &asked)).await;
    let found: BTreeMap<_, _> = found.into_iter().collect();
    let expected = all.iter().enumerate().skip(1).map(|(n, stream)| (*stream, n as i64 % 3 + 1));
    assert_eq!(found, expected.collect(), "one has none");
    assert_eq!(read(&fixture.store, |tx| streams::heads(tx, &[])).await, []);
}

async fn concurrent_writers_leave_no_gap(fixture: Fixture) {
    let mut streams = [fresh(), fresh(), fresh()];
    streams.sort_unstable();
    let mut tasks = JoinSet::new();
    for n in 0..120_usize {
        let store = fixture.store.clone();
        // Every second one moves two streams, the smaller first.
        let mine: Vec<Uuid> =
            if n % 2 == 0 { vec![streams[n % 3]] } else { vec![streams[0], streams[1 + n % 4 / 2]] };
        tasks.spawn(async move {
            write(&store, move |tx| {
                mine.iter().map(|stream| Ok((*stream, tx.next_seq(*stream)?))).collect::<Result<Vec<_>, _>>()
            })
            .await
        });
    }
    let mut taken: BTreeMap<Uuid, Vec<i64>> = BTreeMap::new();
    for (stream, seq) in soon(tasks.join_all()).await.into_iter().flatten() {
        taken.entry(stream).or_default().push(seq);
    }
    assert_eq!(taken.values().map(Vec::len).sum::<usize>(), 180);
    for (stream, mut places) in taken {
        places.sort_unstable();
        assert!(places.iter().copied().eq(1..=places.len() as i64), "{places:?}");
        assert_eq!(head(&fixture, stream).await, places.len() as i64);
    }
}

async fn a_reader_never_skips_one(fixture: Fixture) {
    const SENDERS: usize = 6;
    const EACH: usize = 40;
    let store = &fixture.store;
    let receiver = agent(store, "receiver").await;
    let mut senders = JoinSet::new();
    for n in 0..SENDERS {
        let sender = agent(store, &format!("sender-{n}")).await;
        let (store, receiver) = (store.clone(), receiver.clone());
        senders.spawn(async move {
            for _ in 0..EACH {
                deliver(&store, message(&sender, &receiver)).await;
            }
        });
    }
    let mut cursor = 0;
    soon(async {
        while cursor < (SENDERS * EACH) as i64 {
            let page = read(store, move |tx| deliveries::page(tx, receiver.id, cursor, 50, usize::MAX)).await;
            for entry in page {
                assert_eq!(entry.seq, cursor + 1, "one was skipped, or came out of order");
                cursor = entry.seq;
            }
        }
    })
    .await;
    soon(senders.join_all()).await;
}

/// Also when it shares a transaction with others.
async fn what_is_rolled_back_leaves_no_gap(fixture: Fixture) {
    let fixture = fixture.narrow(100);
    let (store, stream) = (&fixture.store, fresh());
    write(store, move |tx| tx.next_seq(stream)).await;
    let held = hold(store).await;
    let mut tasks = vec![];
    for n in 0..9_i64 {
        let work = move |tx: &mut dyn Tx| {
            let seq = tx.next_seq(stream)?;
            settings::set(tx, &format!("work-{n}"), &seq.to_string())?;
            match n % 3 {
                0 => Ok(seq),
                1 => Err(StoreError::Closed),
                _ => panic!("on purpose"),
            }
        };
        tasks.push(queue(store, work).await);
    }
    drop(held);
    let mut results = vec![];
    for task in tasks {
        results.push(task.await.unwrap().ok());
    }
    assert_eq!(results, [Some(2), None, None, Some(3), None, None, Some(4), None, None]);
    let traces = read(store, |tx| {
        (0..9).map(|n| settings::get(tx, &format!("work-{n}"))).collect::<Result<Vec<_>, _>>()
    });
    let traces: Vec<Option<i64>> = traces.await.into_iter().map(|seq| Some(seq?.parse().unwrap())).collect();
    assert_eq!(traces, results);
    assert_eq!(head(&fixture, stream).await, 4);
    assert_eq!(write(store, move |tx| tx.next_seq(stream)).await, 5);
    // A stream that only failed work has touched is as if nobody had.
    let untouched = fresh();
    let failed = store.write(move |tx: &mut dyn Tx| {
        tx.next_seq(untouched)?;
        Err::<(), _>(StoreError::Closed)
    });
    soon(failed).await.unwrap_err();
    assert_eq!(head(&fixture, untouched).await, 0);
    assert_eq!(write(store, move |tx| tx.next_seq(untouched)).await, 1);
}

async fn heads_survive_reopening(mut fixture: Fixture) {
    let (anna, bob) = (agent(&fixture.store, "anna").await, agent(&fixture.store, "bob").await);
    for round in 0..3_i64 {
        for n in 1..=3 {
            assert_eq!(deliver(&fixture.store, message(&anna, &bob)).await.0, round * 3 + n);
        }
        fixture = fixture.reopen();
        assert_eq!(head(&fixture, bob.id.0).await, round * 3 + 3);
    }
    assert_eq!(entries(&fixture.store, bob.id).await.len(), 9);
}

/// Nobody even has to start over: the streams are taken in the same order by all.
async fn two_who_write_to_each_other_do_not_get_stuck(fixture: Fixture) {
    const EACH: usize = 60;
    let store = &fixture.store;
    let (mut tasks, mut all) = (JoinSet::new(), vec![]);
    // Several pairs, because the order of streams within a send depends on the ids.
    for pair in 0..2 {
        let one = agent(store, &format!("one-{pair}")).await;
        let other = agent(store, &format!("other-{pair}")).await;
        all.extend([one.id, other.id]);
        for (from, to) in [(&one, &other), (&other, &one)] {
            for _ in 0..EACH {
                let (store, message) = (store.clone(), message(from, to));
                tasks.spawn(async move {
                    soon(store.write(move |tx: &mut dyn Tx| relay::send(tx, &message))).await.unwrap();
                });
            }
        }
    }
    tasks.join_all().await;
    for agent in all {
        let head = read(store, move |tx| tx.head(agent.0)).await;
        assert_eq!(head, EACH as i64, "each came once, in whatever company it was committed");
    }
}
