//! Where time and randomness come from. Injected, so that tests and simulations can own both.

use data_encoding::HEXLOWER;
use std::sync::Arc;
use uuid::{Builder, Uuid};

/// A clock and a source of random bytes.
#[derive(Clone)]
pub struct Sources {
    clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    random: Arc<Fill>,
}

/// Fills bytes with randomness.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

impl Sources {
    /// The machine's own.
    pub fn system() -> Self {
        Self::with_clock(|| {
            #[expect(clippy::disallowed_methods, reason = "this is the one place where the clock is read")]
            let now = std::time::SystemTime::now();
            now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
        })
    }

    /// The machine's randomness and a clock of one's own.
    pub fn with_clock(clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        let random = |bytes: &mut [u8]| {
            // Without randomness there are no keys, and nothing a hub does would be safe.
            getrandom::fill(bytes).expect("the operating system gives random bytes");
        };
        Self { clock: Arc::new(clock), random: Arc::new(random) }
    }

    /// Milliseconds since 1970, UTC.
    pub fn now(&self) -> i64 {
        (self.clock)()
    }

    fn bytes<const N: usize>(&self) -> [u8; N] {
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

    /// A new secret: `prefix` and 32 hex digits.
    pub fn secret(&self, prefix: &str) -> String {
        format!("{prefix}{}", HEXLOWER.encode(&self.bytes::<16>()))
    }
}
