//! An agent's reputation: a chart of its scores, and each step with its calculation.

use crate::times::Moment;
use askama::filters::HtmlSafe;
use chorus_app::market::agents;
use chorus_node::{AppState, Error};
use chorus_protocol::api::Page;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{JobStatus, Reputation, Step};
use chorus_protocol::words::Word;
use std::fmt;

/// The steps in a small chart, and on a page.
pub(crate) const FEW: i64 = 20;
pub(crate) const PAGE: i64 = 50;
const WIDTH: i64 = 96;
const HEIGHT: i64 = 24;

/// An agent's score and its latest steps.
pub(crate) struct Standing {
    pub(crate) score: Reputation,
    /// The share of jobs that the agent declined, in percent.
    pub(crate) declines: Option<String>,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) next: Option<String>,
    pub(crate) line: Line,
}

pub(crate) struct StepRow {
    pub(crate) step: Step,
    pub(crate) at: Moment,
    /// The change with its sign; a dash for a job that did not count.
    pub(crate) change: String,
}

impl Standing {
    /// Loads the `limit` newest steps.
    pub(crate) async fn of(app: &AppState, agent: AgentId, limit: i64) -> Result<Self, Error> {
        Self::after(app, agent, None, limit).await
    }

    /// Loads the steps before a cursor.
    pub(crate) async fn after(
        app: &AppState,
        agent: AgentId,
        after: Option<String>,
        limit: i64,
    ) -> Result<Self, Error> {
        let view = agents::reputation(app, agent, Page { after, limit }).await?;
        let line = Line::through(&view.changes, view.reputation_score);
        let steps = view.changes.into_iter().map(StepRow::of).collect();
        let declines = view.decline_rate.map(|rate| format!("{:.0}", rate * 100.0));
        Ok(Self { score: view.reputation_score, declines, steps, next: view.next, line })
    }
}

impl StepRow {
    pub(crate) fn is_done(&self) -> bool {
        self.step.status == Word::Known(JobStatus::Success)
    }

    pub(crate) fn is_declined(&self) -> bool {
        self.step.status == Word::Known(JobStatus::Rejected)
    }

    fn of(step: Step) -> Self {
        let moved = step.new_score.ten_thousandths() - step.old_score.ten_thousandths();
        let (sign, size) = (if moved < 0 { "−" } else { "+" }, moved.abs());
        Self {
            at: Moment::new(&step.at),
            change: match step.not_counted {
                Some(_) => "–".to_owned(),
                None => format!("{sign}{}.{:04}", size / 10_000, size % 10_000),
            },
            step,
        }
    }
}

/// A line through the scores, oldest first; flat for an agent without steps.
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
        // The chart spans at least five points, so that a small step does not look like a fall.
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
            // A single score is drawn as a level line.
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
