//! `relay --database`: hubs on PostgreSQL against one on SQLite, in the same rounds.
//!
//! Four hubs run all the time and are measured in turns: one on SQLite, one on the database, one on the same
//! database through a slower connection, and the second one with another node beside it, each with half of the
//! senders and of the inboxes.

use crate::child::Child;
use crate::delay::Delay;
use crate::load::{Outcome, Relay};
use crate::options::Load;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Rounds, Section, millis, ratio};
use crate::target::{Fleet, Target};
use chorus_store::{PostgresOptions, Store, StoreError, Tx, TxExt as _};
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

/// The additional delay of the slower connection.
const FAR: Duration = Duration::from_millis(1);

/// All rounds of each phase.
#[derive(Debug, Default)]
struct Series {
    sqlite: Vec<Outcome>,
    near: Vec<Outcome>,
    far: Vec<Outcome>,
    two: Vec<Outcome>,
}

pub(crate) async fn measure(
    folder: &Path,
    database: &str,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let folder = folder.join("served");
    std::fs::create_dir(&folder)?;
    let pace = &load.pace;
    let delay = Delay::start(database, FAR).await?;
    let embedded = Child::hub(&folder.join("embedded")).await?;
    let one = Child::node(&folder.join("one"), database).await?;
    let other = Child::node(&folder.join("other"), database).await?;
    let distant = Child::node(&folder.join("distant"), &delay.url).await?;
    let mut sqlite = open(&[&embedded], load).await?;
    let mut near = open(&[&one], load).await?;
    let mut far = open(&[&distant], load).await?;
    let mut two = open(&[&one, &other], load).await?;
    let before = deadlocks(database).await?;

    let mut series = Series::default();
    for round in 1..=pace.rounds {
        for (what, relay, outcomes) in [
            ("SQLite", &mut sqlite, &mut series.sqlite),
            ("PostgreSQL", &mut near, &mut series.near),
            ("1 ms away", &mut far, &mut series.far),
            ("two nodes", &mut two, &mut series.two),
        ] {
            let what = format!("served, round {round} of {}, {what}", pace.rounds);
            outcomes.push(pace.measured(progress, what, async |time| relay.phase(time).await).await?);
        }
    }
    let mut checked = 0;
    for relay in [sqlite, near, far, two] {
        checked += relay.finish().await?;
    }
    let met = (deadlocks(database).await? - before) as f64;
    Ok(section(load.to_string(), &series, met, checked))
}

async fn open(nodes: &[&Child], load: &Load) -> anyhow::Result<Relay> {
    let mut targets = vec![];
    for node in nodes {
        targets.push(Target::find(&node.url).await?);
    }
    let fleet = Fleet::register(&targets[0].url, load.senders, load.receivers).await?;
    Relay::across(&targets, &fleet, load.pace.size).await
}

/// Returns the number of deadlocks that the server has found.
async fn deadlocks(database: &str) -> anyhow::Result<i64> {
    let options = PostgresOptions { workers: 2, ..PostgresOptions::new(database, Uuid::nil()) };
    let count = |tx: &mut dyn Tx| {
        let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        tx.first(sql, &[])?.map_or(Ok(0), |mut row| row.int("deadlocks"))
    };
    Ok(Store::postgres(options)?.read::<_, StoreError, _>(count).await?)
}

fn section(setup: String, series: &Series, deadlocks: f64, checked: u64) -> Section {
    let Series { sqlite, near, far, two } = series;
    let p99 =
        near.iter().zip(sqlite).map(|(near, sqlite)| millis(&near.send, 0.99) / millis(&sqlite.send, 0.99));
    Section {
        bench: "served",
        setup,
        phases: vec![
            Phase::of("SQLite", sqlite),
            Phase::of("PostgreSQL", near),
            Phase::of("1 ms away", far),
            Phase::of("two nodes", two),
        ],
        figures: vec![
            Figure::ratio("PostgreSQL/SQLite", ratio(near, sqlite), Goal::AtLeast(0.4)),
            Figure::ratio("p99 PostgreSQL/SQLite", Rounds::of(p99), Goal::AtMost(3.0)),
            Figure::ratio("1 ms away/PostgreSQL", ratio(far, near), Goal::AtLeast(0.5)),
            Figure::ratio("two nodes/one", ratio(two, near), Goal::AtLeast(0.9)),
            Figure::ratio("deadlocks", Rounds::of([deadlocks]), Goal::AtMost(0.0)),
        ],
        exactly_once: Some(checked),
    }
}
