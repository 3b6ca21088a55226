//! Tool calls: recognising the same call in several reports, and telling different calls apart.

use super::{Collector, MAX_REFERENCE};
use chorus_protocol::choir::evidence::{Event, EventType};

impl Collector<'_> {
    /// Notes a call. Returns `true` if it is new. An id may be reused for another tool or in another message;
    /// a call without a message is a repetition if the id is known.
    pub(crate) fn first_call(&mut self, id: &str, name: &str, message: Option<&str>) -> bool {
        const BETWEEN: char = '\u{1f}';
        let call = format!("call:{id}{BETWEEN}{name}");
        let here = format!("{call}{BETWEEN}{}", message.unwrap_or_default());
        if self.first(&call) {
            return self.first(&here);
        }
        let somewhere = format!("{call}{BETWEEN}");
        message.is_some() && !self.told(&somewhere) && self.first(&here)
    }

    /// Sets the mode of the stream that the current record is told in.
    pub(crate) fn told_in(&mut self, mode: &str) {
        self.mode.clear();
        self.mode.extend(mode.chars().take(32));
    }

    /// Notes a call in a message. Returns `true` if it is new. A call is identified by its message and its id,
    /// because some model servers restart their ids in every turn. Another mode of the stream, another state
    /// and another graph tell the same messages again, possibly with other ids, so that in each mode the n-th
    /// message with an id is the n-th call.
    pub(crate) fn first_call_in(&mut self, id: &str, name: &str, message: &str) -> bool {
        const BETWEEN: char = '\u{1f}';
        let call = format!("call:{id}{BETWEEN}{name}");
        if !self.first(&format!("in:{}{BETWEEN}{message}{BETWEEN}{call}", self.mode)) {
            return false;
        }
        let told = self.told_calls.entry(format!("{}{BETWEEN}{call}", self.mode).into()).or_default();
        *told += 1;
        let (told, is_known) = (*told, self.told(&call));
        let made = self.made_calls.entry(call.as_str().into()).or_insert(usize::from(is_known));
        if told <= *made {
            return false;
        }
        *made += 1;
        self.first(&call);
        true
    }

    /// Names the caller of a call that was told before without one.
    pub(crate) fn name_caller(&mut self, reference: &str, action: &str, voice: &str) {
        let named = self.voice([Some(voice)]);
        let is_it = |event: &&mut Event| {
            event.event_type == EventType::ToolCall
                && event.voice_name.is_none()
                && event.reference.as_deref() == Some(reference)
                && event.action.as_deref() == Some(action)
        };
        if let Some(call) = self.events.iter_mut().find(is_it) {
            call.voice_name = named;
        }
    }

    /// Notes that a call of this tool was requested.
    pub(crate) fn asked_for(&mut self, name: &str) {
        *self.asked.entry(name.into()).or_default() += 1;
    }

    /// Notes that a tool was executed. Returns `true` if the call had been requested.
    pub(crate) fn was_asked_for(&mut self, name: &str) -> bool {
        let open = self.asked.get_mut(name).filter(|open| **open > 0);
        open.map(|open| *open -= 1).is_some()
    }

    /// Notes the id of a call, which its result may refer to.
    pub(crate) fn has_call(&mut self, id: &str) {
        self.orphans.remove(id);
        self.first(&format!("id:{id}"));
    }

    /// Notes a result for the call with this id.
    pub(crate) fn has_result(&mut self, id: &str) {
        if !self.told(&format!("id:{id}")) {
            self.orphans.insert(id.into());
        }
    }

    /// Returns the number of results without a call.
    pub(crate) fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// Makes the references of calls unique. Some model servers restart their ids in every turn.
    pub(super) fn tell_apart(&mut self, event: &mut Event) {
        if event.event_type != EventType::ToolCall {
            return;
        }
        if let Some(reference) = &mut event.reference {
            let count = self.calls.entry(reference.as_str().into()).or_default();
            *count += 1;
            if *count > 1 {
                // The reference is cut to make room for the suffix.
                let kept: String = reference.chars().take(MAX_REFERENCE - 8).collect();
                *reference = format!("{kept}#{count}");
            }
        }
    }
}
