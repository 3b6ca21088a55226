//! The intake of messages: from an inbox, a C2A session, a connection string or directly.
//!
//! Nothing is taken while there is no room for it; senders try again. Items come as [`Incoming`].

use super::activity::{Activity, Observer};
use super::announce::{Announcement, base_url};
use super::core::Event;
use super::error::{HarnessError, sentence};
use super::home::Home;
use super::incoming::{Incoming, Offer};
use super::jobs::Jobs;
use super::options::{AgentOptions, Driver, Listen};
use super::session::Session;
use super::turn::Turn;
use crate::{Client, ConnectionOptions, ConnectionServer, Inbox, InboxItem, ReceiveOptions, Receiver};
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::Notice;
use chorus_protocol::words::EntryKind;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The source of an agent's messages.
pub(super) struct Intake {
    source: Source,
    session: Option<Session>,
    /// Background tasks, which end with the intake.
    _beside: JoinSet<()>,
}

enum Source {
    /// An inbox or a C2A session, read by a background task, so that opening a connection is not cancelled by
    /// every other event of the agent.
    Beside(mpsc::Receiver<Incoming>),
    Connection(ConnectionServer),
    Direct(Receiver),
}

impl Intake {
    /// Starts to listen. An inbox is read from after the position `cursor`.
    pub(super) async fn start(
        options: &AgentOptions,
        home: &Home,
        hub: Option<&Client>,
        cursor: Option<&str>,
        observer: &Observer,
    ) -> Result<Self, HarnessError> {
        let mut beside = JoinSet::new();
        let environment = options.environment.clone();
        let none = || HarnessError::Invalid(Faults::one("listen", "an inbox needs a hub"));
        let mut session = None;
        let (jobs, desk) = match &options.driver {
            Driver::Exec(exec) => {
                Jobs::start(exec, &options.offering, options.at_once, hub, observer).unzip()
            }
            Driver::OpenAi(_) | Driver::Acp(_) => (None, None),
        };
        beside.extend(desk);
        let source = match &options.listen {
            Listen::C2a => {
                let (incoming, items) = mpsc::channel(Session::room());
                let hub = hub.ok_or_else(none)?.clone();
                let (opened, keeper) =
                    Session::start(hub, options.name.clone(), observer.clone(), jobs, incoming);
                beside.spawn(keeper);
                session = Some(opened);
                Source::Beside(items)
            }
            Listen::Inbox => {
                let hub = hub.ok_or_else(none)?;
                let (out, items) = mpsc::channel(1);
                let reader = Reader { name: options.name.clone(), observer: observer.clone(), jobs, out };
                beside.spawn(reader.read_all(hub.inbox(cursor)?));
                Source::Beside(items)
            }
            Listen::Connection { address, base, guard } => {
                let secret = home.connection_secret(&environment)?;
                let connection = ConnectionOptions {
                    signature: guard.secret.clone(),
                    sources: guard.sources.clone(),
                    reach: options.reach(),
                    ..ConnectionOptions::new(secret.clone(), environment.clone())
                };
                let server = ConnectionServer::bind(address, connection).await?;
                let base = base_url(base.as_deref(), server.address())?;
                let connection_string = server.connection_string(&base);
                let (hub, home, observer) = (hub.cloned(), home.clone(), observer.clone());
                let announcement = Announcement { hub, home, secret, connection_string, environment };
                let told_before = announcement.show(&observer)?;
                beside.spawn(async move { announcement.tell_hub(told_before, &observer).await });
                Source::Connection(server)
            }
            Listen::Direct { address, guard, .. } => {
                let receive = ReceiveOptions {
                    secret: guard.secret.clone(),
                    sources: guard.sources.clone(),
                    ..ReceiveOptions::new(environment)
                };
                let receiver = Receiver::bind(address, receive).await?;
                observer.tell(Activity::Listening { to: receiver.url() });
                let open = guard.secret.is_none() && guard.sources.is_empty();
                if open && !receiver.address().ip().is_loopback() {
                    observer.tell(Activity::Unguarded { address: receiver.address().to_string() });
                }
                Source::Direct(receiver)
            }
        };
        Ok(Self { source, session, _beside: beside })
    }

    /// Returns the C2A session, if messages come by one.
    pub(super) fn session(&self) -> Option<Session> {
        self.session.clone()
    }

