//! Figures and records about what the node does: metrics, health, and logs that are written a moment later and many at once, so that no
//! request waits for their commit.

pub mod harness_log;
pub mod health;
pub mod metrics;
pub mod tool_log;
pub mod turns_saved;
mod write_behind;

use self::harness_log::HarnessLog;
use self::health::Health;
use self::metrics::Metrics;
use self::tool_log::ToolLog;
use self::turns_saved::TurnsSaved;

pub struct Telemetry {
    pub metrics: Metrics,
    pub health: Health,
    pub tool_log: ToolLog,
    pub harness_log: HarnessLog,
    pub turns_saved: TurnsSaved,
}

impl Telemetry {
    /// `started_at` is monotonic time in milliseconds.
    pub fn new(started_at: i64) -> Self {
        Self {
            metrics: Metrics::default(),
            health: Health::new(started_at),
            tool_log: ToolLog::default(),
            harness_log: HarnessLog::default(),
            turns_saved: TurnsSaved::default(),
        }
    }
}
