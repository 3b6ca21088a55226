//! What adapters write into: events and warnings, bounded, each fact once, every text short, clean and masked.
//!
//! An adapter decides what something means; here it is decided whose it is, whether it was told before, and what of
//! it may be copied. Nothing is dropped silently: what does not fit is counted, and the count is the last warning.

use super::About;
use super::clean::{is_voice, without_credentials};
use super::secrets::Secrets;
use crate::names::{Voices, same};
use chorus_protocol::choir::evidence::{
    AdapterWarning, Bundle, Event, EventType, MAX_ABSENT, MAX_DETAIL, MAX_EVENTS, MAX_NAME, MAX_WARNINGS,
};
use chorus_protocol::redact::redact;
use std::collections::{HashMap, HashSet};

/// Sources that one node or task may cite.
pub(super) const MAX_CITED: usize = 50;
const MAX_REFERENCE: usize = 200;
/// Room for what is only known at the end: events and warnings left out, voices missing, secrets seen, no end.
const LAST_WARNINGS: usize = 8;
/// Nodes and tasks whose citations are counted one by one.
const MAX_CITING: usize = 10_000;

/// What is collected of one trace.
pub(super) struct Collector<'a> {
    about: &'a About<'a>,
    voices: Voices<'a>,
    events: Vec<Event>,
    events_left_out: usize,
    warnings: Vec<(AdapterWarning, usize)>,
    /// Where a warning stands, by its code and sentence.
    known: HashMap<(&'static str, String), usize>,
    warnings_left_out: usize,
    seen: HashSet<Box<str>>,
    cited: HashMap<Box<str>, usize>,
    masked: bool,
    /// Where in the trace the adapter is.
    path: String,
    /// Whether anything was what the adapter is for.
    recognised: bool,
    /// Why the trace does not hold everything that happened.
    incomplete: Option<&'static str>,
    /// How often each call's id was used.
    calls: HashMap<Box<str>, usize>,
    /// Calls of each tool that were asked for and are not known to have been run.
    asked: HashMap<Box<str>, usize>,
    /// Results whose calls nobody has told yet, by the calls' ids.
    orphans: HashSet<Box<str>>,
    /// Who took part, as a bundle spells it.
    present: Vec<String>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(about: &'a About<'a>) -> Self {
        Self {
            about,
            voices: Voices::of(about.voices),
            events: Vec::new(),
            events_left_out: 0,
            warnings: Vec::new(),
            known: HashMap::new(),
            warnings_left_out: 0,
            seen: HashSet::new(),
            cited: HashMap::new(),
            masked: false,
            path: String::new(),
            recognised: false,
            incomplete: None,
            calls: HashMap::new(),
            asked: HashMap::new(),
            orphans: HashSet::new(),
            present: Vec::new(),
        }
    }

    /// Says where what follows stands in the trace.
    pub(super) fn at(&mut self, path: String) {
        self.path = path;
    }

    /// Where the adapter is.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Something was what the adapter is for.
    pub(super) fn recognise(&mut self) {
        self.recognised = true;
    }

    pub(super) fn recognised(&self) -> bool {
        self.recognised
    }

    /// The trace cannot hold everything: it breaks off, the run has not ended, or it tells only a part.
    pub(super) fn incomplete(&mut self, why: &'static str) {
        self.incomplete.get_or_insert(why);
    }

    /// Whether a voice is called so, by the Score or by the caller.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.mapped(name).is_some() || self.voices.find(name).is_some()
    }

    fn mapped(&self, name: &str) -> Option<&'a str> {
        self.about.names.iter().find(|(known, _)| same(known, name)).map(|(_, voice)| voice.as_str())
    }

    /// Whether this is told for the first time; `key` is a call's id or the like.
    pub(super) fn first(&mut self, key: &str) -> bool {
        if self.seen.contains(key) {
            return false;
        }
        self.seen.insert(key.into())
    }

    /// Whether this call is told for the first time. An id may be used again, for another tool or in another message;
    /// whoever tells a call without saying in which message it stands means one that is known.
    pub(super) fn first_call(&mut self, id: &str, name: &str, message: Option<&str>) -> bool {
        const BETWEEN: char = '\u{1f}';
        let call = format!("call:{id}{BETWEEN}{name}");
        let here = format!("{call}{BETWEEN}{}", message.unwrap_or_default());
        if self.first(&call) {
            return self.first(&here);
        }
        let somewhere = format!("{call}{BETWEEN}");
        message.is_some() && !self.told(&somewhere) && self.first(&here)
    }

    /// A call of this tool was asked for.
    pub(super) fn asked_for(&mut self, name: &str) {
        *self.asked.entry(name.into()).or_default() += 1;
    }

    /// A tool was run: whether that is one of the calls that were asked for.
    pub(super) fn was_asked_for(&mut self, name: &str) -> bool {
        let open = self.asked.get_mut(name).filter(|open| **open > 0);
        open.map(|open| *open -= 1).is_some()
    }

    /// A call has this id, and any result of it is known to be its.
    pub(super) fn has_call(&mut self, id: &str) {
        self.orphans.remove(id);
        self.first(&format!("id:{id}"));
    }

    /// A result of the call of this id.
    pub(super) fn has_result(&mut self, id: &str) {
        if !self.told(&format!("id:{id}")) {
            self.orphans.insert(id.into());
        }
    }

    /// How many results stand without their calls.
    pub(super) fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// Whether this was told.
    pub(super) fn told(&self, key: &str) -> bool {
        self.seen.contains(key)
    }

    /// Whether this node or task may cite one more source; past the limit they are counted.
    pub(super) fn may_cite(&mut self, who: &str) -> bool {
        if !self.cited.contains_key(who) && self.cited.len() == MAX_CITING {
            return true;
        }
        let count = self.cited.entry(who.into()).or_default();
        *count += 1;
        *count <= MAX_CITED
    }

    /// The first of these names that a voice of the Score has, or that the caller says whose it is; else the first there
    /// is, with a warning; and where nobody is named, whoever the caller says.
    pub(super) fn voice<'n>(&mut self, names: impl IntoIterator<Item = Option<&'n str>>) -> Option<String> {
        // Nobody will ask whose an event was that has no room.
        if self.events.len() == MAX_EVENTS {
            return None;
        }
        let mut first = None;
        for name in names.into_iter().flatten().filter(|name| is_voice(name)) {
            if let Some(voice) = self.mapped(name) {
                return Some(self.voices.spelled(voice));
            }
            if let Some(voice) = self.voices.find(name) {
                return Some(voice.name.0.clone());
            }
            first = first.or(Some(name));
        }
        let Some(first) = first else { return self.unnamed() };
        let name = self.clean(first, MAX_NAME);
        if !self.about.voices.is_empty() {
            let message = format!("\"{name}\" is no voice of the Score, nor an alias of one");
            self.warn("unknown_voice", message);
        }
        Some(name)
    }

    /// Whose events are that name nobody.
    fn unnamed(&self) -> Option<String> {
        self.about.voice.as_deref().map(|voice| self.voices.spelled(voice))
    }

    /// Somebody took part, by these names, the likeliest first: whether or not what he did is an event, he did not stay away.
    /// Who is no voice of the Score need not be known, if there is one.
    pub(super) fn took_part<'n>(&mut self, names: impl IntoIterator<Item = Option<&'n str>>) {
        // Only in what is complete does anybody's silence mean something.
        if !self.about.complete {
            return;
        }
        let mut first = None;
        for name in names.into_iter().flatten().filter(|name| is_voice(name)) {
            let known = self.mapped(name).or_else(|| self.voices.find(name).map(|voice| &*voice.name.0));
            if let Some(voice) = known {
                return self.is_present(self.voices.spelled(voice));
            }
            first = first.or(Some(name));
        }
        if let (Some(name), true) = (first, self.about.voices.is_empty()) {
            let name = self.clean(name, MAX_NAME);
            self.is_present(name);
        }
    }

    fn is_present(&mut self, voice: String) {
        if self.present.contains(&voice) {
            return;
        }
        if self.present.len() == MAX_ABSENT {
            self.incomplete("more took part than a bundle can name");
        } else {
            self.present.push(voice);
        }
    }

    /// Somebody took part whom perhaps only the caller knows.
    pub(super) fn somebody_took_part(&mut self, name: Option<&str>) {
        let unnamed = self.unnamed();
        if name.is_none() && unnamed.is_none() {
            self.incomplete("nobody says who took part");
        }
        self.took_part([name.or(unnamed.as_deref())]);
    }

    /// Adds an event. Its texts are those of the trace still.
    pub(super) fn event(&mut self, mut event: Event) {
        self.recognised = true;
        if self.events.len() == MAX_EVENTS {
            self.events_left_out += 1;
            return;
        }
        for (text, limit) in [
            (&mut event.scenario_id, MAX_NAME),
            (&mut event.reference, MAX_REFERENCE),
            (&mut event.action, MAX_NAME),
            (&mut event.detail, MAX_DETAIL),
            (&mut event.target_voice, MAX_NAME),
        ] {
            if let Some(raw) = text.take() {
                *text = Some(self.clean(&raw, limit)).filter(|text| !text.is_empty());
            }
        }
        self.tell_apart(&mut event);
        event.occurred_at =
            event.occurred_at.filter(|time| chorus_protocol::time::parse_rfc3339(time).is_some());
        self.events.push(event);
    }

    /// Two calls may have one id, where a model's server counts from the beginning in every turn.
    fn tell_apart(&mut self, event: &mut Event) {
        if event.event_type != EventType::ToolCall {
            return;
        }
        if let Some(reference) = &mut event.reference {
            let count = self.calls.entry(reference.as_str().into()).or_default();
            *count += 1;
            if *count > 1 {
                // Told apart by a mark at the end, so there must be room for it.
                let kept: String = reference.chars().take(MAX_REFERENCE - 8).collect();
                *reference = format!("{kept}#{count}");
            }
        }
    }

    /// Events that an adapter had to leave out itself.
    pub(super) fn leave_out(&mut self, count: usize) {
        self.events_left_out += count;
    }

    /// The events that `collect` adds, instead of adding them.
    pub(super) fn apart(&mut self, collect: impl FnOnce(&mut Self)) -> Vec<Event> {
        let before = std::mem::take(&mut self.events);
        collect(self);
        std::mem::replace(&mut self.events, before)
    }

    /// What may be copied: no control characters, no credentials, not too long.
    fn clean(&mut self, raw: &str, limit: usize) -> String {
        let mut text: String = raw.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Some(clean) = without_credentials(&text) {
            self.masked = true;
            text = clean;
        }
        // Masked before it is cut: half a credential is not known for one.
        if let Some(redacted) = redact(&text) {
            self.masked = true;
            text = redacted.text;
        }
        let text = text.trim();
        match text.char_indices().nth(limit) {
            None => text.to_owned(),
            Some(_) => text.chars().take(limit - 1).chain(['…']).collect(),
        }
    }

    /// Warns, about the place where the adapter is. The same sentence again is counted.
    pub(super) fn warn(&mut self, code: &'static str, message: impl Into<String>) {
        self.warn_at(code, message, "");
    }

    /// The same, about something below that place.
    pub(super) fn warn_at(&mut self, code: &'static str, message: impl Into<String>, below: &str) {
        let key = (code, message.into());
        if let Some(index) = self.known.get(&key) {
            self.warnings[*index].1 += 1;
            return;
        }
        if self.warnings.len() == MAX_WARNINGS - LAST_WARNINGS {
            self.warnings_left_out += 1;
            return;
        }
        let path = self.clean(&format!("{}{below}", self.path), MAX_NAME);
        let path = Some(path).filter(|path| !path.is_empty());
        let message = self.clean(&key.1, MAX_DETAIL);
        self.known.insert(key, self.warnings.len());
        self.warnings.push((AdapterWarning { code: code.to_owned(), message, path }, 1));
    }

    /// Masks what is copied of credentials that the trace calls so somewhere: they are all known only now.
    fn mask(&mut self, secrets: &Secrets) {
        for event in &mut self.events {
            let texts = [&mut event.reference, &mut event.action, &mut event.detail, &mut event.target_voice];
            for text in texts.into_iter().flatten() {
                secrets.mask(text);
            }
        }
        for (warning, _) in &mut self.warnings {
            secrets.mask(&mut warning.message);
        }
    }

    /// Puts everything into the bundle, with what is only known now. `digest` is that of the whole trace.
    pub(super) fn finish(mut self, bundle: &mut Bundle, secrets: &Secrets, digest: &str) {
        self.mask(secrets);
        let mut last = Vec::new();
        let mut say = |code: &str, message: String| {
            last.push(AdapterWarning { code: code.to_owned(), message, path: None });
        };
        if self.events.is_empty() && self.warnings.is_empty() {
            say("no_events", "the trace was read, and nothing in it is an event".to_owned());
        }
        let count = self.events.iter().filter(|event| event.voice_name.is_none()).count();
        if count > 0 {
            say(
                "no_voice",
                format!("{count} of the events name no voice: the trace says nobody's name there"),
            );
        }
        let over: Vec<_> = self.cited.iter().filter(|(_, count)| **count > MAX_CITED).collect();
        if !over.is_empty() {
            let left: usize = over.iter().map(|(_, count)| **count - MAX_CITED).sum();
            let who = over.len();
            let message = format!(
                "{left} sources were left out: {who} of the nodes or tasks cite more than {MAX_CITED}, and that many are kept of each"
            );
            say("citations_left_out", message);
        }
        if self.events_left_out > 0 {
            let count = self.events_left_out;
            say("events_left_out", format!("{count} events were left out: a bundle holds {MAX_EVENTS}"));
        }
        if secrets.seen() || self.masked {
            let message =
                "the trace contains something that looks like a secret; none of it is in this bundle";
            say("secret_in_trace", message.to_owned());
        }
        if self.warnings_left_out > 0 {
            let count = self.warnings_left_out;
            say("warnings_left_out", format!("{count} further warnings were left out"));
        }
        let left_out = (self.events_left_out > 0).then_some("events were left out");
        // A graph that stops to ask is itself who asks; all else was somebody's, who may be any voice.
        let nobodys = |event: &Event| event.voice_name.is_none() && event.event_type != EventType::Escalation;
        let nobodys = self.events.iter().any(nobodys).then_some("nobody says whose some of the events are");
        if let Some(why) = self.incomplete.or(left_out).or(nobodys).filter(|_| self.about.complete) {
            let message = format!("the bundle is not complete, although that was said: {why}");
            say("not_complete", message);
            bundle.complete = false;
        }
        let has_event = |voice: &String| {
            self.events.iter().any(|event| event.voice_name.as_deref().is_some_and(|name| same(name, voice)))
        };
        self.present.retain(|voice| !has_event(voice));
        if bundle.complete && !self.present.is_empty() {
            let message = format!(
                "nothing that these did is an event, but they took part, so none of them missed its entry: {}",
                self.present.join(", ")
            );
            say("no_event_of_voice", message.chars().take(MAX_DETAIL).collect());
            bundle.absent = Some(std::mem::take(&mut self.present));
        }
        for reference in self.events.iter_mut().filter_map(|event| event.reference.as_mut()) {
            // A place is the same in every trace; with the trace's own digest it is not.
            if is_place(reference) {
                let kept: String = reference.chars().take(MAX_REFERENCE - 1 - digest.len()).collect();
                *reference = format!("{kept}@{digest}");
            }
        }
        bundle.events = self.events;
        bundle.adapter_warnings =
            self.warnings.drain(..).map(|(warning, count)| counted(warning, count)).collect();
        bundle.adapter_warnings.extend(last);
    }
}

/// Whether a reference is a place in the trace, for want of an id.
fn is_place(reference: &str) -> bool {
    reference.starts_with('$') || reference.starts_with("line ")
}

fn counted(mut warning: AdapterWarning, count: usize) -> AdapterWarning {
    if count > 1 {
        warning.message = format!("{} ({count} times)", warning.message);
    }
    warning
}

/// An event of this type, with nothing else said.
pub(super) fn event(event_type: EventType) -> Event {
    Event { event_type, ..Event::default() }
}
