use super::*;
use serde_json::json;

#[test]
fn the_documents_answers_are_read() {
    let delivered: Success<serde_json::Value> = serde_json::from_value(json!({
        "success": true, "data": {"delivery": "delivered", "receiver_response": {"status": "ok"}},
        "metadata": {"timestamp": "..."}
    }))
    .unwrap();
    assert!(delivered.success);
    let failed: Failure = serde_json::from_value(json!({
        "success": false, "error": {"code": "ERR_VALIDATION", "message": "sender_id is required"},
        "metadata": {"timestamp": "2026-03-20T10:00:00.000Z"}
    }))
    .unwrap();
    assert_eq!(failed.error.code, "ERR_VALIDATION");
    let reply: ReceiverReply = serde_json::from_value(
        json!({"status": "error", "error_code": "INVALID_ENVELOPE", "detail": "missing sender_culture"}),
    )
    .unwrap();
    assert_eq!(reply.status, ReceiverStatus::Error);
    let discovery: Discovery = serde_json::from_value(json!({
        "chorus_version": "0.4", "server_name": "Example Chorus Hub",
        "endpoints": {"register": "/agents", "discover": "/agents", "send": "/messages", "health": "/health"}
    }))
    .unwrap();
    assert_eq!(discovery.endpoints, Endpoints::default());
}

#[test]
fn a_page_is_read_in_both_forms() {
    let message = r#"{"id":"7","trace_id":"00000000000000000000000000000001","receiver_id":"b@h","delivery":"queued",
                     "envelope":{"n": 1.50}}"#;
    let raw = |text: String| RawValue::from_string(text).unwrap();
    let listed = Page::read(&raw(format!("[{message}]")), Some("7".into())).unwrap();
    let former = Page::read(&raw(format!(r#"{{"messages":[{message}],"next":"7"}}"#)), None).unwrap();
    for page in [listed, former] {
        assert_eq!(page.next.as_deref(), Some("7"));
        assert_eq!(page.messages[0].envelope.as_ref().unwrap().get(), r#"{"n": 1.50}"#);
    }
}

#[test]
fn an_outcome_prints_only_what_it_has() {
    let trace_id = TraceId(uuid::Uuid::from_u128(1));
    let outcome = Outcome {
        delivery: DeliveryState::DeliveredSse,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(trace_id.into()),
    };
    assert_eq!(
        serde_json::to_value(&outcome).unwrap(),
        json!({"delivery": "delivered_sse", "trace_id": "00000000000000000000000000000001"})
    );
}
