//! Wallets, the ledger, and jobs that end once: the engine's plans are applied correctly under concurrency.

use crate::attention::MENTIONED;
use crate::market_agents::listed;
use crate::support::{Fixture, NOW, agent, count, fresh, on_both, read, soon, write};
use chorus_market::escrow::{Terms, Verdict, settle};
use chorus_market::money::{self, Refused};
use chorus_protocol::ids::{EventId, JobId, TraceId, TransferId, WalletId};
use chorus_protocol::market::{Credits, JobStatus, Movement, MovementKind, Purse};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use chorus_store::market::jobs::{self, Agreed, End, Job, Side};
use chorus_store::market::ledger::{self, Cause, JobLedger, Sums, Transfer};
use chorus_store::market::wallets::{self, NewWallet, Wallet};
use chorus_store::{Store, StoreError, Tx, deliveries, push};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both![
    an_owner_has_one_wallet,
    credits_move_and_are_written_down,
    nothing_goes_below_nothing,
    what_is_held_is_gone_with_its_job,
    a_transfer_is_known_by_its_id,
    a_job_is_asked_for_once_and_ends_once,
    each_side_lists_its_jobs,
    an_overdue_job_is_found,
    what_came_of_jobs_is_forgotten,
    why_an_answer_was_no_result_is_noted,
    a_callback_is_pushed;
    with_threads:
    transfers_at_once_lose_nothing,
    a_job_that_ends_in_many_ways_at_once_is_paid_once,
];

pub(crate) fn credits(hundredths: i64) -> Credits {
    Credits::from_hundredths(hundredths).unwrap()
}

fn trace() -> TraceId {
    TraceId(fresh())
}

/// Creates a wallet with this balance, in hundredths.
pub(crate) async fn wallet(store: &Store, owner: &str, hundredths: i64) -> WalletId {
    let new = NewWallet {
        id: WalletId(fresh()),
        owner: owner.into(),
        account: None,
        key: Some(crate::support::key(owner)),
        issued_to: None,
        trace: trace(),
    };
    let id = new.id;
    write(store, move |tx: &mut dyn Tx| {
        wallets::insert(tx, &new, NOW)?;
        let supply = ledger::supply(tx)?;
        let minted = money::mint(new.id, supply, credits(hundredths)).ok();
        ledger::apply(tx, minted.as_slice(), cause(None), NOW)
    })
    .await;
    id
}

fn cause(job: Option<JobId>) -> Cause {
    Cause { job, transfer: None, trace: TraceId(uuid::Uuid::from_u128(1)) }
}

async fn balance(store: &Store, id: WalletId) -> i64 {
    read(store, move |tx| wallets::by_id(tx, id)).await.unwrap().balance.hundredths()
}

async fn sums(store: &Store) -> Sums {
    read(store, ledger::sums).await
}

/// Does what an act does: reads the balance, asks the engine, applies its plan.
pub(crate) fn transfer(
    tx: &mut dyn Tx,
    from: WalletId,
    to: WalletId,
    amount: i64,
) -> Result<Result<(), Refused>, StoreError> {
    wallets::hold(tx, [from, to])?;
    let Some(Wallet { id, balance, .. }) = wallets::by_id(tx, from)? else { panic!("no wallet") };
    match money::transfer(money::Wallet { id, balance }, to, credits(amount)) {
        Ok(moved) => ledger::apply(tx, &[moved], cause(None), NOW).map(Ok),
        Err(refused) => Ok(Err(refused)),
    }
}

async fn an_owner_has_one_wallet(fixture: Fixture) {
    let store = &fixture.store;
    let anna = wallet(store, "anna", 0).await;
    let again = NewWallet {
        id: WalletId(fresh()),
        owner: "anna".into(),
        account: None,
        key: None,
        issued_to: None,
        trace: trace(),
    };
    assert_eq!(write(store, move |tx| wallets::insert(tx, &again, NOW)).await, None);
    let found = read(store, |tx| wallets::by_owner(tx, "anna")).await.unwrap();
    assert_eq!((found.id, found.keyed, found.balance), (anna, true, Credits::ZERO));
    assert_eq!(read(store, |tx| wallets::by_key(tx, &crate::support::key("anna"))).await.unwrap().id, anna);
    assert_eq!(read(store, |tx| wallets::by_key(tx, &crate::support::key("bob"))).await, None);
    assert_eq!(read(store, |tx| wallets::by_owner(tx, "Anna")).await, None);
}

