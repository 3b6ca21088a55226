//! The market's pages: search, hiring, cancelling, the wallet, the operator's credits; and escaping of all
//! user text.

use crate::accounts::{cookie_of, hub_with_mail, session};
use crate::market::{Trader, assert_balanced, balance, registration, trader};
use crate::market_offers::words_indexed;
use crate::support::{Answer, OPERATOR, Setup, TestHub};
use crate::web::send;
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) const ANN: &str = "ann@mail.example";

/// A hub with a person who has this many credits, and an agent to hire.
struct Fair {
    hub: TestHub,
    ann: String,
    worker: Trader,
}

impl Fair {
    async fn open(credits: i64) -> Self {
        let hub = TestHub::start();
        let ann = hub.account(ANN).await;
        let worker = trader(&hub, "worker", 0).await;
        if credits > 0 {
            let minted = json!({"owner": ANN, "amount": credits});
            assert_eq!(hub.post("/market/mint", Some(OPERATOR), &minted).await.status, 200);
        }
        Self { hub, ann, worker }
    }

    async fn main(&self, path: &str) -> String {
        let page = self.hub.get(path, Some(&self.ann)).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        page.text.split("<main").nth(1).expect("a page has a main part").to_owned()
    }

    fn hire_path(&self) -> String {
        format!("/directory/{}/hire", self.worker.id)
    }

    /// Returns the job id in the form, which makes it safe to send twice.
    async fn job_id(&self) -> String {
        let form = self.main(&format!("{}?skill=analyze_text", self.hire_path())).await;
        hidden(&form, "job_id")
    }

    async fn hire(&self, job: &str, budget: &str) -> Answer {
        let fields = [
            ("skill", "analyze_text"),
            ("job_id", job),
            ("input.text", "Revenue was 42"),
            ("budget", budget),
            ("minutes", "5"),
        ];
        send(&self.hub, &self.hire_path(), Some(&self.ann), &fields).await
    }

    async fn money(&self) -> (Value, Value) {
        let me = self.hub.get("/api/v1/me", Some(&self.ann)).await.body;
        balance(&self.hub, me["id"].as_str().expect("an account has an id")).await
    }
}

/// Returns the value of a hidden field.
pub(crate) fn hidden(page: &str, name: &str) -> String {
    let field = page
        .split(&format!("name=\"{name}\" value=\""))
        .nth(1)
        .unwrap_or_else(|| panic!("no {name}: {page}"));
    field.split('"').next().expect("a value ends with a quote").to_owned()
}

#[tokio::test]
async fn found_hired_and_paid_from_the_page() {
    let fair = Fair::open(5).await;
    words_indexed(&fair.hub).await;
    let market = fair.main("/market").await;
    assert!(market.contains("analyze_text") && market.contains("50.0000"), "{market}");
    assert!(market.contains("The books balance") && market.contains(">5.00<"), "{market}");
    for (query, shown) in [
        ("skill=analyze_text", true),
        ("skill=other", false),
        ("max_cost=0.09", false),
        ("max_cost=0.10", true),
        ("min_reputation=51", false),
        ("q=unstructured", true),
        ("q=nothing", false),
    ] {
        let found = fair.main(&format!("/market?{query}")).await;
        assert_eq!(found.contains(&fair.hire_path()), shown, "{query}: {found}");
    }
    let odd = fair.main("/market?max_cost=lots").await;
    assert!(odd.contains("role=\"alert\"") && odd.contains("Max_cost"), "{odd}");

    let job = fair.job_id().await;
    let hired = fair.hire(&job, "0.15").await;
    assert_eq!((hired.status, hired.header("location")), (303, &*format!("/jobs/{job}")), "{}", hired.text);
    // Sending the form twice creates one job.
    assert_eq!(fair.hire(&job, "0.15").await.header("location"), format!("/jobs/{job}"));
    assert_eq!(fair.money().await, (json!(4.85), json!(0.15)));
    // The same id for another job is refused, and the form continues with a new id.
    let other = fair.hire(&job, "0.20").await;
    assert_eq!(other.status, 409, "{}", other.text);
    assert_ne!(hidden(&other.text, "job_id"), job);
    let page = fair.main(&format!("/jobs/{job}")).await;
    assert!(
        page.contains("data-left=\"") && page.contains("Take it back") && page.contains("0.15"),
        "{page}"
    );
    assert!(fair.main("/jobs").await.contains("0.15 held"));

    let result = json!({"job_id": job, "status": "SUCCESS", "output_data": {"entities": ["revenue"]}, "execution_cost": 0.1});
    let path = format!("/market/jobs/{job}/result");
    assert_eq!(fair.hub.post(&path, Some(&fair.worker.key), &result).await.status, 200);
    let page = fair.main(&format!("/jobs/{job}")).await;
    assert!(page.contains("&#34;revenue&#34;") && page.contains("0.10 paid"), "{page}");
    assert!(page.contains("50.0000 + 2.0 × 50.0000 / 100 = 51.0000"), "{page}");
    assert!(page.contains("Held") && page.contains("Returned") && !page.contains("Take it back"), "{page}");
    let wallet = fair.main("/wallet").await;
    assert!(wallet.contains(">4.90<") && wallet.contains("+0.05") && wallet.contains("−0.15"), "{wallet}");
    let agent = fair.main(&format!("/directory/{}", fair.worker.id)).await;
    assert!(agent.contains("Why 51.0000") && agent.contains("Known to the hub"), "{agent}");
    let steps = fair.main(&format!("/directory/{}/reputation", fair.worker.id)).await;
    assert!(steps.contains("+1.0000"), "{steps}");
    assert_balanced(&fair.hub).await;
}

