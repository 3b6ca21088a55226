//! Messages: the agents they wake, threads, edits, deletions and reactions.

use crate::support::{Answer, TestHub, members};
use chorus_protocol::code::Code;
use chorus_protocol::time::parse_rfc3339;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Creates a channel of the person `anna` with the agents `bob` and `carol`.
pub(crate) async fn channel(hub: TestHub) -> (TestHub, String, [String; 3]) {
    let anna = hub.account("anna@example.org").await;
    let (bob, carol) = (hub.register("bob").await, hub.register("carol").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    for agent in ["bob", "carol"] {
        hub.add(&channel, &anna, &json!({"agent": agent})).await;
    }
    (hub, channel, [anna, bob, carol])
}

pub(crate) fn contents(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["content"].as_str().unwrap_or("-")).collect()
}

pub(crate) fn id(said: &Value) -> &str {
    said["event_id"].as_str().unwrap()
}

#[tokio::test]
async fn one_mention_is_one_delivery() {
    let (hub, channel, [anna, bob, carol]) = channel(TestHub::start()).await;
    let content = "@bob can you look? `@carol` need not, nor @nobody";
    let body = json!({"content": content, "intent": "question", "priority": "high", "deadline_ms": 60_000});
    let said = hub.say(&channel, &anna, &body).await;
    assert_eq!(members(&said), ["attention", "event_id", "sequence", "thread", "unknown"]);
    assert!(id(&said).starts_with("evt_") && id(&said).len() == 36, "{said}");
    assert_eq!((&said["sequence"], &said["thread"]), (&json!(4), &json!(null)));
    assert_eq!(
        said["attention"],
        json!({"woken": ["bob"], "knocked": [], "stored_for": [], "stored_count": 0})
    );

    let mut inbox = hub.inbox(&bob, None).await;
    let chat = inbox.event("chat").await;
    assert_eq!((&chat["event"]["event_id"], &chat["event"]["content"]), (&said["event_id"], &json!(content)));
    let attention = json!({"reason": "direct_mention", "directedness": "to_me", "policy": "must_respond", "mode": "buffered",
        "priority": "high", "deadline_ms": 60_000});
    assert_eq!(chat["attention"], attention);
    inbox.assert_quiet().await;
    assert_eq!(hub.history(&carol).await, [] as [Value; 0]);
    assert_eq!(hub.history(&bob).await.len(), 1);

    let log = hub.log(&channel, &carol, "kind=message").await;
    let event = &log[0];
    let names = [
        "author",
        "content",
        "created_at",
        "deadline_ms",
        "event_id",
        "intent",
        "kind",
        "priority",
        "reply_to",
        "sequence",
        "thread",
        "trace_id",
    ];
    assert_eq!(members(event), names);
    assert_eq!((&event["kind"], &event["author"]["handle"]), (&json!("message"), &json!("anna")));
    assert_eq!((&event["author"]["kind"], &event["intent"]), (&json!("account"), &json!("question")));
    assert!(parse_rfc3339(event["created_at"].as_str().unwrap()).is_some());

    // `to` works like a mention. Nobody wakes themselves, and each agent is woken once.
    let to = json!({"content": "@bob @Carol", "to": ["BOB", "carol", "anna"]});
    let said = hub.say(&channel, &bob, &to).await;
    assert_eq!(said["attention"]["woken"], json!(["carol"]));
    assert_eq!(hub.log(&channel, &anna, "kind=message").await[1]["to"], json!(["BOB", "carol", "anna"]));
    let nobody = json!({"content": "x", "to": ["nobody"]});
    hub.post(&format!("{channel}/messages"), Some(&anna), &nobody).await.own_failure(Code::NotFound);
}