async fn credits_move_and_are_written_down(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 5).await);
    write(store, move |tx| transfer(tx, anna, bob, 30)).await.unwrap();
    assert_eq!((balance(store, anna).await, balance(store, bob).await), (70, 35));
    write(store, move |tx| {
        let from = money::Wallet { id: bob, balance: credits(35) };
        ledger::apply(tx, &[money::burn(from, credits(35)).unwrap()], cause(None), NOW)
    })
    .await;
    let sums = sums(store).await;
    assert_eq!(sums, Sums { minted: 105, burned: 35, wallets: 70, held: 0 });
    assert!(sums.balanced());
    let rows = read(store, move |tx| ledger::of_wallet(tx, bob, i64::MAX, 0, 10)).await;
    let seen: Vec<_> = rows
        .iter()
        .map(|row| {
            (row.number, row.kind, row.debit.as_deref(), row.credit.as_deref(), row.amount.hundredths())
        })
        .collect();
    assert_eq!(
        seen,
        [
            (3, MovementKind::Burn, Some("bob"), None, 35),
            (2, MovementKind::Transfer, Some("anna"), Some("bob"), 30),
            (1, MovementKind::Mint, None, Some("bob"), 5),
        ]
    );
    let balances: Vec<_> = rows.iter().map(|row| row.balance.unwrap().hundredths()).collect();
    assert_eq!(balances, [0, 35, 5]);
    // Pages and times.
    assert_eq!(read(store, move |tx| ledger::of_wallet(tx, bob, 3, 0, 1)).await, rows[1..2]);
    assert_eq!(read(store, move |tx| ledger::of_wallet(tx, bob, i64::MAX, NOW + 1, 10)).await, []);
}

/// The database itself refuses a negative balance, even without the engine.
async fn nothing_goes_below_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 10).await, wallet(store, "bob", 0).await);
    let refused = write(store, move |tx| transfer(tx, anna, bob, 11)).await;
    assert_eq!(refused, Err(Refused::Short { balance: credits(10), needed: credits(11) }));
    let moved = Movement {
        kind: MovementKind::Transfer,
        from: Purse::Wallet(anna),
        to: Purse::Wallet(bob),
        amount: credits(11),
    };
    let forced = store.write(move |tx: &mut dyn Tx| ledger::apply(tx, &[moved], cause(None), NOW));
    assert!(soon(forced).await.is_err());
    let job = JobId(fresh());
    let moved = Movement {
        kind: MovementKind::Settle,
        from: Purse::Hold(job),
        to: Purse::Wallet(bob),
        amount: credits(1),
    };
    let forced = store.write(move |tx: &mut dyn Tx| ledger::apply(tx, &[moved], cause(Some(job)), NOW));
    assert!(soon(forced).await.is_err());
    assert_eq!((balance(store, anna).await, balance(store, bob).await), (10, 0));
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM ledger").await, 1);
}

pub(crate) fn agreed(payer: WalletId, payee: WalletId, agent: chorus_protocol::ids::AgentId) -> Agreed {
    Agreed {
        id: JobId(fresh()),
        content: [7; 32],
        orchestrator: None,
        payer,
        agent,
        payee,
        skill: "analyze_text".into(),
        price: credits(10),
        budget: credits(15),
        output_schema: None,
        event: EventId(fresh()),
        callback: None,
        deadline_at: NOW + 1000,
        skill_time_ms: 30_000,
        created_at: NOW,
        allowance_day: None,
        trace: trace(),
    }
}

/// Creates a job and holds its budget.
pub(crate) fn hire(tx: &mut dyn Tx, new: &Agreed) -> Result<bool, StoreError> {
    wallets::hold(tx, [new.payer])?;
    if !jobs::insert(tx, new)? {
        return Ok(false);
    }
    let Some(Wallet { id, balance, .. }) = wallets::by_id(tx, new.payer)? else { panic!("no wallet") };
    let held = money::hold(money::Wallet { id, balance }, new.id, new.budget).expect("it can pay");
    ledger::apply(tx, held.as_slice(), cause(Some(new.id)), NOW)?;
    Ok(true)
}

/// Ends a job. Returns whether this call ended it.
pub(crate) fn finish(tx: &mut dyn Tx, job: &Agreed, verdict: Verdict) -> Result<bool, StoreError> {
    wallets::hold(tx, [job.payer, job.payee])?;
    let Agreed { id, payer, payee, budget, price, .. } = *job;
    let settled = settle(&Terms { job: id, payer, payee, budget, price }, verdict);
    let end = End { status: settled.status, paid: settled.paid, result: None, error: None, now: NOW + 5 };
    if !jobs::end(tx, id, &end)? {
        return Ok(false);
    }
    ledger::apply(tx, &settled.movements, cause(Some(id)), NOW + 5)?;
    Ok(true)
}

