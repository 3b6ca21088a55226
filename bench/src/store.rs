//! The reference for the store: the relay's write path alone, in this process and without HTTP. Also fills the
//! stores of other benches.

use crate::histogram::Histogram;
use crate::load::Outcome;
use crate::names::{receiver_name, sender_name};
use crate::progress::Progress;
use crate::report::thousands;
use crate::request::envelope;
use crate::target::Fleet;
use anyhow::{Context, ensure};
use chorus_environment::Environment;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AgentId, EventId, TraceId};
use chorus_protocol::relay::Named;
use chorus_store::deliveries::Lease;
use chorus_store::directory::{self, KeyHash, Record};
use chorus_store::relay::{self, Registrar, SendError, Sent};
use chorus_store::{SqliteOptions, Store, StoreError, Tx, inboxes, sent};
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use uuid::Uuid;

/// Longer than any run, in milliseconds.
const LONG: i64 = 24 * 60 * 60 * 1000;
/// The number of messages in one transaction while a store is filled, and of transactions in the queue.
const BATCH: u64 = 500;
const BATCHES: usize = 8;
/// The interval at which sent messages are sorted.
const SORT_EVERY: Duration = Duration::from_millis(500);

/// The senders with their envelopes, and the receivers.
#[derive(Debug)]
struct Parties {
    senders: Vec<(AgentId, String)>,
    receivers: Vec<(AgentId, String)>,
}

impl Parties {
    /// Returns the `n`-th message of a sender.
    fn command(&self, environment: &Environment, sender: usize, n: usize) -> relay::Send {
        let (id, envelope) = &self.senders[sender];
        let now = environment.now();
        relay::Send {
            sender: *id,
            receiver: self.receivers[(sender + n) % self.receivers.len()].1.clone(),
            envelope: envelope.clone(),
            event: EventId(environment.uuid_v7()),
            trace: TraceId(environment.uuid_v7()),
            keys: vec![],
            turn: None,
            stream: false,
            lease: Lease { owner: Uuid::nil(), until: now + LONG },
            now,
        }
    }
}

fn stored(tx: &mut dyn Tx, command: &relay::Send) -> Result<(), SendError> {
    match relay::send(tx, command)? {
        Sent::Stored { .. } => Ok(()),
        _ => Err(SendError::Conflict),
    }
}

/// A store with open inboxes, and callers.
pub(crate) struct StorePath {
    store: Store,
    parties: Arc<Parties>,
    environment: Environment,
    /// The number of messages that each caller has sent.
    sent: Vec<usize>,
}

impl StorePath {
    pub(crate) async fn open(
        folder: &Path,
        senders: usize,
        receivers: usize,
        size: usize,
    ) -> anyhow::Result<Self> {
        let (store, environment) =
            (Store::sqlite(SqliteOptions::file(folder.join("store.db")))?, Environment::system());
        let mut parties = Parties { senders: vec![], receivers: vec![] };
        for n in 0..senders {
            let id = register(&store, &environment, sender_name("store", n), false).await?;
            parties.senders.push((id, envelope("store", "", n, size)));
        }
        for n in 0..receivers {
            let name = receiver_name("store", n);
            parties.receivers.push((register(&store, &environment, name.clone(), true).await?, name));
        }
        Ok(Self { store, parties: Arc::new(parties), environment, sent: vec![0; senders] })
    }

    pub(crate) async fn phase(&mut self, duration: Duration) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (sender, first) in self.sent.iter().copied().enumerate() {
            let (store, parties, environment) =
                (self.store.clone(), Arc::clone(&self.parties), self.environment.clone());
            tasks.spawn(async move {
                let (mut latencies, mut n) = (Histogram::new()?, first);
                while begun.elapsed() < duration {
                    let send = Instant::now();
                    let command = parties.command(&environment, sender, n);
                    let to = command.receiver.clone();
                    store.write_on(to, move |tx: &mut dyn Tx| stored(tx, &command)).await?;
                    latencies.record(send.elapsed());
                    n += 1;
                }
                anyhow::Ok((sender, n, latencies))
            });
        }
        let sorting = tokio::spawn(sort(self.store.clone()));
        let mut send = Histogram::new()?;
        while let Some(done) = tasks.join_next().await {
            let (sender, n, latencies) = done?.context("a write failed")?;
            self.sent[sender] = n;
            send.add(&latencies)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        sorting.abort();
        self.check().await?;
        let count = send.count();
        Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: None })
    }

    /// Checks that the inboxes hold as many messages as were acknowledged.
    async fn check(&self) -> anyhow::Result<()> {
        let parties = Arc::clone(&self.parties);
        let heads =
            move |tx: &mut dyn Tx| parties.receivers.iter().map(|(id, _)| tx.head((*id).into())).sum();
        let kept: i64 = self.store.read::<_, StoreError, _>(heads).await?;
        let sent = self.sent.iter().sum::<usize>() as i64;
        ensure!(kept == sent, "NOT EXACTLY ONCE: {sent} writes were acknowledged, {kept} are in the store");
        Ok(())
    }
}

