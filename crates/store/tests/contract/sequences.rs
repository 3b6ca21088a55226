//! Positions in streams: without gaps, in commit order.

use crate::support::{
    Fixture, agent, deliver, entries, fresh, fresh_stream, hold, message, on_both, queue, read, soon, write,
};
use chorus_store::relay;
use chorus_store::{StoreError, StreamKey, StreamKind, Tx, deliveries, settings, streams};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

on_both![
    a_stream_counts_from_one,
    streams_of_one_id_are_apart,
    concurrent_writers_leave_no_gap,
    a_reader_never_skips_one,
    heads_survive_reopening,
    many_heads_at_once,
    two_who_write_to_each_other_do_not_get_stuck;
    with_threads: what_is_rolled_back_leaves_no_gap,
];

async fn head(fixture: &Fixture, stream: StreamKey) -> i64 {
    read(&fixture.store, move |tx| tx.head(stream)).await
}

async fn a_stream_counts_from_one(fixture: Fixture) {
    let (one, other) = (fresh_stream(), fresh_stream());
    assert_eq!(head(&fixture, one).await, 0);
    let taken = write(&fixture.store, move |tx| {
        let taken = [tx.head(one)?, tx.next_seq(one)?, tx.head(one)?, tx.next_seq(one)?, tx.next_seq(other)?];
        Ok((taken, tx.head(one)?))
    });
    assert_eq!(taken.await, ([0, 1, 1, 2, 1], 2));
    assert_eq!((head(&fixture, one).await, head(&fixture, other).await), (2, 1));
    assert_eq!(write(&fixture.store, move |tx| tx.next_seq(one)).await, 3);
}

/// Every kind of stream has its own numbers for the same id, also in one batch.
async fn streams_of_one_id_are_apart(fixture: Fixture) {
    let (store, id) = (&fixture.store, fresh());
    let all = StreamKind::ALL.map(|kind| StreamKey { kind, id });
    let taken = write(store, move |tx| {
        let number = |(n, stream): (usize, &StreamKey)| (0..=n).map(|_| tx.next_seq(*stream)).collect();
        all.iter().enumerate().map(number).collect::<Result<Vec<Vec<i64>>, _>>()
    })
    .await;
    for (n, taken) in taken.into_iter().enumerate() {
        assert!(taken.iter().copied().eq(1..=n as i64 + 1), "{:?}: {taken:?}", StreamKind::ALL[n]);
    }
    let heads =
        read(store, move |tx| all.iter().map(|stream| tx.head(*stream)).collect::<Result<Vec<_>, _>>());
    assert_eq!(heads.await, (1..=StreamKind::ALL.len() as i64).collect::<Vec<_>>());
    let together = read(store, move |tx| streams::heads(tx, &all)).await;
    assert_eq!(together.into_iter().collect::<BTreeMap<_, _>>(), all.into_iter().zip(1..).collect());
    for stream in all {
        let number = store.write_on(id, move |tx: &mut dyn Tx| tx.next_seq(stream));
        let before = all.iter().position(|one| *one == stream).unwrap() as i64 + 1;
        assert_eq!(soon(number).await.unwrap(), before + 1, "{stream}");
    }
}

async fn many_heads_at_once(fixture: Fixture) {
    let all: Vec<_> = (0..40).map(|_| fresh_stream()).collect();
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
    let mut streams = [fresh_stream(), fresh_stream(), fresh_stream()];
    streams.sort_unstable();
    let mut tasks = JoinSet::new();
    for n in 0..120_usize {
        let store = fixture.store.clone();
        // Every second one advances two streams, the smaller first.
        let mine: Vec<StreamKey> =
            if n % 2 == 0 { vec![streams[n % 3]] } else { vec![streams[0], streams[1 + n % 4 / 2]] };
        tasks.spawn(async move {
            write(&store, move |tx| {
                mine.iter().map(|stream| Ok((*stream, tx.next_seq(*stream)?))).collect::<Result<Vec<_>, _>>()
            })
            .await
        });
    }
    let mut taken: BTreeMap<StreamKey, Vec<i64>> = BTreeMap::new();
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

/// A rollback leaves no gap, also in a shared transaction.
async fn what_is_rolled_back_leaves_no_gap(fixture: Fixture) {
    let fixture = fixture.narrow(100);
    let (store, stream) = (&fixture.store, fresh_stream());
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
    // A stream that only failed work has touched is unchanged.
    let untouched = fresh_stream();
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
        assert_eq!(head(&fixture, bob.id.into()).await, round * 3 + 3);
    }
    assert_eq!(entries(&fixture.store, bob.id).await.len(), 9);
}

/// No work needs to restart, because all take the streams in the same order.
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
        let head = read(store, move |tx| tx.head(agent.into())).await;
        assert_eq!(head, EACH as i64, "each came once, in whatever company it was committed");
    }
}
