//! Channels and direct conversations with their members and documents.

use crate::support::{Answer, HOST, OPERATOR, TestHub, members};
use chorus_protocol::code::Code;
use chorus_protocol::time::parse_rfc3339;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CHANNELS: &str = "/api/v1/channels";

/// Returns the handles on a page of members.
fn handles(page: &Answer) -> Vec<&str> {
    page.body["items"].as_array().unwrap().iter().map(|member| member["handle"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_channel_from_its_making_to_its_end() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let made = hub.post(CHANNELS, Some(&anna), &json!({"name": "release", "context": "We ship."})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let channel = &made.body;
    let names = ["archived", "context", "created_at", "history", "id", "kind", "name", "owner"];
    assert_eq!(members(channel), names);
    let id = channel["id"].as_str().unwrap();
    assert!(id.len() == 35 && id.starts_with("ch_"), "{id}");
    assert_eq!(channel["kind"], "channel");
    assert_eq!((&channel["name"], &channel["context"]), (&json!("release"), &json!("We ship.")));
    assert_eq!((&channel["history"], &channel["archived"]), (&json!("all"), &json!(false)));
    assert_eq!(channel["owner"]["kind"], "account");
    assert!(parse_rfc3339(channel["created_at"].as_str().unwrap()).is_some());

    let path = format!("{CHANNELS}/{id}");
    let looked = hub.get(&path, Some(&anna)).await;
    assert_eq!((looked.status, &looked.body["me"]["handle"]), (200, &json!("anna")));
    let mut without = looked.body.clone();
    without.as_object_mut().unwrap().remove("me");
    assert_eq!(&without, channel);

    let changed =
        hub.ask("PATCH", &path, Some(&anna), &json!({"name": "release 2", "history": "joined"})).await;
    assert_eq!((changed.status, &changed.body["name"]), (200, &json!("release 2")));
    assert_eq!((&changed.body["context"], &changed.body["history"]), (&json!("We ship."), &json!("joined")));
    let changed = hub.ask("PATCH", &path, Some(&anna), &json!({"context": ""})).await;
    assert_eq!((&changed.body["context"], &changed.body["name"]), (&json!(null), &json!("release 2")));
    assert_eq!(hub.get(CHANNELS, Some(&anna)).await.body, json!({"items": [changed.body], "next": null}));

    hub.say(&path, &anna, &json!({"content": "the last word"})).await;
    for _ in 0..2 {
        let gone = hub.delete(&path, Some(&anna)).await;
        assert_eq!((gone.status, &*gone.text), (204, ""), "again and again");
    }
    assert_eq!(hub.get(CHANNELS, Some(&anna)).await.body["items"], json!([]));
    let archived = hub.get(&format!("{CHANNELS}?archived=true"), Some(&anna)).await.body;
    assert_eq!(
        (&archived["items"][0]["name"], &archived["items"][0]["archived"]),
        (&json!("release 2"), &json!(true))
    );
    assert_eq!(hub.get(&path, Some(&anna)).await.body["archived"], true);
    let log = hub.log(&path, &anna, "").await;
    let kinds: Vec<_> = log.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["join", "change", "change", "message", "change"], "archived once");
    assert_eq!(log[4]["archived"], true);
    for (method, path, body) in [
        ("POST", format!("{path}/messages"), json!({"content": "x"})),
        ("POST", format!("{path}/artifacts"), json!({"slug": "x", "content": "x"})),
        ("POST", format!("{path}/members"), json!({"account": "anna@example.org"})),
        ("PATCH", path, json!({"name": "x"})),
    ] {
        hub.ask(method, &path, Some(&anna), &body).await.own_failure(Code::Conflict);
    }
}

#[tokio::test]
async fn faults_are_all_told_at_once() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    let long = |length: usize| "x".repeat(length);
    let table = [
        ("POST", CHANNELS, json!([]), vec!["body: must be an object"]),
        ("POST", CHANNELS, json!({}), vec!["name: is required"]),
        (
            "POST",
            CHANNELS,
            json!({"name": long(81), "context": long(4001), "history": "some", "handle": "a b"}),
            vec![
                "name: must be one line of 1 to 80",
                "context: must be at most 4000",
                "history: must be one of all, joined",
                "handle: must be 1 to 64",
            ],
        ),
        ("POST", CHANNELS, json!({"name": " "}), vec!["name: must be one line"]),
        ("POST", CHANNELS, json!({"name": "a\nb"}), vec!["name: must be one line"]),
        ("PATCH", &channel, json!({}), vec!["body: must have a name"]),
        ("PATCH", &channel, json!({"name": 1}), vec!["name: must be a string, not a number"]),
        ("POST", &format!("{channel}/members"), json!({}), vec!["body: must have either agent or account"]),
        (
            "POST",
            &format!("{channel}/members"),
            json!({"agent": "a b", "handle": "", "roles": ["x y"], "lead": "yes"}),
            vec![
                "agent: must be",
                "handle: must be",
                "roles[0]: must be 1 to 64",
                "lead: must be true or false",
            ],
        ),
        ("POST", &format!("{channel}/members"), json!({"agent": "a", "account": "b@c"}), vec!["either"]),
        ("POST", &format!("{channel}/members"), json!({"account": "anna"}), vec!["account: must be"]),
        ("POST", "/api/v1/dms", json!({}), vec!["with: is required"]),
        ("POST", "/api/v1/dms", json!({"with": "a b"}), vec!["with: must be"]),
        ("POST", "/api/v1/dms", json!({"with": "anna@example.org"}), vec!["with: must be somebody else"]),
        (
            "POST",
            &format!("{channel}/artifacts"),
            json!({"slug": "-x", "title": "", "content_type": "text", "content": 1}),
            vec!["slug: must be", "title: must be", "content_type: must be", "content: must be a string"],
        ),
        (
            "PUT",
            &format!("{channel}/artifacts/x"),
            json!({"content": "", "base_version": 0}),
            vec!["base_version: must be"],
        ),
        ("GET", "/api/v1/channels?after=x&limit=1", json!(null), vec!["after: must be"]),
        ("GET", "/api/v1/channels?limit=0", json!(null), vec!["limit: must be"]),
        ("GET", "/api/v1/search", json!(null), vec!["q: must be 1 to 200"]),
        (
            "GET",
            "/api/v1/search?q=x&after=y&before=z&limit=51",
            json!(null),
            vec!["after: must be", "before: must be", "limit: must be an integer from 1 to 50"],
        ),
    ];
    for (method, path, body, expected) in table {
        let answer = hub.ask(method, path, Some(&anna), &body).await;
        let message = answer.own_failure(Code::Validation);
        for part in expected {
            assert!(message.contains(part), "{method} {path} {body}: {message}");
        }
    }
    let raw = hub.request(reqwest::Method::POST, CHANNELS, Some(&anna)).body(r#"{"name":"a","name":"b"}"#);
    assert!(Answer::of(raw).await.own_failure(Code::Validation).contains("duplicate member"));
    let raw = hub.request(reqwest::Method::POST, CHANNELS, Some(&anna)).body(vec![b' '; 256 * 1024 + 1]);
    Answer::of(raw).await.own_failure(Code::TooLarge);
    assert_eq!(hub.log(&channel, &anna, "").await.len(), 1, "nothing was done");
}

#[tokio::test]
async fn members_come_and_go() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    hub.account("bob@example.org").await;
    let (bob, carol) = (hub.register("bob").await, hub.register("carol").await);
    let channel = hub.channel(&anna, &json!({"name": "c", "handle": "Boss"})).await;
    let path = format!("{channel}/members");

    let body = json!({"agent": format!("bob@{HOST}"), "roles": ["review", "build"], "lead": true});
    let added = hub.post(&path, Some(&anna), &body).await;
    assert_eq!(added.status, 201, "{}", added.text);
    assert_eq!(members(&added.body), ["handle", "id", "joined_at", "kind", "lead", "roles"]);
    assert_eq!((&added.body["handle"], &added.body["kind"]), (&json!("bob"), &json!("agent")));
    assert_eq!((&added.body["roles"], &added.body["lead"]), (&json!(["build", "review"]), &json!(true)));
    hub.post(&path, Some(&anna), &body).await.own_failure(Code::Conflict);

    // A default handle that is taken gets a number; a requested one is refused.
    let person = json!({"account": "bob@example.org", "handle": "BOB"});
    let refused = hub.post(&path, Some(OPERATOR), &person).await;
    refused.own_failure(Code::Conflict);
    let person = hub.post(&path, Some(OPERATOR), &json!({"account": "BOB@example.org"})).await;
    assert_eq!((&person.body["handle"], &person.body["kind"]), (&json!("bob-2"), &json!("account")));
    let by_id = hub.get("/agents/carol", None).await.data()["id"].as_str().unwrap().to_owned();
    assert_eq!(hub.add(&channel, &bob, &json!({"agent": by_id, "handle": "c.c"})).await, "c.c");
    for nobody in [json!({"agent": "nobody"}), json!({"agent": "bob@elsewhere.example"})] {
        hub.post(&path, Some(&anna), &nobody).await.own_failure(Code::NotFound);
        hub.post(&path, Some(OPERATOR), &nobody).await.own_failure(Code::NotFound);
    }
    hub.post(&path, Some(OPERATOR), &json!({"account": "no@example.org"})).await.own_failure(Code::NotFound);
    hub.post(&path, Some(&carol), &json!({"agent": "dave"})).await.own_failure(Code::Forbidden);
    hub.register("dave").await;
    hub.post(&path, Some(&carol), &json!({"agent": "dave"})).await.own_failure(Code::Forbidden);

    let all = hub.get(&path, Some(&carol)).await;
    assert_eq!(handles(&all), ["bob", "bob-2", "Boss", "c.c"]);
    assert_eq!(all.body["next"], json!(null));
    let page = hub.get(&format!("{path}?limit=3"), Some(&carol)).await;
    assert_eq!((handles(&page), &page.body["next"]), (vec!["bob", "bob-2", "Boss"], &json!("Boss")));
    assert_eq!(handles(&hub.get(&format!("{path}?after=Boss"), Some(&carol)).await), ["c.c"]);

    // Members, leads and the owner may remove different people.
    hub.delete(&format!("{path}/bob"), Some(&carol)).await.own_failure(Code::Forbidden);
    hub.delete(&format!("{path}/boss"), Some(&bob)).await.own_failure(Code::Forbidden);
    for nobody in ["nobody", "a%00b", "a%20b"] {
        hub.delete(&format!("{path}/{nobody}"), Some(&anna)).await.own_failure(Code::NotFound);
    }
    assert_eq!(hub.delete(&format!("{path}/bob-2"), Some(&bob)).await.status, 204, "a lead may");
    assert_eq!(hub.delete(&format!("{path}/C.C"), Some(&carol)).await.status, 204, "everybody may leave");
    hub.get(&path, Some(&carol)).await.own_failure(Code::NotFound);
    assert_eq!(hub.delete(&format!("{path}/bob"), Some(&anna)).await.status, 204);
    assert_eq!(handles(&hub.get(&path, Some(&anna)).await), ["Boss"]);
    assert_eq!(hub.add(&channel, &anna, &json!({"agent": "bob"})).await, "bob", "and may come back");

    let log = hub.log(&channel, &anna, "kind=leave").await;
    assert_eq!(log.len(), 3);
    assert_eq!(log[0]["member"]["handle"], "bob-2");
    assert_eq!((&log[0]["author"]["handle"], &log[0]["kind"]), (&json!("bob"), &json!("leave")));
}

#[tokio::test]
async fn only_the_owner_changes_a_channel() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob", "lead": true})).await;
    hub.ask("PATCH", &channel, Some(&bob), &json!({"name": "mine"})).await.own_failure(Code::Forbidden);
    hub.delete(&channel, Some(&bob)).await.own_failure(Code::Forbidden);
    hub.delete(&channel, Some(&anna)).await;
    hub.delete(&channel, Some(&bob)).await.own_failure(Code::Forbidden);
    // A channel created by an agent belongs to the agent.
    let own = hub.channel(&bob, &json!({"name": "own"})).await;
    assert_eq!(hub.get(&own, Some(&bob)).await.body["owner"]["kind"], "agent");
    assert_eq!(hub.ask("PATCH", &own, Some(&bob), &json!({"name": "x"})).await.status, 200);
}

