//! Where time, ids and randomness come from, for everything that must also run in a simulation.
//!
//! [`Environment::system`] is the machine's own, and the one place that asks the machine. [`Environment::seeded`] gives
//! the same for the same seed, on a [`ManualClock`]: whatever is made of it can be replayed. It is a crate of its own
//! because hub and agent both need it and know nothing else in common: `protocol` does no I/O, and `outbound` is about
//! addresses.
//!
//! It deliberately does not wait: whoever sleeps brings its own timer.

mod manual;

pub use manual::ManualClock;
pub use uuid::Uuid;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use uuid::Builder;

/// Two clocks and a source of random bytes. The one clock says what time it is and may be set; the other says how much time
/// has passed since it was made and nothing else.
#[derive(Clone)]
pub struct Environment {
    clock: Arc<Clock>,
    elapsed: Arc<Clock>,
    random: Arc<Fill>,
}

/// Says milliseconds.
type Clock = dyn Fn() -> i64 + Send + Sync;

/// Fills bytes with randomness.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// How many random bytes are fetched at a time: every request needs a few ids, and each fetch is a system call.
const POOL: usize = 1024;

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
        let begun = Instant::now();
        Self::with_clocks(clock, move || begun.elapsed().as_millis() as i64)
    }

    /// The machine's randomness and clocks of one's own: what time it is, and how much has passed.
    pub fn with_clocks(
        clock: impl Fn() -> i64 + Send + Sync + 'static,
        elapsed: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self { clock: Arc::new(clock), elapsed: Arc::new(elapsed), random: Arc::new(system_random) }
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

    /// An id that sorts by time, which keeps indexes compact.
    pub fn uuid_v7(&self) -> Uuid {
        Builder::from_unix_timestamp_millis(self.now().max(0) as u64, &self.bytes()).into_uuid()
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