#[tokio::test]
async fn a_form_that_cannot_be_says_why_and_keeps_what_was_typed() {
    let fair = Fair::open(1).await;
    let job = fair.job_id().await;
    for (budget, status, words) in [
        ("0.05", 422, "0.05"),
        ("2", 402, "role=\"alert\""),
        ("0.155", 400, "Budget"),
        ("-1", 400, "Budget"),
        ("1e9999", 400, "Budget"),
    ] {
        let answer = fair.hire(&job, budget).await;
        assert_eq!(answer.status, status, "{budget}: {}", answer.text);
        assert!(
            answer.text.contains(words) && answer.text.contains("Revenue was 42"),
            "{budget}: {}",
            answer.text
        );
        assert!(answer.text.contains(&format!("value=\"{budget}\"")), "{}", answer.text);
    }
    let fields = [("skill", "analyze_text"), ("job_id", &*job), ("budget", "0.10"), ("minutes", "soon")];
    assert_eq!(send(&fair.hub, &fair.hire_path(), Some(&fair.ann), &fields).await.status, 400);
    let unknown = format!("{}?skill=other", fair.hire_path());
    assert_eq!(fair.hub.get(&unknown, Some(&fair.ann)).await.status, 404);
    assert_eq!(fair.money().await, (json!(1.0), json!(0.0)));
    assert_eq!(fair.hub.get("/market/jobs", Some(&fair.ann)).await.body["items"], json!([]));
}

#[tokio::test]
async fn a_job_is_taken_back_by_who_hired_and_nobody_else() {
    let fair = Fair::open(1).await;
    let job = fair.job_id().await;
    assert_eq!(fair.hire(&job, "0.15").await.status, 303);
    let (page, cancel) = (format!("/jobs/{job}"), format!("/jobs/{job}/cancel"));
    let eve = fair.hub.account("eve@mail.example").await;
    let none = "/jobs/f81d4fae-7dec-11d0-a765-000000000009";
    let (theirs, nothing) = (fair.hub.get(&page, Some(&eve)).await, fair.hub.get(none, Some(&eve)).await);
    assert_eq!((theirs.status, &theirs.text), (404, &nothing.text));
    assert_eq!(send(&fair.hub, &cancel, Some(&eve), &[]).await.status, 404);
    assert_eq!(send(&fair.hub, &cancel, None, &[]).await.header("location"), "/signin");
    assert_eq!(fair.money().await, (json!(0.85), json!(0.15)));
    for _ in 0..2 {
        let taken = send(&fair.hub, &cancel, Some(&fair.ann), &[]).await;
        assert_eq!((taken.status, taken.header("location")), (303, &*page), "{}", taken.text);
    }
    assert_eq!(fair.money().await, (json!(1.0), json!(0.0)));
    let shown = fair.main(&page).await;
    assert!(shown.contains("taken back") && shown.contains("CANCELLED"), "{shown}");
    assert!(fair.main("/jobs?status=FAILURE").await.contains("taken back"));
}

