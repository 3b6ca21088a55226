//! A summary of a rehearsal in Markdown, for a pull request.

use super::{broken, verdict_in_words};
use chorus_protocol::choir::receipt::{Dimension, Payload};

/// Returns the summary.
pub(super) fn report(payload: &Payload) -> String {
    let mut text = format!("## {}: {}\n\n", verdict_in_words(payload), cell(&payload.score.title));
    for reason in &payload.verdict_reasons {
        text.extend([format!("- {}\n", cell(reason))]);
    }
    text.push_str("\n| scenario | outcome | what broke |\n|---|---|---|\n");
    for result in &payload.results {
        let broke = broken(payload, Some(result.scenario_id.as_str()));
        let broke: Vec<_> = broke.iter().map(|one| format!("{} {}", one.rule, cell(one.reason))).collect();
        let outcome = result.result.as_str().replace('_', " ");
        text.extend([format!("| {} | {outcome} | {} |\n", cell(&result.scenario_id), broke.join("<br>"))]);
    }
    text.push_str("\n| dimension | on paper | now |\n|---|---|---|\n");
    for dimension in Dimension::ALL {
        text.extend([format!(
            "| {} | {} | {} |\n",
            dimension.as_str().replace('_', " "),
            payload.structural.base_dimensions.get(*dimension),
            payload.dimensions.get(*dimension)
        )]);
    }
    let harmony = &payload.false_harmony;
    text.extend([format!("\nRisk of false harmony: {} ({}).\n", harmony.risk, harmony.band)]);
    if !payload.open_items.is_empty() {
        text.push_str("\nOpen items:\n\n");
        for note in &payload.open_items {
            text.extend([format!("- {}\n", cell(&note.text))]);
        }
    }
    if !payload.score.waivers.is_empty() {
        text.push_str("\nAccepted for a time, and still counted:\n\n");
        for waiver in &payload.score.waivers {
            text.extend([format!(
                "- {}: {} (by {}, until {})\n",
                cell(&waiver.rule_id.0),
                cell(&waiver.reason),
                cell(&waiver.by.0),
                waiver.until
            )]);
        }
    }
    text
}

/// Escapes a text so that it is neither markup nor the end of a cell.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '@' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
