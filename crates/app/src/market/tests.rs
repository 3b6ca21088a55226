//! Counts the statements that a job costs, settles very many jobs, and shares out long checks.

use super::settle::{self, Ended};
use super::{data_checks, hire, reconcile};
use crate::delivery::reader::Reader;
use chorus_environment::{Environment, ManualClock};
use chorus_market::escrow::Verdict;
use chorus_market::money;
use chorus_node::Config;
use chorus_node::Error;
use chorus_node::caches::market::Takes;
use chorus_node::caller::{Caller, Identity};
use chorus_node::idempotency::Once;
use chorus_node::secrets::MasterKey;
use chorus_node::source::{Source, rate_key};
use chorus_node::transport::dialect::Dialect;
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, EventId, JobId, TraceId, WalletId};
use chorus_protocol::market::{Credits, JobRequest, JobStatus};
use chorus_store::directory::{self, KeyHash, Record};
use chorus_store::market::agents::{self, NewListing, Skill};
use chorus_store::market::jobs::{self, Agreed};
use chorus_store::market::ledger::{self, Cause};
use chorus_store::market::wallets::{self, NewWallet};
use chorus_store::{Metered, Store, StoreError, Tx, TxExt, access, inboxes};
use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const KEY: KeyHash = [3; 32];
const WORKER: AgentId = AgentId(Uuid::from_u128(1));
const PAYER: WalletId = WalletId(Uuid::from_u128(2));
const PAYEE: WalletId = WalletId(Uuid::from_u128(3));
const TRACE: TraceId = TraceId(Uuid::from_u128(4));

const BEGIN: i64 = 1_774_000_800_000;

/// Builds a hub on this clock with a funded hirer and a worker that adds numbers.
async fn begin_at(clock: &ManualClock) -> AppState {
    // This installs the TLS provider that the hub's own client needs.
    drop(chorus_testkit::http::client());
    let environment = Environment::seeded(1, clock);
    let config = Config::new(environment.uuid_v4(), "hub.example", [0; 32], MasterKey::new([7; 32]));
    let app = App::new(Store::in_memory().unwrap(), config, environment, CancellationToken::new(), true);
    let (app, now) = (Arc::new(app.unwrap()), BEGIN);
    let make = move |tx: &mut dyn Tx| {
        for (id, owner) in [(PAYER, "boss"), (PAYEE, "worker")] {
            let new = NewWallet {
                id,
                owner: owner.into(),
                account: None,
                key: None,
                issued_to: None,
                trace: TRACE,
            };
            wallets::insert(tx, &new, now)?;
        }
        let minted = money::mint(PAYER, Credits::ZERO, Credits::from_hundredths(1000).unwrap()).unwrap();
        ledger::apply(tx, &[minted], Cause { job: None, transfer: None, trace: TRACE }, now)?;
        let record = Record { name: "worker".into(), endpoint: None, card: None };
        directory::insert(tx, WORKER, &record, &KEY, TRACE, now)?;
        let skill = Skill {
            name: "sum".into(),
            description: None,
            cost: Credits::from_hundredths(10).unwrap(),
            input_schema: Some(json!({"numbers": "list"}).to_string()),
            output_schema: None,
            min_deadline_ms: None,
        };
        let listing = NewListing {
            agent: WORKER,
            wallet: PAYEE,
            display_name: "worker".into(),
            endpoint: None,
            skills: vec![skill],
            trace: TRACE,
        };
        agents::save(tx, &listing, now)?;
        inboxes::seen(tx, WORKER, now)
    };
    app.store.write::<_, StoreError, _>(make).await.unwrap();
    app
}

async fn begin() -> AppState {
    begin_at(&ManualClock::new(BEGIN)).await
}

fn job() -> JobRequest {
    let body =
        json!({"agent_id": WORKER, "skill_name": "sum", "input_data": {"numbers": [1, 2]}, "budget": 0.15});
    serde_json::from_value(body).unwrap()
}

fn here() -> Source {
    rate_key([192, 0, 2, 1].into())
}

