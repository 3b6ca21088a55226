//! Who is in a conversation, as its messages show it: kept once for all who watch it, because each of them would hold it for hours.
//!
//! What is shared is what is the same: whoever opens the page when the members have changed holds them as they are by then.

use crate::markdown::Names;
use chorus_protocol::c2a::Glyphs;
use chorus_protocol::ids::ConversationId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Names and roles, and how signals are shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    pub(crate) names: Names,
    /// Roles by handle.
    pub(crate) roles: HashMap<String, Vec<String>>,
    pub(crate) glyphs: Glyphs,
}

/// Those that are held somewhere, the latest of each conversation.
static HELD: Mutex<Option<HashMap<ConversationId, Weak<Roster>>>> = Mutex::new(None);

impl Roster {
    /// The same as somebody else holds, if that is so.
    pub(crate) fn shared(self, conversation: ConversationId) -> Arc<Self> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.get_or_insert_default();
        if let Some(same) = held.get(&conversation).and_then(Weak::upgrade).filter(|same| **same == self) {
            return same;
        }
        held.retain(|_, roster| roster.strong_count() > 0);
        let new = Arc::new(self);
        held.insert(conversation, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_app::conversation::conversation_id;

    fn roster(handle: &str) -> Roster {
        Roster { roles: HashMap::from([(handle.to_owned(), vec![])]), ..Roster::default() }
    }

    #[test]
    fn what_is_the_same_is_held_once() {
        let id = |n: u32| conversation_id(&format!("ch_{n:032}")).ok().unwrap();
        let (one, other) = (id(1), id(2));
        let first = roster("ada").shared(one);
        assert!(Arc::ptr_eq(&first, &roster("ada").shared(one)));
        assert!(!Arc::ptr_eq(&first, &roster("ada").shared(other)), "another conversation's is its own");
        let changed = roster("bob").shared(one);
        assert_eq!((&*first, &*changed), (&roster("ada"), &roster("bob")));
        assert!(Arc::ptr_eq(&changed, &roster("bob").shared(one)), "the latest is shared from then on");
    }
}
