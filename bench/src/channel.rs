//! `channel`: a channel with many members and messages, against one with few.
//!
//! The end of the run checks that a message without mentions writes no row per member.

use crate::child::Child;
use crate::histogram::Histogram;
use crate::http::{Connection, HttpRequest};
use crate::load::Outcome;
use crate::names::sender_name;
use crate::options::Pace;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Section, ratio, thousands};
use crate::store::look_up;
use crate::target::{Fleet, Target};
use anyhow::{Context, ensure};
use chorus_environment::Environment;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, ConversationId, CredentialId, EventId, Principal, TraceId};
use chorus_protocol::redact::Masked;
use chorus_store::accounts::{self, Account, CredentialKind, NewCredential};
use chorus_store::conversation::{self, Act, ConversationError, Handle, Newcomer, Post};
use chorus_store::conversations::{Conversation, ConversationKind};
use chorus_store::{SqliteOptions, Store, StoreError, Tx, TxExt, attention};
use serde_json::{Map, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub(super) const FEW: usize = 10;
/// The number of messages in one transaction while a channel is filled.
const BATCH: u64 = 500;
/// Longer than any run, in milliseconds.
const LONG: i64 = 24 * 60 * 60 * 1000;
/// The number of events on a page.
const PAGE: usize = 50;

/// A hub with one channel.
pub(super) struct Place {
    pub(super) hub: Child,
    folder: PathBuf,
    pub(super) target: Target,
    pub(super) channel: ConversationId,
    /// The keys of the members that talk and read. The other members are idle.
    pub(super) keys: Vec<String>,
    /// The session secret of a person who is a member too.
    pub(super) session: String,
    /// The name of the last member.
    pub(super) last: String,
}

impl Place {
    /// Registers the agents through the hub, so that they have keys, and writes the channel and its messages
    /// directly into the store.
    pub(super) async fn make(
        folder: PathBuf,
        members: usize,
        messages: u64,
        size: usize,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let hub = Child::hub(&folder).await?;
        let fleet = Fleet::register(&hub.url, members, 0).await?;
        hub.stop().await?;
        let session = SecretKind::Session.secret(&Environment::system().random_hex());
        let person = sign_in(&folder, &session).await?;
        let channel = fill(&folder, &fleet, person, messages, size, progress).await?;
        let hub = Child::hub(&folder).await?;
        let target = Target::find(&hub.url).await?;
        let last = sender_name(&fleet.run, members.saturating_sub(1));
        let keys = fleet.senders.into_iter().take(FEW).collect();
        Ok(Self { hub, folder, target, channel, keys, session, last })
    }

    /// Posts messages in a loop, on one connection per talking member.
    async fn talk(&self, size: usize, duration: Duration) -> anyhow::Result<Outcome> {
        self.post("", &words(size), duration).await
    }

    /// Posts this text in a loop, on one connection per talking member. `how` is the query of the request,
    /// which may ask for a dry run.
    pub(super) async fn post(&self, how: &str, text: &str, duration: Duration) -> anyhow::Result<Outcome> {
        let path = format!("/api/v1/channels/{}/messages{how}", self.channel);
        let body = json!({"content": text}).to_string();
        let requests = self.keys.iter().map(|key| self.target.post(&path, Some(key), body.clone()));
        repeat(&self.target, requests, duration, |_| true).await
    }

    /// Reads the newest page of the channel in a loop, on one connection per talking member.
    async fn open(&self, duration: Duration) -> anyhow::Result<Outcome> {
        let path = format!("/api/v1/channels/{}/events?before=end&limit={PAGE}", self.channel);
        let requests = self.keys.iter().map(|key| self.target.get(&path, Some(key)));
        repeat(&self.target, requests, duration, |_| true).await
    }

    /// Stops the hub, and checks that the messages woke nobody.
    pub(super) async fn finish(self) -> anyhow::Result<()> {
        self.hub.stop().await?;
        let store = open_store(&self.folder)?;
        let count = |tx: &mut dyn Tx| {
            tx.first("SELECT COUNT(*) AS count FROM deliveries", &[])?
                .map_or(Ok(0), |mut row| row.int("count"))
        };
        let rows: i64 = store.read::<_, StoreError, _>(count).await?;
        ensure!(rows == 0, "{rows} rows were written for members that nothing was said to");
        Ok(())
    }
}

/// Sends each request again and again, on a connection of its own. Fails on the first response that is not good.
pub(super) async fn repeat(
    target: &Target,
    requests: impl IntoIterator<Item = anyhow::Result<HttpRequest>>,
    duration: Duration,
    is_good: impl Fn(&[u8]) -> bool + Copy + Send + 'static,
) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for request in requests {
        let (request, mut connection) = (request?, Connection::open(target.address).await?);
        tasks.spawn(async move {
            let mut times = Histogram::new()?;
            while begun.elapsed() < duration {
                let asked = Instant::now();
                let (status, body) = connection.exchange(request.clone()).await?;
                let is_success = matches!(status, 200 | 201 | 204) && is_good(&body);
                ensure!(is_success, "status {status}: {}", String::from_utf8_lossy(&body));
                times.record(asked.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut send = Histogram::new()?;
    while let Some(times) = tasks.join_next().await {
        send.add(&times??)?;
    }
    let (count, seconds) = (send.count(), begun.elapsed().as_secs_f64());
    Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: None })
}

pub(super) fn words(size: usize) -> String {
    "Shall we have a cup of tea together this afternoon? ".chars().cycle().take(size).collect()
}

fn open_store(folder: &Path) -> anyhow::Result<Store> {
    Ok(Store::sqlite(SqliteOptions::file(folder.join("chorus.db")))?)
}

/// Makes a person who is signed in.
async fn sign_in(folder: &Path, session: &str) -> anyhow::Result<AccountId> {
    let (store, environment) = (open_store(folder)?, Environment::system());
    let (id, now, trace) =
        (AccountId(environment.uuid_v7()), environment.now(), TraceId(environment.uuid_v7()));
    let account = Account {
        id,
        email: "bench@bench.example".into(),
        name: "bench".into(),
        created_at: now,
        disabled_at: None,
        seen_at: now,
    };
    let credential = NewCredential {
        id: CredentialId(environment.uuid_v7()),
        hash: crate::store::key_hash(session),
        kind: CredentialKind::Session,
        account: Some(id),
        email: None,
        label: None,
        sign_up_code: None,
        expires_at: Some(now + LONG),
        trace,
        now,
    };
    let make = move |tx: &mut dyn Tx| {
        accounts::insert(tx, &account, trace)?;
        accounts::issue(tx, &credential)
    };
    store.write::<_, StoreError, _>(make).await?;
    Ok(id)
}

async fn fill(
    folder: &Path,
    fleet: &Fleet,
    person: AccountId,
    messages: u64,
    size: usize,
    progress: &Progress,
) -> anyhow::Result<ConversationId> {
    let (store, environment) = (open_store(folder)?, Environment::system());
    let mut members = vec![];
    let reader = (Principal::Account(person), "reader".to_owned());
    for n in 0..fleet.senders.len() {
        let name = sender_name(&fleet.run, n);
        members.push((Principal::Agent(look_up(&store, name.clone()).await?), name));
    }
    let (owner, handle) = members.first().cloned().context("a channel without members")?;
    let id = ConversationId(environment.uuid_v7());
    let act = {
        let environment = environment.clone();
        move |author| Act {
            conversation: id,
            author,
            event: EventId(environment.uuid_v7()),
            trace: TraceId(environment.uuid_v7()),
            now: environment.now(),
        }
    };
    let new = Conversation::new(id, ConversationKind::Channel, "bench".into(), owner, environment.now());
    let others: Vec<_> = members[1..].iter().cloned().chain([reader]).collect();
    let make = {
        let act = act.clone();
        move |tx: &mut dyn Tx| {
            conversation::create(tx, &act(owner), &new, Handle::Exactly(handle.clone()))?;
            others.iter().try_for_each(|(principal, handle)| {
                let new = Newcomer {
                    principal: *principal,
                    handle: Handle::Exactly(handle.clone()),
                    roles: vec![],
                    lead: false,
                };
                conversation::add_member(tx, &act(owner), &new).map(drop)
            })
        }
    };
    store.write::<_, ConversationError, _>(make).await?;
    let text = words(size);
    let post = Post::new(Masked::new(Map::from_iter([("content".into(), text.into())])));
    let mut done = 0;
    while done < messages {
        let (count, act, post) = (BATCH.min(messages - done), act.clone(), post.clone());
        let say = move |tx: &mut dyn Tx| {
            (0..count).try_for_each(|_| {
                let act = act(owner);
                let draft = conversation::draft_message(tx, &act, &post)?;
                Ok(attention::post(tx, &draft, &[]).map(drop)?)
            })
        };
        store.write::<_, ConversationError, _>(say).await?;
        done += count;
        progress.now(&format!("filling: {} messages", thousands(done as f64)));
    }
    Ok(id)
}

pub(crate) async fn measure(
    folder: &Path,
    members: usize,
    messages: u64,
    pace: &Pace,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let small = Place::make(folder.join("small"), FEW, 0, pace.size, progress).await?;
    let large = Place::make(folder.join("large"), members, messages, pace.size, progress).await?;
    let [mut talk_small, mut talk_large, mut open_small, mut open_large] = [const { vec![] }; 4];
    for round in 1..=pace.rounds {
        let what = |phase: &str| format!("channel, round {round} of {}, {phase}", pace.rounds);
        let say = async |place: &Place, time| place.talk(pace.size, time).await;
        talk_small
            .push(pace.measured(progress, what("small, talk"), async |time| say(&small, time).await).await?);
        talk_large
            .push(pace.measured(progress, what("large, talk"), async |time| say(&large, time).await).await?);
        open_small
            .push(pace.measured(progress, what("small, open"), async |time| small.open(time).await).await?);
        open_large
            .push(pace.measured(progress, what("large, open"), async |time| large.open(time).await).await?);
    }
    small.finish().await?;
    large.finish().await?;
    Ok(Section {
        bench: "channel",
        setup: format!(
            "{members} members and {} messages against {FEW} and none; {FEW} talk; {pace}",
            thousands(messages as f64)
        ),
        phases: vec![
            Phase::of("small, talk", &talk_small),
            Phase::of("large, talk", &talk_large),
            Phase::of("small, open", &open_small),
            Phase::of("large, open", &open_large),
        ],
        figures: vec![
            Figure::ratio("talk large/small", ratio(&talk_large, &talk_small), Goal::AtLeast(0.5)),
            Figure::ratio("open large/small", ratio(&open_large, &open_small), Goal::AtLeast(0.5)),
        ],
        exactly_once: None,
    })
}
