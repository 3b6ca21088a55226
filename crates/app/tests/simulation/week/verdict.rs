//! The invariants that must hold once the week has come to rest, and those of claims at any time.

use super::people::Act;
use super::story::Story;
use chorus_attention::disposition::is_final;
use chorus_protocol::ids::{AgentId, EventId, Principal};
use chorus_protocol::inbox::DigestBody;
use chorus_protocol::words::{ClaimState, Disposition, EventKind, Policy, Reason};
use chorus_store::conversations::{self, Event};
use chorus_store::log::{self, At, PageSize};
use chorus_store::obligations::{self, Obligation};
use chorus_store::{StoreError, Tx, TxExt, claims};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// More than any week holds.
const ALL: i64 = 100_000;

/// The amount of activity, so that an empty world does not count as a success.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) said: usize,
    pub(crate) given: usize,
    pub(crate) answers: usize,
    pub(crate) escalations: usize,
    pub(crate) claims: usize,
    pub(crate) crashes: u64,
    pub(crate) digests: usize,
    pub(crate) jobs: usize,
    pub(crate) paid: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.said += other.said;
        self.given += other.given;
        self.answers += other.answers;
        self.escalations += other.escalations;
        self.claims += other.claims;
        self.crashes += other.crashes;
        self.digests += other.digests;
        self.jobs += other.jobs;
        self.paid += other.paid;
    }
}

/// Returns the escalation by which an agent learned of a message that it was not given itself.
fn told_of(
    given: &BTreeMap<(EventId, AgentId), Obligation>,
    message: EventId,
    agent: AgentId,
) -> Option<EventId> {
    if given.contains_key(&(message, agent)) {
        return None;
    }
    let told = given.iter().filter(|((_, to), known)| *to == agent && known.supersedes == Some(message));
    told.map(|((event, _), _)| *event).max()
}

impl Story {
    /// Asserts that nobody gets a claim before the former holder has ended it.
    pub(crate) fn look_at_claims(&mut self) {
        let now = self.world.now();
        let held = self.host.query(|tx| {
            let sql = "SELECT event_id FROM claims WHERE holder IS NOT NULL";
            let mut held = vec![];
            for mut row in tx.query(sql, &[])? {
                held.extend(claims::of(tx, EventId(row.uuid("event_id")?))?);
            }
            Ok(held)
        });
        for claim in held {
            let Some(held) = claim.held else { continue };
            let until = if held.state == ClaimState::Held { held.until } else { now };
            let before = self.holders.insert(claim.event, (held.holder, until));
            if let Some((holder, until)) = before
                && holder != held.holder
            {
                assert!(held.since >= until, "{} was {holder}'s: {held:?}", claim.event);
            }
        }
    }

    pub(crate) fn judge(&mut self) -> Tally {
        let mut tally = Tally {
            said: self.sayings.len(),
            claims: self.holders.len(),
            crashes: self.host.life - 1 + self.agents.iter().map(|agent| agent.life - 1).sum::<u64>(),
            ..Tally::default()
        };
        let given = self.given();
        self.nothing_is_open(&given);
        tally.given = given.len();
        let (mut answers, mut targets, mut texts) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut escalations = BTreeSet::new();
        for n in 0..self.channels.len() {
            let events = self.events(n);
            for (place, event) in (1..).zip(&events) {
                assert_eq!(event.seq, place, "places follow each other");
            }
            let escalated = events.iter().filter(|event| event.kind == EventKind::Escalation);
            escalations.extend(escalated.map(|event| event.id));
            self.what_was_heard_is_there(n, &events);
            for event in events.iter().filter(|event| event.kind == EventKind::Message) {
                let Principal::Agent(agent) = event.author else { continue };
                assert!(texts.insert(content(event)), "it was said twice: {event:?}");
                let target = event.target.expect("agents only answer");
                targets.insert((target, agent));
                // An edit is delivered again, and its answer belongs to the message; the text tells which
                // version was answered.
                let content = content(event);
                let named = content.rsplit(' ').next().and_then(EventId::parse);
                let answered = named
                    .filter(|id| given.contains_key(&(*id, agent)))
                    .or_else(|| told_of(&given, target, agent))
                    .unwrap_or(target);
                let before = answers.insert((answered, agent), event.id);
                assert_eq!(before, None, "{answered} was answered twice: {event:?}");
            }
        }
        tally.answers = answers.len();
        for (target, agent) in answers.keys() {
            let known = given.get(&(*target, *agent));
            let policy = known.map(|known| known.attention.policy);
            // A found message may be answered only by agents that were given it.
            assert!(
                policy.is_some_and(|policy| policy != Policy::MustNotRespond),
                "{target} {agent}: {policy:?}"
            );
        }
        tally.escalations = escalations.len();
        // Escalations of these messages were delivered. Each may have ended before or after the agent answered
        // it.
        let told = given.iter().filter(|((event, _), _)| escalations.contains(event));
        let told: BTreeSet<_> = told.map(|((_, agent), known)| (first_of(&given, known), *agent)).collect();
        let done = self.done_jobs();
        for ((event, agent), known) in &given {
            let key = (*event, *agent);
            let message = (first_of(&given, known), *agent);
            let by_another_id = known.supersedes.is_some() && targets.contains(&message);
            let is_changed = known.attention.reason == Reason::EditedAfterResponse;
            let answered = answers.contains_key(&key) || by_another_id || done.contains(&key);
            let may_pass = told.contains(&message) || (is_changed && !answers.contains_key(&key));
            Self::has_ended(known, answered, may_pass);
        }
        tally.digests = self.judge_digests(&given);
        self.judge_money(&mut tally);
        tally
    }

