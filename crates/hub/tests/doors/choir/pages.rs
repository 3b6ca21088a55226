//! Choir's pages: public ones, those of owners and edit links, and escaping of all text.

use super::{bundle, issued, made, score, trace, warned};
use crate::accounts::by_page;
use crate::support::{Answer, Setup, TestHub};
use chorus_protocol::canonical;
use reqwest::Method;
use serde_json::{Value, json};

/// Submits a form as a browser does from one of our pages.
async fn send(hub: &TestHub, path: &str, key: Option<&str>, fields: &[(&str, &str)]) -> Answer {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = by_page(hub.request(Method::POST, path, key));
    Answer::of(request.header("content-type", "application/x-www-form-urlencoded").body(body)).await
}

/// Loads a page, checks its security headers, and returns its text.
async fn seen(hub: &TestHub, path: &str, key: Option<&str>) -> String {
    let page = hub.get(path, key).await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, "text/html; charset=utf-8"),
        "{path}: {}",
        page.text
    );
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
    for inline in ["<script>", "<style", " style=", " onclick=", "javascript:"] {
        assert!(!page.text.contains(inline), "{path} has {inline}");
    }
    page.text
}

fn page_of(at: &str) -> String {
    at.strip_prefix("/api/v1").unwrap().to_owned()
}

async fn compared(hub: &TestHub, key: &str, receipts: &[&Value]) -> String {
    let made = hub.post("/api/v1/compare", Some(key), &json!({"receipts": receipts})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["url"].as_str().unwrap().strip_prefix(&hub.url).unwrap().to_owned()
}

#[tokio::test]
async fn the_links_of_answers_open_pages_for_everybody() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let draft = issued(&hub, &at, &ann).await;
    assert_eq!(hub.post(&format!("{at}/evidence"), Some(&ann), &warned()).await.status, 201);
    let observed = issued(&hub, &at, &ann).await;
    let id = observed["receipt_id"].as_str().unwrap();
    let hash = observed["payload_hash"].as_str().unwrap();

    let verify = observed["verify_url"].as_str().unwrap().strip_prefix(&hub.url).unwrap();
    let page = seen(&hub, verify, None).await;
    assert!(page.contains("Not ready") && page.contains("Observed Choir Receipt"), "{page}");
    assert!(page.contains("What it does not prove") && page.contains("This is the original"), "{page}");
    assert!(page.matches(hash).count() >= 3 && page.contains("entry 2 of 2"), "{page}");

    let page = seen(&hub, &format!("/receipts/{id}"), None).await;
    assert!(page.contains("<svg class=\"radar\"") && page.contains("O-WARN-001"), "{page}");
    assert!(
        page.contains("href=\"#e0\"") && page.contains("id=\"e0\""),
        "adjustments lead to events: {page}"
    );
    assert!(page.contains("M-WARN") && page.contains("ignored warning"), "{page}");

    let slug = compared(&hub, &ann, &[&draft["receipt_id"], &observed["receipt_id"]]).await;
    let page = seen(&hub, &slug, None).await;
    assert!(
        page.contains("A warning was lost <span class=\"small muted\">new, <span class=\"mono\">M-WARN")
            && page.contains("the verdict fell from"),
        "{page}"
    );

    let bytes = hub.get(&format!("/receipts/{id}/canonical"), None).await;
    assert_eq!(canonical::sha256(bytes.text.as_bytes()), hash);
    assert!(seen(&hub, "/verify", None).await.contains("Check a file"));
    let asked = hub.get(&format!("/verify?receipt={}/verify/{id}", hub.url), None).await;
    assert_eq!((asked.status, asked.header("location")), (303, &*format!("/verify/{id}")));
    for missing in ["/verify/x", "/receipts/x", "/receipts/x/canonical", "/compare/x"] {
        let page = hub.get(missing, None).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (404, "text/html; charset=utf-8"),
            "{missing}"
        );
    }
}

/// The fields of a form for a small Score.
const FIELDS: [(&str, &str); 14] = [
    ("title", "Refunds"),
    ("voice.0.name", "Policy"),
    ("voice.0.role", "knows the rules"),
    ("voice.0.limits", "nothing above 100\nno promises"),
    ("voice.0.evidence_requirement", "cite"),
    ("voice.0.may_dissent", "on"),
    ("voice.0.trigger.0.id", "stuck"),
    ("voice.0.trigger.0.to", "human:desk"),
    ("voice.1.name", "Drafter"),
    ("voice.1.handoff.0.to", "Policy"),
    ("voice.2.name", ""),
    ("scenario.0.id", "over-limit"),
    ("scenario.0.severity", "high"),
    ("scenario.0.required_voices", "Policy\nDrafter"),
];