async fn what_is_held_is_gone_with_its_job(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let worker = agent(store, "worker").await.id;
    for (verdict, left, earned) in
        [(Verdict::Done(None), 90, 10), (Verdict::Failed, 90, 10), (Verdict::Done(Some(credits(99))), 75, 25)]
    {
        let job = agreed(anna, bob, worker);
        let asked = job.clone();
        assert!(write(store, move |tx| hire(tx, &asked)).await);
        assert_eq!(read(store, move |tx| wallets::held(tx, anna)).await, credits(15));
        let during = sums(store).await;
        assert!(during.balanced() && during.held == 15, "{during:?}");
        let id = job.id;
        assert!(write(store, move |tx| finish(tx, &job, verdict)).await);
        assert_eq!((balance(store, anna).await, balance(store, bob).await), (left, earned));
        assert_eq!(read(store, move |tx| wallets::held(tx, anna)).await, Credits::ZERO);
        assert!(sums(store).await.balanced());
        let rows = read(store, move |tx| ledger::of_job(tx, id, JobLedger::All, 10)).await;
        assert_eq!(rows[0].kind, MovementKind::Hold);
        let moved_on: i64 = rows[1..].iter().map(|row| row.amount.hundredths()).sum();
        assert_eq!(moved_on, 15);
    }
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM holds").await, 0);
}

async fn a_transfer_is_known_by_its_id(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let new = Transfer {
        id: TransferId(fresh()),
        from: anna,
        to: bob,
        amount: credits(10),
        job: Some(JobId(fresh())),
        created_at: NOW,
    };
    let id = new.id;
    assert_eq!(read(store, move |tx| ledger::transfer(tx, id)).await, None);
    for is_new in [true, false] {
        let new = new.clone();
        assert_eq!(write(store, move |tx| ledger::insert_transfer(tx, &new, trace())).await, is_new);
    }
    assert_eq!(read(store, move |tx| ledger::transfer(tx, id)).await, Some(new));
}

async fn a_job_is_asked_for_once_and_ends_once(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let job = Agreed {
        orchestrator: Some(agent(store, "boss").await.id),
        output_schema: Some("{}".into()),
        callback: Some(vec![1, 2]),
        ..agreed(anna, bob, agent(store, "worker").await.id)
    };
    for is_new in [true, false] {
        let job = job.clone();
        assert_eq!(write(store, move |tx| hire(tx, &job)).await, is_new);
    }
    let id = job.id;
    let found = read(store, move |tx| jobs::by_id(tx, id)).await.unwrap();
    assert_eq!((found.agreed, found.status, found.ended_at), (job.clone(), JobStatus::Pending, None));
    for is_first in [true, false] {
        let job = job.clone();
        assert_eq!(write(store, move |tx| finish(tx, &job, Verdict::Done(None))).await, is_first);
    }
    let found = read(store, move |tx| jobs::by_id(tx, id)).await.unwrap();
    assert_eq!((found.status, found.paid, found.ended_at), (JobStatus::Success, credits(10), Some(NOW + 5)));
    assert_eq!((balance(store, anna).await, balance(store, bob).await), (90, 10));
}

async fn each_side_lists_its_jobs(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let (boss, worker) = (agent(store, "boss").await.id, agent(store, "worker").await.id);
    let mut made = vec![];
    for n in 0..3 {
        let job = Agreed { orchestrator: Some(boss), created_at: NOW + n / 2, ..agreed(anna, bob, worker) };
        made.push((job.created_at, job.id));
        write(store, move |tx| hire(tx, &job)).await;
    }
    made.sort_unstable();
    made.reverse();
    let ids = |found: Vec<Job>| {
        found.into_iter().map(|job| (job.agreed.created_at, job.agreed.id)).collect::<Vec<_>>()
    };
    for side in [Side::Agent(boss), Side::Agent(worker), Side::Wallet(anna), Side::Wallet(bob)] {
        let list = |before, limit| read(store, move |tx| jobs::list(tx, side, None, before, limit));
        assert_eq!(ids(list(None, 10).await), made);
        assert_eq!(ids(list(None, 2).await), made[..2]);
        assert_eq!(ids(list(Some(made[1]), 10).await), made[2..]);
    }
    let done =
        read(store, move |tx| jobs::list(tx, Side::Wallet(anna), Some(JobStatus::Success), None, 10)).await;
    assert_eq!(done, []);
    let nobody = wallet(store, "nobody", 0).await;
    assert_eq!(read(store, move |tx| jobs::list(tx, Side::Wallet(nobody), None, None, 10)).await, []);
}

