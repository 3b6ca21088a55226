//! Who calls a tool, and where; and what a call looks up first.

use super::holds::{self, Holds};
use super::input;
use crate::app::AppState;
use crate::c2a;
use crate::error::Error;
use crate::once::Once;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_store::Tx;
use chorus_store::conversation;
use chorus_store::conversations::Conversation;
use chorus_store::members::Member;
use serde::Serialize;
use std::sync::Arc;

/// What one page of a list has at most, in bytes: a model must be able to read it.
const PAGE_BYTES: u64 = 256 * 1024;

/// Who calls, and where.
#[derive(Clone)]
pub struct Context {
    pub app: AppState,
    /// Which door asks: idempotency keys are its own.
    pub door: &'static str,
    pub who: Principal,
    pub holds: Holds,
    /// The conversation that the door's address names, or the call.
    pub conversation: ConversationId,
}

impl Context {
    /// Whether the caller may be here at all, still.
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

    /// The same for what lasts: what the caller showed is looked up again.
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

    /// Looks up whether the caller still may be here.
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

    /// Refuses another conversation than the one whose address was called.
    pub(super) fn is_here(&self, name: &str, place: Option<ConversationId>) -> Result<(), Error> {
        if place.is_none_or(|place| place == self.conversation) {
            return Ok(());
        }
        Err(c2a::elsewhere(name, self.conversation))
    }

    /// How many bytes a page of what is listed has at most.
    pub(super) fn page_bytes(&self) -> u64 {
        self.app.config.quotas.page_bytes.min(PAGE_BYTES)
    }

    /// The key of a call that may come again, if it was given one: these words to this tool.
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
