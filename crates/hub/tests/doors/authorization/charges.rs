//! Every route and every act declares its charge; one that stores without charging fails.

mod table;

use super::table::TABLE;
use super::world::World;
use super::{Prepared, documented};
use crate::support::{Setup, TestHub};
use chorus_app::tools;
use chorus_protocol::{c2a, channel};
use chorus_store::{StoreError, Tx, TxExt};
use reqwest::Method;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use table::{ACTS, CHARGES, COUNTED_TABLES, Rate, Stored, UNCOUNTED};

#[test]
fn every_route_has_a_charge() {
    let listed =
        CHARGES.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented(), listed);
}

#[test]
fn every_act_without_a_route_has_a_charge() {
    let of = |door: &str| -> BTreeSet<&str> {
        ACTS.iter().filter(|(listed, ..)| *listed == door).map(|(_, name, _)| *name).collect()
    };
    assert_eq!(tools::all().iter().map(|tool| tool.name).collect::<BTreeSet<_>>(), of("tool"));
    assert_eq!(tools::of_job().iter().map(|tool| tool.name).collect::<BTreeSet<_>>(), of("job tool"));
    assert_eq!(tools::of_agent().iter().map(|tool| tool.name).collect::<BTreeSet<_>>(), of("agent tool"));
    assert_eq!(c2a::Method::ALL.iter().map(|method| method.as_str()).collect::<BTreeSet<_>>(), of("c2a"));
    assert_eq!(BTreeSet::from(channel::KINDS), of("callback"));
    for tool in tools::all() {
        let (.., stored) = ACTS.iter().find(|(_, name, _)| *name == tool.name).unwrap();
        assert_eq!(tool.effect == tools::Effect::Reads, *stored == Stored::Nothing, "{}", tool.name);
    }
}

/// Calls a route without filling in its parameters. Returns whether its allowance is used up.
async fn is_limited(hub: &TestHub, method: &str, route: &str, key: Option<&str>) -> bool {
    let path: Vec<_> = route.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
    let upper = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    hub.request(upper, &path.join("/"), key).send().await.unwrap().status() == 429
}

