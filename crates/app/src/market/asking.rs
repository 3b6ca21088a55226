//! Asks agents for a quote, over the route by which a job would reach each of them now.
//!
//! An open inbox gets the question as an event. Every other reachable agent is called once, all at the same
//! time and for no longer than an answer counts. An endpoint is called at its path `/quotes`, and its response
//! is its offer; a harness or the target of a connection string answers later. A question is not retried, and
//! a server that does not know quotes is not penalised.

use super::who::{self, Hirer};
use crate::attention;
use crate::delivery::harness;
use crate::delivery::service::{callback_url, service_name};
use bytes::Bytes;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::secrets::webhooks;
use chorus_node::transport::outbound::{Signed, To};
use chorus_node::transport::outbound_limits::Cause;
use chorus_node::{App, AppState};
use chorus_protocol::attention::Attention;
use chorus_protocol::channel::{Channel, Message, Post};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, QuoteId};
use chorus_protocol::json;
use chorus_protocol::market::{Credits, MakeOffer, OfferMade, QuoteAsked};
use chorus_protocol::schema::read_exact;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{DeliveryState, Policy, Reason, Transport};
use chorus_store::conversations::NewEvent;
use chorus_store::deliveries::{self, Lease};
use chorus_store::market::quotes::{self, Called, Quote};
use chorus_store::{StoreError, Tx};
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an answer that are read at most.
const MAX_ANSWER: usize = 4096;
/// The lease outlasts the question by this much, so that the caller can still record the outcome.
const GRACE_MS: i64 = 30_000;

/// The attention that a question asks of an agent.
const QUESTION: Attention =
    Attention { reason: Reason::Assignment, policy: Policy::MayRespond, ..attention::FOREIGN };

/// A stored question with the agents to call.
pub(super) struct Question {
    asked: QuoteAsked,
    body: Bytes,
    event: EventId,
    answers_until: i64,
    lease: Lease,
    called: Vec<Called>,
}

/// Stores the question and puts it into the open inboxes.
pub(super) fn put(
    tx: &mut dyn Tx,
    app: &App,
    caller: &Caller,
    hirer: &Hirer,
    quote: &Quote,
    event: EventId,
) -> Result<Question, Error> {
    let input = quote.input.as_deref().map(serde_json::from_str).transpose().map_err(Error::internal)?;
    let asked = QuoteAsked {
        quote_id: quote.id,
        skill_name: quote.skill.clone(),
        input_data: input,
        budget: quote.budget,
        answers_until: rfc3339(quote.answers_until),
    };
    let body = serde_json::to_string(&asked).map_err(Error::internal)?;
    let author = who::author(caller, hirer);
    let lease = Lease { owner: app.config.node, until: quote.answers_until + GRACE_MS };
    let conversation = ConversationId::of_quote(quote.id);
    let question =
        NewEvent { id: event, conversation, author, trace: quote.trace, thread: None, target: None };
    let put = quotes::ask(tx, quote, &question, &body, QUESTION, lease)?;
    let answers_until = quote.answers_until;
    Ok(Question { asked, body: body.into(), event, answers_until, lease, called: put.called })
}

/// Calls all agents at once. There are no more of them than offers.
pub(super) async fn call(app: AppState, question: Question) {
    let question = Arc::new(question);
    join_all(question.called.iter().map(|called| async {
        if let Err(error) = call_one(&app, &question, called).await {
            tracing::info!(error = error.message, "an agent could not be asked for an offer");
        }
    }))
    .await;
}

async fn call_one(app: &AppState, question: &Question, called: &Called) -> Result<(), Error> {
    let Some((to, body)) = request(app, question, called).await? else { return Ok(()) };
    let now = app.now();
    let secrets = webhooks::signing(&app.config.master_key, &called.agent, now);
    let id = format!("msg_{}", question.event.0.simple());
    let patience = Duration::from_millis((question.answers_until - now).max(0) as u64);
    let answer = app
        .transport
        .outbound
        .ask(&to, Signed::new(&secrets, id, now, body, false), patience, MAX_ANSWER)
        .await;
    let taken = answer.filter(|(status, _)| (200..300).contains(status));
    let state = if taken.is_some() { DeliveryState::Delivered } else { DeliveryState::Failed };
    let offer =
        taken.filter(|_| called.transport == Transport::Webhook).and_then(|(_, said)| offer_of(&said));
    let (agent, seq, quote, lease) = (called.agent.id, called.seq, question.asked.quote_id, question.lease);
    let now = app.now();
    let record = move |tx: &mut dyn Tx| {
        let failure = (state == DeliveryState::Failed)
            .then_some((Code::AgentUnreachable, "the agent did not take the question"));
        deliveries::finish(tx, DeliveryId { agent, seq }, lease, state, failure, now)?;
        match offer.as_ref().map(|offer| take_offer(tx, agent, quote, offer, now)) {
            // The answer came too late, or the agent answered earlier by its key. That first answer stands.
            Some(Err(error)) if error.code != Code::Conflict => Err(error),
            _ => Ok(()),
        }
    };
    app.store.write::<_, Error, _>(record).await
}

