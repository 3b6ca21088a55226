//! Renders a stretch of a conversation's log as items: messages, one line for the tools of a turn, joins and
//! leaves.
//!
//! This module is pure: the same events give the same items. A turn is running if the log has not ended it.

use super::roster::Roster;
use crate::face::Face;
use crate::markdown::{self, Rendered};
use crate::times::{Moment, span};
use chorus_app::conversation::{Attended, Holder};
use chorus_app::views::EventView;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{EventKind, Intent, Priority, Signal};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Messages of one author within this time are grouped.
const TOGETHER_MS: i64 = 5 * 60 * 1000;
/// The most characters shown of a tool's arguments and result.
const SHOWN: usize = 2000;
/// The most reactions, tools and names in one item.
const MOST: usize = 50;
/// The longest line of joins and leaves, in characters.
const MAX_LINE: usize = 400;

pub(crate) enum Item {
    /// A change of day.
    Day(String),
    /// The boundary between read and unread messages.
    New,
    Message(Box<Message>),
    Tools(Box<Tools>),
    Line(Box<Line>),
}

pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) seq: i64,
    pub(crate) author: String,
    pub(crate) handle: String,
    pub(crate) roles: String,
    pub(crate) face: Face,
    pub(crate) at: Moment,
    pub(crate) at_ms: i64,
    pub(crate) text: Rendered,
    /// The Markdown source, for the author's edit form.
    pub(crate) source: Option<String>,
    pub(crate) deleted: bool,
    pub(crate) edited: bool,
    pub(crate) reactions: Vec<Reaction>,
    pub(crate) replies: i64,
    pub(crate) thread: Option<String>,
    /// The beginning of the thread, on the first of consecutive messages in it.
    pub(crate) of_thread: Option<String>,
    /// The member who has claimed the message, and until when.
    pub(crate) held: Option<Holder>,
    /// The agents that were offered the message without its text, in order.
    pub(crate) knocked: Vec<String>,
    /// The loop guard's note: why the message wakes nobody, and how to continue.
    pub(crate) stopped: Option<String>,
    pub(crate) intent: Option<&'static str>,
    /// The handle of the approver, if the message needed approval.
    pub(crate) approved_by: Option<String>,
    pub(crate) urgent: bool,
    pub(crate) mine: bool,
    pub(crate) follows: bool,
}

pub(crate) struct Reaction {
    pub(crate) signal: String,
    pub(crate) glyph: String,
    pub(crate) by: String,
    pub(crate) mine: bool,
}

/// The tools that an agent used in one turn, and the outcome.
pub(crate) struct Tools {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) author: String,
    pub(crate) handle: String,
    pub(crate) face: Face,
    pub(crate) calls: Vec<Call>,
    pub(crate) status: String,
    pub(crate) fault: Option<String>,
    pub(crate) running: bool,
    pub(crate) began: Moment,
    began_ms: i64,
    ended_ms: i64,
}

impl Tools {
    pub(crate) fn took(&self) -> String {
        let ms = self.ended_ms - self.began_ms;
        if ms < 60_000 { format!("{}.{} s", ms / 1000, ms % 1000 / 100) } else { span(ms) }
    }

    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.calls.iter().take(3).map(|call| &*call.name).collect();
        let more = self.calls.len().saturating_sub(3);
        if more > 0 { format!("{} +{more}", names.join(" ")) } else { names.join(" ") }
    }
}

pub(crate) struct Call {
    pub(crate) name: String,
    id: String,
    pub(crate) arguments: String,
    pub(crate) result: Option<String>,
}

/// A short line about an event other than a message.
pub(crate) struct Line {
    pub(crate) seq: i64,
    pub(crate) to: i64,
    pub(crate) id: String,
    pub(crate) handle: String,
    pub(crate) words: String,
    /// The id and the title of the document.
    pub(crate) document: Option<(String, String)>,
    pub(crate) at: Moment,
}

/// The members of the conversation, and the visitor.
pub(crate) struct View {
    pub(crate) roster: Arc<Roster>,
    /// The id and the handle of the visitor.
    pub(crate) me: String,
    pub(crate) my_handle: String,
    /// The sequence up to which the visitor had read.
    pub(crate) read: Option<i64>,
    /// Attention state by message id.
    pub(crate) attended: HashMap<String, Attended>,
    /// The beginnings of threads whose first message is not among the events, by message id.
    pub(crate) begins: HashMap<String, String>,
    /// True if later events exist that were not loaded. A turn without an end then does not count as running.
    pub(crate) past: bool,
}

