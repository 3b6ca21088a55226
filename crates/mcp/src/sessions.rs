//! Sessions of clients that need them: a short list for each of their owners in each channel, in the store.
//!
//! A session belongs to whoever opened it and to one channel. It is looked up in its owner's own list, so another's id is
//! as unknown as one that never was; and it holds nothing but what was subscribed to, so a restart changes nothing. It
//! lasts until it is ended, or until its owner has opened so many in this channel that the oldest goes.

use chorus_protocol::ids::{ConversationId, Principal};
use chorus_store::{StoreError, Tx, settings};
use serde_json::{Value, json};

/// The most sessions of one owner in one channel.
pub(crate) const MAX_SESSIONS: usize = 16;
/// The most documents that one session is subscribed to.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 100;

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// The slugs of documents.
    pub(crate) subscribed: Vec<String>,
}

/// Whose sessions, and where.
pub(crate) type Place = (Principal, ConversationId);

fn name((owner, channel): Place) -> String {
    format!("mcp sessions of {owner} in {channel}")
}

/// The oldest first.
fn read(tx: &mut dyn Tx, place: Place) -> Result<Vec<Session>, StoreError> {
    let Some(text) = settings::get(tx, &name(place))? else { return Ok(vec![]) };
    let listed: Value = serde_json::from_str(&text).map_err(|error| StoreError::Unexpected(error.into()))?;
    let session = |value: &Value| {
        let subscribed = value["subscribed"].as_array()?.iter().map(|slug| slug.as_str().map(str::to_owned));
        Some(Session { id: value["id"].as_str()?.to_owned(), subscribed: subscribed.collect::<Option<_>>()? })
    };
    let sessions = listed.as_array().and_then(|list| list.iter().map(session).collect::<Option<_>>());
    sessions.ok_or_else(|| StoreError::Unexpected("a list of sessions is not readable".into()))
}

fn write(tx: &mut dyn Tx, place: Place, sessions: &[Session]) -> Result<(), StoreError> {
    let list: Vec<_> =
        sessions.iter().map(|session| json!({"id": session.id, "subscribed": session.subscribed})).collect();
    settings::set(tx, &name(place), &Value::from(list).to_string())
}

/// Changes a list; of two that do it at the same time one waits.
fn change<T>(
    tx: &mut dyn Tx,
    place: Place,
    work: impl FnOnce(&mut Vec<Session>) -> T,
) -> Result<T, StoreError> {
    tx.lock(place.0.uuid())?;
    let before = read(tx, place)?;
    let mut sessions = before.clone();
    let done = work(&mut sessions);
    if sessions != before {
        write(tx, place, &sessions)?;
    }
    Ok(done)
}

/// The session of this id.
pub(crate) fn get(tx: &mut dyn Tx, place: Place, id: &str) -> Result<Option<Session>, StoreError> {
    Ok(read(tx, place)?.into_iter().find(|session| session.id == id))
}

/// Opens one; the oldest goes if there are too many.
pub(crate) fn begin(tx: &mut dyn Tx, place: Place, id: &str) -> Result<(), StoreError> {
    change(tx, place, |sessions| {
        sessions.push(Session { id: id.to_owned(), subscribed: vec![] });
        sessions.drain(..sessions.len().saturating_sub(MAX_SESSIONS));
    })
}

/// Ends one.
pub(crate) fn end(tx: &mut dyn Tx, place: Place, id: &str) -> Result<(), StoreError> {
    change(tx, place, |sessions| sessions.retain(|session| session.id != id))
}

/// Subscribes to a document, or takes that back; whether there was room.
pub(crate) fn subscribe(
    tx: &mut dyn Tx,
    place: Place,
    id: &str,
    slug: &str,
    wanted: bool,
) -> Result<bool, StoreError> {
    change(tx, place, |sessions| {
        let Some(session) = sessions.iter_mut().find(|session| session.id == id) else { return true };
        session.subscribed.retain(|known| known != slug);
        let room = session.subscribed.len() < MAX_SUBSCRIPTIONS;
        if wanted && room {
            session.subscribed.push(slug.to_owned());
        }
        room || !wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;
    use chorus_store::Store;
    use uuid::Uuid;

    #[tokio::test]
    async fn each_has_its_own_and_not_too_many() {
        let store = Store::in_memory().unwrap();
        let done = store.write::<_, StoreError, _>(|tx| {
            let (anna, bob) = (AgentId(Uuid::from_u128(1)).into(), AgentId(Uuid::from_u128(2)).into());
            let (here, there) = (ConversationId(Uuid::from_u128(3)), ConversationId(Uuid::from_u128(4)));
            begin(tx, (anna, here), "first")?;
            begin(tx, (bob, here), "other")?;
            assert!(get(tx, (anna, here), "first")?.is_some());
            assert_eq!(get(tx, (anna, there), "first")?, None, "another channel");
            assert_eq!(get(tx, (bob, here), "first")?, None, "another owner");

            assert!(subscribe(tx, (anna, here), "first", "plan", true)?);
            assert!(subscribe(tx, (anna, here), "first", "plan", true)?);
            assert_eq!(get(tx, (anna, here), "first")?.unwrap().subscribed, ["plan"]);
            for n in 1..MAX_SUBSCRIPTIONS {
                assert!(subscribe(tx, (anna, here), "first", &n.to_string(), true)?);
            }
            assert!(!subscribe(tx, (anna, here), "first", "one-more", true)?);
            assert!(subscribe(tx, (anna, here), "first", "plan", false)?);
            assert!(subscribe(tx, (anna, here), "first", "one-more", true)?);

            for n in 0..=MAX_SESSIONS {
                begin(tx, (anna, there), &n.to_string())?;
            }
            assert_eq!(get(tx, (anna, there), "0")?, None, "the oldest went");
            assert!(get(tx, (anna, there), "1")?.is_some());
            assert!(get(tx, (anna, here), "first")?.is_some(), "each channel has its own list");
            end(tx, (anna, there), "1")?;
            assert_eq!(get(tx, (anna, there), "1")?, None);
            assert!(get(tx, (bob, here), "other")?.is_some());
            Ok(())
        });
        done.await.unwrap();
    }
}
