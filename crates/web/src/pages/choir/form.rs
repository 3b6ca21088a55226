//! A Score as a form: fields with dotted names, such as `voice.0.trigger.1.to`. Rows without a name are
//! ignored, so that a page can offer empty rows to a browser without scripts.

use crate::form::Form;
use askama::Template;
use chorus_protocol::choir::score::{Label, Scenario, Score, Voice};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The most rows of one kind that are read. The limits of a Score itself are checked when it is parsed.
const MOST_ROWS: usize = 300;

/// The fields of a form as a tree, by their dotted names.
#[derive(Default)]
struct Node {
    value: String,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn of(form: &Form) -> Self {
        let mut root = Self::default();
        for (name, value) in form.pairs() {
            // The deepest name is voice, number, trigger, number, field.
            let at = name
                .splitn(6, '.')
                .fold(&mut root, |node, part| node.children.entry(part.to_owned()).or_default());
            at.value = value;
        }
        root
    }

    fn text(&self, name: &str) -> &str {
        self.children.get(name).map_or("", |node| node.value.trim())
    }

    fn is_on(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }

    /// Returns one value for each line that is not empty.
    fn lines(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(str::trim).filter(|line| !line.is_empty()).map(Value::from).collect()
    }

    /// Returns the field, or `null` if it is empty.
    fn some(&self, name: &str) -> Value {
        Some(self.text(name)).filter(|text| !text.is_empty()).map_or(Value::Null, Value::from)
    }

    /// Returns numbered rows in order, without those that lack the field `needed`.
    fn rows(&self, name: &str, needed: &str) -> Vec<&Self> {
        let all = self.children.get(name).into_iter().flat_map(|node| &node.children);
        let mut rows: Vec<_> =
            all.filter_map(|(number, node)| Some((number.parse::<usize>().ok()?, node))).collect();
        rows.sort_by_key(|(number, _)| *number);
        rows.into_iter().map(|(_, node)| node).filter(|node| node.is_on(needed)).take(MOST_ROWS).collect()
    }
}

fn voice(node: &Node) -> Value {
    let lists = ["limits", "allowed_actions", "forbidden_actions", "exclusive_actions"];
    let authority: Map<String, Value> =
        lists.iter().map(|name| ((*name).to_owned(), node.lines(name).into())).collect();
    let declared = authority.values().any(|list| list != &json!([]));
    let triggers = node
        .rows("trigger", "id")
        .into_iter()
        .map(|one| json!({"id": one.text("id"), "condition": one.text("condition"), "to": one.text("to")}));
    let handoffs = node.rows("handoff", "to").into_iter().map(|one| {
        json!({"to": one.text("to"), "carries": one.lines("carries"), "acknowledged": one.is_on("acknowledged")})
    });
    let mut made = json!({
        "name": node.text("name"), "role": node.text("role"), "reviewed_by": node.some("reviewed_by"),
        "authority": if declared { Value::Object(authority) } else { Value::Null },
        "escalation_triggers": triggers.collect::<Vec<_>>(), "handoffs": handoffs.collect::<Vec<_>>(),
        "evidence_requirement": node.some("evidence_requirement"), "aliases": node.lines("aliases"),
    });
    for (name, _) in SWITCHES {
        made[name] = node.is_on(name).into();
    }
    made
}

/// The switches of a voice, with their labels.
pub(super) const SWITCHES: [(&str, &str); 7] = [
    ("entry", "Work comes in here"),
    ("final_voice", "Has the last word: its answer goes out"),
    ("conductor", "Leads the others"),
    ("may_dissent", "May disagree"),
    ("dissent_must_reach_output", "Its disagreement must be in the answer"),
    ("may_override_dissent", "May overrule others who disagree"),
    ("override_recorded", "Overruling is written down"),
];

fn scenario(node: &Node) -> Value {
    json!({
        "id": node.text("id"), "title": node.text("title"), "severity": node.some("severity"),
        "prompt": node.text("prompt"), "required_voices": node.lines("required_voices"),
        "expected_escalations": node.lines("expected_escalations"),
        "expected_evidence": node.lines("expected_evidence"), "forbidden_actions": node.lines("forbidden_actions"),
    })
}