/// Renders these events in order.
pub(crate) fn items(events: &[EventView], view: &View) -> Vec<Item> {
    let mut building = Building {
        view,
        items: vec![],
        open: HashMap::new(),
        begins: view.begins.clone(),
        day: String::new(),
        marked: false,
    };
    for event in events {
        building.add(event);
    }
    let mut items = building.items;
    for item in items.iter_mut().filter(|_| view.past) {
        if let Item::Tools(turn) = item {
            turn.running = false;
        }
    }
    items.retain(|item| !is_hidden(item));
    items
}

/// Returns whether the item is a finished turn without tools. Its message already shows it.
fn is_hidden(item: &Item) -> bool {
    matches!(item, Item::Tools(turn) if !turn.running && turn.calls.is_empty() && turn.fault.is_none())
}

struct Building<'v> {
    view: &'v View,
    items: Vec<Item>,
    /// The running turn of each agent, by its index among the items.
    open: HashMap<String, usize>,
    /// The beginnings of threads, by the id of the first message.
    begins: HashMap<String, String>,
    day: String,
    marked: bool,
}

impl Building<'_> {
    fn add(&mut self, event: &EventView) {
        let Some(kind) = event.kind.known() else { return };
        let visible = !matches!(kind, EventKind::Reaction | EventKind::Edit | EventKind::Delete);
        if visible {
            self.divide(event);
        }
        match kind {
            EventKind::Message => self.message(event),
            EventKind::ToolCall
            | EventKind::ToolResult
            | EventKind::Status
            | EventKind::Lifecycle
            | EventKind::Error => {
                self.work(kind, event);
            }
            EventKind::Join => self.coming(event, "joined", "added"),
            EventKind::Leave => self.coming(event, "left", "removed"),
            EventKind::Stop => self.stop(event),
            EventKind::Change => self.line(event, "changed what this channel is called or for"),
            EventKind::Artifact => match event.more.get("removed").and_then(Value::as_bool) {
                Some(true) => self.line(event, "removed"),
                _ => self.line(event, "wrote"),
            },
            EventKind::Escalation => self.report(event),
            EventKind::Reaction
            | EventKind::Edit
            | EventKind::Delete
            | EventKind::Envelope
            | EventKind::Foreign
            | EventKind::Job
            | EventKind::Digest => {}
        }
    }

    /// Inserts a divider where the day changes and where unread messages begin.
    fn divide(&mut self, event: &EventView) {
        let day = event.created_at.get(..10).unwrap_or_default();
        if day != self.day {
            day.clone_into(&mut self.day);
            self.items.push(Item::Day(self.day.clone()));
        }
        let is_new = self.view.read.is_some_and(|read| event.sequence > read);
        let counts = event.kind.known() == Some(EventKind::Message) && event.author.id != self.view.me;
        if is_new && counts && !self.marked {
            self.marked = true;
            self.items.push(Item::New);
        }
    }

    fn message(&mut self, event: &EventView) {
        let at_ms = parse_rfc3339(&event.created_at).unwrap_or_default();
        if let Some(place) = self.open.remove(&event.author.id)
            && let Some(Item::Tools(turn)) = self.items.get_mut(place)
        {
            // A message ends its author's turn.
            (turn.running, turn.ended_ms) = (false, at_ms);
        }
        let content = event.content.clone().unwrap_or_default();
        let (handle, is_agent) = (handle(event), event.author.is_agent());
        if event.replies.is_some() || event.thread.is_none() {
            self.begins.insert(event.event_id.clone(), excerpt(&content));
        }
        let thread = event.thread.clone().filter(|thread| *thread != event.event_id);
        let (follows, same_thread) = match self.items.iter().rfind(|item| !is_hidden(item)) {
            Some(Item::Message(last)) => {
                let near = (0..TOGETHER_MS).contains(&(at_ms - last.at_ms));
                (near && last.author == event.author.id && last.thread == thread, last.thread == thread)
            }
            _ => (false, false),
        };
        let of_thread = thread.as_ref().filter(|_| !same_thread);
        let of_thread = of_thread
            .map(|root| self.begins.get(root).cloned().unwrap_or_else(|| "an earlier message".into()));
        let text = |name: &str| event.more.get(name).and_then(Value::as_str);
        let mine = event.author.id == self.view.me;
        let attended = self.view.attended.get(&event.event_id);
        let urgent = text("priority")
            .and_then(Priority::parse)
            .is_some_and(|p| matches!(p, Priority::High | Priority::Urgent));
        let roles = self.view.roster.roles.get(&handle).map(|roles| roles.join(", ")).unwrap_or_default();
        self.items.push(Item::Message(Box::new(Message {
            id: event.event_id.clone(),
            seq: event.sequence,
            author: event.author.id.clone(),
            face: Face::of(is_agent, &event.author.id, &handle),
            roles,
            handle,
            at: Moment::new(&event.created_at),
            at_ms,
            text: markdown::render(&content, &self.view.roster.names),
            source: Some(content).filter(|_| mine && !event.deleted),
            deleted: event.deleted,
            edited: event.edited_at.is_some(),
            reactions: event.reactions.iter().take(MOST).map(|one| reaction(one, self.view)).collect(),
            replies: event.replies.unwrap_or_default(),
            thread,
            of_thread,
            held: attended.and_then(|attended| attended.held.clone()),
            knocked: attended.map(|attended| attended.knocked.clone()).unwrap_or_default(),
            stopped: stopped(event),
            intent: text("intent")
                .and_then(Intent::parse)
                .filter(|intent| *intent != Intent::Chat)
                .map(intent_word),
            approved_by: approved_by(event),
            urgent,
            mine,
            follows,
        })));
    }

    /// Adds a step to an agent's turn.
    fn work(&mut self, kind: EventKind, event: &EventView) {
        let at = parse_rfc3339(&event.created_at).unwrap_or_default();
        let place = if let Some(place) = self.open.get(&event.author.id) {
            *place
        } else {
            // The end of a turn whose beginning is not loaded is not shown.
            let details = event.details();
            if kind == EventKind::Lifecycle && details.status.as_deref() == Some("idle")
                || kind == EventKind::Status && details.status.as_deref().unwrap_or_default().is_empty()
            {
                return;
            }
            let handle = handle(event);
            self.items.push(Item::Tools(Box::new(Tools {
                from: event.sequence,
                to: event.sequence,
                author: event.author.id.clone(),
                face: Face::of(event.author.is_agent(), &event.author.id, &handle).small(),
                handle,
                calls: vec![],
                status: String::new(),
                fault: None,
                running: true,
                began: Moment::new(&event.created_at),
                began_ms: at,
                ended_ms: at,
            })));
            let place = self.items.len() - 1;
            self.open.insert(event.author.id.clone(), place);
            place
        };
        let Some(Item::Tools(tools)) = self.items.get_mut(place) else { return };
        (tools.to, tools.ended_ms) = (event.sequence, at);
        if tools.step(kind, event) {
            self.open.remove(&event.author.id);
        }
    }

    /// Adds a join or leave. Consecutive ones of the same kind share a line.
    fn coming(&mut self, event: &EventView, own: &str, other: &str) {
        let member = &event.more.get("member").unwrap_or(&Value::Null)["handle"];
        let author = handle(event);
        let Some(member) = member.as_str().filter(|member| *member != author) else {
            return self.line(event, own);
        };
        if let Some(Item::Line(last)) = self.items.last_mut()
            && last.handle == author
            && last.words.starts_with(other)
            && last.words.len() < MAX_LINE
        {
            last.words.push_str(", ");
            last.words.push_str(member);
            last.to = event.sequence;
            return;
        }
        self.line(event, &format!("{other} {member}"));
    }

    /// Adds the hub's report on a request that was not answered.
    fn report(&mut self, event: &EventView) {
        self.items.push(Item::Line(Box::new(Line {
            seq: event.sequence,
            to: event.sequence,
            id: event.event_id.clone(),
            handle: String::new(),
            words: event.content.clone().unwrap_or_default(),
            document: None,
            at: Moment::new(&event.created_at),
        })));
    }

    /// Adds the line that says who stopped whose work. An owner of an agent may be no member.
    fn stop(&mut self, event: &EventView) {
        let agents = event.more.get("agents").and_then(Value::as_array).into_iter().flatten();
        let agents: Vec<_> = agents.filter_map(Value::as_str).collect();
        self.line(event, &format!("stopped {}", agents.join(", ")));
        let by = event.more.get("by").and_then(Value::as_str).filter(|_| event.author.handle.is_none());
        if let (Some(Item::Line(line)), Some(by)) = (self.items.last_mut(), by) {
            by.clone_into(&mut line.handle);
        }
    }

    fn line(&mut self, event: &EventView, words: &str) {
        let text = |name: &str| event.more.get(name).and_then(Value::as_str).map(str::to_owned);
        let document = text("slug").map(|slug| (slug.clone(), text("title").unwrap_or(slug)));
        let member = handle(event);
        let is_removed = event.more.get("removed").and_then(Value::as_bool) == Some(true);
        let words = match (event.more.get("version").and_then(Value::as_i64), &document) {
            // A removed document cannot be linked to.
            (_, Some((_, title))) if is_removed => format!("{words} the document {title}"),
            (Some(version), _) => format!("{words} version {version} of"),
            (None, _) => words.to_owned(),
        };
        let document = document.filter(|_| !is_removed);
        self.items.push(Item::Line(Box::new(Line {
            seq: event.sequence,
            to: event.sequence,
            id: event.event_id.clone(),
            handle: member,
            words,
            document,
            at: Moment::new(&event.created_at),
        })));
    }
}