/// Once an allowance is used up, every route that draws on it is refused, and no other.
#[tokio::test]
async fn a_route_takes_from_the_allowance_it_says() {
    let by_key = Setup::new().config(|config| config.rate_limit = Some(1)).start();
    let by_source = Setup::new().config(|config| config.rate_limit_anonymous = Some(1)).start();
    let key = by_key.register("bob").await;
    let mut wrong = vec![];
    for (method, route, rate, _) in CHARGES {
        // The allowance is used up just before each call, so that a slow machine does not matter.
        by_key.get("/api/v1/me", Some(&key)).await;
        by_source.get("/api/v1/scenarios", None).await;
        let limited = (
            is_limited(&by_key, method, route, Some(&key)).await,
            is_limited(&by_source, method, route, None).await,
        );
        let expected = match rate {
            Rate::Caller => (true, true),
            Rate::Source => (false, true),
            Rate::Key => (true, false),
            Rate::Secret | Rate::Free => (false, false),
        };
        if limited != expected {
            wrong.push(format!("{method} {route}: {rate:?}, but limited by key and by source: {limited:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn tables(hub: &TestHub) -> BTreeSet<String> {
    let find = |tx: &mut dyn Tx| {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        tx.query(sql, &[])?.into_iter().map(|mut row| row.text("name")).collect::<Result<BTreeSet<_>, _>>()
    };
    let found = hub.store().read::<_, StoreError, _>(find).await.unwrap();
    // A virtual search table has internal tables.
    found.into_iter().filter(|name| !name.starts_with("search_")).collect()
}

#[tokio::test]
async fn every_table_is_counted_or_bounded() {
    let hub = TestHub::start();
    let uncounted = UNCOUNTED.iter().map(|(name, _)| *name);
    let listed = COUNTED_TABLES.iter().copied().chain(uncounted).map(str::to_owned).collect();
    assert_eq!(tables(&hub).await, listed);
}

/// Returns the number of rows in each counted table.
async fn counted_rows(hub: &TestHub) -> BTreeMap<&'static str, i64> {
    let count = |tx: &mut dyn Tx| {
        let mut rows = BTreeMap::new();
        for (table, sql) in COUNTED_TABLES.iter().zip(COUNTS) {
            rows.insert(*table, tx.first(sql, &[])?.map_or(Ok(0), |mut row| row.int("count"))?);
        }
        Ok(rows)
    };
    hub.store().read::<_, StoreError, _>(count).await.unwrap()
}

/// In the order of [`COUNTED_TABLES`].
const COUNTS: [&str; 18] = [
    "SELECT COUNT(*) AS count FROM agents",
    "SELECT COUNT(*) AS count FROM approvals",
    "SELECT COUNT(*) AS count FROM artifacts",
    "SELECT COUNT(*) AS count FROM comparisons",
    "SELECT COUNT(*) AS count FROM conversations",
    "SELECT COUNT(*) AS count FROM events",
    "SELECT COUNT(*) AS count FROM evidence",
    "SELECT COUNT(*) AS count FROM evidence_answers",
    "SELECT COUNT(*) AS count FROM jobs",
    "SELECT COUNT(*) AS count FROM large_bodies",
    "SELECT COUNT(*) AS count FROM market_agents",
    "SELECT COUNT(*) AS count FROM quotes",
    "SELECT COUNT(*) AS count FROM receipts",
    "SELECT COUNT(*) AS count FROM score_versions",
    "SELECT COUNT(*) AS count FROM skills",
    "SELECT COUNT(*) AS count FROM transfers",
    "SELECT COUNT(*) AS count FROM wallets",
    "SELECT COUNT(*) AS count FROM work_streams",
];

/// Returns the bytes used by a key's holder; `None` if the key is no longer valid.
async fn used(hub: &TestHub, key: &str) -> Option<i64> {
    let me = hub.get("/api/v1/me", Some(key)).await;
    let quotas = &me.body["quotas"];
    let used = [&quotas["agent_bytes"]["used"], &quotas["account_bytes"]["used"]];
    used.into_iter().find_map(Value::as_i64).filter(|_| me.status == 200)
}

/// Calls every writing route. A route that adds rows to a counted table must say so, and somebody's usage must
/// grow. After a restart, which recounts the tables, every usage is the same.
#[tokio::test]
async fn nothing_is_stored_without_being_charged() {
    let hub = TestHub::start();
    hub.register("third").await;
    let (mut wrong, mut keys) = (vec![], vec![]);
    let writing = TABLE.iter().filter(|(method, ..)| *method != "get").enumerate();
    for (n, (method, route, statuses)) in writing {
        let Some(column) = statuses.iter().position(|status| *status < 300) else { continue };
        let world = World::make(&hub, &format!("charged-{n}")).await;
        let prepared = Prepared::make(&hub, &world, method, route).await;
        let known = world.counted_keys();
        let before = (counted_rows(&hub).await, sum(&hub, &known).await);
        let status = prepared.call(&hub, &world, (method, route), column).await;
        assert_eq!(status, statuses[column], "{method} {route}");
        let after = (counted_rows(&hub).await, sum(&hub, &known).await);
        let grown: Vec<_> = after.0.iter().filter(|(table, rows)| **rows > before.0[*table]).collect();
        let charged = CHARGES.iter().find(|(other, path, ..)| other == method && path == route);
        let stored = charged.expect("every route is listed").3;
        // Objects without an owner, or deleted with their owner, count for a key that is not checked here.
        let is_seen = (2..6).contains(&column) && after.1.len() == before.1.len();
        let figure = after.1.iter().sum::<i64>() - before.1.iter().sum::<i64>();
        match stored {
            Stored::Nothing | Stored::Bounded(_) if !grown.is_empty() => {
                wrong.push(format!("{method} {route} says {stored:?}, and stores {grown:?}"));
            }
            Stored::Counted if is_seen && !grown.is_empty() && figure <= 0 => {
                wrong.push(format!("{method} {route} stores {grown:?}, and charges {figure}"));
            }
            _ => {}
        }
        keys.push((format!("{method} {route}"), known));
    }
    let mut before = vec![];
    for (_, keys) in &keys {
        for key in keys {
            before.push(used(&hub, key).await);
        }
    }
    let hub = hub.restart(|_| {}).await;
    let mut before = before.into_iter();
    for (route, keys) in &keys {
        for (n, key) in keys.iter().enumerate() {
            let (counted, recounted) = (before.next().flatten(), used(&hub, key).await);
            if counted != recounted {
                wrong.push(format!("{route}, {n}: {counted:?} were counted, {recounted:?} are stored"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn sum(hub: &TestHub, keys: &[String]) -> Vec<i64> {
    let mut found = vec![];
    for key in keys {
        found.extend(used(hub, key).await);
    }
    found
}
