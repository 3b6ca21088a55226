//! Agents on the market: discovery, reputation, transports of jobs, and the lifetime of offers.

use crate::attention::MENTIONED;
use crate::market::{agreed, credits, wallet};
use crate::support::{
    Fixture, LEASE_END, NODE, NOW, agent, count, entries, fresh, key, on_both, read, record, write,
};
use chorus_protocol::ids::{AgentId, BlockId, JobId, QuoteId, TraceId, WalletId};
use chorus_protocol::market::{Credits, JobStatus, Reputation};
use chorus_protocol::words::{EntryKind, Transport};
use chorus_store::blocks::{self, Block, Blocked};
use chorus_store::deliveries::Lease;
use chorus_store::market::agents::{self, NewListing, Skill};
use chorus_store::market::discovery::{self, Search};
use chorus_store::market::handing;
use chorus_store::market::jobs::{self, Agreed};
use chorus_store::market::quotes::{self, Offer, Quote};
use chorus_store::market::reputation::{self, Change};
use chorus_store::market::wallets::{self, NewWallet};
use chorus_store::market::withdrawal::{WithdrawnOffers, withdraw};
use chorus_store::push::{self, Due, Room};
use chorus_store::{Kind, Store, Tx, TxExt, access, directory, inboxes, retention};
use std::collections::BTreeSet;

on_both![
    registering_again_keeps_the_reputation,
    every_kind_of_id_is_looked_for,
    the_best_come_first_page_by_page,
    what_does_not_fit_is_not_found,
    a_change_of_reputation_is_recorded_and_ranks,
    a_job_goes_by_the_way_that_is_open,
    an_endpoint_for_jobs_gets_no_chat,
    offers_stand_until_they_are_taken,
    a_detached_agent_offers_nothing,
    a_job_is_kept_while_it_is_open_or_its_result_is_on_its_way,
    those_who_are_away_cost_nothing,
    a_wallet_is_kept_out_with_its_agents,
    whoever_left_is_known_until_its_jobs_are_done,
];

fn skill(name: &str, cost: i64) -> Skill {
    Skill {
        name: name.into(),
        description: Some(format!("Does {name} well")),
        cost: credits(cost),
        input_schema: Some("{}".into()),
        output_schema: None,
        min_deadline_ms: None,
    }
}

/// Creates an agent on the market that earns for this wallet and was seen now.
pub(crate) async fn listed(store: &Store, name: &str, wallet: WalletId, skills: &[(&str, i64)]) -> AgentId {
    let id = agent(store, name).await.id;
    let skills = skills.iter().map(|(name, cost)| skill(name, *cost)).collect();
    list(store, id, name, wallet, None, skills).await;
    write(store, move |tx| inboxes::seen(tx, id, NOW)).await;
    id
}

async fn list(
    store: &Store,
    agent: AgentId,
    name: &str,
    wallet: WalletId,
    endpoint: Option<&str>,
    skills: Vec<Skill>,
) -> (Reputation, bool) {
    let new = NewListing {
        agent,
        wallet,
        display_name: format!("The {name}"),
        endpoint: endpoint.map(Into::into),
        skills,
        trace: TraceId(fresh()),
    };
    write(store, move |tx: &mut dyn Tx| agents::save(tx, &new, NOW)).await
}

pub(crate) fn everything() -> Search {
    Search {
        skill: None,
        min_reputation: Reputation::MIN,
        max_cost: Credits::MAX,
        words: vec![],
        seen_since: Some(NOW - 90),
        now: NOW,
        except: None,
        max_deadline_ms: None,
        few_online: false,
    }
}

pub(crate) async fn found(store: &Store, search: &Search) -> Vec<(AgentId, String)> {
    let (search, counted) = (search.clone(), search.clone());
    let total = read(store, move |tx| discovery::count(tx, &counted)).await;
    let all = read(store, move |tx| discovery::search(tx, &search, None, 100)).await;
    assert_eq!(total, all.len() as i64);
    all.into_iter().map(|found| (found.place.agent, found.place.name)).collect()
}