impl Tools {
    /// Applies one step. Returns whether the turn is over.
    fn step(&mut self, kind: EventKind, event: &EventView) -> bool {
        let details = event.details();
        match kind {
            EventKind::ToolCall if self.calls.len() < MOST => {
                let id = event.more.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                let arguments = event.more.get("args").map(|args| cut(&args.to_string())).unwrap_or_default();
                self.calls.push(Call { name: details.name.unwrap_or_default(), id, arguments, result: None });
            }
            EventKind::ToolResult => {
                let id = event.more.get("id").and_then(Value::as_str).unwrap_or_default();
                let call = self.calls.iter_mut().rev().find(|call| call.id == id);
                if let Some(call) = call {
                    call.result = Some(cut(event.content.as_deref().unwrap_or_default()));
                }
            }
            EventKind::Status => {
                self.status = details.status.unwrap_or_default();
                if self.status.is_empty() {
                    self.running = false;
                }
            }
            EventKind::Error => {
                self.fault = Some(details.message.or_else(|| event.content.clone()).unwrap_or_default());
                self.running = false;
            }
            EventKind::Lifecycle if details.status.as_deref() == Some("idle") => self.running = false,
            _ => self.running = true,
        }
        !self.running
    }
}

fn handle(event: &EventView) -> String {
    event.author.handle.clone().unwrap_or_else(|| event.author.id.clone())
}

