//! The caller of a tool and its conversation, and the lookups that every call makes first.

use super::holds::{self, Holds};
use super::input;
use crate::c2a;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::idempotency::Once;
use chorus_node::source::Source;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_store::Tx;
use chorus_store::conversation;
use chorus_store::conversations::Conversation;
use chorus_store::members::Member;
use serde::Serialize;
use std::sync::Arc;

/// Bytes of one page of a list. A model must be able to read it.
const PAGE_BYTES: u64 = 256 * 1024;

/// The caller of a tool and the conversation in which it is called.
#[derive(Clone)]
pub struct Context {
    pub app: AppState,
    /// The door that received the call. Idempotency keys are separate for each door.
    pub door: &'static str,
    /// The source between which turns of expensive work are shared.
    pub source: Source,
    pub who: Principal,
    pub holds: Holds,
    /// The conversation named by the door's address or by the call.
    pub conversation: ConversationId,
}

impl Context {
    /// Checks that the caller is still a present member.
    pub async fn check_member(&self) -> Result<(), Error> {
        self.read_while_it_holds(|_, _| Ok(())).await
    }

    /// Reads in one snapshot, as a present member.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: Fn(&mut dyn Tx, (Conversation, Member)) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let (id, who) = (self.conversation, self.who);
        let read = move |tx: &mut dyn Tx| {
            let there = conversation::as_reader(tx, id, who)?;
            work(tx, there)
        };
        self.app.store.read(read).await
    }

    /// Does the same for a long call: checks the caller's credential again.
    pub(crate) async fn read_while_it_holds<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: Fn(&mut dyn Tx, (Conversation, Member)) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let look_up = self.look_up();
        let read = move |tx: &mut dyn Tx| {
            let there = look_up(tx)?;
            work(tx, there)
        };
        self.app.store.read(read).await
    }

    /// Returns a lookup that checks whether the caller still has access.
    pub(crate) fn look_up(
        &self,
    ) -> impl Fn(&mut dyn Tx) -> Result<(Conversation, Member), Error> + Send + use<> {
        let (id, who, holds) = (self.conversation, self.who, Arc::clone(&self.holds));
        move |tx| {
            if !holds(tx)? {
                return Err(holds::no_longer_valid());
            }
            Ok(conversation::as_reader(tx, id, who)?)
        }
    }

    /// Refuses a conversation other than the one whose address was called.
    pub(super) fn is_here(&self, name: &str, place: Option<ConversationId>) -> Result<(), Error> {
        if place.is_none_or(|place| place == self.conversation) {
            return Ok(());
        }
        Err(c2a::elsewhere(name, self.conversation))
    }

    /// Returns the byte limit of a page.
    pub(super) fn page_bytes(&self) -> u64 {
        self.app.config.quotas.page_bytes.min(PAGE_BYTES)
    }

    /// Returns the idempotency scope of a call that has a key: the tool and its arguments.
    pub(super) fn once(
        &self,
        tool: &str,
        key: Option<&input::IdempotencyKey>,
        words: &impl Serialize,
    ) -> Result<Once, Error> {
        let Some(input::IdempotencyKey(key)) = key else { return Ok(Once::NO_KEY) };
        let (what, words) = (format!("{} {tool}", self.conversation), serde_json::to_vec(words));
        let words = words.map_err(Error::internal)?;
        Ok(Once::new(&self.app, self.door, &self.who, &what, Some(key), &words))
    }
}