/// Sorts sent messages as often as a hub does. Sending is complete only after that.
async fn sort(store: Store) -> Result<(), StoreError> {
    loop {
        tokio::time::sleep(SORT_EVERY).await;
        while sent::sort_a_lot(&store).await? {}
    }
}

/// Returns the hash under which a hub stores a key.
pub(crate) fn key_hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

/// Registers an agent, and opens its inbox if it is to have one.
async fn register(
    store: &Store,
    environment: &Environment,
    name: String,
    inbox: bool,
) -> anyhow::Result<AgentId> {
    let new = relay::Registration {
        record: Record { name, endpoint: None, card: None },
        names: Named { endpoint: true, card: true },
        registrar: Registrar::Itself(None),
        id: AgentId(environment.uuid_v4()),
        key: key_hash(&SecretKind::AgentKey.secret(&environment.random_hex())),
        trace: TraceId(environment.uuid_v7()),
        now: environment.now(),
    };
    let (session, until) = (environment.uuid_v4(), environment.now() + LONG);
    let write = move |tx: &mut dyn Tx| {
        let agent = relay::register(tx, &new)?.agent;
        if inbox {
            inboxes::open(tx, agent.id, session, session, until)?;
        }
        Ok::<_, relay::RegisterError>(agent.id)
    };
    Ok(store.write(write).await?)
}

/// Writes `messages` messages between the agents of a fleet into a hub's data folder, all of them read
/// already.
pub(crate) async fn fill(
    folder: &Path,
    fleet: &Fleet,
    messages: u64,
    size: usize,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (store, environment) =
        (Store::sqlite(SqliteOptions::file(folder.join("chorus.db")))?, Environment::system());
    let mut parties = Parties { senders: vec![], receivers: vec![] };
    for n in 0..fleet.senders.len() {
        let id = look_up(&store, sender_name(&fleet.run, n)).await?;
        parties.senders.push((id, envelope(&fleet.run, &fleet.host, n, size)));
    }
    for n in 0..fleet.receivers.len() {
        let name = receiver_name(&fleet.run, n);
        parties.receivers.push((look_up(&store, name.clone()).await?, name));
    }
    let parties = Arc::new(parties);
    let whole = thousands(messages as f64);
    let (begun, mut done, mut asked) = (Instant::now(), 0, 0);
    let mut tasks = JoinSet::new();
    while done < messages {
        while asked < messages && tasks.len() < BATCHES {
            let batch = asked..messages.min(asked + BATCH);
            asked = batch.end;
            let (store, parties, environment) = (store.clone(), Arc::clone(&parties), environment.clone());
            tasks.spawn(async move {
                let count = parties.senders.len();
                let commands: Vec<_> = batch
                    .map(|n| parties.command(&environment, n as usize % count, n as usize / count))
                    .collect();
                let work = move |tx: &mut dyn Tx| {
                    commands.iter().try_for_each(|command| stored(tx, command))?;
                    let unsorted = sent::find_unsorted(tx, 0, BATCH as usize)?;
                    sent::sort(tx, &unsorted)?;
                    Ok::<_, SendError>(commands.len() as u64)
                };
                store.write(work).await
            });
        }
        if let Some(written) = tasks.join_next().await {
            done += written?.context("a store could not be filled")?;
            progress.now(&format!("filling: {} of {whole} messages", thousands(done as f64)));
        }
    }
    let hand = move |tx: &mut dyn Tx| {
        parties.receivers.iter().try_for_each(|(id, _)| {
            let head = tx.head((*id).into())?;
            inboxes::hand_through(tx, *id, head, 0)
        })
    };
    store.write::<_, StoreError, _>(hand).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let speed = thousands(messages as f64 / seconds);
    progress.done(&format!("filled: {whole} messages in {seconds:.1} s, {speed}/s"));
    Ok(())
}

pub(crate) async fn look_up(store: &Store, name: String) -> anyhow::Result<AgentId> {
    let find = move |tx: &mut dyn Tx| directory::by_name(tx, &name);
    let agent = store.read::<_, StoreError, _>(find).await?;
    Ok(agent.context("an agent that was registered is not in the store")?.id)
}