/// Builds the API body of a Score from the form. Waivers and fields for live rehearsals are not in the form and
/// keep their values.
pub(super) fn score(form: &Form, before: Option<&Score>, library: &[Scenario]) -> Value {
    let root = Node::of(form);
    let mut scenarios: Vec<Value> = root.rows("scenario", "id").into_iter().map(scenario).collect();
    for id in form.all("library") {
        let known = scenarios.iter().any(|one| one["id"] == id);
        let chosen = library.iter().find(|one| one.id.0 == id && !known);
        scenarios.extend(chosen.and_then(|one| serde_json::to_value(one).ok()));
    }
    for one in &mut scenarios {
        let old = before.and_then(|score| score.scenarios.iter().find(|old| one["id"] == old.id.0));
        let Some(old) = old else { continue };
        if let Some(stage) = &old.stage {
            one["stage"] = stage.clone();
        }
        if let Some(expects) = &old.expects {
            one["expects"] = expects.clone().into();
        }
    }
    let pairs = root.rows("conflict", "one").into_iter().filter(|pair| pair.is_on("other"));
    let pairs = pairs.map(|pair| json!([pair.text("one"), pair.text("other")]));
    let waivers = before.map(|score| score.waivers.clone()).unwrap_or_default();
    json!({
        "title": root.text("title"), "waivers": waivers, "arbitration": root.some("arbitration"),
        "voices": root.rows("voice", "name").into_iter().map(voice).collect::<Vec<_>>(),
        "conflicting_mandates": pairs.collect::<Vec<_>>(), "scenarios": scenarios,
    })
}

/// A field that holds one value per line.
#[derive(Template)]
#[template(path = "score_lines.html")]
pub(super) struct Lines {
    name: String,
    label: &'static str,
    hint: &'static str,
    value: String,
}

pub(super) fn lines(
    row: impl Display,
    field: &str,
    label: &'static str,
    hint: &'static str,
    value: impl Display,
) -> Lines {
    Lines { name: format!("{row}.{field}"), label, hint, value: value.to_string() }
}

/// Joins labels, one per line.
pub(super) fn joined(labels: &[Label]) -> String {
    labels.iter().map(|label| &*label.0).collect::<Vec<_>>().join("\n")
}

/// A voice in the form, with its number.
pub(super) struct VoiceFields {
    pub(super) n: usize,
    pub(super) voice: Voice,
}

impl VoiceFields {
    /// Returns one of the voice's authority lists, one entry per line.
    pub(super) fn authority(&self, name: &str) -> String {
        let Some(authority) = &self.voice.authority else { return String::new() };
        joined(match name {
            "limits" => &authority.limits,
            "allowed_actions" => &authority.allowed_actions,
            "forbidden_actions" => &authority.forbidden_actions,
            _ => &authority.exclusive_actions,
        })
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        let voice = &self.voice;
        match name {
            "entry" => voice.entry,
            "final_voice" => voice.final_voice,
            "conductor" => voice.conductor,
            "may_dissent" => voice.may_dissent,
            "dissent_must_reach_output" => voice.dissent_must_reach_output,
            "may_override_dissent" => voice.may_override_dissent,
            _ => voice.override_recorded,
        }
    }

    pub(super) fn evidence(&self) -> &'static str {
        self.voice.evidence_requirement.map_or("", |requirement| requirement.as_str())
    }

    /// Returns the triggers and an empty one: number, id, condition, target.
    pub(super) fn triggers(&self) -> Vec<(usize, &str, &str, &str)> {
        let all = self.voice.escalation_triggers.iter().map(|one| (&*one.id.0, &*one.condition, &*one.to));
        all.chain([("", "", "")]).enumerate().map(|(n, (id, condition, to))| (n, id, condition, to)).collect()
    }

    /// Returns the handoffs and an empty one: number, target, contents, acknowledged.
    pub(super) fn handoffs(&self) -> Vec<(usize, &str, String, bool)> {
        let all = self.voice.handoffs.iter().map(|one| (&*one.to.0, joined(&one.carries), one.acknowledged));
        all.chain([("", String::new(), false)])
            .enumerate()
            .map(|(n, (to, carries, taken))| (n, to, carries, taken))
            .collect()
    }
}

/// Returns a voice with empty fields.
pub(super) fn empty_voice() -> Voice {
    Voice {
        name: Label(String::new()),
        role: String::new(),
        conductor: false,
        entry: false,
        final_voice: false,
        reviewed_by: None,
        authority: None,
        escalation_triggers: vec![],
        evidence_requirement: None,
        may_dissent: false,
        dissent_must_reach_output: false,
        may_override_dissent: false,
        override_recorded: false,
        handoffs: vec![],
        aliases: vec![],
    }
}
