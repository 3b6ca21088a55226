//! Where time and randomness come from. Injected, so that tests and simulations can own both.

use chorus_protocol::credentials::SecretKind;
use data_encoding::HEXLOWER;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;
use uuid::{Builder, Uuid};

/// Two clocks and a source of random bytes. The one clock says what time it is and may be set; the other says how much time
/// has passed since it was made and nothing else.
#[derive(Clone)]
pub struct Sources {
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
fn random(bytes: &mut [u8]) {
    LEFT.with_borrow_mut(|(pool, left)| {
        for byte in bytes {
            if *left == 0 {
                // Without randomness there are no keys, and nothing a hub does would be safe.
                getrandom::fill(pool).expect("the operating system gives random bytes");
                *left = POOL;
            }
            *left -= 1;
            *byte = std::mem::take(&mut pool[*left]);
        }
    });
}

impl Sources {
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
        Self { clock: Arc::new(clock), elapsed: Arc::new(elapsed), random: Arc::new(random) }
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

    /// An id that tells nothing.
    pub fn uuid_v4(&self) -> Uuid {
        Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    /// An id that sorts by time, which keeps indexes compact.
    pub fn uuid_v7(&self) -> Uuid {
        Builder::from_unix_timestamp_millis(self.now().max(0) as u64, &self.bytes()).into_uuid()
    }

    /// A new credential: the prefix of its kind and 32 hex digits.
    pub fn secret(&self, kind: SecretKind) -> String {
        format!("{}{}", kind.prefix(), self.random_hex())
    }

    /// 32 hex digits that nobody can guess.
    pub fn random_hex(&self) -> String {
        HEXLOWER.encode(&self.bytes::<16>())
    }
}
