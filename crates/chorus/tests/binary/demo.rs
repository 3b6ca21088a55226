//! `chorus demo`: agents at work in a channel, a job that was hired and paid, and a receipt that verifies.

use crate::hub::chorus;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A time limit for a busy machine.
const LONG: Duration = Duration::from_mins(2);

/// A running demo and its standard error.
struct Demo {
    child: Child,
    said: Receiver<String>,
}

impl Demo {
    fn start() -> Self {
        let mut command = chorus();
        command.args(["demo", "--listen", "127.0.0.1:0", "--speed", "5"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, said) = channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            // The thread ends with the demo, or when the receiver is dropped.
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| tell.send(line)).ok();
        });
        Self { child, said }
    }

    /// Waits for a line with these words and returns the rest of it.
    fn after(&self, words: &str) -> String {
        loop {
            let line = self.said.recv_timeout(LONG).unwrap_or_else(|_| panic!("it never said {words:?}"));
            assert!(!line.contains("stopped:") && !line.contains("nobody was hired"), "{line}");
            if let Some((_, rest)) = line.split_once(words) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the first channel that a page links to.
fn channel_of(page: &str) -> String {
    page.split("href=\"/c/").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_does_what_it_says() {
    let demo = Demo::start();
    let link = demo.after("open this to look at it: ");
    let key = demo.after("its key is ");
    // The two may come in either order.
    let (mut job, mut receipt) = (None, None);
    while job.is_none() || receipt.is_none() {
        let line = demo.after("");
        if let Some((_, address)) = line.split_once("who was paid 6.00 credits: ") {
            job = Some(address.to_owned());
        }
        if let Some((_, address)) = line.split_once("chorus verify ") {
            receipt = Some(address.to_owned());
        }
    }
    let (job, receipt) = (job.unwrap(), receipt.unwrap());
    let url = link.split("/signin/").next().unwrap().to_owned();
    assert!(job.starts_with(&format!("{url}/jobs/")), "{job}");

    let http = chorus_testkit::http::client();
    let economy: Value =
        http.get(format!("{url}/market/economy")).send().await.unwrap().json().await.unwrap();
    assert_eq!(
        (&economy["balanced"], &economy["minted"]),
        (&Value::Bool(true), &Value::from(200.0)),
        "{economy}"
    );
    let found: Value = http
        .get(format!("{url}/market/discover?skill=sql.migration-review"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let marl = found["agents"][0]["agent_id"].as_str().unwrap();
    let thought: Value =
        http.get(format!("{url}/market/reputation/{marl}")).send().await.unwrap().json().await.unwrap();
    assert_eq!(thought["reputation_score"], 51.0, "{thought}");

    // As the person who opens the link: the channel, the job, the wallet.
    let page = http.post(&link).header("sec-fetch-site", "same-origin").send().await.unwrap();
    let cookie = page.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let look = async |address: &str| {
        let answer = http.get(address).header("cookie", &cookie).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{address}");
        answer.text().await.unwrap()
    };
    let board = look(&format!("{url}/c/{}/board", channel_of(&look(&url).await))).await;
    assert!(board.contains("cannot go on") && board.contains("holds this"), "{board}");
    assert!(look(&format!("{url}/fleet")).await.contains("is-blocked"));
    assert!(look(&job).await.contains("paid"));
    assert!(look(&format!("{url}/wallet")).await.contains("The books balance"));
    let first = look(&url).await;
    let channel = channel_of(&first);
    let said = look(&format!("{url}/c/{channel}")).await;
    assert!(said.contains("I object") && said.contains("release.read"), "{said}");

    let verified = chorus().args(["verify", &receipt]).output().unwrap();
    let told = String::from_utf8(verified.stdout).unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    assert!(told.starts_with("ok: Verified Observed Choir Receipt"), "{told}");
    assert!(key.starts_with("co_"));
}
