//! The report: the same figures as a table for people and as JSON for programs.

use crate::histogram::Histogram;
use crate::load::Outcome;
use owo_colors::OwoColorize;
use serde::Serialize;
use std::fmt::Write;

/// The values of all rounds: their median and their spread.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Rounds {
    pub(crate) median: f64,
    min: f64,
    max: f64,
}

impl Rounds {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |n: usize| values.get(n).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        let median = f64::midpoint(at(last / 2), at(values.len() / 2));
        Self { median, min: at(0), max: at(last) }
    }
}

/// The goal of a figure.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn reached(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Ratio,
    Seconds,
    /// 1024 bytes.
    Kibibytes,
    /// A thousand bytes.
    Kilobytes,
    /// A million bytes.
    Megabytes,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::Seconds => format!("{value:.3} s"),
            Self::Kibibytes => format!("{value:.1} KiB"),
            Self::Kilobytes => format!("{value:.0} KB"),
            Self::Megabytes => format!("{value:.1} MB"),
        }
    }
}

/// One figure, with a goal.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    name: &'static str,
    unit: Unit,
    #[serde(flatten)]
    value: Rounds,
    goal: Goal,
    reached: bool,
}

impl Figure {
    pub(crate) fn new(name: &'static str, unit: Unit, value: Rounds, goal: Goal) -> Self {
        Self { name, unit, value, goal, reached: goal.reached(value.median) }
    }

    /// Returns a figure that is a ratio.
    pub(crate) fn ratio(name: &'static str, value: Rounds, goal: Goal) -> Self {
        Self::new(name, Unit::Ratio, value, goal)
    }
}

/// Times in milliseconds.
#[derive(Debug, Serialize)]
struct Times {
    p50: Rounds,
    p90: Rounds,
    p99: Rounds,
    #[serde(rename = "p99.9")]
    p999: Rounds,
    max: Rounds,
}

impl Times {
    fn of<'a>(rounds: impl Iterator<Item = &'a Histogram> + Clone) -> Self {
        let at = |share| Rounds::of(rounds.clone().map(|times| millis(times, share)));
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }

    fn row(&self, name: &str, per_second: &str) -> Vec<String> {
        let times =
            [self.p50, self.p90, self.p99, self.p999, self.max].map(|time| format!("{:.2}", time.median));
        [name.to_owned(), per_second.to_owned()].into_iter().chain(times).collect()
    }
}

/// Returns a quantile in milliseconds; a share of 1 is the maximum.
pub(crate) fn millis(times: &Histogram, share: f64) -> f64 {
    times.quantile(share).as_secs_f64() * 1000.0
}

/// One kind of phase over all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Phase {
    name: &'static str,
    /// The sum over all rounds.
    count: u64,
    per_second: Rounds,
    /// The time from a request or a write to its answer.
    answered_ms: Times,
    /// The time from a send to the receiver; `None` if nothing is delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    received_ms: Option<Times>,
}

impl Phase {
    pub(crate) fn of(name: &'static str, rounds: &[Outcome]) -> Self {
        let received: Option<Vec<_>> = rounds.iter().map(|round| round.end_to_end.as_ref()).collect();
        Self {
            name,
            count: rounds.iter().map(|round| round.count).sum(),
            per_second: Rounds::of(rounds.iter().map(|round| round.per_second)),
            answered_ms: Times::of(rounds.iter().map(|round| &round.send)),
            received_ms: received.map(|received| Times::of(received.into_iter())),
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let Rounds { median, min, max } = self.per_second;
        let speed = format!("{} ({}–{})", thousands(median), thousands(min), thousands(max));
        let mut rows = vec![self.answered_ms.row(self.name, &speed)];
        if let Some(received) = &self.received_ms {
            rows.push(received.row("  … until received", ""));
        }
        rows
    }
}

/// Divides each round of one phase by the same round of another.
pub(crate) fn ratio(of: &[Outcome], to: &[Outcome]) -> Rounds {
    Rounds::of(of.iter().zip(to).map(|(of, to)| of.per_second / to.per_second))
}

/// The result of one bench.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) bench: &'static str,
    /// The setup, for people.
    pub(crate) setup: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) phases: Vec<Phase>,
    pub(crate) figures: Vec<Figure>,
    /// The number of messages that were acknowledged and received exactly once. Any other message ends the program with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exactly_once: Option<u64>,
}

