//! The members of a conversation as its messages need them. All viewers of a conversation share one copy,
//! because each keeps it for hours.
//!
//! A viewer who opens the page after a change of members gets a new copy; older viewers keep theirs.

use crate::markdown::Names;
use chorus_protocol::c2a::Glyphs;
use chorus_protocol::ids::ConversationId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Names, roles and glyphs of a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    pub(crate) names: Names,
    /// The roles of each member, by handle.
    pub(crate) roles: HashMap<String, Vec<String>>,
    pub(crate) glyphs: Glyphs,
}

/// The rosters in use on one hub: the latest of each conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rosters(Arc<Mutex<HashMap<ConversationId, Weak<Roster>>>>);

impl Rosters {
    /// Returns the roster in use if it equals `new`, and otherwise keeps `new` for later viewers.
    pub(crate) fn share(&self, conversation: ConversationId, new: Arc<Roster>) -> Arc<Roster> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = held.get(&conversation).and_then(Weak::upgrade).filter(|same| *same == new) {
            return same;
        }
        held.retain(|_, roster| roster.strong_count() > 0);
        held.insert(conversation, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_app::conversation::conversation_id;

    fn roster(handle: &str) -> Arc<Roster> {
        Arc::new(Roster { roles: HashMap::from([(handle.to_owned(), vec![])]), ..Roster::default() })
    }

    #[test]
    fn what_is_the_same_is_held_once() {
        let id = |n: u32| conversation_id(&format!("ch_{n:032}")).ok().unwrap();
        let (rosters, one, other) = (Rosters::default(), id(1), id(2));
        let first = rosters.share(one, roster("ada"));
        assert!(Arc::ptr_eq(&first, &rosters.share(one, roster("ada"))));
        let elsewhere = rosters.share(other, roster("ada"));
        assert!(!Arc::ptr_eq(&first, &elsewhere), "another conversation's is its own");
        let changed = rosters.share(one, roster("bob"));
        assert_eq!((&first, &changed), (&roster("ada"), &roster("bob")));
        assert!(
            Arc::ptr_eq(&changed, &rosters.share(one, roster("bob"))),
            "the latest is shared from then on"
        );
        assert!(
            !Arc::ptr_eq(&changed, &Rosters::default().share(one, roster("bob"))),
            "another hub's is its own"
        );
        drop((first, elsewhere, changed));
        let last = rosters.share(one, roster("cleo"));
        assert_eq!(rosters.0.lock().unwrap().len(), 1, "what nobody holds is forgotten");
        drop(last);
    }
}
