//! The public page of a receipt: verdict and label first, the limits of its proof, and the inputs of every
//! number. Also the hashed bytes.

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
use chorus_node::{App, AppState, Error};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{
    Band, CountedEvent, LeftOut, LeftOutReason, Payload, Receipt, ReceiptLabel, ScenarioOutcome, Verdict,
    VerificationStatus,
};
use std::collections::BTreeSet;

/// The most rows in one list. The JSON has all of them.
pub(super) const MOST: usize = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/receipts/{id}", get(show)).route("/receipts/{id}/canonical", get(bytes))
}

/// The head of every page about a receipt.
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
    /// The origin of its evidence, in words.
    pub(super) evidence: Option<String>,
    /// The evidence that it does not rest on, in words.
    pub(super) left_out: Option<String>,
    /// Set if the hub found that it differs from what was issued.
    pub(super) is_issued: bool,
    pub(super) status: Option<VerificationStatus>,
}

/// The position of a receipt in the transparency log.
pub(super) struct LogPlace {
    /// The entry number, counted from 1.
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

/// Returns the word, colour and icon of a verdict.
pub(super) fn drawn(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Verdict::Ready => ("Ready", "good", "✓"),
        Verdict::Conditional => ("Conditional", "warn", "!"),
        Verdict::Retune => ("Retune", "warn", "↻"),
        Verdict::NotReady => ("Not ready", "bad", "×"),
    }
}

/// Explains a verdict in a sentence.
fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ready => "Every situation was observed in full, and nothing stands against it.",
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
            left_out: payload.left_out.as_ref().and_then(left_out),
            // The hub signs nothing that differs from its log.
            is_issued: receipt.attestation.is_some(),
            status: payload.evidence.as_ref().map(|evidence| evidence.verification_status),
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match (self.verdict, self.status) {
            (Verdict::Ready, None) => "Ready on paper, declared only",
            (verdict, _) => drawn(verdict).0,
        }
    }

    pub(super) fn class(&self) -> &'static str {
        drawn(self.verdict).1
    }

    pub(super) fn sign(&self) -> &'static str {
        drawn(self.verdict).2
    }

    pub(super) fn meaning(&self) -> &'static str {
        match (self.verdict, self.status) {
            (Verdict::Ready, None) => "The Score is sound on paper. Nothing was observed.",
            (verdict, _) => meaning(verdict),
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.is_issued && self.has_hash()
    }

    pub(super) fn has_hash(&self) -> bool {
        self.hash == self.recomputed
    }

    /// Returns the four verdicts, each with whether it is this one.
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

/// Says how much evidence a receipt does not rest on.
fn left_out(left: &LeftOut) -> Option<String> {
    let bundles = (left.count > 0).then(|| {
        let of = |why: LeftOutReason| left.bundles.iter().filter(|one| one.why == why).count();
        let (gone, weak) = (of(LeftOutReason::Superseded), of(LeftOutReason::WeakerClass));
        format!(
            "{} bundle{} of this version are not counted, {gone} of them superseded and {weak} of a weaker class",
            left.count,
            if left.count == 1 { "" } else { "s" },
        )
    });
    let runs = (left.rehearsals > 0).then(|| format!("{} live rehearsals were begun", left.rehearsals));
    let parts: Vec<_> = bundles.into_iter().chain(runs).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the address at which an event can be seen in its trace.
pub(super) fn trace_link(payload: &Payload, event: &CountedEvent) -> Option<String> {
    chorus_app::choir::receipts::trace_link(payload.evidence.as_ref()?, event)
}

/// Loads a receipt and parses its payload.
pub(super) async fn read(app: &AppState, id: &str) -> Result<(Receipt, Payload), Error> {
    let receipt = receipts::show(app, id).await?;
    let payload = serde_json::from_value(receipt.payload.clone()).map_err(Error::internal)?;
    Ok((receipt, payload))
}

/// Returns the shell of a public page.
pub(super) async fn shell(app: &App, headers: &HeaderMap) -> Result<Shell, Error> {
    Shell::maybe_of(app, person(app, headers).await?.as_ref(), Here::Elsewhere).await
}

/// The outcome of one scenario.
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
        let costly = payload.adjustments.iter().filter(|one| one.delta < 0);
        let costly = costly.flat_map(|one| of(&one.source_event_indices));
        let broken = payload.mismatches.iter().flat_map(|one| of(&one.source_event_indices));
        let broken: BTreeSet<_> = broken.chain(costly).collect();
        // The engine's own outcome. A receipt of engine 1.0 has none.
        let result = payload.results.iter().find(|one| one.scenario_id == id).map(|one| one.result);
        let (class, outcome, events) = match result {
            Some(ScenarioOutcome::Failed) => ("bad", "× failed", broken),
            Some(ScenarioOutcome::Passed) => ("good", "✓ passed", BTreeSet::new()),
            Some(ScenarioOutcome::Warned) => ("warn", "△ seen in part, or left open", BTreeSet::new()),
            Some(ScenarioOutcome::NotObserved) => ("muted", "not observed", BTreeSet::new()),
            None if !broken.is_empty() => ("bad", "× fell short", broken),
            None => ("muted", "not judged by these rules", BTreeSet::new()),
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
    /// The address of the event in its trace.
    link: Option<String>,
}

/// Returns events in order. If there are too many, events that are referred to take precedence.
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
    chosen
        .into_iter()
        .map(|index| Numbered { index, event: &events[index], link: trace_link(payload, &events[index]) })
        .collect()
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
        match self.payload.false_harmony.band {
            Band::Low => "good",
            Band::Elevated => "warn",
            Band::High | Band::Severe => "bad",
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

/// Returns the hashed bytes as a file.
async fn bytes(State(app): State<AppState>, Path(id): Path<String>) -> Result<Response, Fault> {
    let told = receipts::verify(&app, &id).await?;
    // The id comes from the stored receipt: it is hexadecimal and safe in a header.
    let name = format!("attachment; filename=\"receipt-{}.json\"", told.receipt_id);
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, told.canonical_payload).into_response())
}