#[tokio::test]
async fn the_owner_hands_a_channel_on_before_it_leaves() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c", "handle": "anna"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    let myself = format!("{channel}/members/anna");
    let refused = hub.delete(&myself, Some(&anna)).await;
    assert!(refused.own_failure(Code::Conflict).contains("make another member the `owner`"));
    assert_eq!(hub.get(&channel, Some(&anna)).await.status, 200, "still there");

    let change_channel = async |key, body| hub.ask("PATCH", &channel, Some(key), &body).await;
    change_channel(&bob, json!({"owner": "bob"})).await.own_failure(Code::Forbidden);
    change_channel(&anna, json!({"owner": "nobody"})).await.own_failure(Code::NotFound);
    let fault = change_channel(&anna, json!({"owner": "a b"})).await;
    assert!(fault.own_failure(Code::Validation).starts_with("owner: must be"));
    let handed = change_channel(&anna, json!({"owner": "BOB", "name": "d"})).await;
    assert_eq!(handed.status, 200, "{}", handed.text);
    let id = hub.get("/agents/bob", None).await.data()["id"].clone();
    assert_eq!(
        (&handed.body["owner"], &handed.body["name"]),
        (&json!({"id": id, "kind": "agent"}), &json!("d"))
    );
    let log = hub.log(&channel, &bob, "kind=change").await;
    assert_eq!(log[0]["owner"], handed.body["owner"]);
    change_channel(&anna, json!({"name": "e"})).await.own_failure(Code::Forbidden);
    assert_eq!(change_channel(&bob, json!({"name": "e"})).await.status, 200);
    assert_eq!(hub.delete(&myself, Some(&anna)).await.status, 204);
}

