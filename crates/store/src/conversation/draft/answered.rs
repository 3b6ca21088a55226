//! The message that a draft answers. A message need not name what it answers: in a thread, as in a direct conversation,
//! it answers what the agent that it is for said there last.

use super::{Draft, DraftKind};
use crate::conversations::{self, ConversationKind};
use crate::members::MembershipInterval;
use crate::{StoreError, Tx, attention, log};
use chorus_attention::plan::Candidate;
use chorus_attention::{Event, classify};
use chorus_protocol::ids::{AgentId, Principal};
use chorus_protocol::words::Intent;
use std::borrow::Cow;

/// The most agents of which the last message is looked up.
const MAX_ASKED: usize = 4;

impl Draft<'_> {
    /// Marks the author of the message that the draft names as answered.
    pub(super) fn find_author_of_answered(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        match self.answers.clone() {
            Some(answered) if self.thread.is_some() => self.find_author_of(tx, &answered),
            _ => Ok(()),
        }
    }

    /// Finds the answered message if the draft names none. Between agents, this is done in direct conversations only.
    pub(super) fn find_answered(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        let is_pair = self.conversation.kind == ConversationKind::Dm;
        let by_person = self.act.author.agent().is_none();
        if self.answers.is_some() || !(is_pair || by_person && (self.thread.is_some() || self.may_be_weak()))
        {
            return Ok(());
        }
        let mut waits = false;
        // What the author may not read is not answered, and tells it nothing.
        let stays = log::readable(tx, &self.conversation, self.act.author)?;
        let before = self.changed_seq.unwrap_or(i64::MAX);
        for agent in self.asked() {
            let (conversation, agent) = (self.act.conversation, Principal::from(agent));
            let last = log::last_message_by(tx, conversation, self.thread, agent, before)?;
            let known = self.answers.as_ref().map_or(i64::MIN, |known| known.seq);
            let may_be = |last: &conversations::Event| {
                last.seq > known && MembershipInterval::any_holds(&stays, last.seq)
            };
            let Some(last) = last.filter(may_be) else { continue };
            if let Some(is_awaited) = attention::waits_for_author(tx, self, &last)? {
                waits = is_awaited;
                self.answers = Some(last);
            }
        }
        // The note tells readers why the message counts as an answer.
        if let (Some(answered), DraftKind::Message(_)) = (&self.answers, self.kind)
            && waits
            && by_person
        {
            self.body = Cow::Owned(self.body.with_id("answers", answered.id));
        }
        Ok(())
    }

    /// Returns the agents that the draft is for: the other of a direct conversation, else the named ones, else those of a
    /// named role, else those that last spoke in the thread.
    fn asked(&self) -> Vec<AgentId> {
        let candidates = &self.candidates;
        let everyone: fn(&Candidate) -> bool = |_| true;
        let named: fn(&Candidate) -> bool = |one| one.named;
        let in_role: fn(&Candidate) -> bool = |one| one.in_named_role;
        let last: fn(&Candidate) -> bool = |one| one.last_in_thread && one.participates;
        let is_asked = if self.conversation.kind == ConversationKind::Dm {
            everyone
        } else if candidates.iter().any(named) {
            named
        } else if candidates.iter().any(in_role) {
            in_role
        } else if self.names_somebody {
            return vec![];
        } else {
            last
        };
        let asked = candidates.iter().filter(|one| is_asked(one));
        asked.take(MAX_ASKED).map(|one| one.agent).collect()
    }

    /// Returns `true` if the draft obliges nobody by its own words, so that it matters what it answers.
    fn may_be_weak(&self) -> bool {
        let intent = Intent::parse(self.body.text("intent"));
        let text = self.body.text("content");
        let said = Event { text, intent, names_somebody: self.names_somebody, ..Event::EMPTY };
        self.names_somebody
            && matches!(
                classify(said).intent,
                Intent::Thanks
                    | Intent::Acknowledgement
                    | Intent::Cancellation
                    | Intent::Status
                    | Intent::Progress
                    | Intent::Log
            )
    }
}