#[tokio::test]
async fn faults_are_all_told_at_once() {
    let (hub, channel, [anna, ..]) = channel(TestHub::start()).await;
    let said = hub.say(&channel, &anna, &json!({"content": "x"})).await;
    let (path, one) = (format!("{channel}/messages"), format!("{channel}/messages/{}", id(&said)));
    let reactions = format!("{one}/reactions");
    let table = [
        (&path, json!({}), vec!["content: is required"]),
        (
            &path,
            json!({"content": "", "thread": "x", "reply_to": 1, "to": "bob", "intent": "joke", "priority": "top", "deadline_ms": 999}),
            vec![
                "content: must be 1 to 100000",
                "thread: must be the id of a message",
                "reply_to: must be a string",
                "to: must be an array of at most 50",
                "intent: must be one of question, ",
                "priority: must be one of low, normal, high, urgent",
                "deadline_ms: must be an integer from 1000 to 86400000",
            ],
        ),
        (&path, json!({"content": "x".repeat(100_001)}), vec!["not 100001"]),
        (&path, json!({"content": "x", "to": vec!["a"; 51]}), vec!["to: must be"]),
        (&path, json!({"content": "a\0b"}), vec!["U+0000"]),
        (&reactions, json!({}), vec!["signal: is required"]),
        (
            &reactions,
            json!({"signal": "👀", "eta": "", "removed": 1}),
            vec!["signal: must be one of seen", "eta: must be", "removed: must be"],
        ),
    ];
    for (path, body, expected) in table {
        let answer = hub.post(path, Some(&anna), &body).await;
        let message = answer.own_failure(Code::Validation);
        for part in expected {
            assert!(message.contains(part), "{path}: {message}");
        }
    }
    hub.ask("PATCH", &one, Some(&anna), &json!({"content": ""})).await.own_failure(Code::Validation);
    for query in ["after=x", "before=x", "after=1&before=2", "thread=x", "kind=A", "limit=201"] {
        hub.get(&format!("{channel}/events?{query}"), Some(&anna)).await.own_failure(Code::Validation);
    }
    hub.post(&format!("{path}?dry_run=maybe"), Some(&anna), &json!({"content": "x"}))
        .await
        .own_failure(Code::Validation);
    assert_eq!(hub.log(&channel, &anna, "kind=message").await.len(), 1);
    let longest = hub.say(&channel, &anna, &json!({"content": "é".repeat(100_000)})).await;
    assert_eq!(longest["sequence"], 5);
    let kept = hub.log(&channel, &anna, "after=4").await;
    assert_eq!(kept[0]["content"].as_str().unwrap().chars().count(), 100_000);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let (hub, channel, [anna, bob, _]) = channel(TestHub::start()).await;
    let path = format!("{channel}/messages?dry_run=true");
    let body = json!({"content": "@bob and @anna", "to": ["carol"]});
    let answer = hub.post(&path, Some(&anna), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(members(&answer.body), ["attention", "classification"]);
    let mut attention = answer.body["attention"].as_array().unwrap().clone();
    attention.sort_by_key(|decision| decision["handle"].as_str().unwrap().to_owned());
    let decision = |handle: &str| {
        json!({"handle": handle, "directedness": "to_me", "policy": "must_respond", "mode": "buffered", "reason": "direct_mention",
        "priority": "normal", "deadline_ms": 300_000})
    };
    assert_eq!(attention, [decision("bob"), decision("carol")]);
    assert_eq!(hub.log(&channel, &anna, "").await.len(), 3);
    assert_eq!(hub.history(&bob).await, [] as [Value; 0]);
    hub.post(&path, Some(&anna), &json!({"content": "x", "to": ["nobody"]}))
        .await
        .own_failure(Code::NotFound);
    let said = hub.say(&channel, &anna, &body).await;
    assert_eq!(said["sequence"], 4, "no number was used");
}

#[tokio::test]
async fn threads_and_replies() {
    let (hub, channel, [anna, bob, _]) = channel(TestHub::start()).await;
    let first = hub.say(&channel, &anna, &json!({"content": "first", "to": ["bob"]})).await;
    let aside = hub.say(&channel, &bob, &json!({"content": "aside", "reply_to": id(&first)})).await;
    assert_eq!(aside["thread"], first["event_id"], "an answer begins a thread at what it answers");
    let second = hub.say(&channel, &bob, &json!({"content": "second", "thread": id(&first)})).await;
    assert_eq!(second["thread"], first["event_id"]);
    hub.say(&channel, &anna, &json!({"content": "between"})).await;
    let third = hub
        .say(&channel, &anna, &json!({"content": "third", "thread": id(&second), "reply_to": id(&second)}))
        .await;
    assert_eq!(third["thread"], first["event_id"], "any message of a thread names it");
    let fourth = hub.say(&channel, &bob, &json!({"content": "fourth", "reply_to": id(&third)})).await;
    assert_eq!(fourth["thread"], first["event_id"], "an answer stays in the thread");

    let thread = format!("thread={}", id(&first));
    assert_eq!(
        contents(&hub.log(&channel, &bob, &thread).await),
        ["first", "aside", "second", "third", "fourth"]
    );
    let page = hub.get(&format!("{channel}/events?{thread}&limit=3"), Some(&bob)).await.body;
    assert_eq!(contents(page["items"].as_array().unwrap()), ["first", "aside", "second"]);
    let next = page["next"].as_str().unwrap();
    assert_eq!(
        contents(&hub.log(&channel, &bob, &format!("{thread}&after={next}")).await),
        ["third", "fourth"]
    );
    let page = hub.get(&format!("{channel}/events?{thread}&limit=3&before=end"), Some(&bob)).await.body;
    assert_eq!(contents(page["items"].as_array().unwrap()), ["second", "third", "fourth"]);
    let next = page["next"].as_str().unwrap();
    let page = hub.get(&format!("{channel}/events?{thread}&before={next}"), Some(&bob)).await.body;
    assert_eq!(
        (contents(page["items"].as_array().unwrap()), &page["next"]),
        (vec!["first", "aside"], &json!(null))
    );

    let log = hub.log(&channel, &bob, "kind=message").await;
    assert_eq!(contents(&log), ["first", "aside", "second", "between", "third", "fourth"]);
    assert_eq!((&log[0]["replies"], log[2].get("replies")), (&json!(4), None));
    assert_eq!((&log[1]["reply_to"], &log[4]["reply_to"]), (&first["event_id"], &second["event_id"]));
}

/// Unknown names, and too many names, are reported to the author.
#[tokio::test]
async fn mentions_that_reach_nobody_are_reported() {
    let (hub, channel, [anna, _, _]) = channel(TestHub::start()).await;
    let content = "＠bob @nobdy: see https://x.org/@carol\n> @carol said\n`@x` @Nobdy";
    let said = hub.say(&channel, &anna, &json!({"content": content})).await;
    assert_eq!(
        (&said["attention"]["woken"], &said["unknown"]),
        (&json!(["bob"]), &json!(["nobdy"])),
        "{said}"
    );
    assert_eq!(said.get("left_out"), None);
    let path = format!("{channel}/messages?dry_run=true");
    let preview = hub.post(&path, Some(&anna), &json!({"content": "@nobdy"})).await;
    assert_eq!(preview.body["unknown"], json!(["nobdy"]));
    let path = format!("{channel}/messages/{}", id(&said));
    let edited = hub.ask("PATCH", &path, Some(&anna), &json!({"content": "@nobody"})).await;
    assert_eq!(edited.body["unknown"], json!(["nobody"]));

    let many: Vec<_> = (0..60).map(|n| format!("@a{n}")).collect();
    let said = hub.say(&channel, &anna, &json!({"content": many.join(" ")})).await;
    let left_out: Vec<_> = (50..60).map(|n| format!("a{n}")).collect();
    let path = format!("{channel}/messages?dry_run=true");
    let preview = hub.post(&path, Some(&anna), &json!({"content": many.join(" ")})).await;
    assert_eq!(preview.body["left_out"], json!(left_out));
    assert_eq!((&said["left_out"], said["unknown"].as_array().unwrap().len()), (&json!(left_out), 50));
}

#[tokio::test]
async fn edits_and_deletions() {
    let (hub, channel, [anna, bob, carol]) = channel(TestHub::start()).await;
    let said = hub.say(&channel, &bob, &json!({"content": "apples", "intent": "chat"})).await;
    let one = format!("{channel}/messages/{}", id(&said));
    let found = async |word: &str| {
        let page = hub.get(&format!("/api/v1/search?q={word}"), Some(&carol)).await;
        let items = page.body["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["event"]["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("APPLES").await, ["apples"]);
    for key in [&anna, &carol] {
        let refused = hub.ask("PATCH", &one, Some(key), &json!({"content": "mine"})).await;
        let why = refused.own_failure(Code::Forbidden);
        assert!(why.starts_with("the author of a message, and nobody else"), "the owner is told: {why}");
    }
    for text in ["pears", "plums @carol"] {
        let edited = hub.ask("PATCH", &one, Some(&bob), &json!({"content": text})).await;
        assert_eq!(
            (edited.status, members(&edited.body)),
            (200, vec!["event_id", "sequence"]),
            "{}",
            edited.text
        );
    }
    assert_eq!(hub.history(&carol).await.len(), 1, "an edit wakes whom it names now");
    let log = hub.log(&channel, &carol, "after=3").await;
    assert_eq!(contents(&log), ["plums @carol", "-", "plums @carol"], "as it stands now");
    assert_eq!((&log[0]["edited_at"], &log[0]["intent"]), (&log[2]["created_at"], &json!("chat")));
    assert_eq!((&log[1]["kind"], &log[1]["target"]), (&json!("edit"), &said["event_id"]));
    assert_eq!(contents(&hub.log(&channel, &carol, "kind=edit").await), ["-", "plums @carol"]);
    assert_eq!((found("apples").await, found("pears").await), (vec![], vec![]));
    assert_eq!(found("plums").await, ["plums @carol"]);

    hub.delete(&one, Some(&carol)).await.own_failure(Code::Forbidden);
    assert_eq!(hub.delete(&one, Some(&anna)).await.status, 204, "the owner may");
    let log = hub.log(&channel, &carol, "after=3").await;
    assert_eq!(contents(&log), ["-", "-", "-", "-"], "no text is left anywhere");
    assert_eq!((&log[0]["deleted"], log[0].get("intent")), (&json!(true), None));
    assert_eq!(found("plums").await, [] as [&str; 0]);
    for key in [&bob, &anna] {
        hub.ask("PATCH", &one, Some(key), &json!({"content": "again"})).await.own_failure(Code::NotFound);
        hub.delete(&one, Some(key)).await.own_failure(Code::NotFound);
        let reaction = json!({"signal": "seen"});
        hub.post(&format!("{one}/reactions"), Some(key), &reaction).await.own_failure(Code::NotFound);
    }
    let own = hub.say(&channel, &carol, &json!({"content": "own"})).await;
    assert_eq!(hub.delete(&format!("{channel}/messages/{}", id(&own)), Some(&carol)).await.status, 204);
    // Only messages can be changed.
    let join = hub.log(&channel, &anna, "").await[0]["event_id"].as_str().unwrap().to_owned();
    hub.delete(&format!("{channel}/messages/{join}"), Some(&anna)).await.own_failure(Code::NotFound);
}

#[tokio::test]
async fn reactions() {
    let (hub, channel, [anna, bob, carol]) = channel(TestHub::start()).await;
    let said = hub.say(&channel, &anna, &json!({"content": "who does it?"})).await;
    let path = format!("{channel}/messages/{}/reactions", id(&said));
    let react = |key: String, body: Value| {
        let (hub, path) = (&hub, &path);
        async move {
            let answer = hub.post(path, Some(&key), &body).await;
            assert_eq!(
                (answer.status, members(&answer.body)),
                (201, vec!["event_id", "sequence"]),
                "{}",
                answer.text
            );
        }
    };
    for signal in ["seen", "agree", "working", "queued", "claimed", "done", "declined", "blocked", "unclear"]
    {
        react(bob.clone(), json!({"signal": signal})).await;
    }
    // Nobody else can claim what bob has completed.
    let late = hub.post(&path, Some(&carol), &json!({"signal": "working"})).await;
    assert!(late.own_failure(Code::PolicyForbidden).contains("another has answered this already"));
    react(carol.clone(), json!({"signal": "queued", "eta": "10 minutes"})).await;
    react(bob.clone(), json!({"signal": "working"})).await;
    for signal in ["seen", "agree", "queued", "claimed", "declined", "blocked", "unclear"] {
        react(bob.clone(), json!({"signal": signal, "removed": true})).await;
    }
    let log = hub.log(&channel, &anna, "kind=message").await;
    let by = |signal: &str, who: &str| json!({"signal": signal, "by": [who]});
    let expected = json!([by("done", "bob"), by("queued", "carol"), by("working", "bob")]);
    assert_eq!(log[0]["reactions"], expected);
    let events = hub.log(&channel, &anna, "kind=reaction").await;
    assert_eq!(events.len(), 17, "the same again added nothing");
    assert_eq!((&events[9]["signal"], &events[9]["eta"]), (&json!("queued"), &json!("10 minutes")));
    assert_eq!((&events[9]["target"], &events[9]["author"]["handle"]), (&said["event_id"], &json!("carol")));
    assert_eq!(hub.history(&bob).await, [] as [Value; 0]);
}

#[tokio::test]
async fn credentials_are_masked_and_their_author_told() {
    let (hub, channel, [anna, bob, _]) = channel(TestHub::start()).await;
    let provider = format!("ghp_{}", "0a1B".repeat(9));
    let content = format!("my key is {bob}, and {provider}");
    let said = hub.say(&channel, &anna, &json!({"content": content})).await;
    assert_eq!(said["masked"], json!(["agent key", "GitHub token"]));
    let log = hub.log(&channel, &anna, "kind=message").await;
    let masked = "my key is [redacted: agent key], and [redacted: GitHub token]";
    assert_eq!((&log[0]["content"], &log[0]["masked"]), (&json!(masked), &said["masked"]));
    let one = format!("{channel}/messages/{}", id(&said));
    let edited = hub.ask("PATCH", &one, Some(&anna), &json!({"content": format!("or {anna}")})).await;
    assert_eq!(edited.body["masked"], json!(["API token"]));
    let named = json!({"name": format!("of {bob}"), "context": format!("keys: {bob}")});
    let other = hub.post("/api/v1/channels", Some(&anna), &named).await;
    assert_eq!(other.body["name"], "of [redacted: agent key]");

    let bytes = hub.bytes_on_disk();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("[redacted: GitHub token]"), "this is where it is");
    for secret in [&anna, &bob, &provider] {
        assert!(!holds(secret), "{secret} is stored");
    }
}

#[tokio::test]
async fn the_same_key_is_the_same_message() {
    let (hub, channel, [anna, bob, carol]) = channel(TestHub::start()).await;
    let path = format!("{channel}/messages");
    let send = |key: &str, idempotency: &str, content: &str| {
        let request = hub.request(Method::POST, &path, Some(key)).header("idempotency-key", idempotency);
        Answer::of(request.json(&json!({"content": content})))
    };
    let first = send(&anna, "k", "@bob once").await;
    let again = send(&anna, "k", "@bob once").await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.body, again.body);
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    send(&anna, "k", "@bob another").await.own_failure(Code::IdempotencyConflict);
    assert_ne!(send(&carol, "k", "@bob only once").await.body, first.body, "a key is its caller's");
    assert_eq!(hub.history(&bob).await.len(), 2);
    // A failed request is not remembered.
    let to = json!({"content": "x", "to": ["dave"]});
    let try_it =
        || Answer::of(hub.request(Method::POST, &path, Some(&anna)).header("idempotency-key", "d").json(&to));
    try_it().await.own_failure(Code::NotFound);
    hub.register("dave").await;
    hub.add(&channel, &anna, &json!({"agent": "dave"})).await;
    assert_eq!(try_it().await.status, 201);
    // Deletions are idempotent too.
    let one = format!("{path}/{}", id(&first.body));
    let delete = || Answer::of(hub.request(Method::DELETE, &one, Some(&anna)).header("idempotency-key", "x"));
    assert_eq!((delete().await.status, delete().await.status), (204, 204));
    hub.delete(&one, Some(&anna)).await.own_failure(Code::NotFound);
    // Adding members is idempotent too.
    let added = json!({"account": "anna@example.com"});
    hub.account("anna@example.com").await;
    let add = || {
        let request = hub.request(Method::POST, &format!("{channel}/members"), Some(&anna));
        Answer::of(request.header("idempotency-key", "m").json(&added))
    };
    assert_eq!(add().await.body, add().await.body);
}

