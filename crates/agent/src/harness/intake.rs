//! How messages come in: from an inbox, a connection string or directly, all as [`Arrival`]s in one bounded queue.
//!
//! What a hub's inbox hands over stays in it until the journal says that it was dealt with. What a service or a peer
//! hands over is ours alone once we say so, so it is written to the journal first. A full queue takes nothing more:
//! senders try again.

use super::activity::{Activity, Observer};
use super::announce::{Announcement, base_url};
use super::home::Home;
use super::journal::{Door, Taken};
use super::turn::Turn;
use super::{AgentOptions, HarnessError, Listen, Memory, Stop, sentence, stopped};
use crate::random::random_hex;
use crate::seen::turn_name;
use crate::{
    Client, ConnectionOptions, ConnectionServer, Delivered, Inbox, InboxItem, ReceiveOptions, Received,
    Receiver,
};
use chorus_protocol::channel::Post;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::turn_number;
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many arrivals wait for the agent.
const QUEUE: usize = 64;

/// Something that came.
pub(super) enum Arrival {
    /// A message, and its place in the inbox.
    Turn(Box<Turn>, Option<String>),
    /// Nothing to answer at this place of the inbox.
    Nothing(String),
    /// Nothing will come any more.
    Ended(HarnessError),
}

/// What all ways in need.
struct Way {
    memory: Memory,
    observer: Observer,
    stop: Stop,
    out: mpsc::Sender<Arrival>,
    /// Where the journal is, for people.
    state: PathBuf,
}

/// Begins to listen.
pub(super) async fn start(
    options: &AgentOptions,
    home: &Home,
    hub: Option<&Client>,
    memory: &Memory,
    observer: &Observer,
    stop: Stop,
) -> Result<(mpsc::Receiver<Arrival>, JoinHandle<()>), HarnessError> {
    let (out, arrivals) = mpsc::channel(QUEUE);
    let way =
        Way { memory: memory.clone(), observer: observer.clone(), stop, out, state: options.state.clone() };
    let task = match &options.listen {
        Listen::Inbox => {
            let none = || Faults::one("listen", "an inbox needs a hub");
            let hub = hub.ok_or_else(|| HarnessError::Invalid(none()))?;
            let inbox = hub.inbox(memory.cursor().as_deref())?;
            tokio::spawn(way.inbox(inbox, options.name.clone()))
        }
        Listen::Connection { address, base, guard } => {
            let secret = home.connection_secret()?;
            let connection = ConnectionOptions {
                signature: guard.secret.clone(),
                sources: guard.sources.clone(),
                reach: options.reach(),
                ..ConnectionOptions::new(secret.clone(), options.clock)
            };
            let server = ConnectionServer::bind(address, connection).await?;
            let connection_string = server.connection_string(&base_url(base.as_deref(), server.address())?);
            let (hub, home, observer) = (hub.cloned(), home.clone(), observer.clone());
            let announcement = Announcement { hub, home, secret, connection_string };
            let told_before = announcement.show(&observer)?;
            tokio::spawn(async move {
                let told = async {
                    announcement.tell_hub(told_before, &observer).await;
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    () = way.connection(server) => {}
                    () = told => {}
                }
            })
        }
        Listen::Direct { address, guard, .. } => {
            let receive = ReceiveOptions {
                secret: guard.secret.clone(),
                sources: guard.sources.clone(),
                ..ReceiveOptions::new(options.clock)
            };
            let receiver = Receiver::bind(address, receive).await?;
            observer.tell(Activity::Listening { to: receiver.url() });
            if guard.secret.is_none() && guard.sources.is_empty() && !receiver.address().ip().is_loopback() {
                observer.tell(Activity::Unguarded { address: receiver.address().to_string() });
            }
            tokio::spawn(way.direct(receiver))
        }
    };
    Ok((arrivals, task))
}

/// What was taken before this start and not dealt with.
pub(super) fn left_over(memory: &Memory) -> Vec<Turn> {
    let read = |taken: Taken| match taken.door {
        Door::Post => Post::read(taken.data.to_string().as_bytes()).map(Turn::post).ok(),
        Door::Envelope => {
            let id = taken.id.strip_prefix("message ").unwrap_or(&taken.id);
            Turn::envelope(id, &taken.data.to_string(), taken.sender.as_deref().unwrap_or_default()).ok()
        }
    };
    memory.taken().into_iter().filter_map(read).collect()
}

impl Way {
    fn state_error(&self, source: io::Error) -> HarnessError {
        HarnessError::state(&self.state, source)
    }

    async fn inbox(mut self, mut inbox: Inbox, name: String) {
        loop {
            let item = tokio::select! {
                () = stopped(&mut self.stop) => return,
                () = self.out.closed() => return,
                item = inbox.next() => item,
            };
            let arrival = match item {
                None => return,
                Some(Err(error)) => Arrival::Ended(error.into()),
                Some(Ok(item)) => match self.read(item, inbox.last_id(), &name) {
                    Some(arrival) => arrival,
                    None => continue,
                },
            };
            // Nobody takes it only when the agent ends.
            if self.out.send(arrival).await.is_err() {
                return;
            }
        }
    }