/// The results of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    chorus: &'static str,
    build: &'static str,
    cores: usize,
    /// The load average of the machine at the start.
    load_average: Option<f64>,
    pub(crate) benches: Vec<Section>,
}

impl Document {
    /// Begins the document. Call this before anything is measured.
    pub(crate) fn begin() -> Self {
        let average = std::fs::read_to_string("/proc/loadavg").ok();
        Self {
            chorus: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load_average: average.and_then(|text| text.split(' ').next()?.parse().ok()),
            benches: vec![],
        }
    }

    /// Returns the report as a table.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for section in &self.benches {
            section.table(&mut text);
        }
        let mut last = format!("chorus {}, {} build, {} cores", self.chorus, self.build, self.cores);
        if let Some(average) = self.load_average {
            // Writing into a string cannot fail.
            write!(last, ", load average {average} before").unwrap_or_default();
        }
        text + &last
    }
}

impl Section {
    fn table(&self, text: &mut String) {
        let line = |text: &mut String, line: &str| *text = format!("{text}{line}\n");
        line(text, &format!("{}  {}\n", self.bench.bold(), self.setup));
        if !self.phases.is_empty() {
            let head = ["", "per second", "p50 ms", "p90", "p99", "p99.9", "max"].map(str::to_owned).to_vec();
            let rows = self.phases.iter().flat_map(Phase::rows);
            line(text, &columns(std::iter::once(head).chain(rows).collect()));
        }
        let rows: Vec<_> = self.figures.iter().map(row).collect();
        line(text, &columns(rows));
        if let Some(messages) = self.exactly_once {
            line(
                text,
                &format!(
                    "{} messages acknowledged, each received exactly once\n",
                    thousands(messages as f64)
                ),
            );
        }
    }
}

fn row(figure: &Figure) -> Vec<String> {
    let Figure { name, unit, value: Rounds { median, min, max }, goal, reached } = figure;
    let range =
        if max - min <= 0.0 { String::new() } else { format!("({}–{})", unit.show(*min), unit.show(*max)) };
    let goal = match goal {
        Goal::AtLeast(least) => format!("goal at least {}", unit.show(*least)),
        Goal::AtMost(most) => format!("goal at most {}", unit.show(*most)),
    };
    let mark = if *reached { "reached".green().to_string() } else { "MISSED".red().bold().to_string() };
    vec![(*name).to_owned(), unit.show(*median), range, goal, mark]
}

/// Aligns rows in columns: the first to the left, the others to the right.
fn columns(rows: Vec<Vec<String>>) -> String {
    // Colour codes do not count as width.
    let width = |cell: &String| anstream::adapter::strip_str(cell).to_string().chars().count();
    let mut widths = vec![];
    for row in &rows {
        widths.resize(row.len().max(widths.len()), 0);
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, widest)) in row.iter().zip(&widths).enumerate() {
            let room = " ".repeat(widest - width(cell));
            line = if column == 0 { format!("  {cell}{room}") } else { format!("{line}  {room}{cell}") };
        }
        text = format!("{text}{}\n", line.trim_end());
    }
    text
}

/// Formats a count with its digits in groups.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let of = |values: &[f64]| Rounds::of(values.iter().copied());
        let Rounds { median, min, max } = of(&[3.0, 1.0, 10.0]);
        assert_eq!([median, min, max].map(|value| value as i64), [3, 1, 10]);
        assert_eq!([of(&[1.0, 3.0]).median, of(&[7.0]).median].map(|value| value as i64), [2, 7]);
        assert!(of(&[]).median.is_nan());
    }

    #[test]
    fn goals_and_their_words() {
        let value = Rounds::of([0.24]);
        let figure = Figure::ratio("hub/echo", value, Goal::AtLeast(0.25));
        assert!(!figure.reached && Goal::AtMost(0.25).reached(0.24));
        let shown = anstream::adapter::strip_str(&columns(vec![row(&figure)])).to_string();
        assert_eq!(shown, "  hub/echo  0.24    goal at least 0.25  MISSED\n");
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(12.0), "12");
    }
}