#[tokio::test]
async fn a_score_is_written_and_judged_on_pages() {
    let hub = TestHub::start();
    let (ann, eve) = (hub.account("ann@example.org").await, hub.account("eve@example.org").await);
    let (ann, eve) = (Some(&*ann), Some(&*eve));
    assert!(seen(&hub, "/scores", ann).await.contains("Write your first Score"));
    assert!(seen(&hub, "/scores/new", ann).await.contains("authority-breach-refund"));
    let found = send(&hub, "/scores/findings", ann, &FIELDS).await;
    assert!(found.status == 200 && found.text.contains("S-AUTH-001"), "{}", found.text);

    let made =
        send(&hub, "/scores/new", ann, &[&FIELDS[..], &[("library", "plain-question")]].concat()).await;
    assert_eq!(made.status, 303, "{}", made.text);
    let base = made.header("location").to_owned();
    let api = format!("/api/v1{base}");
    let kept = hub.get(&api, ann).await.body;
    assert_eq!(kept["voices"].as_array().unwrap().len(), 2);
    assert_eq!(kept["voices"][0]["authority"]["limits"], json!(["nothing above 100", "no promises"]));
    assert_eq!(kept["voices"][1]["authority"], Value::Null);
    assert_eq!(kept["scenarios"][1]["id"], "plain-question");
    let page = seen(&hub, &base, ann).await;
    assert!(page.contains("Save as version 2") && page.contains("S-AUTH-001"), "{page}");

    // The error is shown, and the input is kept.
    let mut wrong = FIELDS.to_vec();
    wrong[8].1 = "policy";
    let refused = send(&hub, &base, ann, &wrong).await;
    assert!(refused.status == 400 && refused.text.contains("no promises"), "{}", refused.text);
    assert_eq!(send(&hub, &base, ann, &FIELDS).await.status, 303);
    assert_eq!(hub.get(&api, ann).await.body["version"], 2);

    // A trace is shown as a bundle first, and never itself.
    let evidence = format!("{base}/evidence");
    let pasted = send(&hub, &evidence, ann, &[("format", "auto"), ("text", &trace().to_string())]).await;
    assert!(pasted.status == 200 && pasted.text.contains("langgraph.stream.v1"), "{}", pasted.text);
    assert!(pasted.text.contains("look_up") && !pasted.text.contains("hunter2"), "{}", pasted.text);
    let broken = send(&hub, &evidence, ann, &[("format", "bundle"), ("text", "{hunter2")]).await;
    assert!(broken.status == 400 && !broken.text.contains("hunter2"), "{}", broken.text);
    let added = send(&hub, &evidence, ann, &[("format", "auto"), ("text", &warned().to_string())]).await;
    assert_eq!(added.status, 303, "{}", added.text);
    assert!(seen(&hub, &evidence, ann).await.contains(&canonical::hash(&warned())));

    let lost = warned().to_string().replace("over-limit", "under-limit");
    let told = send(&hub, &evidence, ann, &[("format", "auto"), ("text", &lost)]).await;
    assert!(
        told.status == 200 && told.text.contains("the Score has no scenario under-limit"),
        "{}",
        told.text
    );

    let secret = send(&hub, &format!("{base}/secrets"), ann, &[]).await;
    let whole = secret.text.split("CHORUS_SIGNING_SECRET=").nth(1).unwrap().split('\n').next().unwrap();
    assert!(whole.starts_with("acs_") && whole.len() > 20 && secret.text.contains("chorus sign"), "{whole}");
    let page = seen(&hub, &evidence, ann).await;
    assert!(page.contains(&whole[..12]) && !page.contains(whole), "shown once");
    assert_eq!(send(&hub, &format!("{base}/secrets/{}/revoke", &whole[..12]), ann, &[]).await.status, 303);
    assert!(!seen(&hub, &evidence, ann).await.contains(&whole[..12]));

    let receipts = format!("{base}/receipts");
    let mut ids = vec![];
    for what in ["none", "latest"] {
        let issued = send(&hub, &receipts, ann, &[("evidence", what)]).await;
        assert_eq!(issued.status, 303, "{}", issued.text);
        ids.push(issued.header("location").strip_prefix("/receipts/").unwrap().to_owned());
    }
    let page = seen(&hub, &receipts, ann).await;
    assert!(page.find(&ids[1]).unwrap() < page.find(&ids[0]).unwrap(), "the newest first");
    let compared =
        send(&hub, &format!("{base}/compare"), ann, &[("receipt", &ids[1]), ("receipt", &ids[0])]).await;
    assert_eq!(compared.status, 303, "{}", compared.text);
    assert!(seen(&hub, compared.header("location"), None).await.contains("The second is worse"));

    let bundle = warned().to_string();
    let written = [&FIELDS[..], &[("format", "bundle"), ("text", &bundle), ("evidence", "none")]].concat();
    for path in [base.clone(), evidence, receipts] {
        assert_eq!(hub.get(&path, eve).await.status, 404, "{path}");
        assert_eq!(hub.get(&path, None).await.status, 303, "{path}");
        assert_eq!(send(&hub, &path, eve, &written).await.status, 404, "{path}");
    }
    assert_eq!(send(&hub, &format!("{base}/archive"), ann, &[]).await.status, 303);
    assert!(!seen(&hub, &base, ann).await.contains("Save as version"));
    // A form from another site has no effect.
    let elsewhere =
        hub.request(Method::POST, &base, ann).header("sec-fetch-site", "cross-site").body("title=x");
    assert_eq!(Answer::of(elsewhere).await.status, 403);
}

