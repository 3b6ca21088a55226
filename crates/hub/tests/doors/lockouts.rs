//! Attacks without any knowledge: using up shared resources, and locking out others.

use crate::channel_fixture::ChannelFixture;
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, eventually};
use chorus_hub::{Config, Mail, Signup, TrustedProxies};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, Tx, TxExt as _};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use futures_util::future::join_all;
use reqwest::{Client, Method};
use serde_json::json;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use uuid::Uuid;

const BEGIN: i64 = 1_774_000_800_000;
const MINUTE: i64 = 60_000;

/// Starts a hub on a stopped clock, with the default limits and these changes.
fn guarded(change: impl FnOnce(&mut Config)) -> (TestHub, ManualClock) {
    let clock = ManualClock::new(BEGIN);
    let limits =
        |config: &mut Config| (config.rate_limit, config.rate_limit_anonymous) = (Some(6000), Some(1200));
    (Setup::new().clock(&clock).config(limits).config(change).start(), clock)
}

/// Returns a client at another address.
fn neighbour(hub: &TestHub) -> TestHubView<'_> {
    let client = Client::builder().local_address(Some([127, 0, 0, 2].into())).build().unwrap();
    TestHubView { hub, client }
}

struct TestHubView<'a> {
    hub: &'a TestHub,
    client: Client,
}

impl TestHubView<'_> {
    async fn post(&self, path: &str, body: &serde_json::Value) -> Answer {
        Answer::of(self.client.post(format!("{}{path}", self.hub.url)).json(body)).await
    }
}

/// Many wrong keys, in sequence and in parallel, do not delay a valid one that this node has not seen.
#[tokio::test]
async fn wrong_keys_keep_no_right_one_out() {
    let (hub, _clock) = guarded(|config| config.rate_limit_anonymous = Some(60));
    let alice = hub.register("alice").await;
    let mut wrong = vec![];
    for n in 0..203 {
        wrong.push(hub.get("/agent/messages", Some(&format!("ca_{n:032x}"))).await.status);
    }
    assert!(wrong[..10].iter().all(|status| *status == 401), "{wrong:?}");
    assert!(wrong[10..].iter().all(|status| *status == 429), "these are slowed: {wrong:?}");
    assert_eq!(hub.get("/agent/messages", Some(&alice)).await.status, 200);

    let keys: Vec<_> = (0..100).map(|n| format!("ca_{:032x}", 1000 + n)).collect();
    let flood = join_all(keys.iter().map(|key| hub.get("/agent/messages", Some(key))));
    let bob = hub.post("/register", Some(OPERATOR), &json!({"agent_id": "bob"})).await;
    let bob = bob.data()["api_key"].as_str().unwrap().to_owned();
    let (flood, right) = tokio::join!(flood, hub.get("/agent/messages", Some(&bob)));
    assert!(flood.iter().all(|answer| answer.status == 429), "{:?}", flood[0]);
    assert_eq!(right.status, 200, "{}", right.text);
}

/// The same for connection strings.
#[tokio::test]
async fn wrong_connection_strings_keep_no_right_one_out() {
    let clock = ManualClock::new(BEGIN);
    let set = |config: &mut Config| (config.rate_limit, config.rate_limit_anonymous) = (Some(6000), Some(60));
    let fixture = ChannelFixture::on(&Setup::new().clock(&clock).config(set)).await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let post = json!({"channel": {"id": "c", "name": "c", "service": "s"},
                      "message": {"id": "m", "sender": "s", "content": "x"}, "callback": "https://s.example/cb"});
    for n in 0..50 {
        let url = json!(format!("{}/inbox/sk_{n:032x}", fixture.hub.url));
        let status = fixture.call_back(&url, &post).await.status;
        assert_eq!(status, if n < 10 { 404 } else { 429 }, "{n}");
    }
    let posted = fixture.call_back(&made["connection_string"], &post).await;
    assert_eq!(posted.status, 200, "{}", posted.text);
}

async fn connect(hub: &TestHub, from: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, from], 0).into()).unwrap();
    socket.connect(hub.addr).await.unwrap()
}

async fn healthy(stream: &mut TcpStream) -> bool {
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.ok();
    let mut answer = [0; 12];
    let read = tokio::time::timeout(SOON, stream.read_exact(&mut answer)).await.expect("it is answered");
    read.is_ok() && &answer == b"HTTP/1.1 200"
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(tokio::time::timeout(SOON, stream.read(&mut [0; 512])).await.expect("it ends"), Ok(0) | Err(_))
}

