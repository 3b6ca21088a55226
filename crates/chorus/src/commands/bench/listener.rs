//! An open inbox: a task that reads events and notes which messages came, and how long each was under way.
//!
//! An inbox is a stream of server-sent events, or a C2A session, which acknowledges what comes.

use super::histogram::Histogram;
use super::http::{Connection, Events};
use super::request::{Clock, Mark};
use super::target::Target;
use super::websocket::Session;
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

impl Received {
    /// A message of the load came, if that is what these bytes are.
    fn note(&mut self, event: &[u8], now: u64) {
        if let Some(mark) = Mark::find(event) {
            self.messages.push((mark.sender, mark.sequence));
            self.end_to_end.record(now.saturating_sub(mark.nanos));
            self.last = now;
        }
    }
}

/// How an inbox is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// As the relay's stream of events.
    Events,
    /// As a C2A session.
    C2a,
}

/// One agent that listens. Dropped, it hangs up.
#[derive(Debug)]
pub(crate) struct Listener {
    received: Arc<Mutex<Received>>,
    _task: AbortOnDropHandle<()>,
}

impl Listener {
    /// Opens the inbox of the agent with this key this way, and returns once it is open.
    pub(crate) async fn open_by(way: Way, target: &Target, key: &str, clock: Clock) -> anyhow::Result<Self> {
        match way {
            Way::Events => Self::open(target, key, clock).await,
            Way::C2a => {
                let told = || format!("cannot open a session at {}", target.url);
                let session = Session::open(target, key).await.with_context(told)?;
                let received = Arc::new(Mutex::new(Received::default()));
                let task = tokio::spawn(read_session(session, Arc::clone(&received), clock));
                Ok(Self { received, _task: AbortOnDropHandle::new(task) })
            }
        }
    }

    /// Opens the inbox of the agent with this key as a stream of events, and returns once it is open.
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
                received.note(event, now);
            }
        }
        if let Err(error) = events.wait().await {
            lock(&received).ended = Some(format!("{error:#}"));
            return;
        }
    }
}

async fn read_session(mut session: Session, received: Arc<Mutex<Received>>, clock: Clock) {
    loop {
        let stepped = note_ready(&mut session, &received, clock.nanos());
        let stepped = match stepped {
            Ok(()) => session.wait().await,
            Err(error) => Err(error),
        };
        if let Err(error) = stepped {
            lock(&received).ended = Some(format!("{error:#}"));
            return;
        }
    }
}

fn note_ready(session: &mut Session, received: &Mutex<Received>, now: u64) -> anyhow::Result<()> {
    let mut received = lock(received);
    while let Some(message) = session.ready()? {
        received.note(message, now);
    }
    Ok(())
}
