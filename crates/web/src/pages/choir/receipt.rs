//! A receipt, for everybody: the verdict and the label first, what it proves and what not, and every number with what it is made
//! of. And its bytes, as they were hashed.

use super::charts::{HeatMap, Line, Radar, lines};
use crate::assets;
use crate::extract::Path;
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::person;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chorus_app::choir::receipts;
use chorus_app::{App, AppState, Error};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{
    CountedEvent, Payload, Receipt, ReceiptLabel, Verdict, VerificationStatus,
};
use std::collections::BTreeSet;

/// As many rows as one list of the page has; the rest is in the JSON.
pub(super) const MOST: usize = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/receipts/{id}", get(show)).route("/receipts/{id}/canonical", get(bytes))
}

/// What stands at the head of every page about a receipt.
pub(super) struct Head {
    pub(super) id: String,
    pub(super) at: Moment,
    pub(super) label: ReceiptLabel,
    pub(super) title: String,
    pub(super) version: i64,
    pub(super) voices: usize,
    pub(super) verdict: Verdict,
    pub(super) reasons: Vec<String>,
    pub(super) hash: String,
    pub(super) recomputed: String,
    pub(super) log: LogPlace,
    /// What is known of its evidence, in words.
    pub(super) evidence: Option<String>,
    pub(super) status: Option<VerificationStatus>,
}

/// Where a receipt stands in the log.
pub(super) struct LogPlace {
    /// Counted from 1, as people count.
    pub(super) entry: u64,
    pub(super) size: String,
    pub(super) root: String,
    pub(super) path: Vec<String>,
}

impl LogPlace {
    fn of(receipt: &Receipt) -> Self {
        let log = receipt.log.clone().unwrap_or_default();
        let mut note = log["checkpoint"].as_str().unwrap_or_default().lines().skip(1).map(str::to_owned);
        let path = log["inclusion_proof"].as_array().into_iter().flatten();
        Self {
            entry: log["index"].as_u64().unwrap_or_default() + 1,
            size: note.next().unwrap_or_default(),
            root: note.next().unwrap_or_default(),
            path: path.filter_map(|hash| hash.as_str().map(str::to_owned)).collect(),
        }
    }
}

/// A verdict as it is drawn: word, colour, sign.
pub(super) fn drawn(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Verdict::Ready => ("Ready", "good", "✓"),
        Verdict::Conditional => ("Conditional", "warn", "!"),
        Verdict::Retune => ("Retune", "warn", "↻"),
        Verdict::NotReady => ("Not ready", "bad", "×"),
    }
}

/// What a verdict means, in a sentence.
fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ready => "Nothing that was declared or observed stands against it.",
        Verdict::Conditional => "Nothing contradicts the Score, and something is still open or fell short.",
        Verdict::Retune => "The Score is incomplete: it has to be worked on first.",
        Verdict::NotReady => {
            "What was observed contradicts what was declared. That decides the verdict, whatever the other numbers are."
        }
    }
}

impl Head {
    pub(super) fn of(receipt: &Receipt, payload: &Payload) -> Self {
        let evidence = payload.evidence.as_ref().map(|evidence| {
            let (bundles, events) = (evidence.bundles.len(), evidence.events.len());
            let counted = format!(
                "{bundles} bundle{} with {events} event{}",
                if bundles == 1 { "" } else { "s" },
                if events == 1 { "" } else { "s" }
            );
            match evidence.verification_status {
                VerificationStatus::UserAsserted => {
                    format!("{counted}, asserted by the Score's owner and not verified")
                }
                VerificationStatus::SignatureValid => format!("{counted}, signed with the Score's secret"),
                VerificationStatus::HubAttested => format!("{counted}, seen by the hub itself"),
            }
        });
        Self {
            id: receipt.receipt_id.clone().unwrap_or_default(),
            at: Moment::new(receipt.generated_at.as_deref().unwrap_or_default()),
            label: payload.label,
            title: payload.score.title.clone(),
            version: payload.score.version,
            voices: payload.score.voices.len(),
            verdict: payload.verdict,
            reasons: payload.verdict_reasons.iter().take(12).cloned().collect(),
            hash: receipt.payload_hash.clone(),
            recomputed: canonical::hash(&receipt.payload),
            log: LogPlace::of(receipt),
            evidence,
            status: payload.evidence.as_ref().map(|evidence| evidence.verification_status),
        }
    }