/// Silent sockets of one address that fill all slots make room for others.
#[tokio::test]
async fn silent_sockets_give_way() {
    let hub = Setup::new().config(|config| config.max_connections = 50).start();
    let mut silent = vec![];
    for _ in 0..50 {
        silent.push(connect(&hub, 1).await);
    }
    // Half a head is not a request.
    silent[0].write_all(b"GET /health HTTP/1.1\r\nHost:").await.unwrap();
    for _ in 0..10 {
        assert!(healthy(&mut connect(&hub, 2).await).await);
    }
    let mut honest = connect(&hub, 1).await;
    assert!(healthy(&mut honest).await, "nor another at the same address");
    assert!(is_closed(&mut silent[0]).await, "the oldest went first");
    assert!(healthy(&mut silent[49]).await, "the youngest stayed");
}

/// Idle sockets make room for an address with fewer connections.
#[tokio::test]
async fn idle_sockets_give_way_to_others() {
    let hub = Setup::new().config(|config| config.max_connections = 5).start();
    let mut idle = vec![];
    for _ in 0..5 {
        let mut stream = connect(&hub, 1).await;
        assert!(healthy(&mut stream).await);
        idle.push(stream);
    }
    assert!(healthy(&mut connect(&hub, 2).await).await);
}

/// One address has a limited number of connections; others have theirs.
#[tokio::test]
async fn each_address_has_its_share_of_connections() {
    let (hub, _clock) = guarded(|config| config.quotas.connections = 5);
    let mut held = vec![];
    for _ in 0..5 {
        let mut stream = connect(&hub, 1).await;
        assert!(healthy(&mut stream).await);
        held.push(stream);
    }
    let mut refused = connect(&hub, 1).await;
    let mut answer = String::new();
    tokio::time::timeout(SOON, refused.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after: 1"), "{answer}");
    assert!(healthy(&mut connect(&hub, 2).await).await);
    drop(held);
    eventually(async || healthy(&mut connect(&hub, 1).await).await, |ok| *ok).await;

    let proxied = |config: &mut Config| {
        config.quotas.connections = 1;
        config.trusted_proxies = TrustedProxies::parse("127.0.0.3").unwrap();
    };
    let (hub, _clock) = guarded(proxied);
    let mut held = vec![];
    for _ in 0..5 {
        held.push(connect(&hub, 3).await);
        assert!(healthy(held.last_mut().unwrap()).await, "a proxy brings everybody");
    }
}

/// An IPv6 customer has a network of addresses, which counts as one.
#[tokio::test]
async fn a_network_of_64_bits_is_one_address() {
    let set = |config: &mut Config| {
        config.rate_limit_anonymous = Some(1);
        config.trusted_proxies = TrustedProxies::parse("127.0.0.0/8").unwrap();
    };
    let (hub, _clock) = guarded(set);
    let from = async |client: &str| {
        let request = hub.request(Method::GET, "/agents", None).header("x-forwarded-for", client);
        Answer::of(request).await.status
    };
    assert_eq!(from("2001:db8::1").await, 200);
    assert_eq!(from("2001:db8::2").await, 429);
    assert_eq!(from("2001:db8:0:0:ffff:ffff:ffff:ffff").await, 429);
    assert_eq!(from("2001:db8:0:1::1").await, 200);
}

/// Messages count only in conversations where the agent is a member.
#[tokio::test]
async fn conversations_that_are_not_there_are_not_counted() {
    let (clock, timber) = (ManualClock::new(BEGIN), FakeAgent::start().await);
    let set = |config: &mut Config| config.rate_limit = Some(60_000);
    let fixture = ChannelFixture::on(&Setup::new().clock(&clock).config(set)).await;
    let made = fixture.connected("timber", &timber).await;
    fixture.say("@timber hello").await;
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].as_str().unwrap().to_owned();
    let (key, private) = (made["api_key"].as_str(), fixture.another_channel("private").await);
    let elsewhere = callback.replace(&fixture.channel, &private);
    assert_ne!(elsewhere, callback);
    let there = format!("/api/v1/channels/{private}/messages");
    for _ in 0..40 {
        let said = fixture.hub.post(&there, key, &json!({"content": "x"})).await;
        said.own_failure(Code::NotFound);
        let answer = fixture.call_back(&json!(elsewhere), &json!({"type": "message", "content": "x"})).await;
        answer.own_failure(Code::NotFound);
    }
    let unknown = format!("/api/v1/channels/{}/messages", Uuid::from_u128(7));
    fixture.hub.post(&unknown, key, &json!({"content": "x"})).await.own_failure(Code::NotFound);
    fixture.join(&private, "timber").await;
    assert_eq!(fixture.hub.post(&there, key, &json!({"content": "x"})).await.status, 201);
}