fn reaction(one: &chorus_protocol::api::events::ReactionView, view: &View) -> Reaction {
    let glyph = Signal::parse(&one.signal).map_or("·", |signal| view.roster.glyphs.of(signal)).to_owned();
    let mine = one.by.contains(&view.my_handle);
    let by = one.by.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    Reaction { signal: one.signal.clone(), glyph, by, mine }
}

/// Returns the handle of the person who approved the message.
fn approved_by(event: &EventView) -> Option<String> {
    Some(event.more.get("approved_by")?.get("handle")?.as_str()?.to_owned())
}

/// Explains the loop guard's note on a message.
fn stopped(event: &EventView) -> Option<String> {
    let noted = event.more.get("loop_guard")?;
    let why = match noted.get("turns").and_then(Value::as_u64) {
        Some(turns) => format!("Stopped after {turns} turns among agents"),
        None => "Stopped because it says again what was said".to_owned(),
    };
    Some(format!("{why}: this wakes nobody. Say something, and they can go on."))
}

fn intent_word(intent: Intent) -> &'static str {
    match intent {
        Intent::ApprovalRequest => "asks for leave",
        Intent::Status => "status, wakes nobody",
        Intent::Progress => "progress, wakes nobody",
        Intent::Log => "for the record",
        other => other.as_str(),
    }
}

/// Returns the beginning of a text on one line, without Markdown marks. Characters that only resemble marks
/// stay.
pub(crate) fn excerpt(text: &str) -> String {
    beginning(text, 80)
}

/// Like [`excerpt`], with at most `most` characters.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    let begins = |line: &str| {
        let line = line.trim_start();
        let heading = line.trim_start_matches('#');
        let line = if heading.starts_with(' ') { heading } else { line };
        line.strip_prefix("> ").unwrap_or(line).to_owned()
    };
    let text = without_links(text);
    let plain = text.lines().map(begins).collect::<Vec<_>>().join(" ").replace("**", "").replace('`', "");
    let mut words: String =
        plain.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(most).collect();
    if words.chars().count() == most {
        words.push('…');
    }
    words
}

/// Replaces links by their text.
fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("](") {
        let (Some((said, words)), Some((_, follows))) = (before.rsplit_once('['), after.split_once(')'))
        else {
            break;
        };
        plain.extend([said, words]);
        rest = follows;
    }
    plain + rest
}

fn cut(text: &str) -> String {
    let end = (0..=SHOWN.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
