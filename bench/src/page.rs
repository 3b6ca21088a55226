//! `page`: opening the page of a long channel, and the cost of people who watch a channel.
//!
//! Opening loads the whole page as a signed-in browser does; its size includes everything that it links to, as
//! on a first visit. Watching follows the live stream of the page. The memory and processor time of the hub
//! per viewer are compared with those of as many open inboxes.

use crate::channel::{FEW, Place, repeat, words};
use crate::child::Child;
use crate::http::{Connection, Events, HttpRequest};
use crate::load::{Outcome, Relay};
use crate::options::Pace;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Rounds, Section, Unit, ratio, thousands};
use crate::target::{Fleet, Target};
use anyhow::{Context, ensure};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_util::task::AbortOnDropHandle;

/// The number of messages in the small channel.
const TEN: u64 = 10;
/// The number of viewers or open inboxes while the hub's memory is measured. Fewer would fit into memory that
/// the hub has already allocated.
const CROWD: usize = 2000;
/// The pause before a hub's memory is measured.
const QUIET: Duration = Duration::from_secs(1);
/// The time after which a message must be on a page.
const PATIENCE: Duration = Duration::from_secs(10);

impl Place {
    fn get(&self, path: &str) -> anyhow::Result<HttpRequest> {
        self.target.page(path, &self.session)
    }

    /// Opens the page in a loop, on several connections.
    async fn visit(&self, duration: Duration) -> anyhow::Result<Outcome> {
        let path = format!("/c/{}", self.channel);
        let is_whole = |body: &[u8]| str::from_utf8(body).is_ok_and(|page| page.contains("</html>"));
        repeat(&self.target, (0..FEW).map(|_| self.get(&path)), duration, is_whole).await
    }

    /// Returns the size of the page and of everything that it links to, in kilobytes.
    async fn weight(&self) -> anyhow::Result<f64> {
        let mut connection = Connection::open(self.target.address).await?;
        let (_, page) = connection.exchange(self.get(&format!("/c/{}", self.channel))?).await?;
        let text = String::from_utf8_lossy(&page);
        let mut bytes = page.len();
        let links: std::collections::BTreeSet<_> =
            text.split('"').filter(|part| part.starts_with("/assets/")).collect();
        ensure!(!links.is_empty(), "a page without a style");
        for link in links {
            let (status, body) = connection.exchange(self.get(link)?).await?;
            ensure!(status == 200, "{link}, status {status}");
            bytes += body.len();
        }
        Ok(bytes as f64 / 1000.0)
    }

    async fn watch(&self, count: usize) -> anyhow::Result<Viewers> {
        let request = self.get(&format!("/c/{}/live", self.channel))?;
        let shown = Arc::new(AtomicU64::new(0));
        let mut tasks = vec![];
        for _ in 0..count {
            let connection = Connection::open(self.target.address).await?;
            let events = connection.listen(request.clone()).await.context("cannot watch a channel")?;
            tasks.push(AbortOnDropHandle::new(tokio::spawn(look(events, Arc::clone(&shown)))));
        }
        Ok(Viewers { shown, count: count as u64, _tasks: tasks })
    }
}

