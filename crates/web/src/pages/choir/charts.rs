//! Radar chart and heat map, drawn on the server. A table beside each gives the same values, so that no fact
//! is in a picture alone.

use askama::filters::HtmlSafe;
use chorus_protocol::choir::receipt::{Dimension, Dimensions, Payload};
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt;

/// Returns the name and the description of a dimension.
pub(super) fn words(dimension: Dimension) -> (&'static str, &'static str) {
    match dimension {
        Dimension::RoleDiscipline => ("Role discipline", "each keeps to what it may do"),
        Dimension::EscalationFidelity => ("Escalation fidelity", "problems reach the one who decides"),
        Dimension::DissonancePreservation => ("Dissonance preservation", "disagreement stays visible"),
        Dimension::HandoffReliability => ("Handoff reliability", "what is passed on arrives"),
        Dimension::Coverage => ("Coverage", "every situation has its voices"),
    }
}

/// One value before and after.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) before: i64,
    pub(super) after: i64,
    /// True if the value is a risk, where less is better.
    pub(super) is_risk: bool,
}

impl Line {
    pub(super) fn change(&self) -> String {
        change(self.after - self.before)
    }

    pub(super) fn class(&self) -> &'static str {
        let better = if self.is_risk { self.before - self.after } else { self.after - self.before };
        sign_class(better)
    }
}

impl Line {
    /// Returns both values on a track from 0 to 100.
    pub(super) fn track(&self) -> Track {
        Track { before: self.before, after: self.after, class: self.class() }
    }
}

/// Two values on a track from 0 to 100, and the distance between them.
pub(super) struct Track {
    before: i64,
    after: i64,
    class: &'static str,
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = [self.before, self.after].map(|value| 6 + 2 * value.clamp(0, 100));
        write!(
            f,
            r#"<svg class="track" viewBox="0 0 212 12" aria-hidden="true"><path class="whole" d="M6 6h200"/><path class="way {}" d="M{before} 6H{after}"/><circle class="was" cx="{before}" cy="6" r="4"/><circle class="is" cx="{after}" cy="6" r="4"/></svg>"#,
            self.class
        )
    }
}
impl HtmlSafe for Track {}

/// Formats a change with its sign.
pub(super) fn change(delta: i64) -> String {
    match delta {
        0 => "same".into(),
        delta if delta < 0 => format!("−{}", delta.unsigned_abs()),
        delta => format!("+{delta}"),
    }
}

pub(super) fn sign_class(delta: i64) -> &'static str {
    match delta.signum() {
        1 => "up",
        -1 => "down",
        _ => "muted",
    }
}

/// Returns the five dimensions before and after.
pub(super) fn lines(before: &Dimensions, after: &Dimensions) -> Vec<Line> {
    let line = |one: &Dimension| {
        let (name, about) = words(*one);
        Line { name, about, before: before.get(*one), after: after.get(*one), is_risk: false }
    };
    Dimension::ALL.iter().map(line).collect()
}

/// A radar chart of the five dimensions, with the earlier values as a dashed line.
pub(super) struct Radar {
    pub(super) before: Dimensions,
    pub(super) after: Dimensions,
    /// The names of the dashed line and of the shape.
    pub(super) names: (&'static str, &'static str),
}

const CENTRE: (f64, f64) = (180.0, 142.0);
const RADIUS: f64 = 104.0;

fn point(index: usize, share: f64) -> (f64, f64) {
    let angle = TAU * (index as f64 / Dimension::ALL.len() as f64) - TAU / 4.0;
    (CENTRE.0 + RADIUS * share * angle.cos(), CENTRE.1 + RADIUS * share * angle.sin())
}