#[tokio::test]
async fn my_channels_page_by_page() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let mut made = BTreeSet::new();
    for n in 0..7 {
        let channel = hub.channel(&anna, &json!({"name": n.to_string()})).await;
        made.insert(channel.rsplit('/').next().unwrap().to_owned());
    }
    hub.channel(&bob, &json!({"name": "another's"})).await;
    let (mut found, mut path) = (vec![], format!("{CHANNELS}?limit=3"));
    loop {
        let page = hub.get(&path, Some(&anna)).await;
        let items = page.body["items"].as_array().unwrap();
        assert!(items.len() <= 3);
        found.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = page.body["next"].as_str() else { break };
        path = format!("{CHANNELS}?limit=3&after={next}");
    }
    assert_eq!(found, Vec::from_iter(made));
}

#[tokio::test]
async fn a_direct_conversation() {
    let hub = TestHub::start();
    let (anna, other) = (hub.account("anna@example.org").await, hub.account("anna@example.com").await);
    let (bob, carol) = (hub.register("bob").await, hub.register("carol").await);
    let dm = |key: String, with: &str| {
        let body = json!({"with": with});
        let hub = &hub;
        async move { hub.post("/api/v1/dms", Some(&key), &body).await }
    };
    let made = dm(anna.clone(), &format!("bob@{HOST}")).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!((&made.body["kind"], &made.body["name"]), (&json!("dm"), &json!("anna & bob")));
    let again = dm(bob.clone(), "anna@example.org").await;
    assert_eq!((again.status, &again.body), (200, &made.body), "there is one, whoever asks");
    let path = format!("{CHANNELS}/{}", made.body["id"].as_str().unwrap());
    let said = hub.say(&path, &anna, &json!({"content": "no mention needed"})).await;
    assert_eq!(said["attention"]["woken"], json!(["bob"]));
    assert_eq!(hub.say(&path, &bob, &json!({"content": "@anna hi"})).await["attention"]["woken"], json!([]));
    let mut inbox = hub.inbox(&bob, None).await;
    let chat = inbox.event("chat").await;
    assert_eq!(chat["event"]["content"], "no mention needed");
    assert_eq!(
        (&chat["attention"]["reason"], &chat["channel"]["kind"]),
        (&json!("direct_message"), &json!("dm"))
    );
    inbox.assert_quiet().await;

    // Two members with the same name get different handles.
    let common = hub.channel(&anna, &json!({"name": "common"})).await;
    hub.add(&common, &anna, &json!({"account": "anna@example.com"})).await;
    let namesakes = dm(anna.clone(), "anna@example.com").await;
    let path_of_two = format!("{CHANNELS}/{}", namesakes.body["id"].as_str().unwrap());
    let page = hub.get(&format!("{path_of_two}/members"), Some(&other)).await;
    assert_eq!(handles(&page), ["anna", "anna-2"]);

    // Nobody else can read it.
    hub.get(&path, Some(&carol)).await.own_failure(Code::NotFound);
    let third = hub.post(&format!("{path}/members"), Some(&anna), &json!({"agent": "carol"})).await;
    let leave = hub.delete(&format!("{path}/members/anna"), Some(&anna)).await;
    let rename = hub.ask("PATCH", &path, Some(&anna), &json!({"name": "x"})).await;
    let archive = hub.delete(&path, Some(&anna)).await;
    for refused in [third, leave, rename, archive] {
        let why = refused.own_failure(Code::Forbidden);
        assert!(why.starts_with("a conversation of two stays as it is"), "its owner is told: {why}");
    }
    dm(anna.clone(), "nobody").await.own_failure(Code::NotFound);
    dm(bob.clone(), "bob").await.own_failure(Code::Validation);
    hub.post("/api/v1/dms", Some(OPERATOR), &json!({"with": "bob"})).await.own_failure(Code::Forbidden);

    // Agents that exchanged envelopes before have a direct conversation too.
    hub.send(&bob, "bob", "carol", "an envelope").await;
    assert_eq!(dm(carol.clone(), "bob").await.status, 201);
}

