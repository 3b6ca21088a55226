//! A simulated hub: the real acts and background work on an in-place store that survives every process.

use chorus_app::channel::callback;
use chorus_app::conversation::{Added, add_member, make_channel, say};
use chorus_app::delivery::bridge::Content;
use chorus_app::reconcilers::steps::Settings;
use chorus_app::reconcilers::ticks::Ticks;
use chorus_app::{accounts, agents};
use chorus_environment::{Environment, ManualClock};
use chorus_node::audit::RequestContext;
use chorus_node::caller::key_hash;
use chorus_node::caller::{Caller, Person};
use chorus_node::idempotency::Once;
use chorus_node::secrets::MasterKey;
use chorus_node::transport::dialect::Dialect;
use chorus_node::transport::live::Inbox;
use chorus_node::{App, AppState, Config, Error};
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::ids::{AgentId, ConversationId, Principal};
use chorus_protocol::sse;
use chorus_protocol::words::EntryKind;
use chorus_store::{Store, StoreError, Tx, deliveries, inboxes};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::{Arc, Once as OnlyOnce};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

pub(crate) struct Hub {
    /// Acts need a runtime, although nothing here waits.
    runtime: Runtime,
    clock: ManualClock,
    seed: u64,
    /// The number of processes so far.
    pub(crate) life: u64,
    pub(crate) store: Store,
    process: Option<Process>,
}

/// The state that a crash destroys.
struct Process {
    app: AppState,
    ticks: Ticks,
    connections: BTreeMap<AgentId, Connection>,
}

/// An open inbox.
struct Connection {
    inbox: Arc<Inbox>,
    cursor: i64,
}

/// Parses a body like the API.
pub(crate) fn body<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn context() -> RequestContext {
    let client = Ipv4Addr::LOCALHOST.into();
    RequestContext { request_id: "simulated".into(), client_request_id: None, client }
}

/// Creates a hub on this store.
pub(crate) fn app(store: Store, environment: Environment) -> AppState {
    // Installs the TLS provider that the hub's own client needs.
    static PROVIDER: OnlyOnce = OnlyOnce::new();
    PROVIDER.call_once(|| drop(chorus_testkit::http::client()));
    let key = key_hash("co_simulated");
    let config = Config::new(environment.uuid_v4(), "hub.example", key, MasterKey::new([7; 32]));
    Arc::new(App::new(store, config, environment, CancellationToken::new(), true).unwrap())
}

impl Hub {
    /// Creates a running hub. Every `rerun_every`th write is run twice.
    pub(crate) fn new(seed: u64, clock: &ManualClock, rerun_every: u32) -> Self {
        let mut hub = Self {
            runtime: Builder::new_current_thread().build().unwrap(),
            clock: clock.clone(),
            seed,
            life: 0,
            store: Store::in_place(NonZeroU32::new(rerun_every)).unwrap(),
            process: None,
        };
        hub.start();
        hub
    }

    /// Starts a new process with its own randomness.
    pub(crate) fn start(&mut self) {
        self.life += 1;
        let environment = Environment::seeded(self.seed.wrapping_add(self.life << 32), &self.clock);
        let _inside = self.runtime.enter();
        let app = app(self.store.clone(), environment);
        self.process = Some(Process { ticks: Ticks::new(&app), app, connections: BTreeMap::new() });
    }