/// Returns the entry of a counted job that set the score to this.
pub(crate) fn line(new: &str) -> Change {
    let new = Reputation::parse(new).unwrap();
    Change {
        number: 0,
        job: JobId(fresh()),
        status: JobStatus::Success,
        old: Reputation::NEUTRAL,
        new,
        arithmetic: "by hand".into(),
        not_counted: None,
        created_at: NOW,
    }
}

async fn rate(store: &Store, agent: AgentId, new: &str) {
    let (payer, change) = (WalletId(fresh()), line(new));
    write(store, move |tx| reputation::record(tx, agent, payer, &change)).await;
}

async fn registering_again_keeps_the_reputation(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let id = agent(store, "worker").await.id;
    let first = list(store, id, "worker", owner, None, vec![skill("a", 1), skill("b", 2)]).await;
    assert_eq!(first, (Reputation::NEUTRAL, true));
    rate(store, id, "92.3").await;
    let again = list(store, id, "worker", owner, Some("https://worker.example/"), vec![skill("b", 3)]).await;
    assert_eq!(again, (Reputation::parse("92.3").unwrap(), false));
    assert_eq!(read(store, move |tx| agents::skills(tx, id)).await, [skill("b", 3)]);
    assert_eq!(read(store, move |tx| agents::with_skill(tx, id, "a", 9)).await.unwrap().skill, None);
    let listing = read(store, move |tx| agents::by_id(tx, id)).await.unwrap();
    assert_eq!((listing.wallet, listing.endpoint.as_deref()), (owner, Some("https://worker.example/")));
    assert_eq!(read(store, move |tx| agents::wallet_of(tx, id)).await.unwrap().id, owner);
    assert!(read(store, move |tx| agents::is_foreign_id(tx, owner.0)).await);
    assert!(!read(store, move |tx| agents::is_foreign_id(tx, id.0)).await);
    assert!(read(store, move |tx| agents::was_agent(tx, id)).await);
}

/// A table whose rows have an id of their own is known to [`agents::is_foreign_id`], or named here.
async fn every_kind_of_id_is_looked_for(fixture: Fixture) {
    let find = |tx: &mut dyn Tx| {
        let sql = match tx.kind() {
            Kind::Sqlite => {
                "SELECT t.name FROM sqlite_master t, pragma_table_info(t.name) c
                 WHERE t.type = 'table' AND c.name = 'id' AND c.type = 'BLOB'"
            }
            Kind::Postgres => {
                "SELECT CAST(table_name AS TEXT) AS name FROM information_schema.columns
                 WHERE table_schema = current_schema() AND column_name = 'id' AND data_type = 'bytea'"
            }
        };
        tx.query(sql, &[])?.into_iter().map(|mut row| row.text("name")).collect::<Result<BTreeSet<_>, _>>()
    };
    // Agents are looked for by `was_agent`. No caller sees an id of the others, or it is that of another row.
    let others = ["agents", "harness_logs", "idempotency", "streams"];
    let listed = agents::TABLES_OF_IDS.iter().chain(&others).map(|name| (*name).to_owned());
    assert_eq!(read(&fixture.store, find).await, listed.collect());
}