#[tokio::test]
async fn an_edit_link_opens_the_same_pages_until_it_is_claimed() {
    let hub = Setup::new().config(|config| config.anonymous_scores = true).start();
    let ann = hub.account("ann@example.org").await;
    let made = send(&hub, "/scores/new", None, &FIELDS).await;
    assert!(made.status == 200 && made.text.contains("shown this once"), "{}", made.text);
    let base = made.text.split(&format!("{}/scores/", hub.url)).nth(1).unwrap().split('<').next().unwrap();
    let base = format!("/scores/{base}");
    let id = base.split('/').nth(2).unwrap();
    assert!(seen(&hub, &base, None).await.contains("Sign in to claim it"));
    assert_eq!(send(&hub, &base, None, &FIELDS).await.header("location"), base);
    assert!(seen(&hub, &format!("{base}/evidence"), None).await.contains("Make a signing secret"));
    let issued = send(&hub, &format!("{base}/receipts"), None, &[("evidence", "none")]).await;
    assert_eq!(issued.status, 303, "{}", issued.text);
    for wrong in [
        format!("/scores/{id}/edit/es_wrong"),
        format!("/scores/sc_{}/edit/{}", "0".repeat(32), base.rsplit('/').next().unwrap()),
    ] {
        assert_eq!(hub.get(&wrong, None).await.status, 404, "{wrong}");
        assert_eq!(send(&hub, &wrong, None, &FIELDS).await.status, 404, "{wrong}");
    }
    // A visitor who is not signed in cannot claim it. Once it is claimed, the link no longer works.
    assert_eq!(send(&hub, &format!("{base}/claim"), None, &[]).await.header("location"), "/signin");
    let link = json!({"edit_link": base});
    assert_eq!(hub.post(&format!("/api/v1/scores/{id}/claim"), Some(&ann), &link).await.status, 200);
    assert_eq!(hub.get(&base, None).await.status, 404);
    assert!(seen(&hub, &format!("/scores/{id}"), Some(&ann)).await.contains("Refunds"));
    // Without the setting, a Score needs an account.
    let closed = TestHub::start();
    assert_eq!(send(&closed, "/scores/new", None, &FIELDS).await.header("location"), "/signin");
}

