//! Binary documents: every door returns the exact bytes, and never in a form that a browser would execute.

use crate::channel_fixture::ChannelFixture;
use crate::support::{SOON, Setup, TestHub, mcp_tool};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use data_encoding::BASE64;
use reqwest::Method;
use serde_json::{Value, json};

/// The smallest GIF image.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
const HEX: &str = "0123456789abcdef0123456789abcdef";

/// Starts a hub. Returns it with a person's key and the document path of a channel.
async fn start(setup: Setup) -> (TestHub, String, String) {
    let hub = setup.start();
    let anna = hub.register("anna").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    let documents = format!("{channel}/artifacts");
    (hub, anna, documents)
}

fn pixel(slug: &str) -> Value {
    json!({"slug": slug, "content": BASE64.encode(PIXEL), "encoding": "base64", "content_type": "image/gif"})
}

/// Returns the response that a browser would get.
async fn raw(hub: &TestHub, key: &str, path: &str) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let answer = hub.request(Method::GET, path, Some(key)).send().await.unwrap();
    let headers = answer.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    (answer.status().as_u16(), headers, answer.bytes().await.unwrap().to_vec())
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

async fn bytes_come_back_as_they_were(setup: Setup) {
    let (hub, anna, documents) = start(setup).await;
    let made = hub.post(&documents, Some(&anna), &pixel("dot")).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let told =
        |answer: &Value| (answer["encoding"].clone(), answer["size"].clone(), answer["content_type"].clone());
    let expected = (json!("base64"), json!(PIXEL.len()), json!("image/gif"));
    assert_eq!(told(&made.body), expected);
    let document = format!("{documents}/dot");
    let read = hub.get(&document, Some(&anna)).await.body;
    assert_eq!((told(&read), read["content"].as_str().unwrap()), (expected.clone(), &*BASE64.encode(PIXEL)));
    let listed = hub.get(&documents, Some(&anna)).await.body["items"][0].clone();
    assert_eq!((told(&listed), &listed["content"]), (expected, &Value::Null));

    let next = json!({"content": BASE64.encode(b"\0two"), "encoding": "base64", "base_version": 1});
    let changed = hub.ask("PUT", &document, Some(&anna), &next).await;
    assert_eq!((changed.status, &changed.body["version"]), (200, &json!(2)), "{}", changed.text);
    assert_eq!(raw(&hub, &anna, &format!("{document}/raw")).await.2, b"\0two");
    assert_eq!(raw(&hub, &anna, &format!("{document}/raw?version=1")).await.2, PIXEL);
    let stale = hub.ask("PUT", &document, Some(&anna), &next).await;
    assert_eq!(
        stale.own_failure(Code::Conflict),
        "the document is at version 2; read it and change that one"
    );
    hub.get(&format!("{document}/raw?version=9"), Some(&anna)).await.own_failure(Code::NotFound);
    // Text documents are found by search; binary ones are not indexed.
    let found = hub.get("/api/v1/search?q=GIF89a", Some(&anna)).await;
    assert_eq!((found.status, &found.body["items"]), (200, &json!([])));
}

#[tokio::test]
async fn bytes_come_back_as_they_were_on_sqlite() {
    bytes_come_back_as_they_were(Setup::new()).await;
}

#[tokio::test]
async fn bytes_come_back_as_they_were_on_postgres() {
    bytes_come_back_as_they_were(Setup::postgres()).await;
}

#[tokio::test]
async fn a_text_in_base64_is_a_text() {
    let (hub, anna, documents) = start(Setup::new()).await;
    let key = BASE64.encode(format!("use ca_{HEX}").as_bytes());
    let made =
        hub.post(&documents, Some(&anna), &json!({"slug": "t", "content": key, "encoding": "base64"})).await;
    assert_eq!(
        (&made.body["encoding"], &made.body["masked"]),
        (&json!("utf-8"), &json!(["agent key"])),
        "{}",
        made.text
    );
    let read = hub.get(&format!("{documents}/t"), Some(&anna)).await.body;
    assert_eq!(
        (&read["content"], &read["content_type"]),
        (&json!("use [redacted: agent key]"), &json!("text/markdown"))
    );
    for wrong in ["not base64", "aGk", "aGk=\n", "aGl="] {
        let body = json!({"slug": "w", "content": wrong, "encoding": "base64"});
        let refused = hub.post(&documents, Some(&anna), &body).await;
        assert!(refused.own_failure(Code::Validation).starts_with("content: must be base64"), "{wrong}");
    }
    let body = json!({"slug": "w", "content": "6869", "encoding": "hex"});
    let refused = hub.post(&documents, Some(&anna), &body).await;
    assert!(refused.own_failure(Code::Validation).starts_with("encoding: "), "{}", refused.text);
}