async fn the_best_come_first_page_by_page(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let mut expected = vec![];
    for (n, reputation, cost) in
        [(0, "50", 10), (1, "92.3", 30), (2, "92.3", 20), (3, "10", 1), (4, "92.3", 20)]
    {
        let id = listed(store, &format!("worker-{n}"), owner, &[("sum", cost), ("other", 5)]).await;
        rate(store, id, reputation).await;
        let shortfall = 1_000_000 - Reputation::parse(reputation).unwrap().ten_thousandths();
        expected.push((shortfall, cost, id));
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(.., id)| (id, "sum".to_owned())).collect();
    let search = Search { skill: Some("sum".into()), ..everything() };
    assert_eq!(found(store, &search).await, expected);
    // The same page by page.
    let (mut pages, mut after) = (vec![], None);
    loop {
        let (search, from) = (search.clone(), after.clone());
        let page = read(store, move |tx| discovery::search(tx, &search, from.as_ref(), 2)).await;
        let Some(last) = page.last() else { break };
        after = Some(last.place.clone());
        pages.extend(page.into_iter().map(|found| (found.place.agent, found.place.name)));
    }
    assert_eq!(pages, expected);
    let all = found(store, &everything()).await;
    assert_eq!(all.len(), 10);
    let names = read(store, |tx| discovery::names(tx, "", 10)).await;
    let names: Vec<_> = names.into_iter().map(|one| (one.name, one.agents, one.lowest_cost)).collect();
    assert_eq!(names, [("other".into(), 5, credits(5)), ("sum".into(), 5, credits(1))]);
    assert_eq!(read(store, |tx| discovery::names(tx, "other", 10)).await.len(), 1);
}

async fn what_does_not_fit_is_not_found(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let worker = listed(store, "worker", owner, &[("sum", 10)]).await;
    let is_found = async |search: Search| !found(store, &search).await.is_empty();
    assert!(is_found(everything()).await);
    assert!(
        is_found(Search { min_reputation: Reputation::NEUTRAL, max_cost: credits(10), ..everything() }).await
    );
    assert!(!is_found(Search { skill: Some("Sum".into()), ..everything() }).await);
    assert!(
        !is_found(Search { min_reputation: Reputation::parse("50.0001").unwrap(), ..everything() }).await
    );
    assert!(!is_found(Search { max_cost: credits(9), ..everything() }).await);
    assert!(!is_found(Search { except: Some(worker), ..everything() }).await);
    assert!(is_found(Search { max_deadline_ms: Some(1), ..everything() }).await, "it takes anything");
    let slow = Skill { min_deadline_ms: Some(600), ..skill("sum", 10) };
    list(store, worker, "worker", owner, None, vec![slow]).await;
    for (given, fits) in [(Some(599), false), (Some(600), true), (None, true)] {
        for few_online in [false, true] {
            let search = Search { max_deadline_ms: given, few_online, ..everything() };
            assert_eq!(is_found(search).await, fits, "{given:?}");
        }
    }
    // Absent, unless its inbox is open.
    let away = Search { seen_since: Some(NOW + 1), ..everything() };
    assert!(!is_found(away.clone()).await);
    assert!(is_found(Search { seen_since: None, ..everything() }).await);
    write(store, move |tx| inboxes::open(tx, worker, fresh(), NODE, NOW + 10)).await;
    assert!(is_found(away).await);
    write(store, move |tx| access::disable_agent(tx, worker, NOW)).await;
    assert!(!is_found(Search { seen_since: None, ..everything() }).await);
    write(store, move |tx| access::enable_agent(tx, worker, NOW)).await;
    write(store, move |tx| access::delete_agent(tx, worker, NOW, &fresh)).await;
    assert!(!is_found(Search { seen_since: None, ..everything() }).await);
}

async fn a_change_of_reputation_is_recorded_and_ranks(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let (one, other) = (
        listed(store, "one", owner, &[("sum", 10)]).await,
        listed(store, "other", owner, &[("sum", 10)]).await,
    );
    for reputation in ["51", "52"] {
        rate(store, other, reputation).await;
    }
    let order = found(store, &everything()).await;
    assert_eq!(order.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [other, one]);
    let changes = read(store, move |tx| reputation::changes(tx, other, i64::MAX, 10)).await;
    let seen: Vec<_> = changes.iter().map(|change| (change.number, change.new.to_string())).collect();
    assert_eq!(seen, [(2, "52.0000".into()), (1, "51.0000".into())]);
    assert_eq!(read(store, move |tx| reputation::changes(tx, other, 2, 10)).await, changes[1..]);
    assert_eq!(read(store, move |tx| reputation::changes(tx, one, i64::MAX, 10)).await, []);
}

