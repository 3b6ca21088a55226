//! The HTTP client of tests, which shows the server's response unchanged.
//!
//! It uses no proxy, follows no redirect and trusts no certificate authority. It is not the hub's guarded
//! client.

use std::time::Duration;

/// The read timeout, after which a request fails instead of hanging the test run. Streams send keep-alives
/// more often.
const SILENCE: Duration = Duration::from_mins(1);

/// Creates a client. Each test needs its own, because pooled connections belong to the runtime that opened
/// them.
pub fn client() -> reqwest::Client {
    // This fails if other code installed a provider first, which is fine.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .read_timeout(SILENCE)
        // Otherwise every client would read the system's certificates from disk.
        .tls_certs_only([])
        .build()
        .expect("a client with fixed settings")
}
