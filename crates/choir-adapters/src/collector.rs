//! The collector that adapters write to: events and warnings within limits, each fact once, every text short
//! and masked.
//!
//! An adapter decides the meaning of a record. The collector finds the voice, detects repetitions, and decides
//! which texts may be copied. Nothing is dropped silently: what does not fit is counted, and the count is the
//! last warning.

mod calls;

use super::About;
use super::clean::{is_voice, without_credentials};
use super::secrets::Secrets;
use chorus_choir::names::{Voices, same};
use chorus_protocol::choir::evidence::{
    AdapterWarning, Bundle, Event, EventType, MAX_ABSENT, MAX_DETAIL, MAX_EVENTS, MAX_NAME, MAX_WARNINGS,
};
use chorus_protocol::redact::redact;
use std::collections::{HashMap, HashSet};

/// The codes of warnings about malformed entries. Each entry has a warning of its own, with its place.
const EACH: [&str; 6] =
    ["unmapped_item", "unmapped_record", "unmapped_content", "odd_update", "odd_message", "odd_tool_calls"];

/// The maximum number of sources that one node or task may cite.
pub(super) const MAX_CITED: usize = 50;
const MAX_REFERENCE: usize = 200;
/// The number of warnings reserved for what is only known at the end: dropped events and warnings, missing
/// voices, secrets, an unfinished run.
const LAST_WARNINGS: usize = 8;
/// The maximum number of nodes and tasks whose citations are counted.
const MAX_CITING: usize = 10_000;