async fn hand_out(store: &Store, agent: AgentId) -> Agreed {
    let payer = WalletId(fresh());
    let job = agreed(payer, payer, agent);
    let asked = job.clone();
    write(store, move |tx| {
        jobs::insert(tx, &asked)?;
        let agent = directory::by_id(tx, agent)?.unwrap();
        let worker = agents::as_worker(tx, agent)?;
        jobs::hand_out(tx, &asked, &worker, worker.id.into(), "{\"job\": 1}", MENTIONED)
    })
    .await;
    job
}

async fn lease(store: &Store, now: i64) -> Vec<Due> {
    let room = Room { tries: 10, retries: 10, per_agent: 10 };
    let found = read(store, move |tx| push::find_due(tx, NODE, now, &room, &BTreeSet::new())).await;
    write(store, move |tx| push::lease(tx, &found, now, Lease { owner: NODE, until: LEASE_END })).await
}

async fn a_job_goes_by_the_way_that_is_open(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let at = Some("https://worker.example/");
    let waiting = async |id: AgentId, transport: Transport| {
        let due = lease(store, NOW).await;
        let kinds: Vec<_> =
            due.iter().map(|due| (due.id.agent, due.kind, due.transport, due.give_up_at)).collect();
        assert_eq!(kinds, [(id, EntryKind::Job, transport, NOW + 1000)]);
        assert_eq!(read(store, |tx| push::find_rerouted(tx, NOW + 1, 10)).await, []);
    };
    // The agent has only an inbox.
    let quiet = listed(store, "quiet", owner, &[("sum", 1)]).await;
    let job = hand_out(store, quiet).await;
    let all = entries(store, quiet).await;
    assert_eq!((all.len(), all[0].kind, all[0].is_streamed()), (1, EntryKind::Job, true));
    assert!(
        !read(store, {
            let job = job.clone();
            move |tx| handing::was_handed(tx, &job)
        })
        .await
    );
    write(store, move |tx| inboxes::hand_through(tx, quiet, 1, NOW)).await;
    assert!(read(store, move |tx| handing::was_handed(tx, &job)).await);
    // The agent has an endpoint for jobs; one for envelopes does not matter.
    let posted = listed(store, "posted", owner, &[]).await;
    list(store, posted, "posted", owner, at, vec![skill("sum", 1)]).await;
    let job = hand_out(store, posted).await;
    waiting(posted, Transport::Webhook).await;
    let id = read(store, move |tx| handing::delivery(tx, &job)).await.unwrap();
    assert_eq!(id.agent, posted);
    // An open inbox takes precedence.
    write(store, move |tx| inboxes::open(tx, posted, fresh(), NODE, NOW + 10)).await;
    hand_out(store, posted).await;
    assert_eq!(lease(store, NOW).await, []);
    // A connection string is used if there is nothing else; an endpoint for envelopes is not used for jobs.
    let channel = {
        let (id, trace) = (AgentId(fresh()), TraceId(fresh()));
        let record = record("channel", Some("https://agent.example/envelopes"));
        write(store, move |tx: &mut dyn Tx| directory::insert(tx, id, &record, &key("channel"), trace, NOW))
            .await
            .id
    };
    list(store, channel, "channel", owner, None, vec![skill("sum", 1)]).await;
    write(store, move |tx| directory::set_connection(tx, channel, Some(b"sealed"), NOW)).await;
    hand_out(store, channel).await;
    waiting(channel, Transport::Channel).await;
}

