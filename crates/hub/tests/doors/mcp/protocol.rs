//! The protocol itself: revisions, sessions, invalid messages, limits.

use super::{Client, McpFixture, STATELESS, WITH_SESSIONS};
use crate::channel_fixture::{ChannelFixture, HOUR};
use crate::support::{Answer, Setup, eventually};
use chorus_store::{StoreError, Tx, TxExt};
use data_encoding::BASE64;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

const TOOLS: [&str; 15] = [
    "chat_list_events",
    "chat_read_thread",
    "chat_send_message",
    "chat_react",
    "chat_claim",
    "chat_defer",
    "chat_resolve",
    "wait_for_events",
    "get_roster",
    "set_status",
    "search",
    "artifact_list",
    "artifact_read",
    "artifact_create",
    "artifact_edit",
];

#[tokio::test]
async fn both_revisions_on_one_url() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben();
    let discovered = ben.result("server/discover", json!({})).await;
    assert_eq!(discovered["supportedVersions"][0], STATELESS);
    assert_eq!(discovered["resultType"], "complete");
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "chorus");
    assert!(discovered["instructions"].as_str().unwrap().contains("@ben"), "{discovered}");

    let begun = ben.initialize(WITH_SESSIONS).await;
    assert_eq!(begun.body["result"]["protocolVersion"], WITH_SESSIONS);
    assert_eq!(begun.body["result"]["serverInfo"]["name"], "chorus");
    assert_eq!(begun.body["result"]["capabilities"], discovered["capabilities"]);
    assert_eq!(ben.initialize("2025-06-18").await.body["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(ben.initialize("1999-01-01").await.body["result"]["protocolVersion"], WITH_SESSIONS);

    let old = ben.with_session().await;
    assert_eq!(old.result("ping", json!({})).await, json!({}));
    for client in [&ben, &old] {
        let tools = client.result("tools/list", json!({})).await;
        let names: Vec<_> =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, TOOLS);
        assert_eq!(tools.get("ttlMs").is_some(), client.session.is_none());
        assert_eq!(client.tool("get_roster", json!({})).await["you"], "ben");
    }
}

#[tokio::test]
async fn sessions_begin_and_end() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben().with_session().await;
    let other = fixture.ben().with_session().await;
    assert_ne!(ben.session, other.session);
    assert_eq!(Answer::of(ben.request(Method::DELETE)).await.status, 204);
    assert_eq!(ben.rpc("tools/list", json!({})).await.status, 404);
    assert_eq!(Answer::of(ben.request(Method::DELETE)).await.status, 404);
    assert_eq!(other.rpc("tools/list", json!({})).await.status, 200);

    let none = Client { session: None, ..ben.clone() };
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(none.send(&list).await.status, 400, "neither a session nor the newer metadata");
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(Answer::of(none.request(method.clone())).await.status, 400);
        let newer = none.request(method).header("mcp-protocol-version", STATELESS);
        let refused = Answer::of(newer).await;
        assert_eq!((refused.status, &refused.headers["allow"]), (405, &"POST".parse().unwrap()));
    }
}

