//! A JUnit report of a rehearsal: a case for each scenario, a failure for each broken rule.

use super::{broken, event_line};
use chorus_protocol::choir::receipt::{Payload, ScenarioOutcome};

/// Returns the report as XML.
pub(super) fn report(payload: &Payload) -> String {
    let title = escaped(&payload.score.title);
    let count = |outcome: ScenarioOutcome| payload.results.iter().filter(|one| one.result == outcome).count();
    let skipped = count(ScenarioOutcome::Warned) + count(ScenarioOutcome::NotObserved);
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{title}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{skipped}\">\n",
        payload.results.len(),
        count(ScenarioOutcome::Failed),
    );
    for result in &payload.results {
        let id = result.scenario_id.as_str();
        xml.extend([format!("<testcase classname=\"{title}\" name=\"{}\">", escaped(id))]);
        match result.result {
            ScenarioOutcome::Passed => {}
            ScenarioOutcome::Warned => {
                xml.push_str("<skipped message=\"seen in part, or a question is open\"/>");
            }
            ScenarioOutcome::NotObserved => xml.push_str("<skipped message=\"not observed\"/>"),
            ScenarioOutcome::Failed => {
                for one in broken(payload, Some(id)) {
                    let events = one.sources.iter().filter_map(|index| event_line(payload, *index));
                    let events: Vec<_> = events.take(20).collect();
                    xml.extend([format!(
                        "<failure type=\"{}\" message=\"{}\">{}</failure>",
                        escaped(one.rule),
                        escaped(one.reason),
                        escaped(&events.join("\n"))
                    )]);
                }
            }
        }
        xml.push_str("</testcase>\n");
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

/// Escapes a text for XML, and drops the characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() && !matches!(c, '\n' | '\t') => {}
            c => out.push(c),
        }
    }
    out
}