async fn an_endpoint_for_jobs_gets_no_chat(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let id = agent(store, "worker").await.id;
    list(store, id, "worker", owner, Some("https://worker.example/"), vec![skill("sum", 1)]).await;
    let agent = read(store, move |tx| directory::by_id(tx, id)).await.unwrap();
    assert_eq!(agent.endpoint, None);
    let worker = read(store, move |tx| agents::as_worker(tx, agent.clone())).await;
    assert_eq!(worker.endpoint.as_deref(), Some("https://worker.example/"));
}

async fn offers_stand_until_they_are_taken(fixture: Fixture) {
    let store = &fixture.store;
    let quote = Quote {
        budget: None,
        id: QuoteId(fresh()),
        orchestrator: Some(AgentId(fresh())),
        payer: WalletId(fresh()),
        skill: "sum".into(),
        input: Some("{}".into()),
        job: None,
        valid_until: NOW + 10,
        answers_until: NOW + 5,
        created_at: NOW,
        trace: TraceId(fresh()),
        offers: vec![
            Offer {
                agent: AgentId(fresh()),
                price: credits(2),
                expected_ms: Some(7),
                answered_at: None,
                declined: false,
                reputation: Reputation::MAX,
            },
            Offer {
                agent: AgentId(fresh()),
                price: credits(1),
                expected_ms: None,
                answered_at: None,
                declined: false,
                reputation: Reputation::MIN,
            },
        ],
    };
    let (id, payer, new) = (quote.id, quote.payer, quote.clone());
    write(store, move |tx| quotes::insert(tx, &new)).await;
    assert_eq!(read(store, move |tx| quotes::by_id(tx, id)).await, Some(quote));
    let job = JobId(fresh());
    assert!(write(store, move |tx| quotes::accept(tx, id, job)).await);
    assert!(!write(store, move |tx| quotes::accept(tx, id, JobId(fresh()))).await);
    assert_eq!(read(store, move |tx| quotes::by_id(tx, id)).await.unwrap().job, Some(job));
    assert_eq!(write(store, move |tx| quotes::remove_before(tx, NOW + 10, 10)).await, []);
    assert_eq!(write(store, move |tx| quotes::remove_before(tx, NOW + 11, 10)).await, [(payer, 2)]);
    assert_eq!(read(store, move |tx| quotes::by_id(tx, id)).await, None);
}

/// Offers that a thief made in an agent's name are removed; offers and keys of others stay.
async fn a_detached_agent_offers_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let (payer, other_owner) = (wallet(store, "payer", 0).await, wallet(store, "other", 0).await);
    let id = agent(store, "worker").await.id;
    let stolen = NewWallet {
        id: WalletId(fresh()),
        owner: "thief".into(),
        account: None,
        key: Some(key("thief")),
        issued_to: Some(id),
        trace: TraceId(fresh()),
    };
    let thief = stolen.id;
    write(store, move |tx| wallets::insert(tx, &stolen, NOW)).await;
    list(store, id, "worker", thief, Some("https://thief.example/"), vec![skill("a", 1), skill("b", 2)])
        .await;
    let other = listed(store, "second", other_owner, &[("a", 3)]).await;
    let offer = |agent| Offer {
        agent,
        price: credits(1),
        expected_ms: None,
        reputation: Reputation::NEUTRAL,
        answered_at: None,
        declined: false,
    };
    let quote = |valid_until| Quote {
        budget: None,
        id: QuoteId(fresh()),
        payer,
        skill: "a".into(),
        input: None,
        job: None,
        valid_until,
        created_at: NOW,
        trace: TraceId(fresh()),
        answers_until: NOW,
        orchestrator: None,
        offers: vec![offer(id), offer(other)],
    };
    let (open, over) = (quote(NOW + 10), quote(NOW));
    for quote in [open.clone(), over.clone()] {
        write(store, move |tx| quotes::insert(tx, &quote)).await;
    }

    let withdrawn = write(store, move |tx| withdraw(tx, id, NOW + 1)).await;
    let expected = WithdrawnOffers { endpoint: Some("https://thief.example/".into()), skills: 2, quotes: 1 };
    assert_eq!(withdrawn, expected);
    assert_eq!(read(store, move |tx| agents::skills(tx, id)).await, []);
    assert_eq!(read(store, move |tx| agents::by_id(tx, id)).await.unwrap().endpoint, None);
    assert_eq!(read(store, move |tx| agents::skills(tx, other)).await, [skill("a", 3)]);
    for (quote, declined) in [(open.id, true), (over.id, false)] {
        let offers = read(store, move |tx| quotes::by_id(tx, quote)).await.unwrap().offers;
        let declines: Vec<_> = offers.iter().map(|offer| (offer.agent, offer.declined)).collect();
        assert_eq!(declines, [(id, declined), (other, false)]);
    }
    assert_eq!(write(store, move |tx| wallets::end_keys_issued_to(tx, id)).await, ["thief"]);
    assert_eq!(read(store, move |tx| wallets::by_key(tx, &key("thief"))).await, None);
    assert!(read(store, move |tx| wallets::by_key(tx, &key("other"))).await.is_some());
    assert_eq!(write(store, move |tx| wallets::end_keys_issued_to(tx, id)).await, Vec::<String>::new());
}