#[tokio::test]
async fn credits_are_sent_from_the_page_once() {
    let fair = Fair::open(3).await;
    let wallet = fair.main("/wallet").await;
    let (transfer, from) = (hidden(&wallet, "transfer_id"), hidden(&wallet, "from_owner"));
    let form = |amount: &'static str, to: &'static str| {
        [
            ("transfer_id", transfer.clone()),
            ("from_owner", from.clone()),
            ("to_owner", to.into()),
            ("amount", amount.into()),
        ]
    };
    let post = async |fields: [(&str, String); 4], key: &str| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        send(&fair.hub, "/wallet/send", Some(key), &fields).await
    };
    let eve = fair.hub.account("eve@mail.example").await;
    assert_eq!(post(form("1", "owner of worker"), &eve).await.status, 403);
    assert_eq!(post(form("9", "owner of worker"), &fair.ann).await.status, 402);
    assert_eq!(post(form("1", "nobody"), &fair.ann).await.status, 404);
    assert_eq!(post(form("0.001", "owner of worker"), &fair.ann).await.status, 400);
    for _ in 0..2 {
        assert_eq!(post(form("1.25", "owner of worker"), &fair.ann).await.status, 303);
    }
    assert_eq!(fair.money().await.0, json!(1.75));
    assert_eq!(balance(&fair.hub, &fair.worker.owner).await.0, json!(1.25));
    let shown = fair.main("/wallet").await;
    assert!(
        shown.contains("Sent") && shown.contains("−1.25") && shown.contains("owner of worker"),
        "{shown}"
    );
}

#[tokio::test]
async fn the_operator_makes_credits_and_takes_them_away_once() {
    let fair = Fair::open(0).await;
    let entered = send(&fair.hub, "/operator", None, &[("key", OPERATOR)]).await;
    let (cookie, _) = cookie_of(&entered);
    let get = async || {
        Answer::of(fair.hub.request(Method::GET, "/operator/market", None).header("cookie", &*cookie)).await
    };
    let post = async |fields: &[(&str, &str)]| {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = crate::accounts::by_page(fair.hub.request(Method::POST, "/operator/market", None));
        Answer::of(request.header("cookie", &*cookie).body(body)).await
    };
    let page = get().await;
    assert_eq!(page.status, 200, "{}", page.text);
    let key = hidden(&page.text, "key");
    let mint = [("key", &*key), ("owner", ANN), ("amount", "7.5"), ("act", "mint")];
    for _ in 0..2 {
        let made = post(&mint).await;
        assert!(made.status == 200 && made.text.contains("Made 7.50 credits"), "{}", made.text);
    }
    assert_eq!(fair.money().await.0, json!(7.5));
    let key = hidden(&get().await.text, "key");
    let much = post(&[("key", &*key), ("owner", ANN), ("amount", "8"), ("act", "burn")]).await;
    assert_eq!(much.status, 402, "{}", much.text);
    let burnt = post(&[("key", &*key), ("owner", ANN), ("amount", "2.5"), ("act", "burn")]).await;
    assert!(burnt.status == 200 && burnt.text.contains("The books balance"), "{}", burnt.text);
    assert_eq!(fair.money().await.0, json!(5.0));
    let unknown = post(&[("key", "k"), ("owner", "<b>nobody"), ("amount", "1"), ("act", "mint")]).await;
    assert!(unknown.status == 404 && !unknown.text.contains("<b>"), "{}", unknown.text);
    // Nobody else has access, signed in or not.
    assert_eq!(fair.hub.get("/operator/market", Some(&fair.ann)).await.status, 403);
    assert_eq!(send(&fair.hub, "/operator/market", Some(&fair.ann), &mint).await.status, 403);
    assert_balanced(&fair.hub).await;
}

#[tokio::test]
async fn market_pages_are_for_who_is_signed_in_and_guarded() {
    let fair = Fair::open(1).await;
    let agent = format!("/directory/{}", fair.worker.id);
    for path in [
        "/market",
        "/jobs",
        "/wallet",
        "/quotes/new",
        &fair.hire_path(),
        &agent,
        &format!("{agent}/reputation"),
    ] {
        let page = fair.hub.get(path, Some(&fair.ann)).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
        for inline in ["<script>", "<style", " style=", " onclick=", "javascript:"] {
            assert!(!page.text.contains(inline), "{path} has {inline}");
        }
        let stranger = fair.hub.get(path, None).await;
        assert_eq!((stranger.status, stranger.header("location")), (303, "/signin"), "{path}");
        assert_eq!(
            fair.hub.get(path, Some(&fair.worker.key)).await.status,
            403,
            "{path}: agents have no pages"
        );
    }
    let (hub, mails) = hub_with_mail(Setup::new());
    let cookie = session(&hub, &mails, ANN).await;
    for path in [
        &*fair.hire_path(),
        "/wallet/send",
        "/jobs/f81d4fae-7dec-11d0-a765-000000000009/cancel",
        "/operator/market",
        "/quotes/new",
        "/quotes/f81d4fae-7dec-11d0-a765-000000000009/take",
        "/directory/f81d4fae-7dec-11d0-a765-000000000009/skills",
        "/directory/f81d4fae-7dec-11d0-a765-000000000009/skills/remove",
    ] {
        for site in [Some("cross-site"), Some("same-site"), None] {
            let mut request =
                hub.request(Method::POST, path, None).header("cookie", &*cookie).body("amount=1");
            if let Some(site) = site {
                request = request.header("sec-fetch-site", site);
            }
            assert_eq!(Answer::of(request).await.status, 403, "{path} from {site:?}");
        }
    }
}

