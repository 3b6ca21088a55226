//! The reasons for an event's deliveries, and the progress of each.

use super::event;
use crate::face::Face;
use crate::times::Moment;
use crate::visitor::SignedIn;
use chorus_app::conversation::conversation_id;
use chorus_app::{conversation, deliveries};
use chorus_node::{App, Error};
use chorus_protocol::api::Page;
use chorus_protocol::api::deliveries::{LadderDelivery, Rung};
use chorus_protocol::attention::Classification;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{Confidence, Directedness, Layer, Mode, Policy, PrincipalKind, Reason, Word};

pub(crate) struct Why {
    pub(crate) seq: i64,
    pub(crate) event: String,
    pub(crate) handle: String,
    pub(crate) excerpt: String,
    pub(crate) at: Moment,
    pub(crate) reached: Vec<Reached>,
    /// The claims on the event.
    pub(crate) claims: Vec<Claimed>,
    /// Agents that the event was not delivered to.
    pub(crate) others: Vec<String>,
}

/// A claim on the event.
pub(crate) struct Claimed {
    pub(crate) holder: String,
    pub(crate) state: &'static str,
    pub(crate) since: Moment,
    pub(crate) until: Moment,
}

/// One agent that the event was delivered to.
pub(crate) struct Reached {
    pub(crate) handle: String,
    pub(crate) face: Face,
    pub(crate) sentence: String,
    pub(crate) facts: Vec<(&'static str, &'static str, &'static str)>,
    pub(crate) rungs: Vec<Step>,
    pub(crate) attempts: Vec<String>,
    pub(crate) transport: &'static str,
}

pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
    pub(crate) at: String,
}

pub(crate) async fn find(app: &App, visitor: &SignedIn, id: &str, named: &str) -> Result<Why, Error> {
    let (place, named) = (conversation_id(id)?, event(named)?);
    let found = deliveries::ladder(app, visitor.who(), &named.to_string()).await?;
    let page = Page { after: None, limit: super::MOST };
    let members = conversation::list_members(app, visitor.who(), place, page).await?.items;
    let classification = found.classification;
    let reached: Vec<_> = found.deliveries.iter().map(|one| reached(one, classification)).collect();
    let is_other = |handle: &String| !reached.iter().any(|one| one.handle == *handle);
    let agents = members.into_iter().filter(|member| member.kind == Word::Known(PrincipalKind::Agent));
    let others = agents.filter(|agent| agent.id != found.event.author.id).map(|agent| agent.handle);
    let claims = found.claims.iter().map(|claim| Claimed {
        holder: claim.holder.clone(),
        state: claim.state.as_str(),
        since: Moment::new(&claim.since),
        until: Moment::new(&claim.until),
    });
    let claims = claims.collect();
    Ok(Why {
        claims,
        seq: found.event.sequence,
        event: found.event.event_id.clone(),
        handle: found.event.author.handle.clone().unwrap_or_default(),
        excerpt: super::items::excerpt(found.event.content.as_deref().unwrap_or_default()),
        at: Moment::new(&found.event.created_at),
        others: others.filter(is_other).collect(),
        reached,
    })
}

fn reached(delivery: &LadderDelivery, classification: Option<Classification>) -> Reached {
    let reason = delivery.reason;
    let mut facts = vec![
        ("Aimed at", aim(delivery.directedness), delivery.directedness.as_str()),
        ("May answer", policy(delivery.policy), delivery.policy.as_str()),
        ("Enters its work", mode(delivery.mode), delivery.mode.as_str()),
        ("Rule", reason.map_or("none is noted", because), reason.map_or("", Reason::as_str)),
    ];
    if let Some(Classification { intent, confidence, layer }) = classification {
        facts.push(("Taken for", layer_name(layer), intent.as_str()));
        facts.push(("Confidence", confidence_name(confidence), confidence.as_str()));
    }
    let tried = delivery.attempts.iter().map(|attempt| {
        let status = attempt.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        let error = attempt.error.as_deref().unwrap_or_default();
        format!("{} {status}, {} ms {error}", attempt.at.get(11..19).unwrap_or_default(), attempt.latency_ms)
    });
    Reached {
        handle: delivery.recipient.handle.clone(),
        face: Face::agent(&delivery.recipient.id).medium(),
        sentence: sentence(delivery),
        facts,
        rungs: rungs(delivery),
        attempts: tried.collect(),
        transport: delivery.transport.as_str(),
    }
}