async fn a_job_is_kept_while_it_is_open_or_its_result_is_on_its_way(fixture: Fixture) {
    const LATER: i64 = NOW + 10_000;
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let boss = agent(store, "boss").await.id;
    let remove = || write(store, |tx| retention::remove_before(tx, LATER, 100));
    let events = || count(store, "SELECT COUNT(*) AS count FROM events");
    let deliver = async || {
        let due = lease(store, NOW).await.remove(0);
        write(store, move |tx| push::finish(tx, &due, None, None, push::Outcome::Delivered, NOW)).await;
    };
    for orchestrator in [Some(boss), None] {
        let worker = listed(store, &format!("worker-{}", orchestrator.is_some()), owner, &[]).await;
        list(store, worker, "worker", owner, Some("https://worker.example/"), vec![skill("sum", 1)]).await;
        let job = Agreed { orchestrator, callback: Some(vec![1]), ..hand_out(store, worker).await };
        deliver().await;
        assert_eq!((remove().await.deliveries, events().await), (0, 1), "it is open");
        let ended = job.clone();
        write(store, move |tx| {
            let (status, paid) = (JobStatus::Success, Credits::ZERO);
            jobs::end(tx, ended.id, &jobs::End { status, paid, result: None, error: None, now: NOW })?;
            jobs::call_back(tx, &ended, MENTIONED, NOW)
        })
        .await;
        assert_eq!((remove().await.deliveries, events().await), (0, 1), "its result is on its way");
        deliver().await;
        assert!(remove().await.deliveries >= 1);
        remove().await;
        assert_eq!(events().await, 0);
        assert_eq!(count(store, "SELECT COUNT(*) AS count FROM chats").await, 0, "nothing of it stays");
        assert_eq!(count(store, "SELECT COUNT(*) AS count FROM deliveries").await, 0);
    }
}

