//! The audit log as sentences. The stored record of each act is folded beside its sentence.

use super::{Operator, shell};
use crate::extract::Query;
use crate::page::{Fault, fault_page, page, query, refused};
use crate::shell::Shell;
use crate::times::Moment;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use chorus_app::operator;
use chorus_node::{AppState, Error};
use chorus_protocol::api::operator::{AuditParty, AuditQuery, PartyName, RecordedAct};
use chorus_protocol::ids::AuditId;
use chorus_protocol::words::{Action, Word};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// The most acts on a page.
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/operator/audit", get(show))
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    #[serde(default)]
    actor: String,
    #[serde(default)]
    action: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    after: String,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    shell: Shell,
    asked: Asked,
    acts: Vec<Act>,
    next: Option<String>,
    fault: String,
}

struct Act {
    at: Moment,
    sentence: String,
    client: String,
    /// The stored record of the act, as JSON.
    record: String,
}

async fn show(
    State(app): State<AppState>,
    _: Operator,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let shell = shell(&app, &headers).await?;
    let party = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty()).map(PartyName);
    let wanted = AuditQuery {
        actor: party(&asked.actor),
        action: Action::parse(&asked.action),
        subject: party(&asked.subject),
        since: None,
        after: AuditId::parse(&asked.after),
        limit: LIMIT,
    };
    let found = match operator::audit_log(&app, wanted).await {
        Ok(found) => found,
        Err(error) => {
            let (status, fault) = refused(error)?;
            return fault_page(status, &AuditPage { shell, asked, acts: vec![], next: None, fault });
        }
    };
    let names = operator::names(&app, found.items.iter().flat_map(ids).collect::<BTreeSet<_>>()).await?;
    let acts = found.items.iter().map(|view| act(view, &names)).collect::<Result<_, _>>()?;
    let more = |next: &str| {
        let Asked { actor, action, subject, .. } = &asked;
        query(&[("actor", actor), ("action", action), ("subject", subject), ("after", next)])
    };
    let next = found.next.as_deref().map(more);
    page(&AuditPage { shell, asked, acts, next, fault: String::new() })
}

/// Returns the ids of the parties of an act.
fn ids(view: &RecordedAct) -> Vec<String> {
    let told = ["member", "owner"].iter().filter_map(|name| view.detail[*name].as_str());
    [&*view.actor.id, &*view.subject.id].into_iter().chain(told).map(str::to_owned).collect()
}

fn act(view: &RecordedAct, names: &HashMap<String, String>) -> Result<Act, Error> {
    let said = match &view.action {
        Word::Known(action) => sentence(*action, view, names),
        Word::Unknown(word) => {
            format!("{} did {word} to {}", called(&view.actor, names), called(&view.subject, names))
        }
    };
    Ok(Act {
        at: Moment::new(&view.at),
        sentence: match names.get(&view.actor.id) {
            // A name keeps its case at the start of a sentence.
            Some(name) if said.starts_with(&**name) => format!("{said}."),
            _ => crate::page::sentence(&said),
        },
        client: view.client.clone(),
        record: serde_json::to_string_pretty(view).map_err(Error::internal)?,
    })
}

/// Returns the name of a party in a sentence.
fn called(party: &AuditParty, names: &HashMap<String, String>) -> String {
    if let Some(name) = names.get(&party.id) {
        return name.clone();
    }
    match &*party.kind {
        "operator" => "the operator".to_owned(),
        "nobody" => "somebody without a key".to_owned(),
        "hub" => "this hub".to_owned(),
        "credential" => "a credential".to_owned(),
        "owner" => "the owner of a wallet".to_owned(),
        "agent" => "an agent that is gone".to_owned(),
        "account" => "an account that is gone".to_owned(),
        kind => format!("a {kind} that is gone"),
    }
}

