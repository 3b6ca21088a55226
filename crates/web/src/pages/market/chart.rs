//! What is thought of an agent, and how that came: a line of scores, and each step with its arithmetic.

use crate::times::Moment;
use askama::filters::HtmlSafe;
use chorus_app::market::agents;
use chorus_app::{AppState, Error};
use chorus_protocol::api::Page;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{JobStatus, Reputation, Step};
use chorus_protocol::words::Word;
use std::fmt;

/// As many steps as a small line shows, and as a page.
pub(crate) const FEW: i64 = 20;
pub(crate) const PAGE: i64 = 50;
const WIDTH: i64 = 96;
const HEIGHT: i64 = 24;

/// An agent's score, and the last steps to it.
pub(crate) struct Standing {
    pub(crate) score: Reputation,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) next: Option<String>,
    pub(crate) line: Line,
}

/// One step.
pub(crate) struct StepRow {
    pub(crate) step: Step,
    pub(crate) at: Moment,
    pub(crate) gained: bool,
    /// What it changed, with its sign.
    pub(crate) change: String,
}

impl Standing {
    /// With so many of the newest steps.
    pub(crate) async fn of(app: &AppState, agent: AgentId, limit: i64) -> Result<Self, Error> {
        Self::after(app, agent, None, limit).await
    }

    /// With the steps before a place.
    pub(crate) async fn after(
        app: &AppState,
        agent: AgentId,
        after: Option<String>,
        limit: i64,
    ) -> Result<Self, Error> {
        let view = agents::reputation(app, agent, Page { after, limit }).await?;
        let line = Line::through(&view.changes, view.reputation_score);
        let steps = view.changes.into_iter().map(StepRow::of).collect();
        Ok(Self { score: view.reputation_score, steps, next: view.next, line })
    }
}

impl StepRow {
    fn of(step: Step) -> Self {
        let moved = step.new_score.ten_thousandths() - step.old_score.ten_thousandths();
        let (sign, size) = (if moved < 0 { "−" } else { "+" }, moved.abs());
        Self {
            at: Moment::new(&step.at),
            gained: step.status == Word::Known(JobStatus::Success),
            change: format!("{sign}{}.{:04}", size / 10_000, size % 10_000),
            step,
        }
    }
}

/// A line through the scores, the oldest first; a flat one for who has made no step.
pub(crate) struct Line(Vec<i64>);

impl Line {
    fn through(newest_first: &[Step], now: Reputation) -> Self {
        let mut scores: Vec<_> =
            newest_first.iter().rev().map(|step| step.new_score.ten_thousandths()).collect();
        let begin = newest_first.last().map_or(now, |step| step.old_score);
        scores.insert(0, begin.ten_thousandths());
        Self(scores)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At least five points high, so that a small step does not look like a fall.
        let (low, high) =
            (self.0.iter().min().copied().unwrap_or(0), self.0.iter().max().copied().unwrap_or(0));
        let height = (high - low).max(50_000);
        let low = (low + high - height) / 2;
        let last = self.0.len().saturating_sub(1).max(1) as i64;
        let points = self.0.iter().enumerate().map(|(n, score)| {
            (2 + n as i64 * (WIDTH - 6) / last, HEIGHT - 3 - (score - low) * (HEIGHT - 6) / height)
        });
        let points: Vec<(i64, i64)> = points.collect();
        write!(
            f,
            r#"<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" aria-hidden="true"><polyline points=""#
        )?;
        for (x, y) in &points {
            write!(f, "{x},{y} ")?;
        }
        let (x, y) = match points.as_slice() {
            // Nothing happened yet: a level line.
            [(_, y)] => {
                write!(f, "{},{y}", WIDTH - 4)?;
                (WIDTH - 4, *y)
            }
            points => points.last().copied().unwrap_or_default(),
        };
        write!(f, r#""/><circle cx="{x}" cy="{y}" r="2.5"/></svg>"#)
    }
}
impl HtmlSafe for Line {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_in_its_box() {
        for scores in [vec![500_000], vec![500_000, 510_000, 455_000], vec![0, 1_000_000], (0..40).collect()]
        {
            let line = Line(scores).to_string();
            let points = line.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
            assert!(points.split_whitespace().count() >= 2, "{line}");
            for point in points.split_whitespace() {
                let (x, y) = point.split_once(',').unwrap();
                assert!((0..=WIDTH).contains(&x.parse().unwrap()), "{line}");
                assert!((0..=HEIGHT).contains(&y.parse().unwrap()), "{line}");
            }
        }
    }
}