async fn next(reader: &mut Reader) -> String {
    let piece = tokio::time::timeout(Duration::from_secs(10), reader.next()).await.unwrap().unwrap();
    String::from_utf8(piece.bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_job_costs_so_many_statements() {
    let app = begin().await;
    for round in 0..2 {
        let act = Arc::new(hire::prepare(&app, Caller::Owner(PAYER), here(), job()).await.unwrap());
        let (id, hub) = (act.id, Arc::clone(&app));
        // In the second round the skill's schema is cached.
        let schema = match act.fits_as_before() {
            Some(Takes(schema)) if round == 1 => schema,
            None if round == 0 => act.check_input().await.unwrap(),
            other => panic!("{other:?}"),
        };
        let work = move |tx: &mut dyn Tx| {
            let mut hired = Metered::new(tx);
            act.run(&mut hired, None, schema.as_deref())?.expect("it is what was checked");
            let hired = hired.statements;
            let job = jobs::by_id(tx, id)?.unwrap();
            let mut ended = Metered::new(tx);
            let cost = Some(Credits::from_hundredths(15).unwrap());
            let settled = settle::settle(&mut ended, &hub, &job, Verdict::Done(cost), &Ended::default())?;
            assert!(settled.is_some());
            Ok((hired, ended.statements))
        };
        let (hired, ended) = app.store.write::<_, Error, _>(work).await.unwrap();
        if round == 1 {
            // Read: the wallet, the job, the agent, its offer, the number of open jobs, the payer's usage.
            // Written: the job, the wallet, the hold, its ledger entry, the event, its number, the delivery
            // and the job's attention item.
            assert_eq!(hired.len(), 14, "{hired:#?}");
            // The sides, the job, the hold, the wallet, its ledger entry; the reputation, its change and the
            // agent's rank; the agent's disposition.
            assert_eq!(ended.len(), 10, "{ended:#?}");
        }
    }
}

#[tokio::test]
async fn a_job_is_not_read_from_the_store_for_an_inbox_that_is_open() {
    let app = begin().await;
    let open = async |place| {
        let worker = Identity { id: WORKER, name: "worker".into() };
        let opened = Reader::open(Arc::clone(&app), worker, KEY, Dialect::Sse, None, place).await;
        let mut reader = opened.unwrap();
        assert!(next(&mut reader).await.starts_with("event: connected\n"));
        reader
    };
    let mut first = open(None).await;
    let hired = hire::hire(&app, Caller::Owner(PAYER), here(), job(), Once::NO_KEY).await.unwrap().result;
    let framed = next(&mut first).await;
    assert!(framed.contains("event: job\n") && framed.contains(&hired.job_id.to_string()), "{framed}");
    assert_eq!(next(&mut open(Some(0)).await).await, framed, "the same from the store");
    let mut third = open(Some(1)).await;
    hire::hire(&app, Caller::Owner(PAYER), here(), job(), Once::NO_KEY).await.unwrap();
    // With the rows deleted, the job can only come from the cached frame.
    let forget = |tx: &mut dyn Tx| tx.query("DELETE FROM deliveries RETURNING seq", &[]);
    assert_eq!(app.store.write::<_, StoreError, _>(forget).await.unwrap().len(), 2);
    assert!(next(&mut third).await.contains("event: job\n"));
}

/// Inserts a job that the worker has, for 0.01.
fn ask(tx: &mut dyn Tx, number: u128) -> Result<(), StoreError> {
    let (id, budget) = (JobId(Uuid::from_u128(1000 + number)), Credits::from_hundredths(1).unwrap());
    let agreed = Agreed {
        id,
        content: [0; 32],
        orchestrator: None,
        payer: PAYER,
        agent: WORKER,
        payee: PAYEE,
        skill: "sum".into(),
        price: budget,
        budget,
        output_schema: None,
        event: EventId(Uuid::from_u128(1_000_000 + number)),
        callback: None,
        deadline_at: BEGIN + 300_000,
        skill_time_ms: 30_000,
        created_at: BEGIN,
        allowance_day: None,
        trace: TRACE,
    };
    assert!(jobs::insert(tx, &agreed)?);
    let payer = wallets::by_id(tx, PAYER)?.unwrap();
    let held = money::hold(money::Wallet { id: PAYER, balance: payer.balance }, id, budget).unwrap();
    ledger::apply(tx, held.as_slice(), Cause { job: Some(id), transfer: None, trace: TRACE }, BEGIN)
}

#[tokio::test]
async fn all_jobs_of_an_agent_that_leaves_are_refunded_soon() {
    const JOBS: u128 = 900;
    let clock = ManualClock::new(BEGIN);
    let app = begin_at(&clock).await;
    let work = |tx: &mut dyn Tx| {
        (0..JOBS).try_for_each(|number| ask(tx, number))?;
        access::delete_agent(tx, WORKER, BEGIN, &|| Uuid::from_u128(5))
    };
    app.store.write::<_, StoreError, _>(work).await.unwrap();
    let stand = async || {
        let look = |tx: &mut dyn Tx| {
            let one = jobs::by_id(tx, JobId(Uuid::from_u128(1000 + JOBS - 1)))?.unwrap();
            Ok::<_, StoreError>((ledger::sums(tx)?, one, agents::leaving(tx, 10)?.len()))
        };
        app.store.read::<_, StoreError, _>(look).await.unwrap()
    };
    assert_eq!(stand().await.0.held, JOBS as i64);
    for _ in 0..2 {
        reconcile::refund_left(&app).await.unwrap();
    }
    let (sums, job, leaving) = stand().await;
    assert_eq!((sums.held, sums.wallets, sums.balanced()), (0, 1000, true));
    assert_eq!((job.status, job.error.unwrap().0.as_str()), (JobStatus::Failure, "AGENT_OFFLINE"));
    // A job requested at that very moment is refunded as well, and then the work is done.
    assert_eq!(leaving, 1);
    app.store.write::<_, StoreError, _>(|tx: &mut dyn Tx| ask(tx, JOBS)).await.unwrap();
    clock.advance(61_000);
    for leaving in [1, 0] {
        reconcile::refund_left(&app).await.unwrap();
        let (sums, _, left) = stand().await;
        assert_eq!((sums.held, left), (0, leaving));
    }
}

/// Returns a schema and data that take longer to compare than a short check may.
fn long_check() -> (String, Value) {
    let words: Vec<_> = (0..3000).collect();
    let schema = json!({"type": "object", "properties": {"x": {"items": {"enum": words}}}});
    (schema.to_string(), json!({"x": vec![2999; 80]}))
}

/// The callers at one address share its turns, however many keys they have.
#[tokio::test(flavor = "multi_thread")]
async fn long_checks_of_one_address_share_its_turns() {
    let (app, other) = (begin().await, rate_key([192, 0, 2, 2].into()));
    let (schema, input) = long_check();
    let (schemas, order) = ([Some(schema)], Mutex::new(vec![]));
    let check = async |n: u128, source: Source| {
        let (caller, steps) =
            (Caller::Owner(WalletId(Uuid::from_u128(n))), &mut data_checks::request_budget());
        let fits = data_checks::check_input(&app, (&caller, source), &schemas, true, &input, steps).await?;
        order.lock().unwrap().push(n);
        Ok::<_, Error>(fits)
    };
    let first = app.limits.data_checks.begin(Uuid::nil(), Uuid::nil()).await.unwrap();
    let mut waiting: Vec<_> = (1..=16).map(|n| Box::pin(check(n, here()))).collect();
    for check in &mut waiting {
        assert!(check.now_or_never().is_none(), "it waits for a turn");
    }
    let refused = check(17, here()).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.retry_after_ms),
        (Code::RateLimited, Some(1000)),
        "{}",
        refused.message
    );
    let mut honest = Box::pin(check(100, other));
    assert!((&mut honest).now_or_never().is_none());
    waiting.push(honest);
    drop(first);
    for fits in join_all(waiting).await {
        assert!(fits.unwrap()[0].is_ok());
    }
    let order = order.into_inner().unwrap();
    assert_eq!(order.iter().position(|n| *n == 100), Some(1), "after one of the others: {order:?}");
}

