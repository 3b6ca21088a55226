//! Invalid bodies are refused with a reason, nothing is stored, and the hub continues.

use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, envelope, failure};
use chorus_hub::Policy;
use chorus_protocol::code::Code;
use chorus_protocol::relay::MAX_BODY;
use chorus_testkit::raw::{body_of, raw_exchange, status_of};
use futures_util::stream;
use reqwest::{Body, Method};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Returns the doors that take a body, each with a valid key.
async fn doors(hub: &TestHub) -> [(&'static str, Option<String>); 3] {
    let key = hub.register("a").await;
    [("/register", None), ("/agents", Some(OPERATOR.to_owned())), ("/messages", Some(key))]
}

/// Asserts that nothing was stored.
async fn assert_untouched(hub: &TestHub, key: &str) {
    let agents = hub.get("/agents", None).await;
    assert_eq!(agents.data().as_array().unwrap().len(), 1, "{}", agents.text);
    assert_eq!(hub.history(key).await, [] as [Value; 0]);
    hub.assert_healthy().await;
}

#[tokio::test]
async fn not_acceptable_json() {
    let hub = TestHub::start();
    let doors = doors(&hub).await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = json!({"receiver_id": "a", "agent_id": "b", "endpoint": "https://alice.example/"}).to_string();
    let deep = deep.replace('}', &format!(",\"x\":{}}}", nested(70)));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".into(), "EOF"),
        (b"   ".into(), "EOF"),
        (b"{".into(), "EOF"),
        (b"}".into(), "line 1 column 1"),
        (b"nul".into(), "line 1"),
        (b"{\"agent_id\":\"b\",}".into(), "trailing comma"),
        (b"{'agent_id':'b'}".into(), "line 1 column 2"),
        (b"{} {}".into(), "trailing characters"),
        (b"agent_id=b&endpoint=x".into(), "line 1 column 1"),
        (b"\xef\xbb\xbf{}".into(), "line 1 column 1"),
        (b"{\"x\":NaN}".into(), "line 1"),
        (b"{\"x\":1e999}".into(), "out of range"),
        (b"{\"x\":01}".into(), "line 1"),
        (b"{\"x\":\"\n\"}".into(), "control character"),
        (b"{\"agent_id\":\"a\xff\"}".into(), "not valid UTF-8"),
        (b"{\"agent_id\":\"\xed\xa0\x80\"}".into(), "not valid UTF-8"),
        (b"{\"agent_id\":\"\0\"}".into(), "control character"),
        (br#"{"agent_id":"b\u0000"}"#.into(), "U+0000"),
        (br#"{"agent_id\u0000":"b"}"#.into(), "U+0000"),
        (br#"{"agent_id":"\ud800"}"#.into(), "line 1"),
        (br#"{"agent_id":"b","agent_id":"c"}"#.into(), "duplicate member \"agent_id\""),
        (br#"{"receiver_id":"a","envelope":{"sender_id":"a","sender_id":"b"}}"#.into(), "duplicate member"),
        (br#"{"agent_id":"b","agent\u005fid":"c"}"#.into(), "duplicate member"),
        (nested(65).into(), "nested deeper than 64"),
        (nested(100_000).into(), "not acceptable JSON"),
        (deep.into(), "nested deeper than 64"),
        (b"[]".into(), "body: must be an object, not an array"),
        (b"null".into(), "body: must be an object, not null"),
        (b"1".into(), "body: must be an object, not a number"),
        (b"\"x\"".into(), "body: must be an object, not a string"),
        (b"true".into(), "body: must be an object, not a boolean"),
    ];
    for (path, key) in &doors {
        for (body, expected) in &cases {
            let request = hub.request(Method::POST, path, key.as_deref()).body(body.clone());
            let answer = Answer::of(request).await;
            let message = answer.failure(Code::Validation);
            let body = String::from_utf8_lossy(&body[..body.len().min(80)]);
            assert!(message.contains(expected), "{path} {body}: {message}");
        }
    }
    assert_untouched(&hub, doors[2].1.as_deref().unwrap()).await;
}

/// Every value of a wrong type is reported with its path.
#[tokio::test]
async fn wrong_types() {
    let hub = TestHub::start();
    let [_, _, (_, key)] = doors(&hub).await;
    let key = key.unwrap();
    let register = json!({"agent_id": "b", "endpoint": "https://alice.example/", "agent_card":
        {"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"]}});
    let mut message = envelope("a", "hi");
    (message["cultural_context"], message["conversation_id"], message["turn_number"]) =
        (json!("long enough"), json!("c"), json!(1));
    let send = json!({"receiver_id": "a", "stream": false, "envelope": message});
    let cases = [
        ("/register", None, &register),
        ("/agents", Some(OPERATOR), &register),
        ("/messages", Some(&*key), &send),
    ];
    let mut tried = 0;
    for (path, key, good) in cases {
        for pointer in pointers(good) {
            for wrong in
                [json!(true), json!(1), json!(-1.5), json!("\u{1}"), json!([]), json!({}), json!([1])]
            {
                let right = good.pointer(&pointer).unwrap();
                if std::mem::discriminant(right) == std::mem::discriminant(&wrong) && !wrong.is_string() {
                    continue;
                }
                let mut body = good.clone();
                *body.pointer_mut(&pointer).unwrap() = wrong.clone();
                let answer = hub.post(path, key, &body).await;
                let field = pointer[1..].replace("/0", "[0]").replace('/', ".");
                let found = answer.failure(Code::Validation);
                // Of these texts only a conversation id may be unusual.
                assert!(found.contains(&format!("{field}: ")), "{path} {field} {wrong}: {found}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
    assert_untouched(&hub, &key).await;
}

/// Returns the pointers of all fields, except those that accept every text.
fn pointers(good: &Value) -> Vec<String> {
    let mut found = vec![];
    let mut ahead: Vec<(String, &Value)> = vec![(String::new(), good)];
    while let Some((place, value)) = ahead.pop() {
        match value {
            Value::Object(map) => {
                ahead.extend(map.iter().map(|(name, value)| (format!("{place}/{name}"), value)));
            }
            Value::Array(items) => ahead.extend(items.iter().map(|item| (format!("{place}/0"), item))),
            _ => {}
        }
        if !place.is_empty() && !place.ends_with("original_text") && !place.ends_with("conversation_id") {
            found.push(place);
        }
    }
    found
}

#[tokio::test]
async fn bounds() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let long = |count: usize| "字".repeat(count);
    for (field, value, good) in [
        ("original_text", json!(long(10_000)), true),
        ("original_text", json!(long(10_001)), false),
        ("original_text", json!(""), false),
        ("cultural_context", json!(long(10)), true),
        ("cultural_context", json!(long(500)), true),
        ("cultural_context", json!(long(9)), false),
        ("cultural_context", json!(long(501)), false),
        ("conversation_id", json!(long(64)), true),
        ("conversation_id", json!(long(65)), false),
        ("conversation_id", json!(7), false),
        ("turn_number", json!(1), true),
        ("turn_number", json!(0), false),
        ("turn_number", json!(-1), false),
        ("turn_number", json!(1.5), false),
        ("turn_number", json!(u64::MAX), false),
        ("turn_number", json!("1"), false),
        ("chorus_version", json!("0.3"), false),
        ("chorus_version", json!(0.4), false),
        ("sender_culture", json!("zh-Hant-TW"), true),
        ("sender_culture", json!("en_US"), false),
        ("sender_culture", json!(""), false),
        ("sender_id", json!("a".repeat(129)), false),
        ("sender_id", json!("a@b@c"), false),
        ("cultural_context", json!(null), true),
    ] {
        let mut message = envelope("a", "hi");
        message[field] = value.clone();
        let answer = hub.send_envelope(&key, "a", &message).await;
        if good {
            assert_eq!(answer.outcome(), (202, "queued"), "{field} {value}");
        } else {
            let found = answer.failure(Code::Validation);
            assert!(found.starts_with(&format!("envelope.{field}: ")), "{value}: {found}");
        }
    }
}

/// A body of the largest size is accepted; one byte more is refused, with or without a declared length.
#[tokio::test]
async fn too_large() {
    let hub = TestHub::start();
    let doors = doors(&hub).await;
    let key = doors[2].1.as_deref().unwrap();
    let mut body = json!({"receiver_id": "a", "envelope": envelope("a", "hi")}).to_string().into_bytes();
    body.resize(MAX_BODY, b' ');
    let whole = Answer::of(hub.request(Method::POST, "/messages", Some(key)).body(body.clone())).await;
    assert_eq!(whole.outcome(), (202, "queued"));
    body.push(b' ');
    for (path, key) in &doors {
        for size in [MAX_BODY + 1, 3 * 1024 * 1024] {
            body.resize(size, b' ');
            let request = || hub.request(Method::POST, path, key.as_deref());
            let declared = Answer::of(request().body(body.clone())).await;
            assert!(declared.failure(Code::TooLarge).contains("262144"));
            let pieces: Vec<_> =
                body.chunks(16 * 1024).map(|piece| Ok::<_, Infallible>(piece.to_vec())).collect();
            let chunked = Answer::of(request().body(Body::wrap_stream(stream::iter(pieces)))).await;
            assert!(chunked.failure(Code::TooLarge).contains("262144"));
        }
    }
    hub.assert_healthy().await;
}

/// A body that is refused unread still gets a response, although the client has more to send.
#[tokio::test]
async fn refused_before_it_was_read() {
    let hub = TestHub::start();
    let body = vec![b' '; MAX_BODY];
    for _ in 0..20 {
        let request = hub.request(Method::POST, "/messages", None).body(body.clone());
        Answer::of(request).await.failure(Code::Unauthorized);
        let request = hub.request(Method::POST, "/nothing", None).body(body.clone());
        Answer::of(request).await.failure(Code::NotFound);
    }
}

#[tokio::test]
async fn bodies_that_come_slowly_or_break_off() {
    let hub = Setup::new().config(|config| config.times.body = Duration::from_millis(400)).start();
    let head = "POST /register HTTP/1.1\r\nHost: localhost\r\n";
    for half in ["Content-Length: 100\r\n\r\n{\"agent_id\":", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"age"]
    {
        let begun = Instant::now();
        let answer = raw_exchange(hub.addr, format!("{head}{half}").as_bytes(), SOON).await;
        assert_eq!(status_of(&answer), Some(408), "{}", String::from_utf8_lossy(&answer));
        let body: Value = serde_json::from_slice(body_of(&answer)).unwrap();
        assert_eq!(failure(&body, Code::RequestTimeout), "the body did not arrive in time");
        assert!(begun.elapsed() < SOON, "the connection was closed");
    }
    for broken in [
        "Transfer-Encoding: chunked\r\n\r\nnonsense\r\n{}",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}",
        "Transfer-Encoding: gzip\r\n\r\n{}",
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "Content-Length: -1\r\n\r\n{}",
        "Content-Length: 99999999999999999999999\r\n\r\n{}",
    ] {
        let answer = raw_exchange(hub.addr, format!("{head}{broken}").as_bytes(), SOON).await;
        let status = status_of(&answer);
        assert!(matches!(status, Some(400..500)), "{broken}: {}", String::from_utf8_lossy(&answer));
    }
    hub.assert_healthy().await;
}

/// Endpoints at private addresses are refused in every spelling.
#[tokio::test]
async fn private_endpoints() {
    let hub = Setup::new().config(|config| config.outbound = Policy::default()).start();
    for url in [
        "http://127.0.0.1/",
        "http://127.1:8080/x",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://0x7f000001/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://１２７.0.0.1/",
        "http://127。0。0。1/",
        "http:\\\\127.0.0.1\\",
        "http:127.0.0.1/",
        "HTTP://127.0.0.1/",
        "https://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://localhost/",
        "http://LocalHost:9/",
        "http://localhost./",
        "http://0.0.0.0/",
        "http://0/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://172.31.255.255/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://100.64.0.1/",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[ff02::1]/",
        "http://[2001:db8::1]/",
    ] {
        for (path, key) in [("/register", None), ("/agents", Some(OPERATOR))] {
            let answer = hub.post(path, key, &json!({"agent_id": "a", "endpoint": url})).await;
            let message = answer.failure(Code::EndpointBlocked);
            assert!(message.starts_with("endpoint: "), "{url}: {message}");
        }
    }
    for url in [
        "",
        "/receive",
        "alice.example",
        "//alice.example/",
        "ftp://alice.example/",
        "file:///etc/passwd",
        "gopher://alice.example/",
        "https://",
        "https://user:pw@alice.example/",
        "https://user@127.0.0.1/",
        "https://alice.example/#fragment",
        "http://alice.example:99999/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://[::1/",
        "http://exa mple/",
        "javascript:alert(1)",
    ] {
        let answer = hub.post("/register", None, &json!({"agent_id": "a", "endpoint": url})).await;
        let message = answer.failure(Code::Validation);
        assert!(message.starts_with("endpoint: "), "{url}: {message}");
    }
    let long = format!("https://alice.example/{}", "x".repeat(2048));
    let answer = hub.post("/register", None, &json!({"agent_id": "a", "endpoint": long})).await;
    answer.failure(Code::Validation);
    assert_eq!(hub.get("/agents", None).await.data(), &json!([]), "nobody was registered");
    hub.assert_healthy().await;
}
