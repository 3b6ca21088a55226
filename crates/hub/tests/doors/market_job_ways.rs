//! Transports of jobs and results: endpoints, callbacks, connection strings.

use crate::market::{assert_balanced, balance, trader, trader_at};
use crate::market_jobs::{ended, hire, id, job, result, shown, success, text};
use crate::support::{SOON, TestHub};
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};

/// The document's own transport: a POST to the agent's endpoint, answered at once.
#[tokio::test]
async fn a_job_by_endpoint_answered_at_once() {
    let hub = TestHub::start();
    let agent = FakeAgent::start().await;
    let boss = trader(&hub, "boss", 1).await;
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/hooks", agent.addr()))).await;
    let one = job(1, &worker.id);
    agent.set(Reply::Json(200, success(&one)));
    hire(&hub, &boss.key, &one).await;
    let done = ended(&hub, &boss.key, &one).await;
    assert_eq!((&done["status"], &done["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{done}");
    let posted = agent.wait_for(1, SOON).await;
    assert_eq!(posted[0].path, "/hooks/jobs");
    assert_eq!(posted[0].body["job_id"], one["job_id"]);
    assert!(posted[0].headers.contains_key("webhook-signature"));

    // The job is accepted, and answered later at the callback address.
    agent.set(Reply::Json(202, json!({"status": "accepted"})));
    let two = job(2, &worker.id);
    hire(&hub, &boss.key, &two).await;
    let posted = agent.wait_for(2, SOON).await;
    let callback = text(&posted[1].body["callback_url"]).strip_prefix(&hub.url).unwrap().to_owned();
    assert_eq!(hub.post(&callback, None, &success(&two)).await.body["status"], "SUCCESS");

    // The delivery is retried while the agent is down.
    agent.set(Reply::Json(503, json!({})));
    let three = job(3, &worker.id);
    hire(&hub, &boss.key, &three).await;
    agent.wait_for(3, SOON).await;
    agent.set(Reply::Json(200, success(&three)));
    assert_eq!(ended(&hub, &boss.key, &three).await["status"], "SUCCESS");

    // A refusal ends the job at once.
    agent.set(Reply::Json(400, json!({})));
    let four = job(4, &worker.id);
    hire(&hub, &boss.key, &four).await;
    let failed = ended(&hub, &boss.key, &four).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("REJECTED"), &json!("REJECTED")),
        "{failed}"
    );
    assert_eq!(balance(&hub, &boss.owner).await, (json!(0.7), json!(0.0)));
    assert_balanced(&hub).await;
}

/// The client's callback address gets the result, with retries.
#[tokio::test]
async fn a_callback_tells_the_result() {
    let hub = TestHub::start();
    let listener = FakeAgent::start().await;
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    listener.set(Reply::Json(500, json!({})));
    let mut one = job(1, &worker.id);
    one["callback_url"] = json!(format!("http://{}/results", listener.addr()));
    hire(&hub, &boss.key, &one).await;
    assert_eq!(result(&hub, &worker.key, &one, &success(&one)).await.status, 200);
    listener.wait_for(1, SOON).await;
    listener.set(Reply::Json(200, json!({})));
    let told = listener.wait_for(2, SOON).await;
    assert_eq!(told[1].path, "/results");
    for name in ["job_id", "status", "output_data", "execution_cost", "execution_time_ms"] {
        assert_eq!(told[1].body[name], success(&one)[name], "{name}");
    }
    assert_eq!(told[1].body["agent_id"], json!(worker.id));
    // A failure is reported too.
    let mut two = job(2, &worker.id);
    two["callback_url"] = one["callback_url"].clone();
    hire(&hub, &boss.key, &two).await;
    hub.post(&format!("/market/jobs/{}/cancel", id(&two)), Some(&boss.key), &json!({})).await;
    let told = listener.wait_for(3, SOON).await;
    assert_eq!((&told[2].body["status"], &told[2].body["execution_cost"]), (&json!("FAILURE"), &json!(0.0)));
}

/// An agent that knows only the Channel Protocol.
#[tokio::test]
async fn a_job_by_connection_string() {
    let hub = TestHub::start();
    let agent = FakeAgent::start().await;
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let connection = json!({"connection_string": format!("http://{}/inbox/sk_a1b2c3d4e5f6", agent.addr())});
    let set = hub
        .ask("PUT", &format!("/api/v1/agents/{}/connection", worker.id), Some(&worker.key), &connection)
        .await;
    assert_eq!(set.status, 200, "{}", set.text);
    let one = job(1, &worker.id);
    hire(&hub, &boss.key, &one).await;
    let posted = agent.wait_for(1, SOON).await.remove(0).body;
    assert!(text(&posted["message"]["content"]).contains("Revenue for Q3"), "{posted}");
    let callback = text(&posted["callback"]).strip_prefix(&hub.url).unwrap().to_owned();
    let said = json!({"type": "message", "content": "{\"entities\": [1]}"});
    let taken = hub.post(&callback, None, &said).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let done = shown(&hub, &boss.key, &one).await;
    assert_eq!(
        (&done["status"], &done["result"]["output_data"]),
        (&json!("SUCCESS"), &json!({"entities": [1]}))
    );
    // The agent declines.
    let two = job(2, &worker.id);
    hire(&hub, &boss.key, &two).await;
    let posted = agent.wait_for(2, SOON).await.remove(1).body;
    let callback = text(&posted["callback"]).strip_prefix(&hub.url).unwrap().to_owned();
    let said = json!({"type": "error", "message": "no idea"});
    assert_eq!(hub.post(&callback, None, &said).await.status, 200);
    assert_eq!(shown(&hub, &boss.key, &two).await["error"]["message"], "no idea");
    // The agent may report in the document's own form; anything that only resembles it is output.
    let said = |result: &Value| json!({"type": "message", "content": result.to_string()});
    let other = json!({"job_id": id(&one), "status": "FAILURE", "entities": []});
    for (n, status, cost) in [(3, "FAILURE", 0.0), (4, "SUCCESS", 0.05), (5, "SUCCESS", 0.1)] {
        let asked = job(n, &worker.id);
        hire(&hub, &boss.key, &asked).await;
        let posted = agent.wait_for(n as usize, SOON).await.remove(n as usize - 1).body;
        assert!(text(&posted["channel"]["context"]).contains("the whole result"), "{posted}");
        let callback = text(&posted["callback"]).strip_prefix(&hub.url).unwrap().to_owned();
        let whole = json!({"job_id": id(&asked), "agent_id": worker.id, "status": status, "execution_cost": 0.05,
            "output_data": {"entities": [n]}, "error_message": (status == "FAILURE").then_some("no idea")});
        let result = if n == 5 { &other } else { &whole };
        assert_eq!(hub.post(&callback, None, &said(result)).await.status, 200);
        let done = shown(&hub, &boss.key, &asked).await;
        assert_eq!((&done["status"], &done["settled"]), (&json!(status), &json!(cost)), "{done}");
        match n {
            3 => assert_eq!(done["error"]["message"], "no idea"),
            4 => assert_eq!(done["result"]["output_data"], json!({"entities": [4]})),
            _ => assert_eq!(done["result"]["output_data"], other),
        }
    }
    assert_balanced(&hub).await;
}