/// New agents per minute are limited for each address and in total.
#[tokio::test]
async fn registrations_are_counted() {
    let (hub, clock) = guarded(|_| {});
    let mut key = String::new();
    for n in 0..20 {
        key = hub.register(&format!("agent-{n}")).await;
    }
    let more = json!({"agent_id": "one-too-many"});
    let refused = hub.post("/register", None, &more).await;
    let says = refused.failure(Code::RateLimited);
    assert!(says.contains("20 new agents a minute") && says.contains("CHORUS_QUOTA_REGISTRATIONS"), "{says}");
    assert_eq!(refused.header("retry-after"), "3");
    assert_eq!(hub.get("/agents/one-too-many", None).await.status, 404);

    let again = hub.post("/register", Some(&key), &json!({"agent_id": "agent-19"})).await;
    assert_eq!(again.status, 200, "it is not new: {}", again.text);
    let made = json!({"agent_id": "made", "endpoint": "http://127.0.0.1:9/"});
    assert_eq!(hub.post("/agents", Some(OPERATOR), &made).await.status, 201);
    assert_eq!(hub.post("/register", Some(OPERATOR), &json!({"agent_id": "made-too"})).await.status, 201);
    let ann = hub.account("ann@mail.example").await;
    let owned = hub.post("/api/v1/agents", Some(&ann), &json!({"name": "owned"})).await;
    owned.own_failure(Code::RateLimited);
    assert_eq!(neighbour(&hub).post("/register", &json!({"agent_id": "next-door"})).await.status, 201);
    clock.advance(3000);
    assert_eq!(hub.post("/register", None, &more).await.status, 201);
    assert_eq!(hub.post("/register", None, &json!({"agent_id": "and-another"})).await.status, 429);
    clock.advance(MINUTE);

    let (hub, _clock) = guarded(|config| config.quotas.registrations_hub = 30);
    let mut made = 0;
    for n in 0..10 {
        made += usize::from(
            hub.post("/register", None, &json!({"agent_id": format!("a{n}")})).await.status == 201,
        );
    }
    assert_eq!(made, 3, "a tenth of what is left");
    let refused = hub.post("/register", None, &json!({"agent_id": "b"})).await;
    assert!(
        refused.failure(Code::RateLimited).contains("CHORUS_QUOTA_REGISTRATIONS_HUB"),
        "{}",
        refused.text
    );
    assert_eq!(neighbour(&hub).post("/register", &json!({"agent_id": "next-door"})).await.status, 201);
}

fn mails(folder: &Path, to: &str) -> usize {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "eml"));
    let texts = files.map(|path| fs::read_to_string(path).unwrap());
    texts
        .filter(|text| text.to_lowercase().lines().any(|line| line.starts_with("to: ") && line.contains(to)))
        .count()
}

/// Returns the number of mails that were dropped.
async fn dropped(hub: &TestHub) -> u32 {
    let metrics = hub.get("/metrics", Some(OPERATOR)).await.text;
    let line = metrics.lines().find_map(|line| line.strip_prefix("chorus_mails_dropped_total "));
    line.unwrap().parse().unwrap()
}

/// Requests links for one mailbox under many spellings, and for a whole domain.
#[tokio::test]
async fn nobody_is_flooded_with_mail() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, clock) = guarded(|config| config.mail = Mail::Folder(folder.path().into()));
    let ask = async |email: &str| {
        let asked = hub.post("/api/v1/signin", None, &json!({"email": email})).await;
        assert_eq!(asked.status, 202, "{}", asked.text);
        asked.text
    };
    let first = ask("victim@mail.example").await;
    for n in 0..90 {
        let name = if n % 2 == 0 { "victim" } else { "Victim" };
        assert_eq!(ask(&format!("{name}+{n}@mail.example")).await, first, "the same for everybody");
    }
    eventually(async || dropped(&hub).await, |dropped| *dropped == 89).await;
    eventually(async || mails(folder.path(), "victim"), |count| *count == 2).await;

    // A request from another address is limited neither for the domain nor for the hub.
    neighbour(&hub).post("/api/v1/signin", &json!({"email": "other@mail.example"})).await;
    eventually(async || mails(folder.path(), "other@"), |count| *count == 1).await;
    clock.advance(12 * MINUTE);
    neighbour(&hub).post("/api/v1/signin", &json!({"email": "victim@mail.example"})).await;
    eventually(async || mails(folder.path(), "victim"), |count| *count == 3).await;
}