async fn an_overdue_job_is_found(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let worker = agent(store, "worker").await.id;
    let job = agreed(anna, bob, worker);
    let (asked, id) = (job.clone(), job.id);
    write(store, move |tx| hire(tx, &asked)).await;
    let overdue = |now: i64| read(store, move |tx| jobs::find_overdue(tx, now, 10));
    assert_eq!(overdue(NOW + 999).await, []);
    assert_eq!(overdue(NOW + 1000).await, [id]);
    assert_eq!(read(store, move |tx| jobs::open_of_agent(tx, worker, 10)).await, [id]);
    write(store, move |tx| finish(tx, &job, Verdict::Overdue)).await;
    assert_eq!(overdue(NOW + 1000).await, []);
    assert_eq!(read(store, move |tx| jobs::open_of_agent(tx, worker, 10)).await, []);
}

/// The job stays and its id remains taken; its result is deleted.
async fn what_came_of_jobs_is_forgotten(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let worker = agent(store, "worker").await.id;
    let mut ids = vec![];
    for n in 0..3 {
        let job = Agreed { created_at: NOW + n, ..agreed(anna, bob, worker) };
        ids.push(job.id);
        write(store, move |tx| {
            hire(tx, &job)?;
            let (status, paid) = (JobStatus::Success, Credits::ZERO);
            jobs::end(
                tx,
                job.id,
                &End { status, paid, result: Some("{\"é\": 1}"), error: None, now: NOW + n },
            )
        })
        .await;
    }
    let forget = |cutoff, limit| write(store, move |tx| jobs::forget_results(tx, cutoff, limit));
    let bytes = |count: i64| std::collections::BTreeMap::from([(worker.into(), count * (9 + 256))]);
    assert_eq!(forget(NOW, 10).await, (0, std::collections::BTreeMap::new()));
    assert_eq!(forget(NOW + 2, 1).await, (1, bytes(1)));
    assert_eq!(forget(NOW + 2, 10).await, (1, bytes(1)));
    assert_eq!(forget(NOW + 2, 10).await, (0, std::collections::BTreeMap::new()));
    for (id, is_kept) in ids.into_iter().zip([false, false, true]) {
        let job = read(store, move |tx| jobs::by_id(tx, id)).await.unwrap();
        assert_eq!((job.status, job.result.is_some()), (JobStatus::Success, is_kept));
    }
}

async fn why_an_answer_was_no_result_is_noted(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let job = agreed(anna, bob, agent(store, "worker").await.id);
    let (asked, id) = (job.clone(), job.id);
    write(store, move |tx| hire(tx, &asked)).await;
    let noted = || read(store, move |tx| Ok(jobs::by_id(tx, id)?.unwrap().note));
    assert_eq!(noted().await, None);
    write(store, move |tx| jobs::note(tx, id, "not JSON")).await;
    assert_eq!(noted().await.as_deref(), Some("not JSON"));
    write(store, move |tx| finish(tx, &job, Verdict::Overdue)).await;
    write(store, move |tx| jobs::note(tx, id, "too late")).await;
    assert_eq!(noted().await.as_deref(), Some("not JSON"), "what has ended is not changed");
}

async fn a_callback_is_pushed(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 100).await, wallet(store, "bob", 0).await);
    let (boss, worker) = (agent(store, "boss").await.id, agent(store, "worker").await.id);
    for orchestrator in [Some(boss), None] {
        let job = Agreed {
            id: JobId(fresh()),
            event: EventId(fresh()),
            callback: Some(vec![1]),
            orchestrator,
            ..agreed(anna, bob, worker)
        };
        let asked = job.clone();
        write(store, move |tx| hire(tx, &asked)).await;
        let hirer = jobs::hirer(&job);
        let ended = job.clone();
        write(store, move |tx| {
            finish(tx, &ended, Verdict::Failed)?;
            jobs::call_back(tx, &ended, MENTIONED, NOW + 5)
        })
        .await;
        let (node, room) = (fresh(), push::Room { tries: 10, retries: 10, per_agent: 4 });
        let due = read(store, move |tx| push::find_due(tx, node, NOW + 5, &room, &BTreeSet::new())).await;
        let due: Vec<_> = due.into_iter().filter(|id| id.agent == hirer).collect();
        assert_eq!(due.len(), 1);
        let lease = deliveries::Lease { owner: node, until: NOW + 100 };
        let leased = write(store, move |tx| push::lease(tx, &due, NOW + 5, lease)).await;
        assert_eq!((leased[0].kind, leased[0].transport), (EntryKind::Result, Transport::Webhook));
        assert_eq!((leased[0].event, leased[0].give_up_at), (job.event, NOW + 5 + deliveries::GIVE_UP_MS));
        // Nobody accepts it, so it becomes a visible dead letter.
        let due = leased[0].clone();
        let finished =
            write(store, move |tx| push::finish(tx, &due, None, Some("gone"), push::Outcome::Dead, NOW + 6))
                .await;
        assert!(finished.held);
        let id = leased[0].id;
        let seen = read(store, move |tx| push::get(tx, id)).await.unwrap();
        assert_eq!((seen.state, seen.detail.as_deref()), (DeliveryState::Dead, Some("gone")));
    }
}

