//! Storage quotas of a key, and the error when one is used up.

use crate::channel_fixture::ChannelFixture;
use crate::support::{Answer, OPERATOR, Setup, TestHub, envelope, eventually};
use chorus_hub::quotas::OFF;
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The size of a document. By default it is 1 MiB, and the quota of an agent is 100 times that.
const SIZE: u64 = 64 << 10;

/// Asserts a refusal by this quota in the hub's own format. Returns the amount used.
#[track_caller]
fn refused(answer: &Answer, quota: &str, limit: u64) -> u64 {
    let message = answer.own_failure(Code::QuotaExceeded);
    let details = &answer.body["error"]["details"];
    assert_eq!((&details["quota"], &details["limit"]), (&json!(quota), &json!(limit)), "{}", answer.text);
    let used = details["used"].as_u64().unwrap();
    assert!(message.contains(quota) && message.contains(&used.to_string()), "{message}");
    used
}

async fn used(hub: &TestHub, key: &str, quota: &str) -> u64 {
    let me = hub.get("/api/v1/me", Some(key)).await;
    me.body["quotas"][quota]["used"].as_u64().unwrap_or_else(|| panic!("no {quota}: {}", me.text))
}

/// One key writes large versions as fast as it can. All limits are a sixteenth of the defaults.
async fn a_burst_of_versions(setup: Setup) {
    let hub = setup.config(|config| config.quotas.agent_bytes = 100 * SIZE).start();
    let (bob, anna) = (hub.register("bob").await, hub.account("anna@example.org").await);
    let channel = hub.channel(&bob, &json!({"name": "c"})).await;
    let content = "x".repeat(SIZE as usize);
    let path = format!("{channel}/artifacts");
    let made = hub.post(&path, Some(&bob), &json!({"slug": "big", "content": content})).await;
    assert_eq!(made.status, 201);
    for version in 2..=60 {
        let made = hub.ask("PUT", &format!("{path}/big"), Some(&bob), &json!({"content": content})).await;
        assert_eq!((made.status, &made.body["version"]), (200, &json!(version)), "{}", made.text);
    }
    // Of 60 versions 50 are kept; the bytes of the others are freed.
    let bytes = used(&hub, &bob, "agent_bytes").await;
    assert!((50 * SIZE..51 * SIZE).contains(&bytes), "{bytes}");
    for (version, status) in [(10, 404), (11, 200), (60, 200)] {
        let got = hub.get(&format!("{path}/big?version={version}"), Some(&bob)).await;
        assert_eq!(got.status, status, "version {version}");
    }
    // Many simultaneous requests fill the rest of the quota, and no more.
    let more = (0..60).map(|n| {
        let body = json!({"slug": format!("more-{n}"), "content": content});
        tokio::spawn(Answer::of(hub.request(reqwest::Method::POST, &path, Some(&bob)).json(&body)))
    });
    let mut stored = 0;
    for answer in more.collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        if answer.status == 201 {
            stored += 1;
        } else {
            refused(&answer, "agent_bytes", 100 * SIZE);
        }
    }
    assert_eq!(stored, 49, "99 of 100, and what is around them");
    let full = hub.post(&path, Some(&bob), &json!({"slug": "last", "content": content})).await;
    assert!(refused(&full, "agent_bytes", 100 * SIZE) <= 100 * SIZE);
    // Others are not affected, and free operations still work.
    let hers = hub.channel(&anna, &json!({"name": "hers"})).await;
    hub.say(&hers, &anna, &json!({"content": "x"})).await;
    assert_eq!(hub.get(&path, Some(&bob)).await.status, 200);
    // The usage is the same after a restart.
    let before = used(&hub, &bob, "agent_bytes").await;
    let hub = hub.restart(|_| {}).await;
    assert_eq!(used(&hub, &bob, "agent_bytes").await, before);
    let full = hub.post(&path, Some(&bob), &json!({"slug": "last", "content": content})).await;
    refused(&full, "agent_bytes", 100 * SIZE);
    assert_eq!(hub.delete(&channel, Some(&bob)).await.status, 204, "who has too much may go");
}

#[tokio::test]
async fn a_burst_of_versions_on_sqlite() {
    a_burst_of_versions(Setup::new()).await;
}

#[tokio::test]
async fn a_burst_of_versions_on_postgres() {
    a_burst_of_versions(Setup::postgres()).await;
}