/// A long check of an output takes a turn of the address that registered the worker.
#[tokio::test(flavor = "multi_thread")]
async fn long_checks_of_outputs_wait_for_their_turn() {
    let app = begin().await;
    let (schema, output) = long_check();
    let hired = hire::hire(&app, Caller::Owner(PAYER), here(), job(), Once::NO_KEY).await.unwrap().result;
    let found = app.store.read::<_, StoreError, _>(move |tx| jobs::by_id(tx, hired.job_id)).await.unwrap();
    let mut job = found.unwrap();
    job.agreed.output_schema = Some(schema);
    let mark = app.config.master_key.source_mark(here());
    let register = move |tx: &mut dyn Tx| directory::keep_source(tx, WORKER, &mark);
    app.store.write::<_, StoreError, _>(register).await.unwrap();

    let first = app.limits.data_checks.begin(Uuid::nil(), Uuid::nil()).await.unwrap();
    // The address that registered the worker has all of its places taken.
    let party = Uuid::from_bytes(mark);
    let places: Vec<_> =
        (1..=16).map(|n| app.limits.data_checks.enter(party, Uuid::from_u128(n)).unwrap()).collect();
    let refused = data_checks::check_output(&app, &job, &output).await.unwrap_err();
    assert_eq!(refused.code, Code::RateLimited, "{}", refused.message);
    drop((places, first));
    assert!(data_checks::check_output(&app, &job, &output).await.unwrap().is_ok());
}
