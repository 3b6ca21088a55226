//! A histogram of times with buckets that grow with the value: about 3 % exact, whatever the magnitude.
//!
//! Recording is an addition; a run of any length takes the same memory.

use std::time::Duration;

/// Each power of two is divided into so many buckets (as a power of two).
const FINE_BITS: u32 = 5;
const FINE: usize = 1 << FINE_BITS;
const BUCKETS: usize = FINE * (64 - FINE_BITS as usize + 1);

/// How often which times were seen, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.max = self.max.max(nanos);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The time that `share` of all (0 to 1) did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let rank = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(largest(bucket).min(self.max));
            }
        }
        self.max()
    }
}

/// Small values have a bucket each; from then on the leading bits of a value name its bucket.
fn bucket(value: u64) -> usize {
    if value < FINE as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - FINE_BITS;
    (shift as usize + 1) * FINE + (value >> shift) as usize - FINE
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    if bucket < FINE {
        return bucket as u64;
    }
    let shift = bucket / FINE - 1;
    let leading = (bucket % FINE + FINE) as u64;
    (leading << shift) | ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_is_little_larger() {
        for value in (0..100_000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let bound = largest(bucket(value));
            assert!(bound >= value, "{value} is above its bucket's {bound}");
            assert!(bound - value <= value / FINE as u64, "{value} is far below its bucket's {bound}");
            assert!(bound == u64::MAX || bucket(bound + 1) == bucket(value) + 1);
        }
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        (1..=1000).for_each(|n| histogram.record(n * 1000));
        let near = |share: f64, nanos: u64| {
            let found = histogram.quantile(share).as_nanos() as f64;
            assert!((found / nanos as f64 - 1.0).abs() < 0.04, "{share}: {found}");
        };
        near(0.5, 500_000);
        near(0.9, 900_000);
        near(0.99, 990_000);
        assert_eq!(histogram.quantile(1.0), histogram.max());
        assert_eq!((histogram.max().as_nanos(), histogram.count()), (1_000_000, 1000));
    }

    #[test]
    fn a_rare_slow_one_shows_where_it_belongs() {
        let (mut all, mut one) = (Histogram::default(), Histogram::default());
        (0..999).for_each(|_| all.record(10));
        one.record(1_000_000_000);
        all.add(&one);
        assert_eq!(all.quantile(0.99), Duration::from_nanos(10));
        assert_eq!(all.quantile(0.999), Duration::from_nanos(10));
        assert_eq!(all.quantile(0.9995), Duration::from_secs(1));
    }
}