/// Sets every text of Scores, evidence and traces to markup, and checks every page that shows it.
#[tokio::test]
async fn no_text_of_a_score_or_of_evidence_is_markup() {
    const ATTACKS: [&str; 6] = [
        "\"'><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "</textarea><script>alert(1)</script>",
        "</title></svg><svg onload=alert(1)>",
        "javascript:alert(1)//{{ alert(1) }}",
        "<b style=x>alert(1)</b>\u{202e}",
    ];
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    for attack in ATTACKS {
        let mut body = score();
        body["title"] = json!(attack);
        body["arbitration"] = json!(attack);
        body["conflicting_mandates"] = json!([[attack, "Drafter"]]);
        let voice = &mut body["voices"][0];
        for name in ["name", "role", "reviewed_by"] {
            voice[name] = json!(attack);
        }
        voice["aliases"] = json!([format!("{attack}2")]);
        voice["authority"] = json!({"limits": [attack], "allowed_actions": [attack], "forbidden_actions": [attack], "exclusive_actions": [attack]});
        voice["escalation_triggers"] = json!([{"id": attack, "condition": attack, "to": attack}]);
        voice["handoffs"] = json!([{"to": attack, "carries": [attack]}]);
        body["scenarios"] = json!([{"id": attack, "title": attack, "severity": "high", "prompt": attack, "required_voices": [attack],
            "expected_escalations": [attack], "expected_evidence": [attack], "forbidden_actions": [attack]}]);
        let made = hub.post(super::SCORES, Some(&ann), &body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let at = format!("{}/{}", super::SCORES, made.body["score_id"].as_str().unwrap());
        let draft = issued(&hub, &at, &ann).await;
        let event = |kind: &str| {
            json!({"event_type": kind, "voice_name": attack, "scenario_id": attack, "ref": attack,
            "action": attack, "detail": attack, "target_voice": attack})
        };
        let mut observed = bundle(&event("tool_call"));
        observed["run_id"] = json!(attack);
        observed["events"] = json!([
            event("tool_call"),
            event("suppressed_dissent"),
            event("ignored_warning"),
            event("final_output")
        ]);
        observed["adapter_warnings"] = json!([{"code": attack, "message": attack, "path": attack}]);
        let taken = hub.post(&format!("{at}/evidence"), Some(&ann), &observed).await;
        assert_eq!(taken.status, 201, "{}", taken.text);
        let receipt = issued(&hub, &at, &ann).await;
        let id = receipt["receipt_id"].as_str().unwrap();
        let slug = compared(&hub, &ann, &[&draft["receipt_id"], &receipt["receipt_id"]]).await;
        let base = page_of(&at);
        let mut shown = 0;
        let pages = [
            "/scores",
            &base,
            &format!("{base}/evidence"),
            &format!("{base}/receipts"),
            &format!("/receipts/{id}"),
            &format!("/verify/{id}"),
            &slug,
        ];
        for path in pages {
            inert(&hub.get(path, Some(&ann)).await, path, attack);
            shown += hub.get(path, Some(&ann)).await.text.matches("alert(1)").count();
        }
        assert!(shown > 30, "it is shown as the text it is: {shown}");
        let call = json!({"name": attack, "args": {}, "id": attack});
        let run = json!([{attack: {"messages": [{"type": "ai", "content": attack, "tool_calls": [call]}]}}])
            .to_string();
        let preview =
            send(&hub, &format!("{base}/evidence"), Some(&ann), &[("format", "langgraph"), ("text", &run)])
                .await;
        inert(&preview, "a preview", attack);
    }
}

#[track_caller]
fn inert(page: &Answer, path: &str, attack: &str) {
    assert_eq!(page.status, 200, "{path}: {}", page.text);
    for markup in ["<script>", "<img", "<b style", "<svg onload", "onerror=\"", "href=\"javascript"] {
        assert!(!page.text.contains(markup), "{path} shows {markup}");
    }
    assert!(!page.text.contains(attack) || !attack.contains('<'), "{path} shows it raw");
}

/// The scenario and the voice of a pasted trace are asked for, and with them silence counts.
#[tokio::test]
async fn the_evidence_page_names_the_scenario() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let path = format!("{}/evidence", page_of(&at));
    let page = seen(&hub, &path, Some(&ann)).await;
    assert!(
        page.contains("<option value=\"over-limit\">") && page.contains("<option value=\"Drafter\">"),
        "{page}"
    );
    let text = trace().to_string();
    let fields = [("format", "langgraph"), ("text", &*text), ("scenario", "over-limit"), ("complete", "on")];
    let preview = send(&hub, &path, Some(&ann), &fields).await.text;
    let bundle = preview.split("name=\"text\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let bundle = bundle.replace("&#34;", "\"").replace("&quot;", "\"");
    let added = send(&hub, &path, Some(&ann), &[("format", "bundle"), ("text", &*bundle)]).await;
    assert_eq!(added.status, 303, "{}", added.text);
    let receipt = issued(&hub, &at, &ann).await;
    assert_eq!(receipt["payload"]["verdict"], "not_ready");
    assert_eq!(receipt["payload"]["mismatches"][0]["id"], "M-ENTRY");

    // The open items of a bundle have a form.
    let open = bundle_of_open();
    let taken = hub.post(&format!("{at}/evidence"), Some(&ann), &open).await.body;
    let form = format!("{path}/{}/answers", taken["evidence_id"].as_str().unwrap());
    assert!(seen(&hub, &path, Some(&ann)).await.contains(&form));
    assert!(seen(&hub, &form, Some(&ann)).await.contains("Did it reach the output?"));
    assert_eq!(send(&hub, &form, Some(&ann), &[("reached-0", "yes")]).await.status, 303);
    assert!(seen(&hub, &form, Some(&ann)).await.contains("Every question about it is answered"));
    let receipt = issued(&hub, &at, &ann).await;
    let page = seen(&hub, &format!("/receipts/{}", receipt["receipt_id"].as_str().unwrap()), None).await;
    assert!(page.contains("answered by the owner"), "{page}");
}

fn bundle_of_open() -> Value {
    bundle(&json!({"event_type": "warning", "voice_name": "Policy"}))
}