/// Sets every text of the market to markup, and checks every page that shows it.
#[tokio::test]
async fn nothing_on_the_market_is_markup() {
    const ATTACK: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(1)><b style=x>";
    let fair = Fair::open(9).await;
    let hub = &fair.hub;
    // An owner's name is part of addresses and has no slashes.
    let mut body = registration(ATTACK, &ATTACK.replace('/', ""), "0.10");
    body["skills"][0]["description"] = json!(ATTACK);
    body["skills"][0]["input_schema"] = json!({ATTACK: "string", "n": "number"});
    body["skills"][0]["output_schema"] = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    let mallory = hub.post("/market/register", None, &body).await;
    assert_eq!(mallory.status, 201, "{}", mallory.text);
    let (id, key) = (mallory.body["agent_id"].as_str().unwrap(), mallory.body["api_key"].as_str().unwrap());
    let mut jobs = vec![];
    for outcome in ["SUCCESS", "FAILURE", "PENDING"] {
        let job = json!({"agent_id": id, "skill_name": "analyze_text", "input_data": {ATTACK: ATTACK, "n": 1}, "budget": 0.2});
        let hired = hub.post("/market/jobs", Some(&fair.ann), &job).await;
        assert_eq!(hired.status, 202, "{}", hired.text);
        let job = hired.body["job_id"].as_str().unwrap().to_owned();
        let result = json!({"job_id": job, "status": outcome, "output_data": {ATTACK: ATTACK, "x": ATTACK}, "error_message": ATTACK});
        assert_eq!(hub.post(&format!("/market/jobs/{job}/result"), Some(key), &result).await.status, 200);
        jobs.push(job);
    }
    let pay = json!({"transfer_id": "f81d4fae-7dec-11d0-a765-000000000001", "from_owner": ANN, "to_owner": ATTACK.replace('/', ""), "amount": 1});
    assert_eq!(hub.post("/market/transfer", Some(&fair.ann), &pay).await.status, 200);
    let quoted: String = url::form_urlencoded::byte_serialize(ATTACK.as_bytes()).collect();
    let mut paths = vec![
        "/market".to_owned(),
        format!("/market?q={quoted}&skill={quoted}&max_cost={quoted}&min_reputation={quoted}"),
        "/jobs".into(),
        "/wallet".into(),
        format!("/wallet?owner={quoted}"),
        format!("/directory/{id}"),
        format!("/directory/{id}/hire"),
        format!("/directory/{id}/reputation"),
    ];
    let ask = json!({"skill_name": "analyze_text"});
    let quote = hub.post("/market/quotes", Some(&fair.ann), &ask).await;
    assert_eq!(quote.status, 201, "{}", quote.text);
    paths.push(format!("/quotes/{}", quote.body["quote_id"].as_str().unwrap()));
    paths.push(format!("/quotes/new?skill={quoted}"));
    paths.extend(jobs.iter().map(|job| format!("/jobs/{job}")));
    let mut shown = 0;
    let check = |path: &str, text: &str| {
        for markup in ["<script>", "<img", "<b ", "onerror=\"", " style=x"] {
            // A parser sees the last one only inside a tag.
            let inert = text.replace("&lt;b style=x", "").replace("&#60;b style=x", "");
            assert!(!inert.contains(markup), "{path} shows {markup}: {text}");
        }
        text.matches("alert(1)").count()
    };
    for path in paths {
        let page = hub.get(&path, Some(&fair.ann)).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        shown += check(&path, &page.text);
    }
    assert!(shown > 20, "it is shown as the text it is: {shown}");
    let fields = [
        ("skill", "analyze_text"),
        ("job_id", ATTACK),
        ("input.n", ATTACK),
        ("budget", ATTACK),
        ("minutes", ATTACK),
    ];
    let faulty = send(hub, &format!("/directory/{id}/hire"), Some(&fair.ann), &fields).await;
    assert_eq!(faulty.status, 400, "{}", faulty.text);
    assert!(check("a form", &faulty.text) > 0);
    let fields =
        [("skill", ATTACK), ("input", ATTACK), ("budget", ATTACK), ("seconds", ATTACK), ("minutes", ATTACK)];
    let faulty = send(hub, "/quotes/new", Some(&fair.ann), &fields).await;
    assert!(faulty.status == 400 && check("a question", &faulty.text) > 3, "{}", faulty.text);
    let own = hub.post("/api/v1/agents", Some(&fair.ann), &json!({"name": "own"})).await.body;
    let skills = format!("/directory/{}/skills", own["agent_id"].as_str().unwrap());
    let fields =
        ["skill_name", "cost", "description", "input_schema", "output_schema"].map(|name| (name, ATTACK));
    let faulty = send(hub, &skills, Some(&fair.ann), &fields).await;
    assert!(faulty.status == 400 && check("an offer", &faulty.text) > 4, "{}", faulty.text);
    let fields = [("transfer_id", ATTACK), ("from_owner", ATTACK), ("to_owner", ATTACK), ("amount", "1")];
    let faulty = send(hub, "/wallet/send", Some(&fair.ann), &fields).await;
    assert!(faulty.status < 500 && check("a transfer", &faulty.text) > 0, "{}", faulty.text);
}