/// The viewers, and the number of events shown to them.
struct Viewers {
    shown: Arc<AtomicU64>,
    count: u64,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

async fn look(mut events: Events, shown: Arc<AtomicU64>) {
    while let Ok(events) = events.next().await {
        let items = events.iter().filter(|event| event.event == "item").count();
        shown.fetch_add(items as u64, Ordering::Relaxed);
    }
}

impl Viewers {
    /// Posts messages, and waits until every viewer has seen each of them. Returns the outcome of the posts.
    async fn see(&self, place: &Place, size: usize, duration: Duration) -> anyhow::Result<Outcome> {
        let (before, begun) = (self.shown.load(Ordering::Relaxed), Instant::now());
        let outcome = place.post("", &words(size), duration).await?;
        let (all, since) = (before + outcome.count * self.count, Instant::now());
        while self.shown.load(Ordering::Relaxed) < all {
            ensure!(since.elapsed() < PATIENCE, "what was said is not shown to everybody who watches");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let per_second = outcome.count as f64 / begun.elapsed().as_secs_f64();
        Ok(Outcome { per_second, ..outcome })
    }
}

/// Runs a phase, and returns the processor time of the hub for each delivered piece, in microseconds.
async fn processor(
    hub: &Child,
    phase: impl Future<Output = anyhow::Result<Outcome>>,
    pieces: u64,
) -> anyhow::Result<(Outcome, f64)> {
    let before = hub.processor_time()?;
    let outcome = phase.await?;
    let spent = hub.processor_time()?.saturating_sub(before).as_secs_f64() * 1e6;
    let each = spent / (outcome.count * pieces).max(1) as f64;
    Ok((outcome, each))
}

/// Opens connections, and returns the memory that the hub took for each of them, in KiB.
async fn memory<T>(
    hub: &Child,
    count: usize,
    open: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, f64)> {
    tokio::time::sleep(QUIET).await;
    let before = hub.memory()?;
    let opened = open.await?;
    tokio::time::sleep(QUIET).await;
    Ok((opened, hub.memory()?.saturating_sub(before) as f64 / count as f64 / 1024.0))
}

pub(crate) async fn measure(
    folder: &Path,
    messages: u64,
    viewers: usize,
    pace: &Pace,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let folder = folder.join("page");
    std::fs::create_dir(&folder)?;
    let small = Place::make(folder.join("small"), FEW, TEN, pace.size, progress).await?;
    let large = Place::make(folder.join("large"), FEW, messages, pace.size, progress).await?;
    let inboxes = Child::hub(&folder.join("inboxes")).await?;
    let crowd = Fleet::register(&inboxes.url, 1, CROWD).await?;
    let fleet = Fleet::register(&inboxes.url, FEW, viewers).await?;
    // Like the hub of the channel, this one is restarted, so that neither has memory left over from its setup.
    inboxes.stop().await?;
    let inboxes = Child::hub(&folder.join("inboxes")).await?;
    let target = Target::find(&inboxes.url).await?;
    // Every path is used once before the measurement.
    small.post("", &words(pace.size), Duration::from_millis(100)).await?;
    drop(small.watch(1).await?);
    drop(Relay::open(&target, &Fleet::register(&inboxes.url, 1, 1).await?, pace.size).await?);
    let (watching, viewer_kib) = memory(&small.hub, CROWD, small.watch(CROWD)).await?;
    drop(watching);
    let (relay, inbox_kib) = memory(&inboxes, CROWD, Relay::open(&target, &crowd, pace.size)).await?;
    drop(relay);
    let watching = small.watch(viewers).await?;
    let mut relay = Relay::open(&target, &fleet, pace.size).await?;
    let weight = large.weight().await?;
    let watched = Place::make(folder.join("ten"), FEW, TEN, pace.size, progress).await?;
    let [mut open_small, mut open_large, mut seen, mut received] = [const { vec![] }; 4];
    let (mut by_viewer, mut by_inbox) = (vec![], vec![]);
    for round in 1..=pace.rounds {
        let what = |phase: &str| format!("page, round {round} of {}, {phase}", pace.rounds);
        // Nothing else is said in this channel, so that only the length of the history differs.
        open_small.push(
            pace.measured(progress, what("small, open"), async |time| watched.visit(time).await).await?,
        );
        open_large
            .push(pace.measured(progress, what("large, open"), async |time| large.visit(time).await).await?);
        let mut each = 0.0;
        let see = async |time| {
            let (outcome, cost) =
                processor(&small.hub, watching.see(&small, pace.size, time), viewers as u64).await?;
            each = cost;
            anyhow::Ok(outcome)
        };
        seen.push(pace.measured(progress, what("watched"), see).await?);
        by_viewer.push(each);
        let receive = async |time| {
            let (outcome, cost) = processor(&inboxes, relay.phase(time), 1).await?;
            each = cost;
            anyhow::Ok(outcome)
        };
        received.push(pace.measured(progress, what("inboxes"), receive).await?);
        by_inbox.push(each);
    }
    let checked = relay.finish().await?;
    let processor = Rounds::of(by_viewer.iter().zip(&by_inbox).map(|(viewer, inbox)| viewer / inbox));
    let memory = Rounds::of([viewer_kib / inbox_kib.max(0.1)]);
    Ok(Section {
        bench: "page",
        setup: format!(
            "{} messages against {TEN}; {viewers} watch, {viewer_kib:.1} KiB each, against inboxes, {inbox_kib:.1} KiB each; {pace}",
            thousands(messages as f64)
        ),
        phases: vec![
            Phase::of("small, open", &open_small),
            Phase::of("large, open", &open_large),
            Phase::of("said, and shown to all", &seen),
            Phase::of("sent to one inbox each", &received),
        ],
        figures: vec![
            Figure::ratio("opening large/small", ratio(&open_large, &open_small), Goal::AtLeast(0.5)),
            Figure::new("bytes of a first visit", Unit::Kilobytes, Rounds::of([weight]), Goal::AtMost(200.0)),
            Figure::ratio("memory of a viewer/of an inbox", memory, Goal::AtMost(1.0)),
            Figure::ratio("processor for a viewer/for an inbox", processor, Goal::AtMost(1.0)),
        ],
        exactly_once: Some(checked),
    })
}
