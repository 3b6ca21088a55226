//! A webhook receiver that answers only when told to, for tests during a POST.

use crate::support::SOON;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}";

/// A receiver that holds its responses. See the [module](self).
pub(crate) struct HeldReceiver {
    url: String,
    arrived: watch::Sender<usize>,
    released: watch::Sender<bool>,
}

impl HeldReceiver {
    /// Starts a receiver that holds all responses.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/receive", listener.local_addr().unwrap());
        let receiver = Self { url, arrived: watch::Sender::new(0), released: watch::Sender::new(false) };
        let (arrived, released) = (receiver.arrived.clone(), receiver.released.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (arrived, mut released) = (arrived.clone(), released.subscribe());
                tokio::spawn(async move {
                    let mut request = vec![];
                    while !request.ends_with(b"}}") {
                        if !matches!(stream.read_buf(&mut request).await, Ok(1..)) {
                            return;
                        }
                    }
                    arrived.send_modify(|count| *count += 1);
                    if released.wait_for(|released| *released).await.is_ok() {
                        // Writing fails if the hub has stopped waiting; the test checks that elsewhere.
                        stream.write_all(ANSWER).await.ok();
                    }
                });
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Waits until a message has arrived.
    pub(crate) async fn wait_for_message(&self) {
        let mut arrived = self.arrived.subscribe();
        let arrived = arrived.wait_for(|count| *count > 0);
        tokio::time::timeout(SOON, arrived).await.expect("a message comes").unwrap();
    }

    /// Returns the number of received messages.
    pub(crate) fn count(&self) -> usize {
        *self.arrived.borrow()
    }

    /// Answers all held and all future messages.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }
}