#[tokio::test]
async fn nothing_is_run_by_a_browser() {
    let (hub, anna, documents) = start(Setup::new()).await;
    let attack = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    let types = [
        ("text/html", "attachment"),
        ("application/xhtml+xml", "attachment"),
        ("image/svg+xml", "attachment"),
        ("text/xml", "attachment"),
        ("application/xml", "attachment"),
        ("application/xslt+xml", "attachment"),
        ("text/javascript", "attachment"),
        ("application/javascript", "attachment"),
        ("application/wasm", "attachment"),
        ("text/css", "attachment"),
        ("application/pdf", "attachment"),
        ("multipart/x-mixed-replace", "attachment"),
        ("application/octet-stream", "attachment"),
        ("x/y", "attachment"),
        ("text/markdown", "attachment"),
        ("text/plain", "inline"),
        ("image/png", "inline"),
    ];
    for (n, (content_type, how)) in types.into_iter().enumerate() {
        // Once as text, once as bytes.
        for end in ["", "\0"] {
            let slug = format!("a{n}-{}", end.len());
            let content = BASE64.encode(format!("{attack}{end}").as_bytes());
            let body =
                json!({"slug": slug, "content": content, "encoding": "base64", "content_type": content_type});
            assert_eq!(hub.post(&documents, Some(&anna), &body).await.status, 201);
            let (status, headers, bytes) = raw(&hub, &anna, &format!("{documents}/{slug}/raw")).await;
            assert_eq!((status, bytes), (200, format!("{attack}{end}").into_bytes()));
            assert!(header(&headers, "content-type").starts_with(content_type));
            assert!(
                header(&headers, "content-disposition").starts_with(&format!("{how}; filename=\"{slug}")),
                "{headers:?}"
            );
            assert_eq!(header(&headers, "x-content-type-options"), "nosniff");
            assert_eq!(header(&headers, "content-security-policy"), "default-src 'none'; sandbox");
            assert_eq!(header(&headers, "cross-origin-resource-policy"), "same-origin");
            assert_eq!(header(&headers, "cache-control"), "no-store");
        }
    }
    // A media type is checked, so that nothing else gets into a header.
    for wrong in ["text/html; charset=x", "text/html\r\nx: y", "TEXT/HTML", "html", "text/\"x\""] {
        let body = json!({"slug": "w", "content": "x", "content_type": wrong});
        hub.post(&documents, Some(&anna), &body).await.own_failure(Code::Validation);
    }
}

#[tokio::test]
async fn bytes_are_counted_as_they_are() {
    let (hub, anna, documents) =
        start(Setup::new().config(|config| config.quotas.document_bytes = 300_000)).await;
    let put = async |bytes: usize| {
        let content = BASE64.encode(&vec![0; bytes]);
        let slug = format!("b{bytes}");
        hub.post(&documents, Some(&anna), &json!({"slug": slug, "content": content, "encoding": "base64"}))
            .await
    };
    assert_eq!(put(300_000).await.status, 201);
    let refused = put(300_001).await;
    refused.own_failure(Code::QuotaExceeded);
    put(600_000).await.own_failure(Code::TooLarge);
}

#[tokio::test]
async fn tools_carry_bytes() {
    let (hub, anna, documents) = start(Setup::new()).await;
    let channel = documents.strip_suffix("/artifacts").unwrap();
    let tool = async |name: &str, arguments: Value| {
        let answer = mcp_tool(&hub, channel, &anna, name, arguments).await;
        assert_ne!(answer["isError"], true, "{answer}");
        answer["structuredContent"].clone()
    };
    let made = tool("artifact_create", pixel("dot")).await;
    assert_eq!((&made["encoding"], &made["size"]), (&json!("base64"), &json!(PIXEL.len())));
    let read = tool("artifact_read", json!({"slug": "dot"})).await;
    assert_eq!(read["content"], BASE64.encode(PIXEL));
    // The largest document.
    let large = vec![0xff; 1024 * 1024];
    let edit =
        json!({"slug": "dot", "base_version": 1, "content": BASE64.encode(&large), "encoding": "base64"});
    assert_eq!(tool("artifact_edit", edit).await["version"], 2);
    assert_eq!(raw(&hub, &anna, &format!("{documents}/dot/raw")).await.2, large);
}

