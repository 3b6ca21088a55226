//! Malformed HTTP never causes an error of the hub or a panic, and the hub continues.

use crate::support::{OPERATOR, SOON, Setup, TestHub, eventually, failure};
use chorus_protocol::code::Code;
use chorus_testkit::raw::{body_of, raw_exchange, status_of};
use reqwest::header::HeaderValue;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends one request on its own connection. Returns the status, and the error code if it failed.
async fn ask(hub: &TestHub, request: impl AsRef<[u8]>) -> (Option<u16>, Option<Code>) {
    let answer = raw_exchange(hub.addr, request.as_ref(), SOON).await;
    let status = status_of(&answer);
    assert!(status.is_none_or(|status| status < 500), "{}", String::from_utf8_lossy(&answer));
    let body: Value = serde_json::from_slice(body_of(&answer)).unwrap_or_default();
    let code = body["error"]["code"].as_str().and_then(Code::parse);
    if let Some(code) = code {
        failure(&body, code);
        assert_eq!(status, Some(code.status()));
    }
    (status, code)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn heads_that_are_too_large() {
    let hub = TestHub::start();
    let begin = "GET /agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let huge = format!("{begin}X-Huge: {}\r\n\r\n", "x".repeat(200_000));
    assert_eq!(ask(&hub, huge).await, (Some(431), Some(Code::HeadTooLarge)));
    let mut many = begin.to_owned();
    for n in 0..200 {
        write!(many, "X-{n}: {n}\r\n").unwrap();
    }
    assert_eq!(ask(&hub, format!("{many}\r\n")).await, (Some(431), Some(Code::HeadTooLarge)));
    let long = get(&format!("/agents?after={}", "x".repeat(70_000)));
    assert_eq!(ask(&hub, long).await, (Some(431), Some(Code::HeadTooLarge)));
    let mut some = begin.to_owned();
    for n in 0..40 {
        write!(some, "X-{n}: {}\r\n", "x".repeat(1000)).unwrap();
    }
    assert_eq!(ask(&hub, format!("{some}\r\n")).await.0, Some(200), "what proxies add is no trouble");
    hub.assert_healthy().await;
}

#[tokio::test]
async fn requests_that_are_none() {
    let hub = TestHub::start();
    for request in [
        &b"nonsense\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b" / HTTP/1.1\r\n\r\n",
        b"GET /agents HTTP/1.1\r\nHost: localhost\r\nB\xc3\xa4d: x\r\n\r\n",
        b"GET /agents HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n",
        b"GET /agents HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET /agents\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /ag ents HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let (status, _) = ask(&hub, request).await;
        assert!(matches!(status, None | Some(400..500)), "{}", String::from_utf8_lossy(request));
    }
    for (line, expected) in [
        ("OPTIONS * HTTP/1.1", 400..500),
        ("CONNECT a:80 HTTP/1.1", 400..500),
        ("GET http://elsewhere/agents HTTP/1.1", 200..201),
        ("GET //agents HTTP/1.1", 404..405),
        ("GET /agents/../agents HTTP/1.1", 404..405),
        ("TRACE /agents HTTP/1.1", 405..406),
        ("MADE-UP /agents HTTP/1.1", 405..406),
        ("GET /agents HTTP/1.0", 200..201),
    ] {
        let (status, _) = ask(&hub, format!("{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await;
        assert!(status.is_some_and(|status| expected.contains(&status)), "{line}: {status:?}");
    }
    hub.assert_healthy().await;
}

/// Errors of the HTTP library have the format of their door, also after an answered request.
#[tokio::test]
async fn what_is_no_request_is_refused_in_the_format_of_its_door() {
    let hub = TestHub::start();
    for (path, code) in [("/agents", "ERR_VALIDATION"), ("/api/v1/me", "VALIDATION")] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n");
        let answer = raw_exchange(hub.addr, request.as_bytes(), SOON).await;
        assert_eq!(status_of(&answer), Some(400));
        let body: Value = serde_json::from_slice(body_of(&answer)).unwrap();
        assert_eq!(body["error"]["code"], code, "{body}");
    }
    let mut stream = TcpStream::connect(hub.addr).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    stream.write_all(b"GET /api/v1/me\r\n\r\n").await.unwrap();
    let mut rest = String::new();
    tokio::time::timeout(SOON, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert!(rest.contains("HTTP/1.1 400 ") && rest.contains(r#"{"error":{"code":"VALIDATION""#), "{rest}");
}

/// The bytes after a refused head are its body, whatever they look like.
#[tokio::test]
async fn a_body_is_never_taken_for_a_request() {
    let hub = TestHub::start();
    let inside = get("/health");
    for (line, status) in [("POST /nothing", "404"), ("POST /messages", "401"), ("GET /agents", "200")] {
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", inside.len());
        for pause in [Duration::ZERO, Duration::from_millis(50)] {
            let mut stream = TcpStream::connect(hub.addr).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            tokio::time::sleep(pause).await;
            stream.write_all(inside.as_bytes()).await.unwrap();
            // A second request, which a connection that was kept open would answer.
            stream.write_all(get("/metrics").as_bytes()).await.ok();
            let mut answer = vec![];
            tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("it is closed").ok();
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            assert!(!answer.contains("uptime_s"), "the body was answered: {answer}");
        }
    }
}

#[tokio::test]
async fn percent_encoding_gone_wrong() {
    let hub = TestHub::start();
    hub.register("a").await;
    for (path, expected) in [
        ("/agents/%zz", 400),
        ("/agents/%", 400),
        ("/agents/%ff", 400),
        ("/agents/%c3%28", 400),
        ("/agents/%00", 400),
        ("/agents/a%00", 400),
        ("/agents/%2e%2e", 400),
        ("/agents/a%2fb", 400),
        ("/agents/a%20b", 400),
        ("/agents/%F0%9F%98%80", 400),
        ("/agents/%61", 200),
        ("/agents/a%40chorus", 200),
        ("/agents?limit=%zz", 400),
        ("/agents?limit=0", 400),
        ("/agents?limit=201", 400),
        ("/agents?limit=-1", 400),
        ("/agents?limit=1.5", 400),
        ("/agents?limit=", 400),
        ("/agents?limit=99999999999999999999", 400),
        ("/agents?after=%00", 400),
        ("/agents?after=%ff", 200),
        ("/agents?after=%zz&&&=&x=%", 200),
        ("/agents?%zz", 200),
    ] {
        let (status, code) = ask(&hub, get(path)).await;
        assert_eq!(status, Some(expected), "{path}");
        assert_eq!(code, (expected == 400).then_some(Code::Validation), "{path}");
    }
    hub.assert_healthy().await;
}

#[tokio::test]
async fn keys_of_every_bad_kind() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let unknown = format!("Bearer ca_{}", "0".repeat(32));
    let long = format!("Bearer {}", "x".repeat(10_000));
    let (cut, bare, other) = (format!("Bearer {}", &key[..34]), key.clone(), format!("Token {key}"));
    let (upper, quoted) = (format!("Bearer {}", key.to_uppercase()), format!("Bearer \"{key}\""));
    let (operator, two) = (format!("Bearer {OPERATOR}x"), format!("Bearer {key} {key}"));
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Basic",
        "Bearer x",
        "Bearer ct_0",
        &unknown,
        &long,
        &cut,
        &bare,
        &other,
        &upper,
        &quoted,
        &operator,
        &two,
    ] {
        let value = HeaderValue::from_str(value).unwrap();
        assert_refused(&hub, value).await;
    }
    assert_refused(&hub, HeaderValue::from_bytes(b"Bearer \xc3\xa4\xff").unwrap()).await;
    for good in [format!("bearer {key}"), format!("BEARER   {key}")] {
        let request = hub.client.get(format!("{}/agent/messages", hub.url)).header("authorization", good);
        assert_eq!(request.send().await.unwrap().status().as_u16(), 200);
    }
    hub.assert_healthy().await;
}

async fn assert_refused(hub: &TestHub, authorization: HeaderValue) {
    for path in ["/agent/messages", "/agent/inbox", "/agents"] {
        let request =
            hub.client.get(format!("{}{path}", hub.url)).header("authorization", authorization.clone());
        let answer = crate::support::Answer::of(request).await;
        let message = answer.failure(Code::Unauthorized);
        assert!(!message.contains("ca_0"), "the answer repeats the key: {message}");
    }
}

#[tokio::test]
async fn headers_with_a_meaning() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let body = r#"{"receiver_id":"a","envelope":{"chorus_version":"0.4","sender_id":"a","original_text":"x","sender_culture":"en"}}"#;
    let long = "k".repeat(256);
    for bad in ["", &long, "k\u{e4}"] {
        let request = format!(
            "POST /messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\
             Content-Length: {}\r\nIdempotency-Key: {bad}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(ask(&hub, request).await.1, Some(Code::Validation), "Idempotency-Key: {bad:?}");
    }
    assert_eq!(hub.history(&key).await, [] as [Value; 0]);
    for bad in ["x", "-1", "1.5", "0x1", "1 2", "99999999999999999999", "\u{e4}"] {
        let request = format!(
            "GET /agent/inbox HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\
             Last-Event-ID: {bad}\r\n\r\n"
        );
        assert_eq!(ask(&hub, request).await.1, Some(Code::Validation), "Last-Event-ID: {bad:?}");
        let after: String =
            reqwest::Url::parse_with_params("http://a/", [("after", bad)]).unwrap().query().unwrap().into();
        let answer = hub.get(&format!("/agent/messages?{after}"), Some(&key)).await;
        answer.failure(Code::Validation);
    }
    assert!(!hub.online("a").await, "none of them opened the inbox");
    hub.assert_healthy().await;
}

/// Many clients that send one byte at a time cost only their own connections, for a limited time.
#[tokio::test]
async fn slow_headers() {
    let hub = Setup::new().config(|config| config.times.head = Duration::from_millis(500)).start();
    let slow = (0..50).map(|_| {
        let addr = hub.addr;
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            let begun = Instant::now();
            let (mut reader, mut writer) = stream.split();
            let drip = async {
                writer.write_all(b"GET /agents HTTP/1.1\r\nX-Slow: ").await.ok();
                // Writing fails once the hub has closed the connection.
                while writer.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                // The response can still be read.
                std::future::pending::<()>().await;
            };
            let mut answer = vec![];
            let read = async { while let Ok(1..) = reader.read_buf(&mut answer).await {} };
            tokio::select! {
                () = drip => {}
                () = read => {}
            }
            (begun.elapsed(), status_of(&answer))
        })
    });
    let slow: Vec<_> = slow.collect();
    assert_eq!(ask(&hub, get("/health")).await, (Some(200), None));
    for client in slow {
        let (took, status) = tokio::time::timeout(SOON, client).await.expect("it is cut off").unwrap();
        assert!(matches!(status, None | Some(408)), "{status:?} after {took:?}");
    }
    // A connection of its own is used, because the pooled one is closed at this moment for its missing head.
    assert_eq!(ask(&hub, get("/health")).await, (Some(200), None));
}

/// A client that closes its sending half counts as gone.
#[tokio::test]
async fn half_closed_connections() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let mut stream = TcpStream::connect(hub.addr).await.unwrap();
    let open = format!("GET /agent/inbox HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n");
    stream.write_all(open.as_bytes()).await.unwrap();
    let mut answer = vec![];
    while !String::from_utf8_lossy(&answer).contains("event: connected") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    assert!(hub.online("a").await);
    stream.shutdown().await.unwrap();
    eventually(async || hub.online("a").await, |online| !online).await;
    let silent: Vec<_> = futures_util::future::join_all((0..100).map(|_| TcpStream::connect(hub.addr))).await;
    hub.assert_healthy().await;
    drop(silent);
    hub.assert_healthy().await;
}