async fn one_direct_conversation(hub: TestHub) {
    let (anna, bob) = (hub.register("anna").await, hub.register("bob").await);
    let asks = (0..12).map(|n| {
        let (key, with) = if n % 2 == 0 { (&anna, "bob") } else { (&bob, "anna") };
        let request = hub.request(reqwest::Method::POST, "/api/v1/dms", Some(key));
        tokio::spawn(Answer::of(request.json(&json!({"with": with}))))
    });
    let asks: Vec<_> = asks.collect();
    let (mut ids, mut made) = (BTreeSet::new(), 0);
    for ask in asks {
        let answer = ask.await.unwrap();
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
        made += i32::from(answer.status == 201);
        ids.insert(answer.body["id"].as_str().unwrap().to_owned());
    }
    assert_eq!((ids.len(), made), (1, 1));
    let path = format!("{CHANNELS}/{}", ids.first().unwrap());
    assert_eq!(hub.log(&path, &anna, "").await.len(), 2, "each came once");
}

#[tokio::test]
async fn one_direct_conversation_however_many_ask() {
    one_direct_conversation(TestHub::start()).await;
    one_direct_conversation(TestHub::postgres()).await;
}

#[tokio::test]
async fn documents_in_versions() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    let path = format!("{channel}/artifacts");
    let new = json!({"slug": "notes", "title": "Notes", "content": "# One", "content_type": "text/plain"});
    let made = hub.post(&path, Some(&anna), &new).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let names = ["author", "content_type", "created_at", "encoding", "size", "slug", "title", "version"];
    assert_eq!(members(&made.body), names);
    assert_eq!((&made.body["version"], &made.body["title"]), (&json!(1), &json!("Notes")));
    let taken = hub.post(&path, Some(&bob), &new).await;
    taken.own_failure(Code::Conflict);
    assert_eq!(taken.body["error"]["details"]["version"], 1);

    let one = format!("{path}/notes");
    let changed = hub.ask("PUT", &one, Some(&bob), &json!({"content": "# Two", "base_version": 1})).await;
    assert_eq!((changed.status, &changed.body["version"]), (200, &json!(2)));
    assert_eq!(
        (&changed.body["title"], &changed.body["content_type"]),
        (&json!("Notes"), &json!("text/plain"))
    );
    assert_eq!(changed.body["author"]["kind"], "agent");
    let stale = hub.ask("PUT", &one, Some(&anna), &json!({"content": "# Mine", "base_version": 1})).await;
    stale.own_failure(Code::Conflict);
    assert_eq!(stale.body["error"]["details"]["version"], 2);
    for absent in ["other", "NOTES", "a%00b"] {
        for body in [json!({"content": "", "base_version": 1}), json!({"content": ""})] {
            hub.ask("PUT", &format!("{path}/{absent}"), Some(&anna), &body).await.own_failure(Code::NotFound);
        }
        hub.get(&format!("{path}/{absent}"), Some(&anna)).await.own_failure(Code::NotFound);
    }

    let newest = hub.get(&one, Some(&anna)).await.body;
    assert_eq!((&newest["content"], &newest["version"]), (&json!("# Two"), &json!(2)));
    assert_eq!(hub.get(&format!("{one}?version=1"), Some(&anna)).await.body["content"], "# One");
    hub.get(&format!("{one}?version=3"), Some(&anna)).await.own_failure(Code::NotFound);
    hub.get(&format!("{one}?version=x"), Some(&anna)).await.own_failure(Code::Validation);

    for slug in ["a", "b", "c"] {
        hub.post(&path, Some(&anna), &json!({"slug": slug, "content": ""})).await;
    }
    let page = hub.get(&format!("{path}?limit=3"), Some(&anna)).await.body;
    let slugs = |page: &Value| -> Vec<_> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["slug"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!((slugs(&page), &page["next"]), (vec!["a".into(), "b".into(), "c".into()], &json!("c")));
    assert!(page["items"][0].get("content").is_none(), "{page}");
    let rest = hub.get(&format!("{path}?after=c"), Some(&anna)).await.body;
    assert_eq!((slugs(&rest), &rest["items"][0]["version"]), (vec!["notes".to_owned()], &json!(2)));

    let log = hub.log(&channel, &anna, "kind=artifact&limit=2").await;
    assert_eq!((&log[1]["slug"], &log[1]["version"]), (&json!("notes"), &json!(2)));

    // Documents up to the size limit and without credentials are accepted.
    let large = |length: usize| json!({"slug": format!("large-{length}"), "content": "\n".repeat(length)});
    assert_eq!(hub.post(&path, Some(&anna), &large(1024 * 1024)).await.status, 201);
    hub.post(&path, Some(&anna), &large(1024 * 1024 + 1)).await.own_failure(Code::QuotaExceeded);
    let body = vec![b' '; 3 * 1024 * 1024];
    let too_large = hub.request(reqwest::Method::POST, &path, Some(&anna)).body(body);
    Answer::of(too_large).await.own_failure(Code::TooLarge);
    let secret = json!({"slug": "secret", "content": format!("the key is {bob}")});
    let masked = hub.post(&path, Some(&anna), &secret).await;
    assert_eq!(masked.body["masked"], json!(["agent key"]));
    let kept = hub.get(&format!("{path}/secret"), Some(&anna)).await;
    assert_eq!(kept.body["content"], "the key is [redacted: agent key]");
}

/// If two people change the same version at once, one gets a conflict.
#[tokio::test]
async fn changes_of_documents_are_never_lost() {
    let hub = TestHub::postgres();
    let anna = hub.account("anna@example.org").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    let path = format!("{channel}/artifacts");
    hub.post(&path, Some(&anna), &json!({"slug": "n", "content": "0"})).await;
    let puts: Vec<_> = (0..10)
        .map(|n| {
            let request = hub.request(reqwest::Method::PUT, &format!("{path}/n"), Some(&anna));
            tokio::spawn(Answer::of(request.json(&json!({"content": n.to_string(), "base_version": 1}))))
        })
        .collect();
    let mut statuses = vec![];
    for put in puts {
        statuses.push(put.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409, 409, 409]);
}