    /// Asserts that leads were told of everything they did not receive, and of nothing twice. Returns the
    /// number of digests.
    fn judge_digests(&self, given: &BTreeMap<(EventId, AgentId), Obligation>) -> usize {
        let (told, untold) = self.host.query(|tx| {
            let mut told = vec![];
            let sql = "SELECT d.agent_id, e.id, e.body FROM deliveries d JOIN events e ON e.id = d.event_id
                       WHERE d.kind = 'digest'";
            for mut row in tx.query(sql, &[])? {
                told.push((AgentId(row.uuid("agent_id")?), EventId(row.uuid("id")?), row.text("body")?));
            }
            // Messages in the lead's scope that are neither by it nor to it.
            let untold = "SELECT d.agent_id, d.scope_id, e.id FROM digests d JOIN inboxes i ON i.agent_id = d.agent_id
                   JOIN events e ON e.kind = 'message' AND e.author_id <> d.agent_id AND
                        (e.conversation_id = d.scope_id OR EXISTS (SELECT 1 FROM work_stream_events w
                             JOIN members m ON m.conversation_id = w.conversation_id AND m.member_id = d.agent_id
                             WHERE w.stream_id = d.scope_id AND w.event_id = e.id))
                 WHERE i.shows LIKE '%digest%' AND e.seq > 0
                   AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.event_id = e.id AND c.agent_id = d.agent_id)";
            let mut expected = BTreeMap::<_, BTreeSet<_>>::new();
            for mut row in tx.query(untold, &[])? {
                let lead = (AgentId(row.uuid("agent_id")?), row.uuid("scope_id")?);
                expected.entry(lead).or_default().insert(EventId(row.uuid("id")?));
            }
            Ok((told, expected))
        });
        let (mut named, mut counted) = (BTreeSet::new(), BTreeMap::<_, u64>::new());
        for (agent, event, body) in &told {
            let policy = given[&(*event, *agent)].attention.policy;
            assert_eq!(policy, Policy::MustNotRespond, "nobody answers a digest");
            let digest: DigestBody = serde_json::from_str(body).unwrap();
            for one in &digest.references {
                assert!(named.insert((*agent, *one)), "{agent} was told twice of {one}");
            }
            let scope = digest.conversation.map(|id| id.0).or(digest.stream.map(|id| id.0)).unwrap();
            let messages = digest.counts.iter().filter(|count| count.kind == EventKind::Message);
            *counted.entry((*agent, scope)).or_default() +=
                messages.map(|one| u64::from(one.count)).sum::<u64>();
        }
        for ((agent, scope), events) in untold {
            let counted = counted.get(&(agent, scope)).copied().unwrap_or(0);
            // A message may have been delivered to it after the digest.
            assert!(counted >= events.len() as u64, "{agent} {scope}: {counted} of {events:?}");
        }
        told.len()
    }

    /// Returns the completed jobs with their workers: a result is an answer.
    fn done_jobs(&self) -> BTreeSet<(EventId, AgentId)> {
        let done = self.host.query(|tx| {
            let rows = tx.query("SELECT event_id, agent_id FROM jobs WHERE status = 'SUCCESS'", &[])?;
            let key = |mut row: chorus_store::Row| {
                Ok((EventId(row.uuid("event_id")?), AgentId(row.uuid("agent_id")?)))
            };
            rows.into_iter().map(key).collect::<Result<Vec<_>, StoreError>>()
        });
        done.into_iter().collect()
    }

    /// Returns the last state of everything that agents were given.
    fn given(&self) -> BTreeMap<(EventId, AgentId), Obligation> {
        let now = self.world.now();
        let given = self.host.query(move |tx| {
            let sql =
                "SELECT event_id, agent_id, COUNT(*) AS given, COUNT(DISTINCT disposition) AS dispositions,
                              COUNT(disposition) AS answered
                       FROM chats GROUP BY event_id, agent_id";
            let mut given = vec![];
            for mut row in tx.query(sql, &[])? {
                let (event, agent) = (EventId(row.uuid("event_id")?), AgentId(row.uuid("agent_id")?));
                let counts = (row.int("given")?, row.int("dispositions")?, row.int("answered")?);
                given.push((counts, obligations::of(tx, event, agent, now)?.expect("it is there")));
            }
            Ok(given)
        });
        let given = given.into_iter().map(|((rows, different, disposed), known)| {
            assert!(different == 1 && disposed == rows, "one disposition for all of it: {known:?}");
            ((known.event, known.id.agent), known)
        });
        given.collect()
    }

    fn nothing_is_open(&self, given: &BTreeMap<(EventId, AgentId), Obligation>) {
        let (due, claims, jobs) = self.host.query(|tx| {
            let open = "SELECT COUNT(*) AS count FROM jobs WHERE status = 'PENDING'";
            let jobs = tx.first(open, &[])?.map_or(Ok(0), |mut row| row.int("count"))?;
            Ok((obligations::due(tx, i64::MAX, ALL)?, claims::due(tx, i64::MAX, ALL)?, jobs))
        });
        let due: Vec<_> = due.iter().map(|key| &given[key]).collect();
        assert!(due.is_empty() && claims.is_empty() && jobs == 0, "still open: {due:?} {claims:?} {jobs}");
    }

    /// Returns all events in a channel.
    fn events(&self, n: usize) -> Vec<Event> {
        let (channel, who) = (self.channels[n].id, self.people[self.channels[n].people[0]].id);
        self.host.query(move |tx: &mut dyn Tx| {
            let conversation = conversations::by_id(tx, channel)?.expect("it was made");
            let filter = log::Filter::default();
            let size = PageSize { events: ALL, bytes: usize::MAX };
            let page = log::page(tx, &conversation, who.into(), &filter, At::After(0), size)?;
            Ok::<_, StoreError>(page.events)
        })
    }

    /// Asserts that every confirmed message exists once.
    fn what_was_heard_is_there(&self, n: usize, events: &[Event]) {
        for saying in self.sayings.iter().filter(|saying| saying.channel == n) {
            let (Act::Say(text) | Act::GoOn(text)) = &saying.act else { continue };
            let Some(done) = saying.done else { continue };
            let is_it = |event: &&Event| event.id == done || content(event) == *text;
            assert_eq!(events.iter().filter(is_it).count(), 1, "{saying:?}");
        }
    }

    /// Asserts that an obligation has ended. With `may_pass` it is one of several for the same message.
    fn has_ended(known: &Obligation, answered: bool, may_pass: bool) {
        let disposition = known.disposition.expect("it has one");
        assert!(is_final(disposition), "{known:?}");
        assert!(
            !answered || may_pass || matches!(disposition, Disposition::Responded | Disposition::Superseded),
            "{known:?}"
        );
        assert!(answered || disposition != Disposition::Responded, "nobody answered: {known:?}");
        // An obligation that must be answered stays open until it was escalated; then it asks for less.
        let overlooked = known.attention.policy == Policy::MustRespond
            && matches!(disposition, Disposition::Ignored | Disposition::Acknowledged);
        assert!(!overlooked, "an obligation was forgotten: {known:?}");
    }

    /// Asserts that no job is paid twice, and that every hold was paid or returned to the last hundredth.
    fn judge_money(&mut self, tally: &mut Tally) {
        self.add_up();
        let jobs = self.host.query(|tx| {
            let sql = "SELECT j.status, j.paid, j.budget,
                    (SELECT COUNT(*) FROM ledger l WHERE l.job_id = j.id AND l.debit_id IS NOT NULL) AS payments,
                    (SELECT COALESCE(SUM(amount), 0) FROM ledger l WHERE l.job_id = j.id AND l.debit_id IS NOT NULL) AS debited,
                    (SELECT COALESCE(SUM(amount), 0) FROM ledger l WHERE l.job_id = j.id AND l.credit_id IS NOT NULL) AS credited
                FROM jobs j";
            let mut jobs = vec![];
            for mut row in tx.query(sql, &[])? {
                let mut number = |column: &str| row.int(column);
                let (paid, budget, payments) = (number("paid")?, number("budget")?, number("payments")?);
                let numbers = [paid, budget, payments, number("debited")?, number("credited")?];
                jobs.push((row.text("status")?, numbers));
            }
            Ok(jobs)
        });
        tally.jobs += jobs.len();
        for (status, [paid, budget, holds, debited, credited]) in jobs {
            assert_eq!((holds, debited, credited), (1, budget, budget), "{status} {paid}");
            assert!(paid <= budget && (status == "SUCCESS" || paid == 0), "{status} {paid} of {budget}");
            tally.paid += usize::from(paid > 0);
        }
    }
}

fn content(event: &Event) -> String {
    let body: Value = serde_json::from_str(&event.body).unwrap();
    body["content"].as_str().unwrap_or_default().to_owned()
}

/// Returns the message that a delivered edit belongs to.
fn first_of(given: &BTreeMap<(EventId, AgentId), Obligation>, known: &Obligation) -> EventId {
    let (mut id, mut before) = (known.event, known.supersedes);
    while let Some(earlier) = before {
        id = earlier;
        before = given.get(&(earlier, known.id.agent)).and_then(|known| known.supersedes);
    }
    id
}
