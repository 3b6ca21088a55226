//! The storage of attention: loads the facts of a decision, and applies its effects.
//!
//! [`load`] and its siblings read the facts that a decision needs, the engine (`chorus_attention::plan`)
//! decides, and [`apply`] writes. The three calls happen in one transaction that locks the conversation. Facts
//! that only some decisions need are read for those only. The engine says which, for example with
//! [`chorus_attention::plan::MessageFacts::partners`].

mod apply;
mod audience;
mod classification;
mod due;
mod edit;
mod handling;
mod stop;
mod stored_message;

pub use apply::{Applied, Occasion, Posted, apply, post};
pub(crate) use audience::waits_for_author;
pub use audience::{abilities, load_check};
pub use classification::{classify_draft, classify_stored};
pub use due::{DueItems, find_due, load_overdue, load_reoffer};
pub use handling::{load_found, load_handling, load_record, load_work, newest_version};
pub use stop::{Stopper, conversations_with_work, load_stop, load_stop_of_agent, tell_of_stop};

use crate::conversation::{Draft, DraftKind};
use crate::{StoreError, Tx};
use audience::{load_message, load_reaction};
use chorus_attention::plan::Facts;
use edit::{load_deletion, load_edit};

/// Loads the facts of a draft.
pub fn load<'a>(tx: &mut dyn Tx, draft: &'a Draft<'_>) -> Result<Facts<'a>, StoreError> {
    match draft.kind {
        DraftKind::Message(_) => load_message(tx, draft).map(|facts| Facts::Message(Box::new(facts))),
        DraftKind::Edit(target) => load_edit(tx, draft, target).map(Facts::Edit),
        DraftKind::Deletion(target) => load_deletion(tx, target, draft.act.now).map(Facts::Deletion),
        DraftKind::Reaction(target, signal) => load_reaction(tx, draft, target, signal).map(Facts::Reaction),
    }
}
