//! The cost of a message does not depend on the number of members. Statements and rows are counted, not time.

use crate::attention::post_in;
use crate::channel::{act, join, post_of, room, run};
use crate::support::{Fixture, agent, on_both};
use chorus_store::conversation::{self, ConversationError};
use chorus_store::conversations::History;
use chorus_store::{Metered, Store, Tx};

on_both![a_message_looks_at_nobody_it_is_not_for];

/// Returns the statements and rows for checking a message with its candidates, and for posting it.
async fn cost(store: &Store, members: usize) -> [(usize, usize); 2] {
    let room = room(store, History::All).await;
    for n in 0..members {
        let name = format!("m{members}-{n}");
        let id = agent(store, &name).await.id;
        join(store, room, id.into(), &name).await;
    }
    let new = post_of("please look", &[&format!("m{members}-0"), "nobody"], None);
    let work = move |tx: &mut dyn Tx| {
        let act = act(room, room.owner);
        let mut drafted = Metered::new(tx);
        conversation::draft_message(&mut drafted, &act, &new)?;
        let drafted = (drafted.statements.len(), drafted.rows);
        let mut posted = Metered::new(tx);
        post_in(&mut posted, &act, &new)?;
        Ok::<_, ConversationError>([drafted, (posted.statements.len(), posted.rows)])
    };
    run(store, work).await.unwrap()
}

async fn a_message_looks_at_nobody_it_is_not_for(fixture: Fixture) {
    let few = cost(&fixture.store, 3).await;
    let many = cost(&fixture.store, 60).await;
    assert!(few[0].0 > 0 && few[1].0 > few[0].0, "{few:?}");
    assert_eq!(few, many, "(statements, rows) of the draft and of the whole");
}