#[tokio::test]
async fn the_oldest_session_goes() {
    let fixture = McpFixture::start().await;
    let first = fixture.ben().with_session().await;
    let second = fixture.ben().with_session().await;
    for _ in 0..15 {
        fixture.ben().with_session().await;
    }
    assert_eq!(first.rpc("ping", json!({})).await.status, 404);
    assert_eq!(second.rpc("ping", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_session_that_nobody_uses_for_a_day_is_over() {
    let (base, clock) = ChannelFixture::with_clock().await;
    let fixture = McpFixture::with(base).await;
    let (idle, used) = (fixture.ben().with_session().await, fixture.ben().with_session().await);
    clock.set(clock.now() + 23 * HOUR);
    assert_eq!(used.rpc("ping", json!({})).await.status, 200);
    clock.set(clock.now() + HOUR);
    assert_eq!(idle.rpc("ping", json!({})).await.status, 404);
    assert_eq!(used.rpc("ping", json!({})).await.status, 200);
    let kept = async || {
        let count = |tx: &mut dyn Tx| tx.query("SELECT id FROM mcp_sessions", &[]);
        fixture.base.hub.store().read::<_, StoreError, _>(count).await.unwrap().len()
    };
    eventually(kept, |kept| *kept == 1).await;
}

#[tokio::test]
async fn a_restart_ends_no_session() {
    let McpFixture { base, ben, .. } = McpFixture::start().await;
    let session = Client::new(&base.hub, &base.channel, &ben).with_session().await.session;
    let (channel, hub) = (base.channel, base.hub.restart(|_| {}).await);
    let again = Client { session, ..Client::new(&hub, &channel, &ben) };
    assert_eq!(again.say("still here").await["woken"], json!([]));
    assert_eq!(again.tool("get_roster", json!({})).await["you"], "ben");
}

#[tokio::test]
async fn a_session_is_known_on_every_node() {
    let fixture = McpFixture::with(ChannelFixture::on(&Setup::postgres()).await).await;
    let second = fixture.base.hub.setup().start();
    let here = fixture.ben().with_session().await;
    let there = Client { hub: &second, ..here.clone() };
    let uri = format!("chorus://{}/artifacts/plan", fixture.base.channel);
    there.result("resources/subscribe", json!({"uri": uri})).await;
    let mut stream = here.stream(None).await;
    there.tool("artifact_create", json!({"slug": "plan", "content": "one"})).await;
    for method in ["notifications/resources/list_changed", "notifications/resources/updated"] {
        assert_eq!(stream.next().await["method"], method);
    }
    let waiting = async { here.tool("wait_for_events", json!({"wait_ms": 20_000})).await };
    let cora = Client::new(&second, &fixture.base.channel, &fixture.cora);
    let speaking = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        cora.tool("chat_send_message", json!({"content": "from the other node", "idempotency_key": "k"}))
            .await
    };
    let (waited, said) = tokio::join!(waiting, speaking);
    assert_eq!(waited["events"][0]["event_id"], said["event_id"]);
    assert_eq!(
        here.tool("search", json!({"query": "node"})).await["events"][0]["event_id"],
        said["event_id"]
    );

    // Sessions opened simultaneously on two nodes are all kept.
    let opened = join_all((0..8).map(async |n| {
        let hub = if n % 2 == 0 { &fixture.base.hub } else { &second };
        Client::new(hub, &fixture.base.channel, &fixture.cora).with_session().await
    }));
    for client in opened.await {
        assert_eq!(client.rpc("ping", json!({})).await.status, 200);
    }
    assert_eq!(Answer::of(there.request(Method::DELETE)).await.status, 204);
    assert_eq!(here.rpc("ping", json!({})).await.status, 404);
    stream.end().await;
}

#[tokio::test]
async fn what_is_no_message() {
    let fixture = McpFixture::start().await;
    let (ben, old) = (fixture.ben(), fixture.ben().with_session().await);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (body, code) in [
        (String::new(), -32700),
        ("{".into(), -32700),
        ("\u{0}".into(), -32700),
        ("7".into(), -32600),
        ("{}".into(), -32600),
        (json!([ping]).to_string(), -32600),
        ("[]".into(), -32600),
        (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}).to_string(), -32600),
        (json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}).to_string(), -32600),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}).to_string(), -32602),
    ] {
        let answer =
            Answer::of(old.post().header("content-type", "application/json").body(body.clone())).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (400, &json!(code)),
            "{body}: {}",
            answer.text
        );
        // MCP has no null ids: a response to an unreadable message has none.
        assert_ne!(answer.body.get("id"), Some(&Value::Null), "{body}");
    }
    let plain = old.post().header("content-type", "text/plain").body(ping.to_string());
    assert_eq!(Answer::of(plain).await.status, 415);
    let mut html = old.post().json(&ping).build().unwrap();
    html.headers_mut().insert("accept", "text/html".parse().unwrap());
    assert_eq!(fixture.base.hub.client.execute(html).await.unwrap().status(), 406);
    assert_eq!(Answer::of(ben.request(Method::PUT).json(&ping)).await.status, 405);

    let large =
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(2 * 1024 * 1024)}});
    assert_eq!(old.send(&large).await.status, 413);
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(old.send(&response).await.status, 202, "nobody asked, nobody minds");
}

#[tokio::test]
async fn what_no_revision_has() {
    let fixture = McpFixture::start().await;
    let (ben, old) = (fixture.ben(), fixture.ben().with_session().await);
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"] {
        let answer = ben.rpc(method, json!({})).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (404, &json!(-32601)), "{method}");
        assert_eq!(answer.body["id"], 7);
    }
    for method in ["subscriptions/listen", "completion/complete", "no/such"] {
        let answer = old.rpc(method, json!({})).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (200, &json!(-32601)), "{method}");
    }
    let unknown = ben.post().header("mcp-protocol-version", "2024-11-05");
    let unknown = Answer::of(unknown.json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))).await;
    assert_eq!((unknown.status, &unknown.body["error"]["code"]), (400, &json!(-32022)));
    assert_eq!(unknown.body["error"]["data"]["supported"], json!([STATELESS, WITH_SESSIONS, "2025-06-18"]));
}

#[tokio::test]
async fn headers_must_say_what_the_body_says() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben();
    let code = async |change: &dyn Fn(&mut reqwest::Request)| -> (u16, Value) {
        let mut request = ben.ask("tools/call", json!({"name": "get_roster"})).build().unwrap();
        change(&mut request);
        let answer = Answer::read(fixture.base.hub.client.execute(request).await.unwrap()).await;
        (answer.status, answer.body["error"]["code"].clone())
    };
    assert_eq!(code(&|_| {}).await, (200, Value::Null));
    for header in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let missing = code(&|request| drop(request.headers_mut().remove(header))).await;
        assert_eq!(missing, (400, json!(-32020)), "{header}");
    }
    for header in ["mcp-method", "mcp-name"] {
        let other =
            code(&|request| drop(request.headers_mut().insert(header, "other".parse().unwrap()))).await;
        assert_eq!(other, (400, json!(-32020)), "{header}");
    }
    let encoded = "=?base64?Z2V0X3Jvc3Rlcg==?=";
    let decoded =
        code(&|request| drop(request.headers_mut().insert("mcp-name", encoded.parse().unwrap()))).await;
    assert_eq!(decoded, (200, Value::Null));
}

