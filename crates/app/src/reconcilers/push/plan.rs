//! Plans the next attempt of a due delivery.

use crate::attention::digests;
use crate::delivery::agreement::Agreement;
use crate::delivery::bridge::{StoredChat, UNREADABLE_CONNECTION};
use crate::delivery::job_result::JobCallback;
use crate::delivery::{harness, job, job_result};
use bytes::Bytes;
use chorus_node::secrets::WebhookSecret;
use chorus_node::secrets::sealed_posts;
use chorus_node::secrets::webhooks;
use chorus_node::{App, AppState};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EntryKind;
use chorus_store::deliveries::{self, Hold, Transport, Way};
use chorus_store::directory::{self, Agent};
use chorus_store::market::handing;
use chorus_store::push::{Due, Outcome};
use chorus_store::{StoreError, Tx, conversations, market};

const GONE: &str = "what was said is gone";

pub(super) enum Plan {
    /// POST the body to this URL, over the connection of this epoch and signed with these secrets. `takes`
    /// says how the recipient accepts it.
    Post { url: String, body: Bytes, epoch: i64, proven: bool, secrets: Vec<WebhookSecret>, takes: Agreement },
    /// Record this outcome without a request, with an optional reason.
    Without(Outcome, Option<String>),
    /// The agent has the job from a node that died. Its result is waited for until the deadline.
    CutOff,
}

impl Plan {
    /// Waits until the delivery's end unless something changes.
    fn wait(due: &Due, over: bool, why: String) -> Self {
        if over {
            Self::Without(Outcome::Dead, Some(why))
        } else {
            Self::Without(Outcome::Again(due.give_up_at), None)
        }
    }

    fn refuse(why: &str) -> Self {
        Self::Without(Outcome::Refused, Some(why.into()))
    }
}

pub(super) async fn plan(app: &AppState, due: &Due) -> Result<Plan, StoreError> {
    let (hub, due) = (AppState::clone(app), due.clone());
    app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| plan_in(tx, &hub, &due)).await
}

fn plan_in(tx: &mut dyn Tx, app: &App, due: &Due) -> Result<Plan, StoreError> {
    let now = app.now();
    let over = now >= due.give_up_at;
    if app.tasks.stopping.is_cancelled() {
        return Ok(Plan::Without(Outcome::Again(now), None));
    }
    if due.kind == EntryKind::Job && due.attempt > 1 && !over && handing::was_cut_off(tx, due)? {
        return Ok(Plan::CutOff);
    }
    let agent = directory::by_id(tx, due.id.agent)?;
    let (agent, body) = match (agent, due.kind) {
        (agent, EntryKind::Result) => match job_result::pushed(tx, app, due)? {
            Ok(JobCallback { url, body, by_agent: false }) => {
                // An owner without an agent has nobody to prove an address and no secret to sign with.
                let (secrets, takes) = (vec![], Agreement::ALL);
                return Ok(Plan::Post { url, body, epoch: 0, proven: false, secrets, takes });
            }
            Ok(call) => (agent.map(|agent| job_result::as_hirer(agent, &call.url)), Ok(call.body)),
            Err(why) => (agent, Err(why)),
        },
        (Some(agent), EntryKind::Job) => (Some(market::agents::as_worker(tx, agent)?), body(tx, app, due)?),
        (agent, _) => (agent, body(tx, app, due)?),
    };
    let Some(agent) = agent else { return Ok(Plan::refuse("the agent is not registered any more")) };
    let body = match body {
        Ok(body) => body,
        Err(why) => return Ok(Plan::refuse(why)),
    };
    if let Some(why) = held(&agent) {
        return Ok(Plan::wait(due, over, why));
    }
    // A delivery that waited past its end for its turn still gets one attempt.
    if over && due.attempt > 1 {
        return Ok(Plan::Without(Outcome::Dead, None));
    }
    let body = match due.transport {
        Transport::Harness => match harness::request(tx, app, &agent, due.id, due.attempt)? {
            Some(request) => request,
            None => return Ok(Plan::refuse(GONE)),
        },
        Transport::Webhook | Transport::Channel | Transport::Inbox => body,
    };
    let takes = if due.transport == Transport::Harness { Agreement::of(&agent) } else { Agreement::ALL };
    let secrets = webhooks::signing(&app.config.master_key, &agent, now);
    let open = |sealed: &[u8]| app.config.master_key.open(agent.id.as_bytes(), sealed);
    let (url, proven) = match due.transport {
        Transport::Channel => match agent.connection.as_deref().map(open) {
            Some(None) => {
                let outcome = Outcome::Broken(agent.epoch);
                return Ok(Plan::Without(outcome, Some(UNREADABLE_CONNECTION.into())));
            }
            // An owner that pasted a connection string has agreed to deliveries there.
            url => (url.flatten(), true),
        },
        // The harness has answered `initialize`.
        Transport::Harness => (agent.harness, true),
        Transport::Webhook if due.kind == EntryKind::Job => (agent.endpoint.map(job::url), agent.proven),
        Transport::Webhook => (agent.endpoint, agent.proven),
        Transport::Inbox => (None, agent.proven),
    };
    // The delivery waits until the agent has a route again.
    let Some(url) = url else {
        let why = "the agent has no harness, no endpoint and no connection string";
        return Ok(Plan::wait(due, over, why.into()));
    };
    Ok(Plan::Post { url, body, epoch: agent.epoch, proven, secrets, takes })
}