/// Many concurrent transfers between few wallets: every reader sees the minted sum.
async fn transfers_at_once_lose_nothing(fixture: Fixture) {
    const WALLETS: usize = 5;
    const EACH: usize = 40;
    let store = &fixture.store;
    let mut ids = vec![];
    for n in 0..WALLETS {
        ids.push(wallet(store, &format!("owner-{n}"), 1000).await);
    }
    let done = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn({
        let (store, done) = (store.clone(), Arc::clone(&done));
        async move {
            let mut looks = 0;
            while !done.load(Ordering::Acquire) || looks == 0 {
                let seen = sums(&store).await;
                assert!(seen.balanced() && seen.minted == 1000 * WALLETS as i64, "{seen:?}");
                looks += 1;
            }
        }
    });
    let tasks: Vec<_> = (0..WALLETS * EACH)
        .map(|n| {
            let (store, from) = (store.clone(), ids[n % WALLETS]);
            let to = ids[(n + 1 + n / WALLETS % (WALLETS - 1)) % WALLETS];
            let amount = 1 + (n as i64 * 37) % 200;
            tokio::spawn(async move { write(&store, move |tx| transfer(tx, from, to, amount)).await.is_ok() })
        })
        .collect();
    let mut moved = 0;
    for task in tasks {
        moved += i64::from(task.await.unwrap());
    }
    done.store(true, Ordering::Release);
    watcher.await.unwrap();
    assert!(moved > 0);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM ledger WHERE kind = 'transfer'").await, moved);
    // The numbers of each wallet have no gaps, and each balance follows from the previous one.
    for id in ids {
        let mut rows = read(store, move |tx| ledger::of_wallet(tx, id, i64::MAX, 0, 10_000)).await;
        rows.reverse();
        let owner = read(store, move |tx| wallets::by_id(tx, id)).await.unwrap();
        let mut held = 0;
        for (row, number) in rows.iter().zip(1..) {
            let into = row.credit.as_ref() == Some(&owner.owner);
            held += if into { row.amount.hundredths() } else { -row.amount.hundredths() };
            assert_eq!((row.number, row.balance.unwrap().hundredths()), (number, held));
        }
        assert_eq!(held, owner.balance.hundredths());
    }
}

async fn a_job_that_ends_in_many_ways_at_once_is_paid_once(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 1000).await, wallet(store, "bob", 1000).await);
    let worker = listed(store, "worker", bob, &[("analyze_text", 10)]).await;
    let verdicts =
        [Verdict::Done(None), Verdict::Failed, Verdict::Overdue, Verdict::Cancelled, Verdict::Done(None)];
    let mut tasks = vec![];
    for n in 0..20 {
        // Transfers go in both directions, so that wallets are locked in both orders.
        let (payer, payee) = if n % 2 == 0 { (anna, bob) } else { (bob, anna) };
        let job = agreed(payer, payee, worker);
        let asked = job.clone();
        assert!(write(store, move |tx| hire(tx, &asked)).await);
        for verdict in verdicts {
            let (store, job) = (store.clone(), job.clone());
            tasks.push(tokio::spawn(async move { write(&store, move |tx| finish(tx, &job, verdict)).await }));
        }
    }
    let mut ended = 0;
    for task in tasks {
        ended += i64::from(task.await.unwrap());
    }
    assert_eq!(ended, 20);
    let sums = sums(store).await;
    assert_eq!((sums.wallets, sums.held, sums.balanced()), (2000, 0, true));
    let paid = "SELECT CAST(COALESCE(SUM(paid), 0) AS BIGINT) AS count FROM jobs";
    let settled =
        "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS count FROM ledger WHERE kind = 'settle'";
    assert_eq!(count(store, paid).await, count(store, settled).await);
}