#[tokio::test]
async fn prompts_teach_and_resources_show() {
    let fixture = McpFixture::start().await;
    let (ben, old) = (fixture.ben(), fixture.ben().with_session().await);
    ben.tool("artifact_create", json!({"slug": "plan", "title": "The plan", "content": "# Plan"})).await;
    let uri = format!("chorus://{}/artifacts/plan", fixture.base.channel);
    for client in [&ben, &old] {
        assert_eq!(client.result("prompts/list", json!({})).await["prompts"][0]["name"], "participate");
        let asked = json!({"name": "participate", "arguments": {"task": "Review the plan."}});
        let prompt = client.result("prompts/get", asked).await;
        let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
        for part in [
            "@ben: agent (you)",
            "@anna: person",
            "@cora: agent",
            "> We keep things running.",
            "`plan`",
            "Review the plan.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Text of members stands between delimiters, and nowhere else.
        let shown = |text: &str| {
            let (before, rest) = text.split_once("----- members ").unwrap();
            let delimiter = rest.lines().next().unwrap().to_owned();
            let (inside, after) = rest.split_once(&format!("----- end {delimiter}")).unwrap();
            assert!(delimiter.len() == 32 && before.contains("written by others"), "{text}");
            (inside.to_owned(), format!("{before}{after}"))
        };
        let (inside, outside) = shown(text);
        for part in ["@ben", "@anna", "We keep things running.", "The plan", " ops"] {
            assert!(inside.contains(part) && !outside.contains(part), "{part}: {text}");
        }
        assert!(!prompt["description"].as_str().unwrap().contains("ops"), "{prompt}");
        let unknown = client.rpc("prompts/get", json!({"name": "other"})).await;
        assert_eq!(unknown.body["error"]["code"], -32602);

        let listed = client.result("resources/list", json!({})).await;
        assert_eq!(listed["resources"][0]["uri"], uri);
        assert_eq!(listed["resources"].as_array().unwrap().len(), 1);
        let read = client.result("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["contents"], json!([{"uri": uri, "mimeType": "text/markdown", "text": "# Plan"}]));
        let template = client.result("resources/templates/list", json!({})).await;
        assert_eq!(template["resourceTemplates"][0]["uriTemplate"], uri.replace("plan", "{slug}"));
        let code = if client.session.is_some() { -32002 } else { -32602 };
        for missing in [uri.replace("plan", "other"), "file:///etc/passwd".into(), uri.replace("ch_", "ch_0")]
        {
            let answer = client.rpc("resources/read", json!({"uri": missing})).await;
            assert_eq!((answer.status, &answer.body["error"]["code"]), (200, &json!(code)));
            assert_eq!(answer.body["error"]["data"]["uri"], missing);
        }
    }
}

/// Binary documents are returned as a blob with their media type, in both revisions.
#[tokio::test]
async fn a_document_of_any_bytes_is_read_as_a_blob() {
    let fixture = McpFixture::start().await;
    let (ben, old) = (fixture.ben(), fixture.ben().with_session().await);
    let every: Vec<u8> = (0..=u8::MAX).rev().collect();
    let tool = json!({"slug": "by-tool", "content": BASE64.encode(&every), "encoding": "base64",
        "content_type": "application/octet-stream"});
    ben.tool("artifact_create", tool).await;
    let hub = &fixture.base.hub;
    let picture = json!({"slug": "by-api", "content": BASE64.encode(b"\x89PNG\0"), "encoding": "base64",
        "content_type": "image/png"});
    let documents = format!("/api/v1/channels/{}/artifacts", fixture.base.channel);
    assert_eq!(hub.post(&documents, Some(&ben.key), &picture).await.status, 201);
    let uri = |slug: &str| format!("chorus://{}/artifacts/{slug}", fixture.base.channel);
    for client in [&ben, &old] {
        let listed = client.result("resources/list", json!({})).await;
        let listed = listed["resources"].as_array().unwrap();
        for (slug, mime, bytes) in
            [("by-tool", "application/octet-stream", &*every), ("by-api", "image/png", b"\x89PNG\0")]
        {
            let entry = listed.iter().find(|entry| entry["uri"] == uri(slug)).unwrap();
            assert_eq!((&entry["mimeType"], &entry["size"]), (&json!(mime), &json!(bytes.len())));
            let read = client.result("resources/read", json!({"uri": uri(slug)})).await;
            // There is no text beside the blob, because a client might show it.
            let blob = json!({"uri": uri(slug), "mimeType": mime, "blob": BASE64.encode(bytes)});
            assert_eq!(read["contents"], json!([blob]));
        }
    }
}
