//! Clocks, ids and randomness, for everything that must also run in a simulation.
//!
//! [`Environment::system`] uses the operating system and is the only place that asks it.
//! [`Environment::seeded`] is deterministic for its seed and a [`ManualClock`], so that a run can be replayed.
//! It is a separate crate because hub and agent both need it, and no other shared crate fits: `protocol` does
//! no I/O, and `outbound` is about addresses.
//!
//! The crate has no timers; code that sleeps brings its own.

mod manual;

pub use manual::ManualClock;
pub use uuid::Uuid;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use uuid::Builder;

/// Two clocks and a source of random bytes. One clock tells the time of day and may be set; the other only
/// measures elapsed time.
#[derive(Clone)]
pub struct Environment {
    clock: Arc<Clock>,
    elapsed: Arc<Clock>,
    random: Arc<Fill>,
    /// The time and the counter of the last time-ordered id.
    last: Arc<AtomicU64>,
}

/// A clock in milliseconds.
type Clock = dyn Fn() -> i64 + Send + Sync;

/// A function that fills a buffer with random bytes.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// The size of the random pool in bytes. Every request needs a few ids, and each refill is a system call.
const POOL: usize = 1024;

/// The number of counter bits in an id, the range of the counter's random start in a millisecond, and the
/// range of its random increment.
const COUNTER_BITS: u32 = 12;
const FIRST_COUNTER: u64 = 0x7ff;
const STEP: u64 = 0x7;
const MOST_AHEAD_MS: i64 = 1000;

thread_local! {
    /// A pool of random bytes, and the number of bytes left in it.
    static LEFT: RefCell<([u8; POOL], usize)> = const { RefCell::new(([0; POOL], 0)) };
}

/// Fills a buffer from the operating system's randomness. No byte is used twice or kept after use.
fn system_random(bytes: &mut [u8]) {
    LEFT.with_borrow_mut(|(pool, left)| {
        for byte in bytes {
            if *left == 0 {
                // Without randomness no key would be safe.
                getrandom::fill(pool).expect("the operating system gives random bytes");
                *left = POOL;
            }
            *left -= 1;
            *byte = std::mem::take(&mut pool[*left]);
        }
    });
}

impl Environment {
    /// Creates an environment from the operating system's clocks and randomness.
    pub fn system() -> Self {
        let clock = || {
            #[expect(clippy::disallowed_methods, reason = "this is the one place where the clock is read")]
            let now = std::time::SystemTime::now();
            now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place where it is asked how much time has passed"
        )]
        let begun = Instant::now();
        Self::with_clocks(clock, move || begun.elapsed().as_millis() as i64)
    }

    /// Creates an environment with the operating system's randomness and the given clocks: time of day and
    /// elapsed time.
    pub fn with_clocks(
        clock: impl Fn() -> i64 + Send + Sync + 'static,
        elapsed: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            clock: Arc::new(clock),
            elapsed: Arc::new(elapsed),
            random: Arc::new(system_random),
            last: Arc::default(),
        }
    }

    /// Creates a deterministic environment from a seed and a manual clock, which its users share. Anyone who
    /// knows the seed knows every secret made with it.
    pub fn seeded(seed: u64, clock: &ManualClock) -> Self {
        let (now, elapsed) = (clock.clone(), clock.clone());
        let environment = Self::with_clocks(move || now.now(), move || elapsed.now());
        Self { random: Arc::new(manual::generator(seed)), ..environment }
    }

    /// Returns the time in milliseconds since 1970, UTC.
    pub fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Returns the time in milliseconds since a fixed moment. It never goes back, even if the clock is set.
    /// Use it for rates, caches and durations.
    pub fn elapsed(&self) -> i64 {
        (self.elapsed)()
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }

    /// Returns an unpredictable number.
    pub fn random_u64(&self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// Returns 32 unpredictable hex digits.
    pub fn random_hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.bytes()))
    }

    /// Returns a random id.
    pub fn uuid_v4(&self) -> Uuid {
        Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    /// Returns a time-ordered id, which keeps indexes compact. Ids of one millisecond keep their order of
    /// creation. Two ids do not reveal how many were created between them.
    pub fn uuid_v7(&self) -> Uuid {
        let mut bytes: [u8; 10] = self.bytes();
        let random = u64::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        let first = ((self.now().max(0) as u64) << COUNTER_BITS) | (random & FIRST_COUNTER);
        let follow = |last: u64| {
            // A burst of ids may run slightly ahead of the clock. If the clock was set back further, the
            // counter restarts.
            let ahead_ms = (last >> COUNTER_BITS) as i64 - (first >> COUNTER_BITS) as i64;
            if (0..=MOST_AHEAD_MS).contains(&ahead_ms) { last + 1 + (random & STEP) } else { first }
        };
        let last = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(follow(last)));
        let id = follow(last.unwrap_or_else(|last| last));
        bytes[..2].copy_from_slice(&(id as u16).to_be_bytes());
        Builder::from_unix_timestamp_millis(id >> COUNTER_BITS, &bytes).into_uuid()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_again_and_another_gives_something_else() {
        let clock = ManualClock::new(1_800_000_000_000);
        let made = |seed| {
            let environment = Environment::seeded(seed, &clock);
            let ids = [environment.uuid_v4(), environment.uuid_v7(), environment.uuid_v4()];
            (environment.random_hex(), environment.bytes::<3>(), ids, environment.random_u64())
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
        let (hex, _, [one, _, other], _) = made(7);
        assert!(hex.len() == 32 && one != other);
    }

    #[test]
    fn ids_of_one_millisecond_sort_as_they_were_made() {
        let clock = ManualClock::new(5);
        let environment = Environment::seeded(1, &clock);
        let mut ids: Vec<_> = (0..2000).map(|_| environment.uuid_v7()).collect();
        clock.advance(100);
        ids.push(environment.uuid_v7());
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]));
        let time = ids.last().and_then(Uuid::get_timestamp).unwrap().to_unix();
        assert_eq!((time, ids[0].get_version_num()), ((0, 105_000_000), 7));
    }

    #[test]
    fn time_passes_only_by_hand() {
        let clock = ManualClock::new(5);
        let environment = Environment::seeded(0, &clock);
        clock.advance(10);
        assert_eq!((environment.now(), environment.elapsed()), (15, 15));
        clock.set(40);
        assert_eq!(environment.now(), 40);
    }

    #[test]
    fn the_machine_gives_something_else_each_time() {
        let environment = Environment::system();
        assert_ne!(environment.random_hex(), environment.random_hex());
        assert!(environment.now() > 1_700_000_000_000 && environment.elapsed() >= 0);
    }
}
