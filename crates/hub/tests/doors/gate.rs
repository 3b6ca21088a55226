//! A webhook receiver that answers when it is told to: for what must be seen while a POST is under way.

use crate::support::SOON;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}";

/// See the [module](self).
pub(crate) struct Gate {
    url: String,
    arrived: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Starts one that is shut.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/receive", listener.local_addr().unwrap());
        let gate = Self { url, arrived: watch::Sender::new(0), open: watch::Sender::new(false) };
        let (arrived, open) = (gate.arrived.clone(), gate.open.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (arrived, mut opened) = (arrived.clone(), open.subscribe());
                tokio::spawn(async move {
                    let mut request = vec![];
                    while !request.ends_with(b"}}") {
                        if !matches!(stream.read_buf(&mut request).await, Ok(1..)) {
                            return;
                        }
                    }
                    arrived.send_modify(|count| *count += 1);
                    if opened.wait_for(|open| *open).await.is_ok() {
                        // It fails when the hub does not wait any more, which is for the test to see.
                        stream.write_all(ANSWER).await.ok();
                    }
                });
            }
        });
        gate
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns when a message waits at the gate.
    pub(crate) async fn reached(&self) {
        let mut arrived = self.arrived.subscribe();
        let arrived = arrived.wait_for(|count| *count > 0);
        tokio::time::timeout(SOON, arrived).await.expect("a message comes").unwrap();
    }

    /// How many came.
    pub(crate) fn count(&self) -> usize {
        *self.arrived.borrow()
    }

    /// Answers all that wait, and all that come.
    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}