/// Returns the reason why deliveries to this agent are on hold, or `None`.
fn held(agent: &Agent) -> Option<String> {
    match deliveries::way_of_push(agent) {
        Way::WaitForOwner(Hold::Disabled) => Some("the agent is disabled".to_owned()),
        Way::WaitForOwner(Hold::Paused) => Some("the agent is paused".to_owned()),
        Way::WaitForOwner(Hold::Broken) => {
            let (why, since) = agent.broken.as_ref()?;
            Some(format!("the connection was broken since {}: {why}", rfc3339(*since)))
        }
        Way::Harness | Way::Webhook | Way::Connection | Way::Session | Way::Inbox | Way::WaitBehind(_) => {
            None
        }
    }
}

/// Builds the body of the POST, each time with a fresh callback, or returns the reason why there is none. A
/// harness gets the same content in C2A.
fn body(tx: &mut dyn Tx, app: &App, due: &Due) -> Result<Result<Bytes, &'static str>, StoreError> {
    match due.kind {
        EntryKind::Chat => {}
        EntryKind::Channel => {
            let event = conversations::event_by_id(tx, due.event)?;
            let open = |event: conversations::Event| {
                sealed_posts::open_post(&app.config.master_key, event.id, &event.body).into()
            };
            return Ok(event.map(open).ok_or(GONE));
        }
        EntryKind::Job => return job::pushed(tx, app, due),
        EntryKind::Result => return Ok(job_result::pushed(tx, app, due)?.map(|call| call.body)),
        // An agent that is offline is not asked for a quote.
        EntryKind::Quote => return Ok(Err("a question is never pushed")),
        // Only a harness gets a digest by POST, in C2A.
        EntryKind::Digest if due.transport != Transport::Harness => {
            return Ok(Err("a digest goes to a session or a harness only"));
        }
        EntryKind::Digest => {
            let leads = digests::still_leads(tx, (due.id.agent, due.conversation.0))?;
            return Ok(if leads { Ok(Bytes::new()) } else { Err("the agent does not lead there any more") });
        }
        // The sender waits for the outcome of an envelope and decides about a retry.
        EntryKind::Message => return Ok(Err("an envelope is never pushed")),
    }
    let Some(said) = StoredChat::read(tx, due.id)? else { return Ok(Err(GONE)) };
    if said.has_left() {
        return Ok(Err("the agent is not a member of the conversation any more"));
    }
    if said.was_deleted() {
        return Ok(Err("the message was deleted"));
    }
    if said.was_superseded() {
        return Ok(Err("the message was changed or stopped, and this asks nothing any more"));
    }
    let body = match due.transport {
        Transport::Channel => match said.channel_post(app) {
            Some(post) => serde_json::to_vec(&post),
            None => return Ok(Err("a connection string takes messages only")),
        },
        Transport::Harness | Transport::Webhook | Transport::Inbox => serde_json::to_vec(&said.data(app)),
    };
    body.map(|body| Ok(body.into())).map_err(|error| StoreError::Unexpected(error.into()))
}