async fn posters(hub: TestHub) {
    let (hub, channel, [anna, bob, carol]) = channel(hub).await;
    let path = format!("{channel}/messages");
    let posts: Vec<_> = (0..50)
        .map(|n| {
            let (key, to) = [(&anna, "@bob"), (&bob, "@carol"), (&carol, "@bob")][n % 3];
            let request = hub.request(Method::POST, &path, Some(key));
            tokio::spawn(Answer::of(request.json(&json!({"content": format!("{to} {n}")}))))
        })
        .collect();
    let (mut numbers, mut woken) = (BTreeSet::new(), vec![]);
    for post in posts {
        let answer = post.await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text);
        woken.extend(answer.body["attention"]["woken"].as_array().unwrap().clone());
        numbers.insert(answer.body["sequence"].as_i64().unwrap());
    }
    assert_eq!(Vec::from_iter(numbers), (4..54).collect::<Vec<i64>>());
    let log = hub.log(&channel, &anna, "after=3&limit=200").await;
    let sequences: Vec<_> = log.iter().map(|event| event["sequence"].as_i64().unwrap()).collect();
    assert_eq!(sequences, (4..54).collect::<Vec<i64>>());
    let texts: BTreeSet<_> = contents(&log).into_iter().collect();
    assert_eq!(texts.len(), 50);
    // Anna's messages wake bob. The number of agent turns in a row varies, and the loop guard stops some.
    let count = |handle: &str| woken.iter().filter(|woken| *woken == handle).count();
    assert!(count("bob") >= 17, "{woken:?}");
    assert_eq!(
        (hub.history(&bob).await.len(), hub.history(&carol).await.len()),
        (count("bob"), count("carol")),
        "each one delivery"
    );
}

#[tokio::test]
async fn fifty_speak_at_once_without_a_gap() {
    posters(TestHub::start()).await;
    posters(TestHub::postgres()).await;
}