    pub(super) fn word(&self) -> &'static str {
        drawn(self.verdict).0
    }

    pub(super) fn class(&self) -> &'static str {
        drawn(self.verdict).1
    }

    pub(super) fn sign(&self) -> &'static str {
        drawn(self.verdict).2
    }

    pub(super) fn meaning(&self) -> &'static str {
        meaning(self.verdict)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.hash == self.recomputed
    }

    /// The four verdicts, and whether each is this one.
    pub(super) fn scale(&self) -> Vec<(&'static str, &'static str, bool)> {
        let step = |one: &Verdict| (drawn(*one).0, drawn(*one).1, *one == self.verdict);
        Verdict::ALL.iter().map(step).collect()
    }

    pub(super) fn proves(&self) -> Vec<&'static str> {
        let mut all = vec![
            "These rules, situations and events give this verdict, every time",
            "Nothing in it was changed since it was issued",
        ];
        all.extend(match self.status {
            Some(VerificationStatus::SignatureValid) => {
                Some("The evidence came from whoever holds the Score's secret")
            }
            Some(VerificationStatus::HubAttested) => Some("The evidence is what the hub itself saw"),
            Some(VerificationStatus::UserAsserted) | None => None,
        });
        all
    }

    pub(super) fn proves_not(&self) -> Vec<&'static str> {
        let run = match self.status {
            Some(VerificationStatus::HubAttested) => "What happened where the hub could not see it",
            Some(_) => "That the run happened as it was described",
            None => "How it behaves: nothing was observed",
        };
        vec![
            "That the system is safe",
            "How it behaves in other situations",
            run,
            "Anything about the models behind the agents",
        ]
    }
}

/// A receipt and what it says.
pub(super) async fn read(app: &AppState, id: &str) -> Result<(Receipt, Payload), Error> {
    let receipt = receipts::show(app, id).await?;
    let payload = serde_json::from_value(receipt.payload.clone()).map_err(Error::internal)?;
    Ok((receipt, payload))
}

/// The shell of a page that everybody may see.
pub(super) async fn shell(app: &App, headers: &HeaderMap) -> Result<Shell, Error> {
    Shell::maybe_of(app, person(app, headers).await?.as_ref(), Here::Elsewhere).await
}

/// What became of one situation.
struct Tried {
    id: String,
    title: String,
    severity: &'static str,
    voices: Vec<String>,
    class: &'static str,
    outcome: &'static str,
    events: Vec<usize>,
}