    /// Waits for the next item. Dropping the future loses no item.
    pub(super) async fn next(&mut self) -> Incoming {
        let next = match &mut self.source {
            Source::Beside(items) => items.recv().await,
            Source::Connection(server) => server.next().await.map(Offer::Post).map(Incoming::Offered),
            Source::Direct(receiver) => receiver.next().await.map(Offer::Envelope).map(Incoming::Offered),
        };
        next.unwrap_or(Incoming::Closed(Ok(())))
    }

    /// Stops taking messages and sends the last answers.
    pub(super) async fn close(self) {
        match self.source {
            Source::Beside(_) => {}
            Source::Connection(server) => server.close().await,
            Source::Direct(receiver) => receiver.close().await,
        }
    }
}

/// Reads an inbox in the background.
struct Reader {
    name: String,
    observer: Observer,
    /// The receiver of jobs. `None` if the agent offers no skill.
    jobs: Option<Jobs>,
    out: mpsc::Sender<Incoming>,
}

impl Reader {
    async fn read_all(self, mut inbox: Inbox) {
        while let Some(item) = inbox.next().await {
            let incoming = match item {
                Err(error) => Some(Incoming::Closed(Err(error.into()))),
                Ok(InboxItem::Takeover) => {
                    Some(Incoming::Closed(Err(HarnessError::Takeover(self.name.clone()))))
                }
                Ok(item) => self.read(item, inbox.last_id()).map(Incoming::Event),
            };
            // The channel is closed only when the agent stops.
            if let Some(incoming) = incoming
                && self.out.send(incoming).await.is_err()
            {
                return;
            }
        }
    }

    fn skip(&self, what: String) {
        self.observer.tell(Activity::Skipped { what });
    }

    /// Converts an item of the inbox to an event.
    fn read(&self, item: InboxItem, last_id: Option<&str>) -> Option<Event> {
        let nothing = |id: Option<String>| id.map(|cursor| Event::Nothing { cursor });
        let (id, read) = match item {
            InboxItem::Message { id, message } => (id, Turn::message(message)),
            InboxItem::Other { event, id, data } => match EntryKind::parse(&event) {
                // A deleted message requires no answer.
                Some(EntryKind::Chat) if is_deleted(&data) => return nothing(id),
                Some(EntryKind::Chat) => (id, Turn::chat(&data)),
                Some(EntryKind::Channel) => (id, Turn::channel(&data)),
                Some(EntryKind::Job) if self.jobs.is_some() => {
                    self.jobs.iter().for_each(|jobs| jobs.take(&data));
                    return nothing(id);
                }
                Some(EntryKind::Quote) if self.jobs.is_some() => {
                    self.jobs.iter().for_each(|jobs| jobs.take_quote(&data));
                    return nothing(id);
                }
                // The next request is refused by the hub with the reason.
                None if Notice::parse(&event) == Some(Notice::Revoked) => return None,
                // Messages come as `InboxItem::Message`. An agent without skills does no jobs.
                Some(
                    EntryKind::Message
                    | EntryKind::Job
                    | EntryKind::Result
                    | EntryKind::Quote
                    | EntryKind::Digest,
                )
                | None => {
                    self.skip(format!("an event of the kind {event}"));
                    return nothing(id);
                }
            },
            InboxItem::Malformed { id, what } => {
                self.skip(what);
                return nothing(id);
            }
            InboxItem::Gap(gap) => {
                self.skip(format!("history after {} is gone up to {}", gap.after, gap.oldest));
                return None;
            }
            InboxItem::Connected { agent_id } => {
                let to = agent_id.unwrap_or_else(|| self.name.clone());
                self.observer.tell(Activity::Listening { to });
                self.jobs.iter().for_each(Jobs::take_open);
                return last_id.map(|cursor| Event::Began { cursor: cursor.to_owned() });
            }
            InboxItem::Reconnecting { in_ms, why } => {
                self.observer.tell(Activity::Reconnecting { in_ms, why: sentence(&why) });
                return None;
            }
            InboxItem::Takeover => return None,
        };
        match read {
            Ok(turn) => Some(Event::Arrived { turn: Box::new(turn), cursor: id }),
            Err(faults) => {
                self.skip(format!("a message that is none: {faults}"));
                nothing(id)
            }
        }
    }
}

/// Checks whether a chat message was deleted before it was read.
fn is_deleted(data: &str) -> bool {
    serde_json::from_str::<Value>(data).is_ok_and(|chat| chat["event"]["deleted"] == true)
}
