//! Sealed data, and sealing it again.

use crate::support::{Fixture, NOW, agent, fresh, on_both, read, write};
use chorus_protocol::ids::{ConversationId, EventId, TraceId};
use chorus_store::conversations::{self, NewEvent};
use chorus_store::{directory, sealed};

on_both![connections_are_walked_and_replaced, posts_are_walked_and_replaced];

async fn connections_are_walked_and_replaced(fixture: Fixture) {
    let store = &fixture.store;
    let mut agents = vec![];
    for n in 0..5_u8 {
        let agent = agent(store, &format!("a{n}")).await;
        if n > 0 {
            write(store, move |tx| directory::set_connection(tx, agent.id, Some(&[n]), NOW)).await;
            agents.push((agent.id, vec![n]));
        }
    }
    agents.sort();
    assert_eq!(read(store, |tx| sealed::connections(tx, None, 3)).await, agents[..3]);
    let third = agents[2].0;
    assert_eq!(read(store, move |tx| sealed::connections(tx, Some(third), 3)).await, agents[3..]);
    let (id, former) = agents[0].clone();
    let epoch = move |tx: &mut dyn chorus_store::Tx| Ok(directory::by_id(tx, id)?.unwrap().epoch);
    let before = read(store, epoch).await;
    // Its owner was faster.
    write(store, move |tx| sealed::replace_connection(tx, id, b"other", b"new")).await;
    assert_eq!(read(store, |tx| sealed::connections(tx, None, 1)).await, [(id, former.clone())]);
    write(store, move |tx| sealed::replace_connection(tx, id, &former, b"new")).await;
    assert_eq!(read(store, |tx| sealed::connections(tx, None, 1)).await, [(id, b"new".to_vec())]);
    assert_eq!(read(store, epoch).await, before, "nobody notices");
}

async fn posts_are_walked_and_replaced(fixture: Fixture) {
    let store = &fixture.store;
    let author = agent(store, "a").await.id;
    let (small, large) = ("{}", format!("\"{}\"", "x".repeat(100_000)));
    let mut ids = vec![];
    for (foreign, body) in [(true, small), (false, small), (true, &large)] {
        let (id, body) = (EventId(fresh()), body.to_owned());
        write(store, move |tx| {
            let event = NewEvent {
                id,
                conversation: ConversationId(id.0),
                author: author.into(),
                trace: TraceId(id.0),
                thread: None,
                target: None,
            };
            if foreign {
                conversations::append_foreign(tx, &event, &body, NOW)
            } else {
                conversations::append_envelope(tx, &event, &body, NOW)
            }
        })
        .await;
        if foreign {
            ids.push(id);
        }
    }
    ids.sort();
    let list = async |mark: &'static str| read(store, move |tx| sealed::posts(tx, None, mark, 10)).await;
    assert_eq!(list("sealed:").await, [(ids[0], false), (ids[1], false)]);
    // Small values become large, and large ones small.
    for body in [format!("sealed:{}", "y".repeat(100_000)), "sealed:z".to_owned()] {
        for id in ids.clone() {
            let new = body.clone();
            write(store, move |tx| sealed::replace_post(tx, id, &new)).await;
            let stored = read(store, move |tx| conversations::event_by_id(tx, id)).await.unwrap().body;
            assert_eq!(stored.len(), body.len());
        }
        assert_eq!(list("sealed:").await, [(ids[0], true), (ids[1], true)]);
        assert_eq!(list("sealed:other").await, [(ids[0], false), (ids[1], false)]);
    }
    let first = ids[0];
    let rest = read(store, move |tx| sealed::posts(tx, Some(first), "sealed:", 10)).await;
    assert_eq!(rest, [(ids[1], true)]);
}
