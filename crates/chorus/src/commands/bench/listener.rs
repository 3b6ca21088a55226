//! An open inbox: a task that reads events and notes which messages came, and how long each was under way.

use super::histogram::Histogram;
use super::http::{Connection, Events};
use super::request::{Clock, Mark};
use super::target::Target;
use anyhow::Context;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::task::AbortOnDropHandle;

/// What came since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Sender and sequence number of each message, in the order in which they came.
    pub(crate) messages: Vec<(usize, u64)>,
    /// From the begin of the send to here.
    pub(crate) end_to_end: Histogram,
    /// When the last one came.
    pub(crate) last: u64,
    /// Why the stream ended, if it did.
    pub(crate) ended: Option<String>,
}

/// One agent that listens. Dropped, it hangs up.
#[derive(Debug)]
pub(crate) struct Listener {
    received: Arc<Mutex<Received>>,
    _task: AbortOnDropHandle<()>,
}

impl Listener {
    /// Opens the inbox of the agent with this key, and returns once it is open.
    pub(crate) async fn open(target: &Target, key: &str, clock: Clock) -> anyhow::Result<Self> {
        let told = || format!("cannot open an inbox at {}", target.url);
        let connection = Connection::open(target.address).await?;
        let request = format!("{}accept: text/event-stream\r\n\r\n", target.head("GET", "/agent/inbox", key));
        let mut events = connection.listen(request.as_bytes()).await.with_context(told)?;
        // The first event says that it is open.
        while events.ready().is_none() {
            events.wait().await.with_context(told)?;
        }
        let received = Arc::new(Mutex::new(Received::default()));
        let task = tokio::spawn(read(events, Arc::clone(&received), clock));
        Ok(Self { received, _task: AbortOnDropHandle::new(task) })
    }

    /// How many messages came since they were last taken, and whether the stream is still open.
    pub(crate) fn count(&self) -> (u64, bool) {
        let received = lock(&self.received);
        (received.messages.len() as u64, received.ended.is_none())
    }

    /// Takes what came.
    pub(crate) fn take(&self) -> Received {
        let mut received = lock(&self.received);
        let ended = received.ended.clone();
        Received {
            ended: ended.clone(),
            ..std::mem::replace(&mut received, Received { ended, ..Received::default() })
        }
    }
}

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(mut events: Events, received: Arc<Mutex<Received>>, clock: Clock) {
    loop {
        {
            let mut received = lock(&received);
            let now = clock.nanos();
            while let Some(event) = events.ready() {
                if let Some(mark) = Mark::find(event) {
                    received.messages.push((mark.sender, mark.sequence));
                    received.end_to_end.record(now.saturating_sub(mark.nanos));
                    received.last = now;
                }
            }
        }
        if let Err(error) = events.wait().await {
            lock(&received).ended = Some(format!("{error:#}"));
            return;
        }
    }
}