/// The best agents are all absent: present ones are found through the presence index, in the same order, page
/// by page.
async fn those_who_are_away_cost_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let mut there = vec![];
    for n in 0..60_i64 {
        let id = listed(store, &format!("worker-{n}"), owner, &[("sum", 100 - n), ("draw", 5)]).await;
        match n % 20 {
            0 => there.push(id),
            1 => {
                write(store, move |tx| inboxes::open(tx, id, fresh(), NODE, NOW + 1000)).await;
                there.push(id);
            }
            _ => {}
        }
    }
    let later = Search { seen_since: Some(NOW + 1), now: NOW + 91, ..everything() };
    for id in there.iter().step_by(2).copied() {
        write(store, move |tx| inboxes::seen(tx, id, NOW + 50)).await;
    }
    crate::market_words::index(store).await;
    there.reverse();
    assert!(read(store, |tx| discovery::are_few_online(tx, NOW + 91, NOW + 1)).await);
    let sum = Search { skill: Some("sum".into()), ..later.clone() };
    for few_online in [true, false] {
        let by = |search: &Search| Search { few_online, ..search.clone() };
        let of_skill = found(store, &by(&sum)).await;
        assert_eq!(of_skill.iter().map(|(id, _)| *id).collect::<Vec<_>>(), there, "the cheapest first");
        assert_eq!(found(store, &by(&later)).await.len(), 2 * there.len());
        let words = Search { words: vec!["does".into(), "draw".into()], ..by(&later) };
        assert_eq!(found(store, &words).await.len(), there.len());
        assert_eq!(found(store, &Search { skill: Some("sum".into()), ..words }).await, []);
        let cheap = Search { max_cost: credits(60), ..by(&sum) };
        assert_eq!(found(store, &cheap).await.len(), 2);
        let except = Search { except: Some(there[0]), ..by(&sum) };
        assert_eq!(found(store, &except).await.len(), there.len() - 1);
        // Page by page.
        let (mut after, mut pages) = (None, vec![]);
        loop {
            let (search, place) = (by(&sum), after.clone());
            let page = read(store, move |tx| discovery::search(tx, &search, place.as_ref(), 4)).await;
            let Some(last) = page.last() else { break };
            after = Some(last.place.clone());
            pages.extend(page.into_iter().map(|found| found.place.agent));
        }
        assert_eq!(pages, there);
    }
    // Nobody is skipped when many are present.
    assert!(!read(store, |tx| discovery::are_few_among(tx, NOW + 91, NOW + 1, 5)).await);
}

async fn a_wallet_is_kept_out_with_its_agents(fixture: Fixture) {
    let store = &fixture.store;
    let (hers, others) = (wallet(store, "eve", 0).await, wallet(store, "other", 0).await);
    let (eve, worker) = (listed(store, "eve", hers, &[]).await, listed(store, "worker", others, &[]).await);
    let blocked =
        |by: AgentId, of: WalletId| read(store, move |tx| blocks::keeps_out_wallet(tx, by.into(), of));
    assert!(!blocked(worker, hers).await);
    let new = Block { id: BlockId(fresh()), label: "eve".into(), created_at: NOW };
    write(store, move |tx| {
        blocks::insert(tx, worker.into(), &Blocked::Principal(eve.into()), &new, TraceId(fresh()))
    })
    .await;
    assert!(blocked(worker, hers).await);
    assert!(!blocked(worker, others).await && !blocked(eve, others).await);
    let out = |of: WalletId| read(store, move |tx| wallets::is_kept_out(tx, of));
    assert!(!out(hers).await);
    write(store, move |tx| access::disable_agent(tx, eve, NOW)).await;
    assert!(out(hers).await && !out(others).await);
    write(store, move |tx| access::enable_agent(tx, eve, NOW)).await;
    assert!(!out(hers).await);
}

async fn whoever_left_is_known_until_its_jobs_are_done(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let one = listed(store, "one", owner, &[("sum", 10)]).await;
    let job = agreed(owner, owner, one);
    let sides = read(store, move |tx| jobs::sides(tx, &job)).await;
    assert_eq!((sides.hirer, sides.worker), (None, Some(Reputation::NEUTRAL)));
    assert_eq!((sides.hirers, sides.workers), ([None; 2], [None; 2]));
    assert_eq!(read(store, move |tx| agents::leaving(tx, 10)).await, []);
    write(store, move |tx| access::delete_agent(tx, one, NOW, &fresh)).await;
    assert_eq!(read(store, move |tx| agents::leaving(tx, 10)).await, [(one, NOW)]);
    assert_eq!(found(store, &everything()).await, []);
    write(store, move |tx| agents::has_left(tx, one)).await;
    assert_eq!(read(store, move |tx| agents::leaving(tx, 10)).await, []);
}