/// Describes an act as a sentence, without a full stop.
fn sentence(action: Action, view: &RecordedAct, names: &HashMap<String, String>) -> String {
    let (who, whom) = (called(&view.actor, names), called(&view.subject, names));
    let told = |name: &str| match &view.detail[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(amount) if name == "amount" => {
            amount.as_f64().map_or_else(String::new, |amount| format!("{amount:.2}"))
        }
        other => other.to_string(),
    };
    let known = |name: &str| names.get(&told(name)).cloned().unwrap_or_else(|| told(name));
    let of = |named: String| if named.is_empty() { whom.clone() } else { named };
    // The actor is the subject.
    let itself = view.actor.id == view.subject.id;
    let its = |what: &str| if itself { format!("its own {what}") } else { format!("the {what} of {whom}") };
    let agent = if names.contains_key(&view.subject.id) { format!("the agent {whom}") } else { whom.clone() };
    match action {
        Action::AccountMade if itself => format!("{who} signed up"),
        Action::AccountMade => format!("{who} made the account {whom}"),
        Action::AccountDisabled => format!("{who} keeps {whom} out"),
        Action::AccountEnabled => format!("{who} lets {whom} in again"),
        Action::AccountDeleted => format!("{who} deleted {}", its("account")),
        Action::AgentClaimed => format!("{who} took {agent} into its account"),
        Action::AgentDisabled => format!("{who} keeps {agent} out"),
        Action::AgentEnabled => format!("{who} lets {agent} in again"),
        Action::AgentRegistered if itself => format!("the agent {who} registered"),
        Action::AgentRegistered => format!("{who} registered {agent}"),
        Action::AgentUnregistered => format!("{who} removed the agent {}", of(told("name"))),
        Action::AgentUpdated => match (&view.detail["paused"], told("endpoint")) {
            (Value::Bool(true), _) => format!("{who} paused {whom}"),
            (Value::Bool(false), _) => format!("{who} let {whom} go on"),
            (_, host) if !host.is_empty() => format!("{who} had {whom} reached at {host}"),
            _ if !told("endpoint_removed").is_empty() => {
                format!("{who} had {whom} reached at {} no more", told("endpoint_removed"))
            }
            _ => format!("{who} changed what is said of {whom}"),
        },
        Action::AllowanceSet => match told("amount") {
            none if none.is_empty() => format!("{who} removed the allowance of {whom}"),
            amount => format!("{who} allowed {whom} to spend {amount} credits a day"),
        },
        Action::ApprovalHeld => format!("a message of {who} in {whom} waits until a person agrees"),
        Action::ApprovalAgreed => format!("{who} agreed to a message in {whom}"),
        Action::ApprovalDeclined => format!("{who} declined a message in {whom}"),
        Action::ApprovalWithdrawn => format!("{who} took back a message in {whom} that waited for a person"),
        Action::ApprovalExpired => format!("nobody agreed in time to a message in {whom}"),
        Action::ApprovalEnded => format!("a message in {whom} waits for a person no more"),
        Action::ChannelOwnerChanged => format!("{who} handed {whom} to {}", known("owner")),
        Action::ConnectionSet => format!("{who} set {}, at {}", its("connection string"), told("host")),
        Action::ConnectionRemoved => format!("{who} removed {}", its("connection string")),
        Action::HarnessSet => format!("{who} had {} called at {}", its("harness"), told("harness")),
        Action::HarnessRemoved => format!("{who} had {} called no more", its("harness")),
        Action::ConnectionStringRotated => format!("{who} replaced the connection string to {whom}"),
        Action::DeliveriesReplayed => format!("{who} had deliveries to {whom} tried anew"),
        Action::SignUpCodeMade => format!("{who} invited somebody to this hub"),
        Action::SignUpCodeRevoked => format!("{who} revoked an invitation to this hub"),
        Action::KeyRotated => format!("{who} replaced its own key"),
        Action::KeyReset => format!("{who} replaced {}", its("key")),
        Action::OwnerKeyReset => format!("{who} replaced the key of the owner {}", told("owner")),
        Action::MessageShown => format!("{who} said something in {whom} to those who looked"),
        Action::MasterKeyReplaced => "the hub was started with a new master key".to_owned(),
        Action::CreditsMinted => format!("{who} made {} credits for {}", told("amount"), known("owner")),
        Action::CreditsBurned => format!("{who} took {} credits from {}", told("amount"), known("owner")),
        Action::MemberAdded => format!("{who} added {} to {whom}", told("handle")),
        Action::MemberChanged => format!("{who} changed what {} is in {whom}", told("handle")),
        Action::MemberRemoved => format!("{who} removed {} from {whom}", told("handle")),
        Action::ReceiptIssued => format!("{who} issued a receipt over the Score {whom}"),
        Action::ScoreClaimed => format!("{who} took the Score {whom} into its account"),
        Action::SessionsEnded => format!(
            "{who} signed out {} browsers of {}",
            told("ended"),
            if itself { "its own" } else { &whom }
        ),
        Action::SigningSecretMade => format!("{who} made a secret that signs evidence for {whom}"),
        Action::SigningSecretRevoked => format!("{who} revoked a secret that signs evidence for {whom}"),
        Action::SkillsOffered => format!("{who} changed what {whom} offers on the market"),
        Action::StreamMade => format!("{who} began the work stream {}", of(told("name"))),
        Action::StreamChanged => format!("{who} changed the work stream {}", of(told("name"))),
        Action::StreamClosed => format!("{who} closed the work stream {}", of(told("name"))),
        Action::StreamJoined => format!("{who} takes part in the work stream {}", of(told("name"))),
        Action::StreamLeft => format!("{who} has no part in the work stream {} any more", of(told("name"))),
        Action::TokenMade => format!("{who} made a token"),
        Action::TokenRevoked => format!("{who} revoked a token"),
        Action::WebhookSecretRotated => format!("{who} replaced the secret that signs requests to {whom}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recorded(action: Action, actor: (&str, &str), subject: (&str, &str), detail: Value) -> RecordedAct {
        let party = |(kind, id): (&str, &str)| json!({"kind": kind, "id": id});
        let id = format!("aud_{}", "0".repeat(32));
        serde_json::from_value(json!({
            "id": id, "at": "2026-03-20T10:00:00Z", "actor": party(actor), "action": action.as_str(),
            "subject": party(subject), "detail": detail, "request_id": "", "client": "",
        }))
        .unwrap()
    }

    #[test]
    fn acts_are_sentences() {
        let names = HashMap::from([
            ("acc_1".to_owned(), "ann@mail.example".to_owned()),
            ("ch_1".into(), "#ops".into()),
        ]);
        let said = |action, actor, subject, detail| {
            sentence(action, &recorded(action, actor, subject, detail), &names)
        };
        let (ann, ops) = (("account", "acc_1"), ("channel", "ch_1"));
        assert_eq!(said(Action::AccountMade, ann, ann, json!({})), "ann@mail.example signed up");
        let added = said(Action::MemberAdded, ann, ops, json!({"member": "x", "handle": "timber"}));
        assert_eq!(added, "ann@mail.example added timber to #ops");
        let gone = said(Action::KeyReset, ("operator", "operator"), ("agent", "a-9"), json!({}));
        assert_eq!(gone, "the operator replaced the key of an agent that is gone");
        let paused =
            said(Action::AgentUpdated, ann, ("agent", "a-9"), json!({"paused": true, "endpoint": null}));
        assert_eq!(paused, "ann@mail.example paused an agent that is gone");
        // Every act has a complete sentence.
        for action in Action::ALL {
            let detail = json!({"host": "h", "harness": "h", "owner": "acc_1", "amount": 1, "handle": "t", "ended": 1});
            let said = said(*action, ann, ops, detail);
            assert!(!said.contains("  ") && !said.ends_with(' ') && !said.contains('{'), "{said}");
        }
    }
}