/// A flood of mail requests for a person keeps them neither from their own sign-in link nor from the hub's
/// notices.
#[tokio::test]
async fn a_flood_of_mail_keeps_nobody_from_his_own() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, _clock) = guarded(|config| config.mail = Mail::Folder(folder.path().into()));
    let victim = hub.account("victim@mail.example").await;
    let made = hub.post("/api/v1/agents", Some(&victim), &json!({"name": "timber"})).await;
    let stolen = made.body["api_key"].as_str().unwrap();
    for n in 0..30 {
        for email in ["victim@mail.example".to_owned(), format!("victim+{n}@mail.example")] {
            hub.post("/api/v1/signin", None, &json!({"email": email})).await;
        }
    }
    eventually(async || dropped(&hub).await, |dropped| *dropped >= 55).await;
    hub.post("/register", Some(stolen), &json!({"agent_id": "timber"})).await.data();
    let told = async || {
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let texts = files.filter_map(|path| fs::read_to_string(path).ok());
        texts.filter(|text| text.contains("chorus agents reset-key timber")).count()
    };
    eventually(told, |told| *told == 1).await;
    neighbour(&hub).post("/api/v1/signin", &json!({"email": "victim@mail.example"})).await;
    eventually(async || mails(folder.path(), "victim"), |count| *count == 4).await;
}

/// Requests that send no mail, because the address may not sign in, do not count as mails to it.
#[tokio::test]
async fn mails_that_are_not_sent_use_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let set = |config: &mut Config| {
        config.mail = Mail::Folder(folder.path().into());
        config.signup = Signup::Invite;
    };
    let (hub, _clock) = guarded(set);
    let ask = json!({"email": "victim@mail.example"});
    for _ in 0..10 {
        assert_eq!(hub.post("/api/v1/signin", None, &ask).await.status, 202);
    }
    hub.account("victim@mail.example").await;
    // The earlier requests may find the account too.
    hub.post("/api/v1/signin", None, &ask).await;
    eventually(async || mails(folder.path(), "victim"), |count| *count > 0).await;
}

#[tokio::test]
async fn one_address_does_not_use_up_the_mail_of_a_domain() {
    let folder = tempfile::tempdir().unwrap();
    let set = |config: &mut Config| {
        config.mail = Mail::Folder(folder.path().into());
        config.quotas.mails_domain = 20;
        config.quotas.mails_hub = 100;
    };
    let (hub, _clock) = guarded(set);
    for n in 0..30 {
        hub.post("/api/v1/signin", None, &json!({"email": format!("user{n}@mail.example")})).await;
    }
    eventually(async || mails(folder.path(), "@mail.example"), |count| *count == 2).await;
    for n in 0..30 {
        hub.post("/api/v1/signin", None, &json!({"email": format!("user{n}@other{n}.example")})).await;
    }
    neighbour(&hub).post("/api/v1/signin", &json!({"email": "ann@mail.example"})).await;
    eventually(async || mails(folder.path(), "ann@mail.example"), |count| *count == 1).await;
    assert!(mails(folder.path(), "@other") < 10, "a tenth of the hub's, and what was refused before counts");
}

/// With `CHORUS_RATE_LIMIT=off` there are no limits.
#[tokio::test]
async fn without_limits_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let set = |config: &mut Config| {
        config.mail = Mail::Folder(folder.path().into());
        config.quotas.connections = 1;
        config.quotas.registrations = 1;
        config.quotas.mails_address = 1;
    };
    let hub = Setup::new().config(set).start();
    let (mut one, mut other) = (connect(&hub, 1).await, connect(&hub, 1).await);
    assert!(healthy(&mut one).await && healthy(&mut other).await);
    for n in 0..5 {
        hub.register(&format!("agent-{n}")).await;
        hub.post("/api/v1/signin", None, &json!({"email": "ann@mail.example"})).await;
    }
    eventually(async || mails(folder.path(), "ann@"), |count| *count == 5).await;
}

