//! The HTTP client of tests: it shows what the server said, and nothing on the way may change that.
//!
//! No proxy, no redirects followed, no certificate authority trusted. It is not the guarded client of the hub.

use std::time::Duration;

/// Silence after which a request fails rather than hanging the test run; pings of a stream come more often.
const SILENCE: Duration = Duration::from_mins(1);

/// A new client. Each test wants its own, since pooled connections belong to the runtime that opened them.
pub fn client() -> reqwest::Client {
    // It fails when some other code installed a provider first, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .read_timeout(SILENCE)
        // The system's certificates would be read from disk for every client.
        .tls_certs_only([])
        .build()
        .expect("a client with fixed settings")
}
