//! Callbacks: retries, their idempotency keys, and final errors.

use crate::service::Service;
use chorus_agent::{Backoff, Callback, CallbackError, ExitClass, Reach, Retry};
use chorus_protocol::channel::CallbackEvent;
use chorus_testkit::http;
use std::error::Error;
use std::time::Duration;

fn said(content: &str) -> CallbackEvent {
    CallbackEvent::Message { content: content.into() }
}

fn callback(url: &str) -> Callback {
    let retry = Retry { backoff: Backoff { base_ms: 10, max_ms: 50 }, ..Retry::default() };
    Callback::new(http::client(), url).unwrap().with_retry(retry)
}

#[tokio::test]
async fn a_second_try_has_the_same_key_and_another_event_another() {
    let service = Service::start().await;
    service.answer([(503, None), (429, Some("0")), (500, None)]);
    let callback = callback(&service.callback("tok_1"));
    callback.send(&said("one")).await.unwrap();
    callback.send(&said("one")).await.unwrap();
    let outputs = service.outputs(5).await;
    let keys: Vec<_> = outputs.iter().map(|output| output.key.clone().unwrap()).collect();
    assert!(keys[..4].iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_ne!(keys[0], keys[4]);
    assert!(keys[0].len() == 32 && keys[0].bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(outputs[..4].iter().all(|output| output.body == outputs[0].body));
    assert_eq!(outputs.len(), 5);
}

#[tokio::test]
async fn what_may_have_arrived_is_not_sent_again_to_a_service_without_keys() {
    let service = Service::start().await;
    let callback = callback(&service.callback("tok_1")).at_most_once();
    for status in [408, 500, 502, 504] {
        service.answer([(status, None)]);
        let error = callback.send(&said("one")).await.unwrap_err();
        assert!(matches!(error, CallbackError::Refused { status: seen, .. } if seen == status), "{error}");
    }
    assert_eq!(service.outputs(4).await.len(), 4);
    service.answer([(429, None), (503, None)]);
    callback.send(&said("one")).await.unwrap();
    assert_eq!(service.outputs(7).await.len(), 7);
}

#[tokio::test]
async fn a_service_is_given_the_time_it_asks_for() {
    let service = Service::start().await;
    service.answer([(503, Some("1"))]);
    let begun = std::time::Instant::now();
    callback(&service.callback("tok_1")).send(&said("one")).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn an_ended_callback_is_final() {
    let service = Service::start().await;
    for status in [404, 410] {
        service.answer([(status, None)]);
        let error = callback(&service.callback("tok_1")).send(&said("one")).await.unwrap_err();
        assert!(matches!(error, CallbackError::Closed { status: seen, .. } if seen == status));
        let sentence = format!("the callback at {} takes no more events (HTTP {status})", service.origin);
        assert_eq!((error.to_string(), error.exit_class()), (sentence, ExitClass::Refused));
    }
    assert_eq!(service.outputs(2).await.len(), 2);
}

#[tokio::test]
async fn refusals_and_tries_end() {
    let service = Service::start().await;
    for status in [400, 307, 409] {
        service.answer([(status, None)]);
        let error = callback(&service.callback("tok_1")).send(&said("one")).await.unwrap_err();
        assert!(matches!(error, CallbackError::Refused { status: seen, .. } if seen == status), "{error}");
    }
    assert_eq!(service.outputs(3).await.len(), 3);
    service.answer([(503, None); 4]);
    let error = callback(&service.callback("tok_1")).send(&said("one")).await.unwrap_err();
    assert!(matches!(error, CallbackError::Refused { status: 503, .. }));
    assert_eq!(service.outputs(7).await.len(), 7);
}

#[tokio::test]
async fn nothing_wrong_leaves_the_machine_and_no_error_tells_the_secret() {
    let service = Service::start().await;
    let good = callback(&service.callback("tok_1"));
    let error = good.send(&said("")).await.unwrap_err();
    assert_eq!(error.to_string(), "content: must be 1 to 100000 characters, not 0");
    assert!(service.outputs(0).await.is_empty());
    assert!(
        Callback::open("ftp://x/tok_1", &Reach::default()).is_err()
            && Callback::new(http::client(), "tok_1").is_err()
    );

    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = callback(&format!("http://{free}/inbox/tok_secret"));
    let error = nobody.send(&said("x")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot reach the service at http://{free}"));
    let mut shown = format!("{error:?} {nobody:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        shown.push_str(&error.to_string());
        cause = error.source();
    }
    assert!(!shown.contains("tok_secret"), "{shown}");
}