/// One inviter, with all of its agents, may have ten open invitations to a person.
#[tokio::test]
async fn one_inviter_does_not_fill_anybodys_invitations() {
    let hub = TestHub::start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let (mallory, stooge) = (hub.account("mallory@example.org").await, hub.register("stooge").await);
    let claim = hub.post("/api/v1/agents/claim", Some(&mallory), &json!({"api_key": stooge})).await;
    assert_eq!(claim.status, 200, "{}", claim.text);
    let invite = async |key: &str| {
        let channel = hub.channel(key, &json!({"name": "c"})).await;
        let invited =
            hub.post(&format!("{channel}/members"), Some(key), &json!({"account": "eve@example.org"})).await;
        (invited.status, invited.text)
    };
    let first = invite(&mallory).await;
    assert_eq!(first.0, 202, "{}", first.1);
    for n in 0..24 {
        let answer = invite(if n % 2 == 0 { &mallory } else { &stooge }).await;
        assert_eq!(answer, first, "it is not told");
    }
    let open = async || {
        let list = hub.get("/api/v1/me/invitations?limit=100", Some(&eve)).await;
        list.body["items"].as_array().unwrap().len()
    };
    assert_eq!(open().await, 10);
    assert_eq!(invite(&anna).await, first);
    assert_eq!(open().await, 11, "others are not kept out");
}

/// Agents registered from one source can fill only a small share of a person's invitations.
async fn free_agents_do_not_fill_anybodys_invitations(setup: Setup) {
    let setup = setup.config(|config| {
        config.trusted_proxies = TrustedProxies::parse("127.0.0.0/8").unwrap();
    });
    let hub = setup.start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let register = async |name: &str, client: &str| {
        let request = hub.request(Method::POST, "/register", None).header("x-forwarded-for", client);
        let made = Answer::of(request.json(&json!({"agent_id": name}))).await;
        made.body["data"]["api_key"].as_str().unwrap().to_owned()
    };
    let invite = async |key: &str, name: &str| {
        let channel = hub.channel(key, &json!({"name": name})).await;
        let invited =
            hub.post(&format!("{channel}/members"), Some(key), &json!({"account": "eve@example.org"})).await;
        (invited.status, invited.text)
    };
    let open = async || -> Vec<String> {
        let list = hub.get("/api/v1/me/invitations?limit=100", Some(&eve)).await;
        let items = list.body["items"].as_array().unwrap().clone();
        items.iter().map(|one| one["channel"].as_str().unwrap().to_owned()).collect()
    };
    let mut answers = vec![];
    for n in 0..10 {
        let bot = register(&format!("bot-{n}"), "192.0.2.7").await;
        for m in 0..10 {
            answers.push(invite(&bot, &format!("spam {n} {m}")).await);
        }
    }
    assert_eq!(open().await.len(), 2, "the newest of the source");
    // Other inviters still get through, including an agent without an owner and one of the same source.
    let (honest, robot) = (register("honest", "198.51.100.1").await, register("robot", "192.0.2.7").await);
    let claim = hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": robot})).await;
    assert_eq!(claim.status, 200, "{}", claim.text);
    for (key, name) in [(&honest, "honest"), (&robot, "owned"), (&anna, "person")] {
        answers.push(invite(key, name).await);
        assert!(open().await.contains(&name.to_owned()), "{name}");
    }
    assert_eq!(open().await.len(), 5);
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.0 == 202), "nobody is told");
    // The stored mark of a source is not an address.
    let kept = hub.store().read(|tx: &mut dyn Tx| {
        let rows = tx.query("SELECT registered_from FROM agents WHERE registered_from IS NOT NULL", &[])?;
        rows.into_iter().map(|mut row| row.bytes("registered_from")).collect::<Result<Vec<_>, StoreError>>()
    });
    let kept = kept.await.unwrap();
    assert_eq!((kept.len(), kept.iter().collect::<HashSet<_>>().len()), (12, 2));
    assert!(kept.iter().all(|mark| mark.len() == 16));
}

#[tokio::test]
async fn free_agents_do_not_fill_anybodys_invitations_on_sqlite() {
    free_agents_do_not_fill_anybodys_invitations(Setup::new()).await;
}

#[tokio::test]
async fn free_agents_do_not_fill_anybodys_invitations_on_postgres() {
    free_agents_do_not_fill_anybodys_invitations(Setup::postgres()).await;
}
