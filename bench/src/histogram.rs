//! A histogram of durations.

use std::time::Duration;

/// The digits of a duration that are kept: quantiles are exact to one percent.
const SIGNIFICANT_DIGITS: u8 = 2;

/// The longest duration that is recorded exactly.
const LONGEST: Duration = Duration::from_hours(24);

/// Counts durations in nanoseconds. The memory it takes does not depend on how many are recorded.
#[derive(Debug, Clone)]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let longest = LONGEST.as_nanos() as u64;
        Ok(Self(hdrhistogram::Histogram::new_with_max(longest, SIGNIFICANT_DIGITS)?))
    }

    /// Records a duration. One longer than a day counts as a day.
    pub(crate) fn record(&mut self, duration: Duration) {
        self.0.saturating_record(duration.as_nanos() as u64);
    }

    pub(crate) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the duration that `share` of all (0 to 1) do not exceed; 1 gives the longest.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share).min(self.0.max()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(histogram: &Histogram, share: f64) -> f64 {
        histogram.quantile(share).as_nanos() as f64
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = Histogram::new().unwrap();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        (1..=1000).for_each(|n| histogram.record(Duration::from_micros(n)));
        for (share, expected) in [(0.5, 500_000.0), (0.9, 900_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = nanos(&histogram, share);
            assert!((found / expected - 1.0_f64).abs() < 0.01, "{share}: {found}");
        }
        assert_eq!(histogram.count(), 1000);
    }

    #[test]
    fn one_slow_request_is_seen_at_its_quantile() {
        let (mut all, mut one) = (Histogram::new().unwrap(), Histogram::new().unwrap());
        (0..999).for_each(|_| all.record(Duration::from_nanos(10)));
        one.record(Duration::from_secs(1));
        all.add(&one).unwrap();
        assert_eq!(all.quantile(0.999), Duration::from_nanos(10));
        assert!((nanos(&all, 0.9995) / 1e9 - 1.0).abs() < 0.01);
    }
}
