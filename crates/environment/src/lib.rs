//! Where time, ids and randomness come from, for everything that must also run in a simulation.
//!
//! [`Environment::system`] is the machine's own, and the one place that asks the machine. [`Environment::seeded`] gives
//! the same for the same seed, on a [`ManualClock`]: whatever is made of it can be replayed. It is a crate of its own
//! because hub and agent both need it, and it belongs into nothing else that both know: `protocol` does no I/O, and `outbound` is
//! about addresses.
//!
//! It deliberately does not wait: whoever sleeps brings its own timer.

mod manual;

pub use manual::ManualClock;
pub use uuid::Uuid;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use uuid::Builder;

/// Two clocks and a source of random bytes. The one clock says what time it is and may be set; the other says how much time
/// has passed since it was made and nothing else.
#[derive(Clone)]
pub struct Environment {
    clock: Arc<Clock>,
    elapsed: Arc<Clock>,
    random: Arc<Fill>,
    /// The time and the counter of the last id that sorts by time.
    last: Arc<AtomicU64>,
}

/// Says milliseconds.
type Clock = dyn Fn() -> i64 + Send + Sync;

/// Fills bytes with randomness.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// How many random bytes are fetched at a time: every request needs a few ids, and each fetch is a system call.
const POOL: usize = 1024;

/// How many bits of an id count within a millisecond, where it begins there, and by how much it goes on, at random.
const COUNTER_BITS: u32 = 12;
const FIRST_COUNTER: u64 = 0x7ff;
const STEP: u64 = 0x7;
const MOST_AHEAD_MS: i64 = 1000;

thread_local! {
    /// Random bytes, and how many of them are left.
    static LEFT: RefCell<([u8; POOL], usize)> = const { RefCell::new(([0; POOL], 0)) };
}

/// The machine's randomness. No byte is given out twice, nor kept after it was given out.
fn system_random(bytes: &mut [u8]) {
    LEFT.with_borrow_mut(|(pool, left)| {
        for byte in bytes {
            if *left == 0 {
                // Without randomness there are no keys, and nothing that is done would be safe.
                getrandom::fill(pool).expect("the operating system gives random bytes");
                *left = POOL;
            }
            *left -= 1;
            *byte = std::mem::take(&mut pool[*left]);
        }
    });
}

impl Environment {
    /// The machine's own.
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

    /// The machine's randomness and clocks of one's own: what time it is, and how much has passed.
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

    /// Everything by a seed and a clock that is set by hand; whoever shares the clock shares the time. Anybody who knows
    /// the seed knows every secret made of it.
    pub fn seeded(seed: u64, clock: &ManualClock) -> Self {
        let (now, elapsed) = (clock.clone(), clock.clone());
        let environment = Self::with_clocks(move || now.now(), move || elapsed.now());
        Self { random: Arc::new(manual::generator(seed)), ..environment }
    }

    /// Milliseconds since 1970, UTC.
    pub fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Milliseconds since some moment. It never goes back, whatever is done to the clock: for rates, caches and all that lasts.
    pub fn elapsed(&self) -> i64 {
        (self.elapsed)()
    }

    /// Random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }

    /// A number that nobody can foresee.
    pub fn random_u64(&self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// 32 hex digits that nobody can guess.
    pub fn random_hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.bytes()))
    }

    /// An id that tells nothing.
    pub fn uuid_v4(&self) -> Uuid {
        Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    /// An id that sorts by time, which keeps indexes compact; of one millisecond in the order in which they were made. How many
    /// others were made in between cannot be told from two of them.
    pub fn uuid_v7(&self) -> Uuid {
        let mut bytes: [u8; 10] = self.bytes();
        let random = u64::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        let first = ((self.now().max(0) as u64) << COUNTER_BITS) | (random & FIRST_COUNTER);
        let follow = |last: u64| {
            // Many ids run ahead of the clock a little; one that was set back by more begins anew.
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