/// A job moves from open to in progress to ended. The ledger names the purpose of each row, and only people
/// that the reader may know.
#[tokio::test]
async fn jobs_move_over_the_board_and_the_ledger_has_names() {
    let fair = Fair::open(5).await;
    let (job, bob) = (fair.job_id().await, fair.hub.account("bob@mail.example").await);
    assert_eq!(fair.hire(&job, "0.15").await.status, 303);
    // Returns the cards of a column.
    let column = async |title: &str| {
        let board = fair.main("/jobs").await;
        let column =
            board.split("aria-label=\"").find(|part| part.starts_with(&format!("{title}\""))).unwrap();
        column.matches("class=\"job\"").count()
    };
    let board = async || [column("Open").await, column("At work").await, column("Ended").await];
    assert_eq!(board().await, [1, 0, 0]);
    let mut inbox = fair.hub.inbox(&fair.worker.key, None).await;
    inbox.event("job").await;
    let handed = crate::support::eventually(board, |found| *found == [0, 1, 0]).await;
    assert_eq!(handed, [0, 1, 0]);
    let result = json!({"job_id": job, "status": "SUCCESS", "output_data": {"entities": ["revenue"]}, "execution_cost": 0.1});
    let path = format!("/market/jobs/{job}/result");
    assert_eq!(fair.hub.post(&path, Some(&fair.worker.key), &result).await.status, 200);
    assert_eq!(board().await, [0, 0, 1]);

    // A stranger's account is not named; one that shares a channel is.
    let me = fair.hub.get("/api/v1/me", Some(&bob)).await.body;
    let account = me["id"].as_str().expect("an account has an id").to_owned();
    let minted = json!({"owner": account, "amount": 1});
    assert_eq!(fair.hub.post("/market/mint", Some(OPERATOR), &minted).await.status, 200);
    let wallet = fair.main("/wallet").await;
    let fields = [
        ("transfer_id", hidden(&wallet, "transfer_id")),
        ("from_owner", hidden(&wallet, "from_owner")),
        ("to_owner", account.clone()),
        ("amount", "1".into()),
    ];
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(send(&fair.hub, "/wallet/send", Some(&fair.ann), &fields).await.status, 303);
    let strange = fair.main("/wallet").await;
    assert!(
        strange.contains(&format!("the account …{}<", &account[30..])) && !strange.contains(">bob<"),
        "{strange}"
    );
    assert!(
        strange.contains("for <a href=\"/jobs/") && strange.contains("analyze_text by worker"),
        "{strange}"
    );
    let channel = fair.hub.channel(&fair.ann, &json!({"name": "ops"})).await;
    fair.hub.add(&channel, OPERATOR, &json!({"account": "bob@mail.example"})).await;
    let known = fair.main("/wallet").await;
    assert!(known.contains(">bob<") && !known.contains(&account[30..]), "{known}");
}
