//! The script of the demo: its members, and the messages of the person among them.

use super::Pace;
use super::agents::{ENSEMBLE, live};
use super::assurance::assure;
use super::market::{PURSE, trade};
use crate::output;
use anyhow::Context;
use chorus_agent::{Client, Method};
use serde_json::{Value, json};

/// The number of further messages after the script.
const ROUNDS: usize = 50;

/// The account of the person who opens the link: the hub's first link is for it.
const VISITOR: &str = "operator@localhost";

pub(super) async fn tell(url: &str, operator: &str, pace: Pace) -> anyhow::Result<()> {
    let operator = Client::connect(url, Some(operator.to_owned()))?;
    let visitor = account(url, &operator, VISITOR, "You").await?;
    let mut timber = None;
    let mara = account(url, &operator, "mara@fernhill.example", "Mara Lind").await?;
    for member in ENSEMBLE {
        let new = json!({"name": member.name, "description": member.does});
        let made: Value = visitor.api_write(Method::POST, &["agents"], &[], Some(&new)).await?;
        let key = made["api_key"].as_str().unwrap_or_default().to_owned();
        if member.name == "timber" {
            // timber hires others later, with the visitor's credits.
            let (path, allowed) = (["agents", member.name, "allowance"], json!({"credits_per_day": PURSE}));
            let _: Value = visitor.api_write(Method::PUT, &path, &[], Some(&allowed)).await?;
            timber = Some(Client::connect(url, Some(key.clone()))?);
        }
        let (client, url) = (Client::connect(url, Some(key))?, url.to_owned());
        tokio::spawn(async move {
            if let Err(error) = live(member.name, client, url, pace).await {
                tracing::warn!("{} stopped: {error:#}", member.name);
            }
        });
    }
    let review = channel(
        &visitor,
        &operator,
        "deploy-review",
        "Nothing reaches production before honey has read the migration",
    )
    .await?;
    let staging = channel(&visitor, &operator, "staging", "Who does what to the staging machines").await?;
    spawn_trade(url, &operator, timber.context("timber is one of them")?, pace);

    let say = async |place: &str, content: &str, thread: Option<&str>| -> anyhow::Result<String> {
        let body = json!({"content": content, "thread": thread});
        let said: Value =
            mara.api_write(Method::POST, &["channels", place, "messages"], &[], Some(&body)).await?;
        Ok(said["event_id"].as_str().unwrap_or_default().to_owned())
    };
    say(&review, "The quarter-close freeze starts Thursday at 18:00. Whatever has to ship before it goes through this channel.", None).await?;
    pace.wait(800).await;
    say(&review, "@oncall keep an eye on node 3 of staging until then, please.", None).await?;
    pace.wait(800).await;
    let task = say(&review, "@timber please take **ledger-api 4.18** through review. @honey reads migration `0042` before anything touches staging.", None).await?;
    pace.wait(9000).await;
    say(&review, "@atlas is the replica lag on db-2 known? Reads are 9 s behind.", None).await?;
    pace.wait(5000).await;
    say(&review, "Agreed. @timber split it as honey says, then apply it to staging.", Some(&task)).await?;
    assure(&visitor, url, &review, pace).await?;
    say(&review, "@quill the release notes, please: what changed, and why the backfill is split.", None)
        .await?;
    pace.wait(3000).await;
    say(&staging, "Somebody has to restart node 3. @ferry will you, or sable?", None).await?;
    pace.wait(15_000).await;
    say(
        &staging,
        "That went in circles until the hub stopped it: what goes on with a loop wakes nobody. @ferry do it.",
        None,
    )
    .await?;

    let asked = [
        "@honey one more look at the migration, please: is anything left in one transaction?",
        "@atlas and the replica lag now?",
        "@timber please take **ledger-api 4.18** through review once more, the build is new.",
    ];
    for words in asked.iter().cycle().take(ROUNDS) {
        pace.wait(60_000).await;
        say(&review, words, None).await?;
    }
    Ok(())
}

/// Runs the market beside the conversation.
fn spawn_trade(url: &str, operator: &Client, timber: Client, pace: Pace) {
    let (url, operator) = (url.to_owned(), operator.clone());
    tokio::spawn(async move {
        if let Err(error) = trade(&url, &operator, &timber, VISITOR, pace).await {
            output::talk(format_args!("nobody was hired: {error:#}"));
        }
    });
}

/// Creates an account and returns a client with its token.
async fn account(url: &str, operator: &Client, email: &str, name: &str) -> anyhow::Result<Client> {
    let new = json!({"email": email, "name": name});
    let made: Value = operator.api_write(Method::POST, &["accounts"], &[], Some(&new)).await?;
    Ok(Client::connect(url, made["api_token"].as_str().map(str::to_owned))?)
}

/// Creates a channel of the visitor with all members.
async fn channel(visitor: &Client, operator: &Client, name: &str, about: &str) -> anyhow::Result<String> {
    let new = json!({"name": name, "context": about});
    let made: Value = visitor.api_write(Method::POST, &["channels"], &[], Some(&new)).await?;
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    for member in ENSEMBLE {
        let new = json!({"agent": member.name, "roles": [member.role]});
        let _: Value =
            visitor.api_write(Method::POST, &["channels", &id, "members"], &[], Some(&new)).await?;
    }
    // The operator may add members without an invitation, which no one could accept here.
    let new = json!({"account": "mara@fernhill.example", "handle": "Mara"});
    let _: Value = operator.api_write(Method::POST, &["channels", &id, "members"], &[], Some(&new)).await?;
    Ok(id)
}