fn tried(payload: &Payload) -> Vec<Tried> {
    let events = payload.evidence.as_ref().map_or(&[][..], |evidence| &evidence.events);
    let in_scenario = |index: &usize, id: &str| {
        events.get(*index).is_some_and(|event| event.event.scenario_id.as_deref() == Some(id))
    };
    let one = |snapshot: &chorus_protocol::choir::receipt::ScenarioSnapshot| {
        let (scenario, id) = (&snapshot.scenario, &*snapshot.scenario.id);
        let of = |indices: &[usize]| -> Vec<usize> {
            indices.iter().copied().filter(|index| in_scenario(index, id)).collect()
        };
        let broken: BTreeSet<_> =
            payload.mismatches.iter().flat_map(|one| of(&one.source_event_indices)).collect();
        let costly = payload.adjustments.iter().filter(|one| one.delta < 0);
        let costly: BTreeSet<_> = costly.flat_map(|one| of(&one.source_event_indices)).collect();
        let open = payload.open_items.iter().any(|note| {
            note.scenario_id.as_deref() == Some(id) || !of(&note.source_event_indices).is_empty()
        });
        let seen = events.iter().any(|event| event.event.scenario_id.as_deref() == Some(id));
        let (class, outcome, events) = match () {
            () if !broken.is_empty() => ("bad", "× contradicted", broken),
            () if !costly.is_empty() => ("warn", "△ fell short", costly),
            () if open => ("warn", "△ left open", BTreeSet::new()),
            () if seen => ("good", "✓ held", BTreeSet::new()),
            () => ("muted", "not observed", BTreeSet::new()),
        };
        Tried {
            id: id.to_owned(),
            title: if scenario.title.is_empty() { id.to_owned() } else { scenario.title.clone() },
            severity: scenario.severity.as_str(),
            voices: scenario.required_voices.iter().map(|name| name.0.clone()).collect(),
            class,
            outcome,
            events: events.into_iter().collect(),
        }
    };
    payload.scenarios.iter().map(one).collect()
}

/// An event with its number.
struct Numbered<'p> {
    index: usize,
    event: &'p CountedEvent,
}

/// Those that something refers to before others, and all in their order.
fn listed(payload: &Payload) -> Vec<Numbered<'_>> {
    let events = payload.evidence.as_ref().map_or(&[][..], |evidence| &evidence.events);
    let sources = payload.mismatches.iter().flat_map(|one| &one.source_event_indices);
    let sources = sources.chain(payload.adjustments.iter().flat_map(|one| &one.source_event_indices));
    let sources = sources.chain(payload.open_items.iter().flat_map(|one| &one.source_event_indices));
    let named = sources.copied().filter(|index| *index < events.len()).chain(0..events.len());
    let mut chosen = BTreeSet::new();
    for index in named {
        if chosen.len() >= MOST {
            break;
        }
        chosen.insert(index);
    }
    chosen.into_iter().map(|index| Numbered { index, event: &events[index] }).collect()
}

#[derive(Template)]
#[template(path = "receipt.html")]
struct ReceiptPage<'p> {
    shell: Shell,
    style: &'static str,
    script: &'static str,
    head: Head,
    payload: &'p Payload,
    radar: Radar,
    lines: Vec<Line>,
    heat: HeatMap,
    tried: Vec<Tried>,
    events: Vec<Numbered<'p>>,
}

impl ReceiptPage<'_> {
    fn band(&self) -> &'static str {
        match self.payload.false_harmony.risk {
            ..20 => "good",
            20..40 => "warn",
            _ => "bad",
        }
    }

    fn event_count(&self) -> usize {
        self.payload.evidence.as_ref().map_or(0, |evidence| evidence.events.len())
    }
}

async fn show(
    State(app): State<AppState>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let (receipt, payload) = read(&app, &id).await?;
    let names = ("on paper", if payload.evidence.is_some() { "observed" } else { "as it is" });
    page(&ReceiptPage {
        shell: shell(&app, &headers).await?,
        style: assets::choir_style(),
        script: assets::verify_script(),
        head: Head::of(&receipt, &payload),
        radar: Radar { before: payload.structural.base_dimensions, after: payload.dimensions, names },
        lines: lines(&payload.structural.base_dimensions, &payload.dimensions),
        heat: HeatMap::of(&payload),
        tried: tried(&payload),
        events: listed(&payload),
        payload: &payload,
    })
}

/// The bytes that were hashed, as a file.
async fn bytes(State(app): State<AppState>, Path(id): Path<String>) -> Result<Response, Fault> {
    let told = receipts::verify(&app, &id).await?;
    // The id was found, so it is one of ours: hex, and nothing that ends a header.
    let name = format!("attachment; filename=\"receipt-{}.json\"", told.receipt_id);
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, told.canonical_payload).into_response())
}