fn sentence(delivery: &LadderDelivery) -> String {
    let (handle, reason) =
        (&delivery.recipient.handle, delivery.reason.map_or("it is in this conversation", because));
    let so = match delivery.mode {
        Mode::Immediate => "so it was woken at once",
        Mode::Buffered => "so it was woken once its author paused",
        Mode::Notify => "so it was told that there is something, and not what",
        Mode::ToolMailbox | Mode::Digest | Mode::Silent => "so it finds it when it looks",
    };
    format!("It went to {handle} because {reason}, {so}.")
}

/// Returns the five rungs of the delivery ladder with their times. A failed delivery ends at its rung.
fn rungs(delivery: &LadderDelivery) -> Vec<Step> {
    let begun = delivery.rungs.first().and_then(|step| parse_rfc3339(step.at.as_deref()?));
    let after = |at: Option<&str>| {
        let Some(ms) = at.and_then(parse_rfc3339) else { return String::new() };
        match begun {
            Some(begun) if ms > begun => format!("+{} ms", ms - begun),
            _ => at.and_then(|at| at.get(11..19)).unwrap_or_default().to_owned(),
        }
    };
    let all = [Rung::Stored, Rung::Handed, Rung::Acked, Rung::Injected, Rung::Dispositioned];
    let mut steps: Vec<_> = all
        .into_iter()
        .map(|rung| match delivery.rungs.iter().find(|step| step.rung == rung) {
            Some(step) => {
                let why = step.reason.as_deref().unwrap_or_default();
                let said = delivery.disposition_reason.as_deref().filter(|_| rung == Rung::Dispositioned);
                let said = said.map_or_else(String::new, |said| format!(": {said}"));
                let at = format!("{} {why}{said}", after(step.at.as_deref()));
                Step { name: rung.as_str(), class: "reached", at }
            }
            None => Step { name: rung.as_str(), class: "", at: String::new() },
        })
        .collect();
    let ended = delivery.rungs.iter().find(|step| matches!(step.rung, Rung::Failed | Rung::Dead));
    if let Some(end) = ended {
        steps.retain(|step| !step.class.is_empty());
        let at = end.reason.clone().unwrap_or_default();
        steps.push(Step { name: end.rung.as_str(), class: "broken", at });
    }
    steps
}

pub(crate) fn aim(directedness: Directedness) -> &'static str {
    match directedness {
        Directedness::ToMe => "the agent itself",
        Directedness::ToMyRole => "its role, thread or work",
        Directedness::ToOther => "somebody else",
        Directedness::Ambient => "nobody",
    }
}

fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::MustRespond => "it must, or say that it will",
        Policy::MayRespond => "if that helps",
        Policy::AckOnly => "only that it has seen it",
        Policy::MustNotRespond => "no",
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Immediate => "at once",
        Mode::Buffered => "once its author pauses",
        Mode::Notify => "as a knock, without text",
        Mode::ToolMailbox => "when it looks",
        Mode::Digest => "summed up with others",
        Mode::Silent => "never",
    }
}

/// Returns the rules that found an intent.
fn layer_name(layer: Layer) -> &'static str {
    match layer {
        Layer::Declared => "as its author declared",
        Layer::Structure => "as an answer to what the agent asked",
        Layer::Lexicon => "by its words",
    }
}

fn confidence_name(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "a guess, so the agent decides",
        Confidence::Medium => "likely",
        Confidence::High => "certain",
    }
}

/// Returns the reason as the end of a sentence.
pub(crate) fn because(reason: Reason) -> &'static str {
    match reason {
        Reason::DirectMessage => "the two are alone here",
        Reason::DirectMention => "it is named",
        Reason::ThreadQuestion => "it is asked in a thread of its own",
        Reason::Assignment => "it is given work",
        Reason::Approval => "leave is asked for or given",
        Reason::Blocker => "somebody cannot go on",
        Reason::Cancellation => "work under way is ended",
        Reason::Safety => "it is about safety",
        Reason::RoleMention => "a role of its is named",
        Reason::ThreadParticipation => "it has spoken in the thread",
        Reason::StreamOwner => "it owns the work",
        Reason::Thanks => "it says thanks",
        Reason::Acknowledgement => "it says that something was seen",
        Reason::AddressedToOther => "it is for somebody else",
        Reason::AgentNoTask => "an agent said it and asks for nothing",
        Reason::Unmentioned => "it names nobody",
        Reason::StatusBroadcast => "it tells how something stands",
        Reason::Digest => "it sums up what happened",
        Reason::EditedAfterResponse => "it was changed after it was answered",
        Reason::Escalation => "somebody else did not answer in time",
        Reason::Stale => "its time is over",
        Reason::LoopGuard => "agents have talked among themselves for too long",
        Reason::InboundReaction => "somebody reacted to what it said",
    }
}