    pub(crate) fn crash(&mut self) {
        self.process = None;
        self.store = self.store.reopen().unwrap();
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    fn run<T>(&self, act: impl AsyncFnOnce(&AppState) -> T) -> T {
        self.runtime.block_on(act(&self.process.as_ref().expect("the hub runs").app))
    }

    pub(crate) fn make_person(&self, email: &str) -> Person {
        let new = body(json!({"email": email}));
        let made = self.run(async |app| accounts::make_account(app, context(), new, Once::NO_KEY).await);
        let made = made.unwrap().result;
        Person { id: made.account_id, name: made.name, email: made.email }
    }

    pub(crate) fn make_agent(&self, owner: &Person, name: &str) -> Result<AgentId, Error> {
        self.make_agent_at(owner, name, None)
    }

    /// Creates an agent with an endpoint.
    pub(crate) fn make_agent_at(
        &self,
        owner: &Person,
        name: &str,
        endpoint: Option<&str>,
    ) -> Result<AgentId, Error> {
        let new = body(json!({"name": name, "endpoint": endpoint}));
        let made = self.run(async |app| agents::make(app, owner, context(), new, Once::NO_KEY).await);
        made.map(|made| made.result.agent_id)
    }

    pub(crate) fn make_channel(&self, owner: &Person, name: &str, members: &[AgentId]) -> ConversationId {
        let caller = Caller::Account(owner.clone());
        let new = body(json!({"name": name}));
        let made = self.run(async |app| make_channel(app, &caller, new, Once::NO_KEY).await);
        let channel = ConversationId::parse(&made.unwrap().result.conversation.id).unwrap();
        for member in members {
            let (caller, new) = (caller.clone(), body(json!({"agent": member.to_string()})));
            let added =
                self.run(async |app| add_member(app, caller, channel, context(), new, Once::NO_KEY).await);
            assert!(matches!(added.unwrap().result, Added::Joined(_)));
        }
        channel
    }

    /// Posts a message under an idempotency key. Returns its position in the channel.
    pub(crate) fn say(
        &self,
        who: impl Into<Principal>,
        channel: ConversationId,
        key: &str,
        text: &str,
    ) -> Result<i64, Error> {
        let who = who.into();
        let new = body(json!({"content": text}));
        let said = self.run(async |app| {
            let once = Once::new(app, "api", &who, "say", Some(key), text.as_bytes());
            say(app, who, channel, new, once).await
        });
        said.map(|said| said.result.sequence)
    }

    /// Handles an agent's post to the address that came with a message.
    pub(crate) fn take_callback(&self, url: &str, key: &str, event: &CallbackEvent) -> Result<(), Error> {
        let mut path = url.rsplit('/');
        let (token, channel) = (path.next().unwrap(), path.nth(1).unwrap());
        let body = serde_json::to_vec(event).unwrap();
        let taken = self.run(async |app| {
            let address = callback::address(app, channel, token)?;
            let once = Once::new(app, "api", &address.delivery(), "callback", Some(key), &body);
            callback::take(app, address, &body, once).await
        });
        taken.map(drop)
    }

    /// Opens an inbox at `place` or after the last delivered entry. Returns the position after which it
    /// begins.
    pub(crate) fn connect(&mut self, agent: AgentId, place: Option<i64>) -> i64 {
        let opened = self.run(async |app| {
            let (session, node) = (app.environment.uuid_v4(), app.config.node);
            let until = app.now() + app.config.presence.as_millis() as i64;
            let (inbox, _) = app.transport.live.open(agent, session, Dialect::Sse);
            let open = move |tx: &mut dyn Tx| inboxes::open(tx, agent, session, node, until);
            let opened = app.store.write::<_, StoreError, _>(open).await.unwrap().unwrap();
            inbox.set_stored();
            inbox.raise(opened.head);
            (inbox, opened)
        });
        let (inbox, opened) = opened;
        let cursor = place.filter(|place| *place <= opened.head).unwrap_or(opened.handed_through);
        // A client that names a position has received everything before it.
        inbox.hand(cursor);
        self.connections().insert(agent, Connection { inbox, cursor });
        cursor
    }

    pub(crate) fn disconnect(&mut self, agent: AgentId) {
        let Some(Connection { inbox, .. }) = self.connections().remove(&agent) else { return };
        self.run(async |app| {
            let (session, now) = (inbox.session, app.now());
            let close = move |tx: &mut dyn Tx| inboxes::close(tx, agent, session, now);
            app.store.write::<_, StoreError, _>(close).await.unwrap();
            app.transport.live.close(&inbox);
        });
    }

    fn connections(&mut self) -> &mut BTreeMap<AgentId, Connection> {
        &mut self.process.as_mut().expect("the hub runs").connections
    }

    /// Returns the agents whose connections were woken and have something to read.
    pub(crate) fn waiting(&self) -> Vec<AgentId> {
        let connections = self.process.iter().flat_map(|process| &process.connections);
        let waiting = connections.filter(|(_, connection)| connection.inbox.head() > connection.cursor);
        waiting.map(|(agent, _)| *agent).collect()
    }

    /// Returns the next frames for an agent's connection, and the position they reach.
    pub(crate) fn read(&mut self, agent: AgentId) -> (Vec<u8>, i64) {
        let after = self.connections()[&agent].cursor;
        let (frames, cursor) = self.run(async |app| {
            let read = move |tx: &mut dyn Tx| {
                let entries = deliveries::page(tx, agent, after, 8, usize::MAX)?;
                Content::read(tx, agent, entries, usize::MAX)
            };
            let entries = app.store.read::<_, StoreError, _>(read).await.unwrap();
            let (mut frames, mut cursor) = (vec![], after);
            for (entry, content) in entries {
                let Content::Chat(chat) = content else { panic!("nothing else is sent: {entry:?}") };
                assert_eq!((entry.kind, entry.seq), (EntryKind::Chat, cursor + 1), "no place is passed over");
                cursor = entry.seq;
                let data = serde_json::to_string(&chat.data(app)).unwrap();
                frames.extend(sse::encode(entry.kind.as_str(), Some(cursor), &data));
            }
            (frames, cursor)
        });
        if let Some(connection) = self.connections().get_mut(&agent) {
            connection.cursor = cursor;
        }
        (frames, cursor)
    }

    /// Records that an agent's connection received everything up to this position.
    pub(crate) fn hand(&mut self, agent: AgentId, place: i64) {
        if let Some(connection) = self.process.as_ref().and_then(|process| process.connections.get(&agent)) {
            connection.inbox.hand(place);
        }
    }

    /// Returns the stored bytes of a party, as the hub counts them.
    pub(crate) fn bytes_of(&self, who: impl Into<Principal>) -> u64 {
        let who = who.into();
        self.run(async |app| {
            let usage = Arc::clone(&app.limits.usage);
            let of = move |tx: &mut dyn Tx| usage.of(tx, who).map(|(_, used, _)| used);
            app.store.read::<_, StoreError, _>(of).await.unwrap()
        })
    }

    /// Runs one turn of the background work.
    pub(crate) fn take_turn(&mut self) {
        let process = self.process.as_mut().expect("the hub runs");
        self.runtime.block_on(process.ticks.take(&process.app));
    }

    /// Returns the settings of the background work.
    pub(crate) fn settings(&self) -> Settings {
        self.run(async |app| Settings::new(&app.config))
    }

    /// Runs a write on the database.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        change: impl Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.runtime.block_on(self.store.write(change)).unwrap()
    }

    /// Runs a read on the database.
    pub(crate) fn query<T: Send + 'static>(
        &self,
        query: impl Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.runtime.block_on(self.store.read(query)).unwrap()
    }
}
