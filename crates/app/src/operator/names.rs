//! Display names of ids for the operator, who may see everyone.

use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, ScoreId, StreamId};
use chorus_store::{StoreError, Tx, accounts, choir, conversations, directory, work_streams};
use std::collections::{BTreeSet, HashMap};

/// Ids that are looked up in one call.
const MOST: usize = 500;

/// Returns the display names of these ids. Unknown ids are left out.
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
        return Ok(work_streams::by_id(tx, id)?.map(|stream| stream.name.into()));
    }
    let Some(id) = AgentId::parse(id) else { return Ok(None) };
    Ok(directory::by_id(tx, id)?.map(|agent| agent.name))
}