/// Everything stored counts, and each kind is refused in the end.
#[tokio::test]
async fn envelopes_and_everything_said_count() {
    let hub = Setup::new().config(|config| config.quotas.agent_bytes = 20_000).start();
    let anna = hub.account("anna@example.org").await;
    let text = "x".repeat(2000);
    for kind in ["envelope", "message", "edit", "reaction", "channel", "change", "dm", "document"] {
        let name = format!("by-{kind}");
        let key = hub.register(&name).await;
        let channel = hub.channel(&key, &json!({"name": "c"})).await;
        let said = hub.say(&channel, &key, &json!({"content": "x"})).await["event_id"].clone();
        let message = format!("{channel}/messages/{}", said.as_str().unwrap());
        let mut last = None;
        for n in 0..100 {
            let answer = match kind {
                "envelope" => hub.send_envelope(&key, &name, &envelope(&name, &text)).await,
                "message" => {
                    hub.post(&format!("{channel}/messages"), Some(&key), &json!({"content": text})).await
                }
                "edit" => hub.ask("PATCH", &message, Some(&key), &json!({"content": text})).await,
                "reaction" => {
                    let body = json!({"signal": "working", "eta": format!("{n}")});
                    hub.post(&format!("{message}/reactions"), Some(&key), &body).await
                }
                "channel" => {
                    hub.post("/api/v1/channels", Some(&key), &json!({"name": "c", "context": text})).await
                }
                "change" => hub.ask("PATCH", &channel, Some(&key), &json!({"context": text})).await,
                "dm" => {
                    let other = format!("{name}-{n}");
                    hub.register(&other).await;
                    hub.post("/api/v1/dms", Some(&key), &json!({"with": other})).await
                }
                _ => {
                    let body = json!({"slug": format!("d{n}"), "content": text});
                    hub.post(&format!("{channel}/artifacts"), Some(&key), &body).await
                }
            };
            if answer.status == 403 {
                last = Some(answer);
                break;
            }
            assert!(answer.status < 300, "{kind}: {}", answer.text);
        }
        let last = last.unwrap_or_else(|| panic!("{kind} does not count"));
        if kind == "envelope" {
            let why = last.failure(Code::QuotaExceeded);
            assert!(why.contains("agent_bytes is 20000"), "the relay's errors have no details: {why}");
        } else {
            refused(&last, "agent_bytes", 20_000);
        }
        // Deleting and reading still work.
        assert_eq!(hub.get(&channel, Some(&key)).await.status, 200);
        assert_eq!(hub.delete(&message, Some(&key)).await.status, 204, "{kind}");
    }
    let metrics = hub.get("/metrics", Some(OPERATOR)).await.text;
    assert!(metrics.contains(r#"chorus_quota_refused_total{quota="agent_bytes"} 8"#), "{metrics}");
    let total = eventually(
        async || hub.get("/metrics", Some(OPERATOR)).await.text,
        |text| !text.contains("chorus_stored_bytes 0"),
    );
    assert!(total.await.contains("chorus_stored_bytes"));
    // A person has a larger quota, and pays nothing for others.
    assert_eq!(used(&hub, &anna, "account_bytes").await, 0);
}

/// A callback needs no key; its messages and notes count for the agent.
#[tokio::test]
async fn what_is_said_at_a_callback_counts() {
    let fixture = ChannelFixture::on(&Setup::new().config(|config| config.quotas.agent_bytes = 20_000)).await;
    let receiver = FakeAgent::start().await;
    fixture.connected("timber", &receiver).await;
    fixture.say("@timber hello").await;
    let post = receiver.wait_for(1, crate::support::SOON).await.remove(0);
    let callback = post.body["callback"].clone();
    let note = json!({"type": "tool_call", "id": "t1", "name": "look", "args": {"text": "x".repeat(3000)}});
    let mut noted = 0;
    let last = loop {
        let answer = fixture.call_back(&callback, &note).await;
        if answer.status != 200 {
            break answer;
        }
        noted += 1;
        assert!(noted < 100, "notes do not count");
    };
    refused(&last, "agent_bytes", 20_000);
    assert!((5..=6).contains(&noted), "{noted}");
    let small = json!({"type": "message", "content": "y".repeat(5000)});
    refused(&fixture.call_back(&callback, &small).await, "agent_bytes", 20_000);
}

/// Posts to a connection string count for the agent, which can rotate it.
#[tokio::test]
async fn what_other_services_post_counts_for_the_agent() {
    let fixture = ChannelFixture::on(&Setup::new().config(|config| config.quotas.agent_bytes = 20_000)).await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let string = made["connection_string"].as_str().unwrap().to_owned();
    let mut last = None;
    for n in 0..20 {
        let body = json!({"channel": {"id": "C1"}, "callback": "https://s.example/cb",
            "message": {"id": format!("m{n}"), "sender": "eve", "content": "x".repeat(3000)}});
        let answer = Answer::of(fixture.hub.client.post(&string).json(&body)).await;
        if answer.status != 200 {
            last = Some(answer);
            break;
        }
    }
    // The error is temporary and not the poster's fault.
    let last = last.expect("it counts");
    assert!(last.own_failure(Code::RateLimited).contains("no room"), "{}", last.text);
    assert_eq!(last.body["error"]["details"], json!({"quota": "agent_bytes"}));
    assert_eq!(last.header("retry-after"), "600");
    let figures = fixture.hub.get("/metrics", Some(OPERATOR)).await.text;
    assert!(figures.contains(r#"chorus_quota_refused_total{quota="agent_bytes"} 1"#), "{figures}");
    assert!(used(&fixture.hub, &fixture.anna, "account_bytes").await > 10_000, "and for its owner");
}

/// Another hub does not treat a full quota as a broken connection string, and retries later.
#[tokio::test]
async fn another_hub_waits_for_room() {
    let theirs = ChannelFixture::on(&Setup::new().config(|config| config.quotas.agent_bytes = 1100)).await;
    let made = theirs.agent(&json!({"name": "timber"})).await;
    let (ours, clock) = ChannelFixture::with_clock().await;
    ours.agent(&json!({"name": "timber", "connection_string": made["connection_string"]})).await;
    ours.join(&ours.channel, "timber").await;
    let event = ours.say(&format!("@timber {}", "x".repeat(300))).await;
    let next = ours.recorded(&clock).await;
    assert!(next >= clock.now() + 600_000, "{next}");
    let delivery = ours.delivery(&event).await;
    assert_eq!(delivery["state"], "waiting", "{delivery}");
    assert_eq!(ours.get("/api/v1/agents/timber").await.body["broken"], Value::Null);
}

#[tokio::test]
async fn an_accounts_agents_count_for_it() {
    let hub = Setup::new().config(|config| config.quotas.account_bytes = 20_000).start();
    let anna = hub.account("anna@example.org").await;
    let (one, two) = (hub.register("one").await, hub.register("two").await);
    let text = "x".repeat(4000);
    // Before the agent belongs to her.
    assert_eq!(hub.send(&one, "one", "two", &text).await.status, 202);
    for key in [&one, &two] {
        hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": key})).await;
    }
    assert_eq!(hub.send(&one, "one", "two", &text).await.status, 202);
    assert_eq!(hub.send(&two, "two", "one", &text).await.status, 202);
    let hers = used(&hub, &anna, "account_bytes").await;
    let theirs = used(&hub, &one, "agent_bytes").await + used(&hub, &two, "agent_bytes").await;
    assert_eq!(hers, theirs);
    assert!(hers > 12_000, "{hers}");
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.say(&channel, &anna, &json!({"content": text})).await;
    let why = hub.send(&two, "two", "one", &text).await;
    assert!(why.failure(Code::QuotaExceeded).contains("account_bytes"), "{}", why.text);
    let say = hub.post(&format!("{channel}/messages"), Some(&anna), &json!({"content": text})).await;
    refused(&say, "account_bytes", 20_000);
    // Another person's agent does not count.
    let free = hub.register("free").await;
    assert_eq!(hub.send(&free, "free", "one", &text).await.status, 202);
}

#[tokio::test]
async fn what_retention_removes_is_given_back() {
    let clock = chorus_testkit::clock::ManualClock::new(crate::channel_fixture::BEGIN);
    let setup = Setup::new().clock(&clock).config(|config| {
        config.quotas.agent_bytes = 20_000;
        config.retention = Some(Duration::from_hours(1));
    });
    let hub = setup.start();
    let (bob, carol) = (hub.register("bob").await, hub.register("carol").await);
    let mut sent = 0;
    while hub.send(&bob, "bob", "carol", &"x".repeat(3000)).await.status == 202 {
        sent += 1;
        assert!(sent < 100);
    }
    hub.inbox(&carol, None).await.texts(sent).await;
    clock.set(clock.now() + 2 * 3600 * 1000);
    eventually(async || used(&hub, &bob, "agent_bytes").await, |used| *used < 3500).await;
    assert_eq!(hub.send(&bob, "bob", "carol", "again").await.status, 202);
}

#[tokio::test]
async fn what_can_be_counted_is_bounded() {
    let setup = Setup::new().config(|config| {
        config.quotas.document_bytes = 10;
        config.quotas.documents = 2;
        config.quotas.agents = 2;
        config.quotas.channels = 2;
        config.quotas.members = 3;
    });
    let hub = setup.start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    let documents = format!("{channel}/artifacts");
    let document = |slug: &str, content: &str| {
        let body = json!({"slug": slug, "content": content});
        let (hub, anna, path) = (&hub, &anna, &documents);
        async move { hub.post(path, Some(anna), &body).await }
    };
    assert_eq!(refused(&document("a", "12345678901").await, "document_bytes", 10), 11);
    assert_eq!(document("a", "1234567890").await.status, 201);
    assert_eq!(document("b", "x").await.status, 201);
    assert_eq!(refused(&document("c", "x").await, "documents", 2), 2);
    document("b", "x").await.own_failure(Code::Conflict);
    let change = hub.ask("PUT", &format!("{documents}/a"), Some(&anna), &json!({"content": "y"})).await;
    assert_eq!(change.status, 200, "a new version is no new document");
    let longer = json!({"content": "y".repeat(11)});
    let change = hub.ask("PUT", &format!("{documents}/a"), Some(&anna), &longer).await;
    refused(&change, "document_bytes", 10);

    for name in ["one", "two"] {
        assert_eq!(hub.post("/api/v1/agents", Some(&anna), &json!({"name": name})).await.status, 201);
    }
    refused(&hub.post("/api/v1/agents", Some(&anna), &json!({"name": "three"})).await, "agents", 2);
    let free = hub.register("free").await;
    let claim = hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": free})).await;
    refused(&claim, "agents", 2);
    assert_eq!(hub.delete("/agents/one", Some(&anna)).await.status, 200);
    assert_eq!(hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": free})).await.status, 200);

    let second = hub.channel(&anna, &json!({"name": "d"})).await;
    let third = hub.post("/api/v1/channels", Some(&anna), &json!({"name": "e"})).await;
    refused(&third, "channels", 2);
    assert_eq!(hub.delete(&second, Some(&anna)).await.status, 204);
    hub.channel(&anna, &json!({"name": "e"})).await;
    // The quota cannot be avoided through another party.
    let hers = hub.channel(&eve, &json!({"name": "hers"})).await;
    hub.add(&hers, &eve, &json!({"account": "anna@example.org"})).await;
    refused(&hub.ask("PATCH", &hers, Some(&eve), &json!({"owner": "anna"})).await, "channels", 2);

    let agents = ["m1", "m2", "m3"];
    for name in agents {
        hub.register(name).await;
    }
    let add = |name: &str| {
        let (path, body) = (format!("{channel}/members"), json!({"agent": name}));
        let (hub, anna) = (&hub, &anna);
        async move { hub.post(&path, Some(anna), &body).await }
    };
    assert_eq!((add("m1").await.status, add("m2").await.status), (201, 201));
    refused(&add("m3").await, "members", 3);
    let by_operator = json!({"agent": "m3"});
    refused(&hub.post(&format!("{channel}/members"), Some(OPERATOR), &by_operator).await, "members", 3);

    let me = hub.get("/api/v1/me", Some(&anna)).await.body["quotas"].clone();
    assert_eq!(
        (&me["agents"], &me["channels"]),
        (&json!({"used": 2, "limit": 2}), &json!({"used": 2, "limit": 2}))
    );
    assert_eq!(me["account_bytes"]["limit"], 1u64 << 30);
}

#[tokio::test]
async fn what_is_off_has_no_limit() {
    let hub = Setup::new().config(|config| {
        config.quotas.agent_bytes = OFF;
        config.quotas.document_bytes = OFF;
    });
    let hub = hub.start();
    let bob = hub.register("bob").await;
    let me = hub.get("/api/v1/me", Some(&bob)).await.body["quotas"].clone();
    assert_eq!(me["agent_bytes"], json!({"used": 1027, "limit": null}));
    let channel = hub.channel(&bob, &json!({"name": "c"})).await;
    let body = json!({"slug": "big", "content": "x".repeat(3 << 20)});
    assert_eq!(hub.post(&format!("{channel}/artifacts"), Some(&bob), &body).await.status, 201);
    assert_eq!(hub.get("/api/v1/me", Some(OPERATOR)).await.body["quotas"], json!({}));
}

/// Usage numbers are visible to the operator only.
#[tokio::test]
async fn figures_are_the_operators() {
    let hub = TestHub::start();
    let (bob, anna) = (hub.register("bob").await, hub.account("anna@example.org").await);
    let figures = hub.get("/metrics", Some(OPERATOR)).await;
    assert!(figures.text.contains("chorus_requests_total") && figures.text.contains("chorus_stored_bytes"));
    for key in [None, Some(&*bob), Some(&*anna)] {
        let seen = hub.get("/metrics", key).await;
        assert_eq!(seen.status, 200);
        let values: Vec<_> = seen.text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(values, ["chorus_up 1"]);
        assert!(seen.header("content-type").starts_with("application/openmetrics-text"));
    }
    hub.get("/metrics", Some("co_wrong")).await.failure(Code::Unauthorized);
}

/// The counts of two nodes are combined.
#[tokio::test]
async fn nodes_count_together() {
    let setup = Setup::postgres().config(|config| config.quotas.agent_bytes = 100_000);
    let (one, two) = (setup.start(), setup.start());
    let bob = one.register("bob").await;
    for hub in [&one, &two, &one, &two] {
        assert_eq!(hub.send(&bob, "bob", "bob", &"x".repeat(9_000)).await.status, 202);
    }
    let sees = async |hub: &TestHub| used(hub, &bob, "agent_bytes").await;
    let total = 4 * (9_000 + 256);
    // Each node learns the other's counts when it writes its own.
    for hub in [&one, &two] {
        eventually(
            async || {
                hub.send(&bob, "bob", "bob", "x").await;
                sees(hub).await
            },
            |used| *used > total,
        )
        .await;
    }
}

/// The limit of agents per account holds at every door and under concurrency.
#[tokio::test]
async fn an_account_owns_so_many_agents_by_any_door() {
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.config(|config| config.quotas.agents = 5).start();
        let anna = hub.account("anna@example.org").await;
        let at_once = (0..12).map(|n| {
            let body = json!({"name": format!("agent-{n}")});
            tokio::spawn(Answer::of(
                hub.request(reqwest::Method::POST, "/api/v1/agents", Some(&anna)).json(&body),
            ))
        });
        let mut made = vec![];
        for answer in at_once.collect::<Vec<_>>() {
            let answer = answer.await.unwrap();
            if answer.status == 201 {
                made.push(answer.body["agent_id"].as_str().unwrap().to_owned());
            } else {
                refused(&answer, "agents", 5);
            }
        }
        assert_eq!(made.len(), 5);
        let market = json!({"agent_name": "worker", "skills": [{"skill_name": "dig", "cost_per_call": 1}]});
        refused(&hub.post("/market/register", Some(&anna), &market).await, "agents", 5);
        let own_key = hub.register("stray").await;
        refused(
            &hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": own_key})).await,
            "agents",
            5,
        );
        assert_eq!(hub.delete(&format!("/agents/{}", made[0]), Some(&anna)).await.status, 200);
        assert_eq!(hub.post("/market/register", Some(&anna), &market).await.status, 201);
    }
}

/// The answers to requests with an idempotency key are kept for a day, so their bytes are bounded for each caller.
#[tokio::test]
async fn kept_answers_are_bounded() {
    let hub = Setup::new().config(|config| config.quotas.answer_bytes = 10_000).start();
    let (bob, other) = (hub.register("bob").await, hub.register("other").await);
    let patch = async |key: &str, name: &str, n: u32| {
        let path = format!("/api/v1/agents/{name}");
        let request = hub.request(Method::PATCH, &path, Some(key)).header("idempotency-key", format!("k{n}"));
        Answer::of(request.json(&json!({"description": "the same"}))).await
    };
    let mut answers = 0;
    let refused = loop {
        let answer = patch(&bob, "bob", answers).await;
        if answer.status != 200 {
            break answer;
        }
        answers += 1;
        assert!(answers < 100, "nothing is refused");
    };
    refused.own_failure(Code::RateLimited);
    assert_eq!(patch(&bob, "bob", 0).await.status, 200, "a kept answer is given again");
    assert_eq!(patch(&other, "other", 0).await.status, 200, "another caller has bytes of its own");
}