/// The events and warnings of one trace.
pub(super) struct Collector<'a> {
    about: &'a About<'a>,
    voices: Voices<'a>,
    events: Vec<Event>,
    events_left_out: usize,
    warnings: Vec<(AdapterWarning, usize)>,
    /// The index of each warning by code, message and, for malformed entries, place.
    known: HashMap<(&'static str, String, String), usize>,
    warnings_left_out: usize,
    seen: HashSet<Box<str>>,
    cited: HashMap<Box<str>, usize>,
    masked: bool,
    /// The current position of the adapter in the trace.
    path: String,
    /// Set if any record was of the adapter's format.
    recognised: bool,
    /// Set if any record had no mark of the adapter's format.
    has_unknown: bool,
    /// The reason why the trace is incomplete, if it is.
    incomplete: Option<&'static str>,
    /// The number of uses of each call id.
    calls: HashMap<Box<str>, usize>,
    /// The mode of the stream that the current record is told in.
    mode: String,
    /// The number of messages with each call in each mode, and of the calls that they made.
    told_calls: HashMap<Box<str>, usize>,
    made_calls: HashMap<Box<str>, usize>,
    /// The number of requested calls of each tool that are not known to have been executed.
    asked: HashMap<Box<str>, usize>,
    /// The ids of calls with a result but without the call itself, so far.
    orphans: HashSet<Box<str>>,
    /// The voices that took part, as spelled in the bundle.
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
            has_unknown: false,
            incomplete: None,
            calls: HashMap::new(),
            mode: String::new(),
            told_calls: HashMap::new(),
            made_calls: HashMap::new(),
            asked: HashMap::new(),
            orphans: HashSet::new(),
            present: Vec::new(),
        }
    }

    /// Sets the current position in the trace.
    pub(super) fn at(&mut self, path: String) {
        self.path = path;
    }

    /// Returns the current position in the trace.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Notes that a record was of the adapter's format.
    pub(super) fn recognise(&mut self) {
        self.recognised = true;
    }

    pub(super) fn recognised(&self) -> bool {
        self.recognised
    }

    /// Notes that a record has no mark of the adapter's format.
    pub(super) fn unknown_record(&mut self) {
        self.has_unknown = true;
    }

    /// Returns `true` if nothing in the trace was of the adapter's format.
    pub(super) fn knows_nothing(&self) -> bool {
        self.has_unknown && !self.recognised && self.events.is_empty()
    }

    /// Notes that the trace is incomplete: it is cut, the run has not ended, or it covers only a part.
    pub(super) fn incomplete(&mut self, why: &'static str) {
        self.incomplete.get_or_insert(why);
    }

    /// Returns `true` if the Score or the caller knows a voice by this name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.mapped(name).is_some() || self.voices.find(name).is_some()
    }

    fn mapped(&self, name: &str) -> Option<&'a str> {
        self.about.names.iter().find(|(known, _)| same(known, name)).map(|(_, voice)| voice.as_str())
    }

    /// Notes a key, such as a call's id. Returns `true` if it is new.
    pub(super) fn first(&mut self, key: &str) -> bool {
        if self.seen.contains(key) {
            return false;
        }
        self.seen.insert(key.into())
    }

    /// Returns `true` if the key was noted before.
    pub(super) fn told(&self, key: &str) -> bool {
        self.seen.contains(key)
    }

    /// Counts a citation by a node or task. Returns `false` beyond the limit.
    pub(super) fn may_cite(&mut self, who: &str) -> bool {
        if !self.cited.contains_key(who) && self.cited.len() == MAX_CITING {
            return true;
        }
        let count = self.cited.entry(who.into()).or_default();
        *count += 1;
        *count <= MAX_CITED
    }

    /// Returns the first of these names that is a voice of the Score or mapped by the caller; otherwise the
    /// first name, with a warning; without any name, the caller's default voice.
    pub(super) fn voice<'n>(&mut self, names: impl IntoIterator<Item = Option<&'n str>>) -> Option<String> {
        // The voice does not matter for an event that will be dropped.
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

    /// Returns the voice of events that name none, as declared by the caller.
    fn unnamed(&self) -> Option<String> {
        self.about.voice.as_deref().map(|voice| self.voices.spelled(voice))
    }

    /// Notes that a voice took part, under one of these names, most likely first. It counts as present even if
    /// its actions are no events. Names unknown to the Score are ignored if there is a Score.
    pub(super) fn took_part<'n>(&mut self, names: impl IntoIterator<Item = Option<&'n str>>) {
        // Silence counts only in complete traces.
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

    /// Notes that a voice took part, by its name or as the caller's default voice.
    pub(super) fn somebody_took_part(&mut self, name: Option<&str>) {
        let unnamed = self.unnamed();
        if name.is_none() && unnamed.is_none() {
            self.incomplete("nobody says who took part");
        }
        self.took_part([name.or(unnamed.as_deref())]);
    }

    /// Adds an event. Its texts are copied under the rules for cleaning.
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

    /// Counts events that an adapter had to drop itself.
    pub(super) fn leave_out(&mut self, count: usize) {
        self.events_left_out += count;
    }

    /// Returns the events that `collect` adds, without adding them.
    pub(super) fn apart(&mut self, collect: impl FnOnce(&mut Self)) -> Vec<Event> {
        let before = std::mem::take(&mut self.events);
        collect(self);
        std::mem::replace(&mut self.events, before)
    }

    /// Removes control characters and credentials, and cuts the text.
    fn clean(&mut self, raw: &str, limit: usize) -> String {
        let mut text: String = raw.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Some(clean) = without_credentials(&text) {
            self.masked = true;
            text = clean;
        }
        // The text is masked before it is cut, because half a credential would not be recognised.
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

    /// Adds a warning about the current position. Repetitions of a message are counted.
    pub(super) fn warn(&mut self, code: &'static str, message: impl Into<String>) {
        self.warn_at(code, message, "");
    }

    /// Adds a warning about a place below the current position.
    pub(super) fn warn_at(&mut self, code: &'static str, message: impl Into<String>, below: &str) {
        // Malformed entries are different ones, each at its own place.
        let place = if EACH.contains(&code) { format!("{}{below}", self.path) } else { String::new() };
        let key = (code, message.into(), place);
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

    /// Masks credentials that the trace itself names. All of them are known only at the end.
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

    /// Moves everything into the bundle, with the warnings that are only known at the end. `digest` is that of
    /// the whole trace.
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
        // Escalations without a voice belong to the graph. Any other event without a voice makes the bundle
        // incomplete, because it may belong to any voice.
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
            bundle.present = Some(std::mem::take(&mut self.present));
        }
        for reference in self.events.iter_mut().filter_map(|event| event.reference.as_mut()) {
            // A position is the same in every trace; the digest of the trace makes it unique.
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

/// Returns `true` if a reference is a position in the trace instead of an id.
fn is_place(reference: &str) -> bool {
    reference.starts_with('$') || reference.starts_with("line ")
}

fn counted(mut warning: AdapterWarning, count: usize) -> AdapterWarning {
    if count > 1 {
        warning.message = format!("{} ({count} times)", warning.message);
    }
    warning
}

/// Returns an event of this type with no other members.
pub(super) fn event(event_type: EventType) -> Event {
    Event { event_type, ..Event::default() }
}
