//! An open inbox: a task that records which messages arrive, and how long each was under way.
//!
//! An inbox is a stream of server-sent events, or a C2A session, which acknowledges deliveries.

use crate::http::{Connection, Events};
use crate::request::{Clock, Stamp};
use crate::target::Target;
use crate::websocket::Session;
use anyhow::Context;
use bytes::Bytes;
use http::{Method, header};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// A received message of the load.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    pub(crate) sender: usize,
    pub(crate) sequence: u64,
    /// The time from the begin of the send.
    pub(crate) after: Duration,
}

/// The messages that arrived since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// In the order of their arrival.
    pub(crate) messages: Vec<Arrival>,
    /// The time of the last arrival.
    pub(crate) last: Duration,
    /// The reason why the stream ended; `None` while it is open.
    pub(crate) ended: Option<String>,
}

/// The protocol of an inbox.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// The relay's stream of server-sent events.
    Events,
    /// A C2A session.
    C2a,
}

/// An agent that listens. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Listener {
    received: Arc<Mutex<Received>>,
    _task: AbortOnDropHandle<()>,
}

impl Listener {
    /// Opens the inbox of the agent with this key, and returns once it is open.
    pub(crate) async fn open_by(way: Way, target: &Target, key: &str, clock: Clock) -> anyhow::Result<Self> {
        match way {
            Way::Events => Self::open(target, key, clock).await,
            Way::C2a => {
                let failed = || format!("cannot open a session at {}", target.url);
                let session = Session::open(target, key).await.with_context(failed)?;
                let received = Arc::new(Mutex::new(Received::default()));
                let task = tokio::spawn(read_session(session, Arc::clone(&received), clock));
                Ok(Self { received, _task: AbortOnDropHandle::new(task) })
            }
        }
    }

    /// Opens the inbox of the agent with this key as a stream of events, and returns once it is open.
    pub(crate) async fn open(target: &Target, key: &str, clock: Clock) -> anyhow::Result<Self> {
        let failed = || format!("cannot open an inbox at {}", target.url);
        let connection = Connection::open(target.address).await?;
        let request = target.request(Method::GET, "/agent/inbox", Some(key));
        let request = request.header(header::ACCEPT, "text/event-stream").body(Bytes::new())?;
        let mut events = connection.listen(request).await.with_context(failed)?;
        // The first event says that the inbox is open.
        events.next().await.with_context(failed)?;
        let received = Arc::new(Mutex::new(Received::default()));
        let task = tokio::spawn(read(events, Arc::clone(&received), clock));
        Ok(Self { received, _task: AbortOnDropHandle::new(task) })
    }

    /// Returns the number of messages that arrived since they were last taken, and whether the stream is open.
    pub(crate) fn count(&self) -> (u64, bool) {
        let received = lock(&self.received);
        (received.messages.len() as u64, received.ended.is_none())
    }

    /// Takes the messages that arrived.
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
    let error = loop {
        match events.next().await {
            Ok(events) => note(&received, clock, events.iter().map(|event| event.data.as_str())),
            Err(error) => break error,
        }
    };
    lock(&received).ended = Some(format!("{error:#}"));
}

async fn read_session(mut session: Session, received: Arc<Mutex<Received>>, clock: Clock) {
    let error = loop {
        match session.next().await {
            Ok(messages) => {
                note(
                    &received,
                    clock,
                    messages.iter().map(tokio_tungstenite::tungstenite::Utf8Bytes::as_str),
                );
            }
            Err(error) => break error,
        }
    };
    lock(&received).ended = Some(format!("{error:#}"));
}

/// Records the messages of the load among these.
fn note<'a>(received: &Mutex<Received>, clock: Clock, messages: impl Iterator<Item = &'a str>) {
    let (mut received, now) = (lock(received), clock.now());
    for Stamp { sender, sequence, sent } in messages.filter_map(Stamp::find) {
        received.messages.push(Arrival { sender, sequence, after: now.saturating_sub(sent) });
        received.last = now;
    }
}