fn outline(share: impl Fn(Dimension) -> f64) -> String {
    let points = Dimension::ALL.iter().enumerate().map(|(index, one)| {
        let (x, y) = point(index, share(*one));
        format!("{x:.1},{y:.1}")
    });
    points.collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Radar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = self.names;
        write!(
            f,
            r#"<svg class="radar" viewBox="0 0 360 290" role="img" aria-label="The five dimensions, {first} and {second}: the numbers are in the table">"#
        )?;
        for ring in [0.25, 0.5, 0.75, 1.0] {
            write!(f, r#"<polygon class="ring" points="{}"/>"#, outline(|_| ring))?;
        }
        for (index, one) in Dimension::ALL.iter().enumerate() {
            let ((x, y), (lx, ly)) = (point(index, 1.0), point(index, 1.14));
            write!(
                f,
                r#"<line class="ring" x1="{:.1}" y1="{:.1}" x2="{x:.1}" y2="{y:.1}"/>"#,
                CENTRE.0, CENTRE.1
            )?;
            let anchor = match (lx - CENTRE.0).round() {
                x if x > 20.0 => "start",
                x if x < -20.0 => "end",
                _ => "middle",
            };
            let name = words(*one).0.split(' ').next().unwrap_or_default();
            write!(f, r#"<text x="{lx:.1}" y="{:.1}" text-anchor="{anchor}">{name}</text>"#, ly + 4.0)?;
        }
        let shape = |dimensions: &Dimensions| outline(|one| dimensions.get(one) as f64 / 100.0);
        write!(f, r#"<polygon class="after" points="{}"/>"#, shape(&self.after))?;
        for (index, one) in Dimension::ALL.iter().enumerate() {
            let (x, y) = point(index, self.after.get(*one) as f64 / 100.0);
            write!(f, r#"<circle class="after-dot" cx="{x:.1}" cy="{y:.1}" r="3"/>"#)?;
        }
        write!(f, r#"<polygon class="before" points="{}"/></svg>"#, shape(&self.before))
    }
}
impl HtmlSafe for Radar {}

/// The outcomes of one voice's dissents with another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Between {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) used: usize,
    pub(super) ignored: usize,
    pub(super) suppressed: usize,
    pub(super) open: usize,
}

impl Between {
    fn all(&self) -> usize {
        self.used + self.ignored + self.suppressed + self.open
    }

    /// Returns the worst outcome that occurred: its count and its name.
    fn worst(&self) -> (usize, &'static str) {
        match (self.suppressed, self.ignored, self.open) {
            (1.., ..) => (self.suppressed, "suppressed"),
            (_, 1.., _) => (self.ignored, "ignored"),
            (.., 1..) => (self.open, "open"),
            _ => (self.used, "used"),
        }
    }
}

/// A heat map of dissents: who objected to whom, with the outcomes.
pub(super) struct HeatMap {
    pub(super) pairs: Vec<Between>,
    names: Vec<String>,
}

/// The most voices in the picture. The table has all of them.
const MOST_VOICES: usize = 10;
/// The target of an objection that names no voice.
const ALL: &str = "all";

impl HeatMap {
    pub(super) fn of(payload: &Payload) -> Self {
        let mut found: BTreeMap<(String, String), Between> = BTreeMap::new();
        let events = payload.evidence.as_ref().map_or(&[][..], |evidence| &evidence.events);
        let told = &payload.dissonance;
        let mut count = |indices: &[usize], what: fn(&mut Between) -> &mut usize| {
            for event in indices.iter().filter_map(|index| events.get(*index)) {
                use chorus_protocol::choir::evidence::EventType::{Dissent, SuppressedDissent};
                if !matches!(event.event.event_type, Dissent | SuppressedDissent) {
                    continue;
                }
                let from = event.event.voice_name.clone().unwrap_or_else(|| "somebody".into());
                let to = event.event.target_voice.clone().unwrap_or_else(|| ALL.into());
                let new = Between { from: from.clone(), to: to.clone(), ..Between::default() };
                *what(found.entry((from, to)).or_insert(new)) += 1;
            }
        };
        count(&told.used, |pair| &mut pair.used);
        count(&told.ignored, |pair| &mut pair.ignored);
        count(&told.suppressed, |pair| &mut pair.suppressed);
        count(&told.not_attested, |pair| &mut pair.open);
        let pairs: Vec<_> = found.into_values().collect();
        let mut names: Vec<String> = payload.score.voices.iter().map(|voice| voice.name.0.clone()).collect();
        for name in pairs.iter().flat_map(|pair| [&pair.from, &pair.to]) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Self { pairs, names }
    }

    pub(super) fn is_drawn(&self) -> bool {
        !self.pairs.is_empty() && self.names.len() <= MOST_VOICES
    }
}

const CELL: (usize, usize) = (76, 46);
const LEFT: usize = 96;

/// Shortens a name to fit.
fn short(name: &str) -> String {
    let cut: String = name.chars().take(11).collect();
    let more = if name.chars().count() > 11 { "…" } else { "" };
    askama::filters::escape(format!("{cut}{more}"), askama::filters::Html)
        .map(|text| text.to_string())
        .unwrap_or_default()
}

impl fmt::Display for HeatMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.names.len();
        let (width, height) = (LEFT + count * CELL.0, 24 + count * CELL.1);
        write!(
            f,
            r#"<svg class="heat" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="Who objected to whom: the table below says the same">"#
        )?;
        f.write_str(r#"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>"#)?;
        for (row, from) in self.names.iter().enumerate() {
            let (x, y) = (LEFT + row * CELL.0 + CELL.0 / 2, 24 + row * CELL.1);
            write!(f, r#"<text x="{x}" y="14" text-anchor="middle">{}</text>"#, short(from))?;
            write!(f, r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#, LEFT - 8, y + 27, short(from))?;
            for (column, to) in self.names.iter().enumerate() {
                let x = LEFT + column * CELL.0;
                let pair = self.pairs.iter().find(|pair| pair.from == *from && pair.to == *to);
                cell(f, x, y, pair, row == column)?;
            }
        }
        f.write_str("</svg>")
    }
}
impl HtmlSafe for HeatMap {}

fn cell(f: &mut fmt::Formatter<'_>, x: usize, y: usize, pair: Option<&Between>, own: bool) -> fmt::Result {
    let (width, height) = (CELL.0 - 4, CELL.1 - 4);
    let (class, words) = match pair {
        Some(pair) => {
            let ((count, word), all) = (pair.worst(), pair.all());
            let number = if count == all { count.to_string() } else { format!("{count} of {all}") };
            (word, Some((number, word)))
        }
        None if own => ("own", None),
        None => ("nothing", None),
    };
    write!(f, r#"<rect class="cell {class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>"#)?;
    if class == "suppressed" {
        write!(f, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="url(#hatch)"/>"#)?;
    }
    if let Some((number, word)) = words {
        let middle = x + width / 2;
        let word = if word == "open" { "not attested" } else { word };
        write!(
            f,
            r#"<text class="in-{class} number" x="{middle}" y="{}" text-anchor="middle">{number}</text><text class="in-{class}" x="{middle}" y="{}" text-anchor="middle">{word}</text>"#,
            y + 18,
            y + 33
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_stays_inside_its_ring() {
        let all = |value| Dimensions::each(|_| value);
        let radar = Radar { before: all(100), after: all(0), names: ("on paper", "observed") }.to_string();
        let centre = format!("{0:.1},{1:.1} {0:.1},{1:.1}", CENTRE.0, CENTRE.1);
        assert!(radar.contains(&centre) && radar.contains(r#"class="before" points="180.0,38.0"#), "{radar}");
    }

    #[test]
    fn a_name_is_no_markup_and_is_cut_between_characters() {
        assert!(!short("<b>x</b>").contains("<b>"));
        assert_eq!(short("äöüäöüäöüäöüäöü"), "äöüäöüäöüäö…");
    }

    #[test]
    fn the_worst_is_told() {
        let pair = Between { used: 2, ignored: 1, ..Between::default() };
        assert_eq!((pair.worst(), pair.all()), ((1, "ignored"), 3));
        assert_eq!((change(-4), change(0), change(3)), ("−4".into(), "same".into(), "+3".into()));
    }
}
