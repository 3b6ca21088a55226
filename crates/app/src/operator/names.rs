//! What ids stand for, for the operator, who may know everybody.

use crate::app::App;
use crate::error::Error;
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, ScoreId, StreamId};
use chorus_store::{StoreError, Tx, accounts, choir, conversations, directory, work_streams};
use std::collections::{BTreeSet, HashMap};

/// The most ids that are looked up at once.
const MOST: usize = 500;

/// What each of these ids stands for, as far as that is known and still there.
pub async fn names(app: &App, ids: BTreeSet<String>) -> Result<HashMap<String, String>, Error> {
    let look = move |tx: &mut dyn Tx| {
        let mut found = HashMap::new();
        for id in ids.iter().take(MOST) {
            if let Some(name) = name(tx, id)? {
                found.insert(id.clone(), name);
            }
        }
        Ok(found)
    };
    Ok(app.store.read::<_, StoreError, _>(look).await?)
}

fn name(tx: &mut dyn Tx, id: &str) -> Result<Option<String>, StoreError> {
    if let Some(id) = AccountId::parse(id) {
        return Ok(accounts::by_id(tx, id)?.map(|account| account.email));
    }
    if let Some(id) = ConversationId::parse(id) {
        return Ok(conversations::by_id(tx, id)?.map(|one| format!("#{}", one.name)));
    }
    if let Some(id) = ScoreId::parse(id) {
        return Ok(choir::find(tx, id)?.map(|score| score.title));
    }
    if let Some(id) = StreamId::parse(id) {
        return Ok(work_streams::by_id(tx, id)?.map(|stream| stream.name));
    }
    let Some(id) = AgentId::parse(id) else { return Ok(None) };
    Ok(directory::by_id(tx, id)?.map(|agent| agent.name))
}