/// Returns the address and the body of the call, or `None` if the address no longer exists.
async fn request(
    app: &AppState,
    question: &Question,
    Called { agent, seq, transport }: &Called,
) -> Result<Option<(To, Bytes)>, Error> {
    let delivery = DeliveryId { agent: agent.id, seq: *seq };
    let (url, body) = match transport {
        Transport::Webhook => (agent.endpoint.as_deref().map(url), Some(question.body.clone())),
        Transport::Harness => {
            let (hub, worker) = (Arc::clone(app), agent.clone());
            let find = move |tx: &mut dyn Tx| harness::request(tx, &hub, &worker, delivery, 1);
            (agent.harness.clone(), app.store.read::<_, StoreError, _>(find).await?)
        }
        Transport::Channel => {
            let sealed = agent.connection.as_deref().unwrap_or_default();
            let conversation = ConversationId::of_quote(question.asked.quote_id);
            let callback = callback_url(app, conversation, delivery, agent.epoch);
            let post = serde_json::to_vec(&channel_post(app, &question.asked, callback)?);
            let url = app.config.master_key.open(agent.id.as_bytes(), sealed);
            (url, Some(post.map_err(Error::internal)?.into()))
        }
        Transport::Inbox => (None, None),
    };
    // An agent that gave an address other than an endpoint has shown that it wants to be called.
    let proven = agent.proven || *transport != Transport::Webhook;
    let to = |url| To { url, receiver: agent.id, sender: None, cause: Cause::Push, proven };
    Ok(url.map(to).zip(body))
}

/// Returns the URL for questions at an endpoint, beside the one for jobs.
fn url(endpoint: &str) -> String {
    let (path, query) = match endpoint.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (endpoint, String::new()),
    };
    let path = path.trim_end_matches('/');
    format!("{}/quotes{query}", path.strip_suffix("/jobs").unwrap_or(path))
}

/// Builds the question for an agent that speaks the Channel Protocol only.
fn channel_post(app: &App, asked: &QuoteAsked, callback: String) -> Result<Post, Error> {
    let QuoteAsked { quote_id, skill_name, input_data, budget, answers_until } = asked;
    let input = input_data.as_ref().map(serde_json::to_string_pretty).transpose().map_err(Error::internal)?;
    let input = input.map(|input| format!("\n\nInput data:\n{input}")).unwrap_or_default();
    let most = budget.map(|budget| format!(" It may cost {budget} credits at most.")).unwrap_or_default();
    Ok(Post {
        channel: Channel {
            id: ConversationId::of_quote(*quote_id).to_string(),
            name: Some(format!("offer: {skill_name}")),
            service: Some(service_name(app)),
            context: Some(format!(
                "You are asked what you would do a job of your skill {skill_name:?} for.{most} Answer once, before {answers_until}: \
                 with {{\"price\": …, \"expected_ms\": …}} or the price alone, in credits. Answer with an event of the type \
                 `error` if you would rather not; if you say nothing, your listed price counts."
            )),
        },
        message: Message {
            id: format!("quote_{}", quote_id.0.simple()),
            sender: "market".into(),
            content: format!("What would you do this for: {skill_name}?{input}"),
        },
        callback,
        mcp: vec![],
    })
}

/// Parses an offer: an object with a price, which may be null.
fn offer_of(answer: &[u8]) -> Option<MakeOffer> {
    json::parse(answer).ok()?.get("price")?;
    read_exact(answer).ok()
}

/// Parses an offer from the text of an agent that speaks the Channel Protocol only.
pub(super) fn offer_of_text(text: &str) -> Option<MakeOffer> {
    let price = || Some(MakeOffer { price: Some(Credits::parse(text.trim()).ok()?), expected_ms: None });
    offer_of(text.trim().as_bytes()).or_else(price)
}

/// The error for a quote that does not exist or belongs to another caller.
pub(super) fn unknown() -> Error {
    Error::new(Code::NotFound, "there are no such offers, or they are not yours")
}

/// Stores an agent's offer, over any route.
pub(super) fn take_offer(
    tx: &mut dyn Tx,
    agent: AgentId,
    id: QuoteId,
    said: &MakeOffer,
    now: i64,
) -> Result<OfferMade, Error> {
    let quote = quotes::by_id(tx, id)?.ok_or_else(unknown)?;
    let offer = quote.offers.iter().find(|offer| offer.agent == agent).ok_or_else(unknown)?;
    let made = OfferMade { quote_id: id, valid_until: rfc3339(quote.valid_until) };
    let twice = || Err(Error::new(Code::Conflict, "you have answered already"));
    if offer.answered_at.is_some() {
        let same = said.price.map_or(offer.declined, |price| price == offer.price && !offer.declined);
        return if same { Ok(made) } else { twice() };
    }
    if now >= quote.answers_until || quote.job.is_some() {
        return Err(Error::new(Code::Conflict, "it is too late to answer; your listed price counts"));
    }
    if let (Some(price), Some(budget)) = (said.price, quote.budget)
        && price > budget
    {
        let what = format_args!("must be at most {budget}, the budget of this request");
        return Err(Faults::one("price", what).into());
    }
    if quotes::answer(tx, id, agent, said.price, said.expected_ms, now)? { Ok(made) } else { twice() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_their_path() {
        for (endpoint, expected) in [
            ("https://agent.example/jobs", "https://agent.example/quotes"),
            ("https://agent.example", "https://agent.example/quotes"),
            ("https://agent.example/a/?k=v", "https://agent.example/a/quotes?k=v"),
        ] {
            assert_eq!(url(endpoint), expected);
        }
    }

    #[test]
    fn an_offer_is_what_names_a_price() {
        let price = |text: &str| offer_of_text(text).map(|offer| offer.price.map(|price| price.to_string()));
        assert_eq!(price(r#"{"price": 0.05, "expected_ms": 7}"#), Some(Some("0.05".into())));
        assert_eq!(price(r#"{"price": null}"#), Some(None));
        assert_eq!(price(" 0.07 "), Some(Some("0.07".into())));
        for other in ["", "{}", r#"{"status": "ok"}"#, "0.001", "cheap", r#"{"price": "x"}"#, "[1]"] {
            assert_eq!(price(other), None, "{other}");
        }
    }
}