#[tokio::test]
async fn an_agent_puts_a_document_at_its_callback() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    fixture.say("@timber draw it").await;
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].clone();
    let mut event = pixel("plot");
    event["type"] = "artifact".into();
    for _ in 0..2 {
        let put = fixture.call_back(&callback, &event).await;
        assert_eq!((put.status, &put.body["ok"]), (200, &json!(true)), "{}", put.text);
    }
    let documents = format!("/api/v1/channels/{}/artifacts/plot", fixture.channel);
    let read = fixture.hub.get(&documents, Some(&fixture.anna)).await.body;
    assert_eq!((&read["version"], &read["content"]), (&json!(2), &json!(BASE64.encode(PIXEL))));
    event["base_version"] = 1.into();
    fixture.call_back(&callback, &event).await.own_failure(Code::Conflict);
    event["content"] = "?".into();
    let wrong = fixture.call_back(&callback, &event).await;
    assert!(wrong.own_failure(Code::Validation).starts_with("content: must be base64"), "{}", wrong.text);
    // Writing a document is not an answer: the request is still open.
    let written = json!({"type": "artifact", "slug": "key", "content": format!("ca_{HEX}")});
    let written = fixture.call_back(&callback, &written).await;
    assert_eq!(written.body["masked"], json!(["agent key"]), "{}", written.text);
}

/// The channel owner can remove documents of others, and an author can remove their own.
async fn documents_are_removed(setup: Setup) {
    let setup = setup.config(|config| config.quotas.documents = 2);
    let (hub, anna, documents) = start(setup).await;
    let channel = documents.strip_suffix("/artifacts").unwrap();
    let [bob, carl] = [hub.register("bob").await, hub.register("carl").await];
    for who in ["bob", "carl"] {
        hub.add(channel, &anna, &json!({"agent": who})).await;
    }
    let text = |slug: &str| json!({"slug": slug, "title": "Junk", "content": "x"});
    for slug in ["one", "two"] {
        assert_eq!(hub.post(&documents, Some(&bob), &text(slug)).await.status, 201);
    }
    hub.post(&documents, Some(&anna), &text("plan")).await.own_failure(Code::QuotaExceeded);
    let [one, two] = ["one", "two"].map(|slug| format!("{documents}/{slug}"));
    hub.delete(&one, Some(&carl)).await.own_failure(Code::Forbidden);
    // Adding a version does not make carl the author.
    assert_eq!(hub.ask("PUT", &one, Some(&carl), &json!({"content": "y"})).await.status, 200);
    hub.delete(&one, Some(&carl)).await.own_failure(Code::Forbidden);
    let used = async || {
        hub.get("/api/v1/me", Some(&bob)).await.body["quotas"]["agent_bytes"]["used"].as_i64().unwrap()
    };
    let before = used().await;
    assert_eq!(hub.delete(&one, Some(&anna)).await.status, 204);
    assert_eq!(hub.delete(&two, Some(&bob)).await.status, 204);
    assert!(used().await < before, "what is gone counts no more");
    hub.delete(&two, Some(&bob)).await.own_failure(Code::NotFound);
    hub.get(&one, Some(&anna)).await.own_failure(Code::NotFound);
    assert_eq!(hub.post(&documents, Some(&anna), &text("plan")).await.status, 201);
    let log = hub.log(channel, &anna, "?kind=artifact").await;
    let removed: Vec<_> =
        log.iter().filter(|event| event["removed"] == true).map(|event| &event["slug"]).collect();
    assert_eq!(removed, ["one", "two"], "{log:?}");
}

#[tokio::test]
async fn documents_are_removed_on_sqlite() {
    documents_are_removed(Setup::new()).await;
}

#[tokio::test]
async fn documents_are_removed_on_postgres() {
    documents_are_removed(Setup::postgres()).await;
}