    /// What an item of the inbox means.
    fn read(&self, item: InboxItem, last_id: Option<&str>, name: &str) -> Option<Arrival> {
        let (id, read) = match item {
            InboxItem::Message { id, message } => (id, Turn::message(message)),
            InboxItem::Other { event, id, data } if event == "chat" => (id, Turn::chat(&data)),
            InboxItem::Other { event, id, data } if event == "channel" => (id, Turn::channel(&data)),
            InboxItem::Other { event, id, .. } => {
                self.observer.tell(Activity::Skipped { what: format!("an event of the kind {event}") });
                return id.map(Arrival::Nothing);
            }
            InboxItem::Malformed { id, what } => {
                self.observer.tell(Activity::Skipped { what });
                return id.map(Arrival::Nothing);
            }
            InboxItem::Gap(gap) => {
                let what = format!("history after {} is gone up to {}", gap.after, gap.oldest);
                self.observer.tell(Activity::Skipped { what });
                return None;
            }
            InboxItem::Connected { agent_id } => {
                let to = agent_id.unwrap_or_else(|| name.to_owned());
                self.observer.tell(Activity::Listening { to });
                return self.begin(last_id);
            }
            InboxItem::Reconnecting { in_ms, why } => {
                self.observer.tell(Activity::Reconnecting { in_ms, why: sentence(&why) });
                return None;
            }
            InboxItem::Takeover => return Some(Arrival::Ended(HarnessError::Takeover(name.to_owned()))),
        };
        match read {
            Ok(turn) => Some(Arrival::Turn(Box::new(turn), id)),
            Err(faults) => {
                self.observer.tell(Activity::Skipped { what: format!("a message that is none: {faults}") });
                id.map(Arrival::Nothing)
            }
        }
    }

    /// Keeps where the inbox began, if nothing is known yet: what is handed over from here on must come again.
    fn begin(&self, last_id: Option<&str>) -> Option<Arrival> {
        let last_id = last_id.filter(|_| self.memory.cursor().is_none())?;
        let kept = self.memory.set_cursor(last_id);
        kept.err().map(|source| Arrival::Ended(self.state_error(source)))
    }

    async fn connection(mut self, mut server: ConnectionServer) {
        while let Some(delivered) = tokio::select! {
            () = stopped(&mut self.stop) => None,
            () = self.out.closed() => None,
            // Room first: what is taken must have a place.
            delivered = async { self.out.reserve().await.ok()?; server.next().await } => delivered,
        } {
            if self.take_post(delivered).await.is_none() {
                break;
            }
        }
        server.close().await;
    }

    async fn take_post(&self, delivered: Delivered) -> Option<()> {
        let turn = Turn::post(delivered.post.clone());
        let data = serde_json::to_value(&delivered.post).unwrap_or_default();
        let taken = Taken { id: turn.id.clone(), door: Door::Post, data, sender: None };
        match self.memory.take(taken) {
            Ok(new) => {
                // Whether it may come again is the journal's to say: one that failed may.
                delivered.accept_without_remembering();
                self.hand_on(turn, new).await
            }
            Err(source) => {
                delivered.refuse(503);
                self.out.send(Arrival::Ended(self.state_error(source))).await.ok()
            }
        }
    }

    async fn direct(mut self, mut receiver: Receiver) {
        while let Some(received) = tokio::select! {
            () = stopped(&mut self.stop) => None,
            () = self.out.closed() => None,
            received = async { self.out.reserve().await.ok()?; receiver.next().await } => received,
        } {
            if self.take_envelope(received).await.is_none() {
                break;
            }
        }
        receiver.close().await;
    }

    async fn take_envelope(&self, received: Received) -> Option<()> {
        let data: Value = serde_json::from_str(received.envelope.get()).unwrap_or_default();
        let sender = received.sender_id.clone();
        let Some(id) = envelope_id(&received, &data) else {
            received.refuse("the system gives no random numbers");
            return Some(());
        };
        let turn = match Turn::envelope(&id, received.envelope.get(), &sender) {
            Ok(turn) => turn,
            Err(faults) => {
                received.refuse(faults.to_string());
                return Some(());
            }
        };
        let taken = Taken { id: turn.id.clone(), door: Door::Envelope, data, sender: Some(sender) };
        match self.memory.take(taken) {
            Ok(new) => {
                received.accept_without_remembering();
                self.hand_on(turn, new).await
            }
            Err(source) => {
                received.refuse("it cannot be kept");
                self.out.send(Arrival::Ended(self.state_error(source))).await.ok()
            }
        }
    }

    async fn hand_on(&self, turn: Turn, new: bool) -> Option<()> {
        if !new {
            self.observer.tell(Activity::Repeated { message: turn.message_id });
            return Some(());
        }
        self.out.send(Arrival::Turn(Box::new(turn), None)).await.ok()
    }
}

/// What an envelope without a trace is called: its turn if it is a numbered one, else whatever the hub called the
/// request, else something new, since two that look alike are two.
fn envelope_id(received: &Received, envelope: &Value) -> Option<String> {
    if let (Some(conversation), Some(number)) =
        (envelope["conversation_id"].as_str(), turn_number(&envelope["turn_number"]))
    {
        // Upper and lower case are the same in addresses.
        return Some(turn_name(&received.sender_id.to_ascii_lowercase(), conversation, number));
    }
    if let Some(id) = &received.webhook_id {
        return Some(id.clone());
    }
    random_hex().ok()
}
