//! Jobs and credits in the week: hiring, late, duplicate and contradictory results, cancellations and
//! transfers. At every step the books balance, and nothing is held for an ended job.

use super::cast::{PEOPLE, WORKERS};
use super::story::{Happening, Story};
use crate::hub::body;
use chorus_app::market::{hire, jobs, money, results};
use chorus_node::caller::Caller;
use chorus_node::idempotency::Once;
use chorus_node::source::rate_key;
use chorus_protocol::ids::JobId;
use chorus_protocol::market::JobHandout;
use chorus_store::TxExt;
use chorus_store::market::ledger;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use uuid::Uuid;

/// The most attempts to send a result to a hub that does not answer.
const MAX_TRIES: u32 = 20;

/// A person's action on the market.
#[derive(Debug, Clone)]
pub(crate) struct Deal {
    person: usize,
    act: Act,
    /// True if the person knows the outcome.
    done: bool,
}

#[derive(Debug, Clone)]
enum Act {
    Hire(Value),
    Cancel(String),
    Transfer(Value),
}

impl Story {
    pub(crate) fn set_deal(&mut self, time: i64) {
        let person = self.world.below(PEOPLE as i64) as usize;
        let id = Uuid::from_u64_pair(self.world.below(i64::MAX) as u64, self.world.below(i64::MAX) as u64);
        let id = uuid::Builder::from_bytes(*id.as_bytes()).with_version(uuid::Version::Random).into_uuid();
        let amount = 1 + self.world.below(12);
        if self.world.chance(30) {
            let to = self.people[self.world.below(PEOPLE as i64) as usize].id.to_string();
            let from = self.people[person].id.to_string();
            let transfer =
                json!({"transfer_id": id.to_string(), "from_owner": from, "to_owner": to, "amount": amount});
            return self.set(time, person, Act::Transfer(transfer));
        }
        let mut job = json!({"job_id": id.to_string(), "skill_name": "sum", "input_data": {"a": amount},
            "budget": amount, "deadline_ms": 20_000 + self.world.below(300_000)});
        if self.world.chance(60) {
            let worker = self.world.below(WORKERS as i64) as usize;
            job["agent_id"] = json!(self.agents[worker].key.identity.id.to_string());
        }
        self.set(time, person, Act::Hire(job));
        if self.world.chance(25) {
            let cancels = time + self.world.below(60_000);
            self.set(cancels, person, Act::Cancel(id.to_string()));
        }
        if self.world.chance(25) {
            let crashes = time + self.world.below(20_000);
            self.world.after(crashes, Happening::HubCrashes);
        }
    }

    fn set(&mut self, time: i64, person: usize, act: Act) {
        self.world.after(time, Happening::Deals(self.deals.len()));
        self.deals.push(Deal { person, act, done: false });
    }

    pub(crate) fn deal(&mut self, n: usize) {
        let Deal { person, act, done } = self.deals[n].clone();
        if done {
            return;
        }
        if !self.host.is_up() || self.goes_wrong(10) {
            return self.soon(500, 5000, Happening::Deals(n));
        }
        let caller = Caller::Account(self.people[person].clone());
        let outcome = self.host.run(async |app| match &act {
            Act::Hire(job) => {
                let source = rate_key(Ipv4Addr::LOCALHOST.into());
                let hired = hire::hire(app, caller, source, body(job.clone()), Once::NO_KEY).await;
                hired.map(|done| format!("{:?}", done.result.status))
            }
            Act::Cancel(id) => {
                let id = jobs::id(id).unwrap();
                jobs::cancel(app, caller, id, Once::NO_KEY)
                    .await
                    .map(|done| format!("{:?}", done.result.status))
            }
            Act::Transfer(transfer) => {
                let moved = money::transfer(app, caller, body(transfer.clone()), Once::NO_KEY).await;
                moved.map(|_| "moved".to_owned())
            }
        });
        let outcome = outcome.map_err(|error| error.code);
        self.world.note(format_args!("person{person} {act:?}: {outcome:?}"));
        self.add_up();
        // A person without a response asks again, and sometimes one with a response does too.
        self.deals[n].done = !self.goes_wrong(20);
        if self.goes_wrong(30) || !self.deals[n].done {
            self.deals[n].done = false;
            self.soon(500, 400_000, Happening::Deals(n));
        }
    }

    /// An agent accepts a job, works on it for a while, and reports the result even after a crash.
    pub(crate) fn take_job(&mut self, n: usize, job: Box<JobHandout>) {
        self.world.note(format_args!("agent{n} gets the job {}", job.job_id));
        let most = if self.world.chance(20) { 400_000 } else { 20_000 };
        self.soon(200, most, Happening::Reports { agent: n, job, tries: 0 });
    }

    pub(crate) fn report(&mut self, n: usize, job: Box<JobHandout>, tries: u32) {
        let (token, id) = (job.callback_url.rsplit('/').next().unwrap().to_owned(), job.job_id);
        let again = Happening::Reports { agent: n, job, tries: tries + 1 };
        if !self.host.is_up() || self.goes_wrong(15) {
            if tries < MAX_TRIES {
                self.soon(500, 5000, again);
            }
            return;
        }
        let result = self.result(id);
        let outcome = self.host.run(async |app| {
            let (agent, epoch) = results::agent_of(app, id, &token).expect("the address is good");
            let worker = results::Worker::Given(agent, epoch);
            results::report(app, worker, id, body(result.clone())).await.map(drop)
        });
        let outcome = outcome.map_err(|error| error.code);
        self.world.note(format_args!("agent{n} reports {result}: {outcome:?}"));
        self.add_up();
        // The response was lost, or the result is sent twice.
        if self.goes_wrong(25) && tries < MAX_TRIES {
            self.soon(5, 30_000, again);
        }
    }

    /// Returns a worker's result of a job; sometimes a different one each time.
    fn result(&mut self, id: JobId) -> Value {
        match self.world.below(6) {
            0 => json!({"job_id": id.to_string(), "status": "FAILURE", "error_message": "it did not work"}),
            1 => json!({"job_id": id.to_string(), "status": "SUCCESS", "output_data": {"sum": 1},
                "execution_cost": self.world.below(30)}),
            _ => json!({"job_id": id.to_string(), "status": "SUCCESS", "output_data": {"sum": 2}}),
        }
    }

    /// Checks the invariants of the books.
    pub(crate) fn add_up(&mut self) {
        let (sums, wrong) = self.host.query(|tx| {
            let sums = ledger::sums(tx)?;
            let mut wrong = vec![];
            for sql in [
                "SELECT COUNT(*) AS count FROM wallets WHERE balance < 0",
                "SELECT COUNT(*) AS count FROM holds h LEFT JOIN jobs j ON j.id = h.job_id
                 WHERE j.id IS NULL OR j.status <> 'PENDING' OR h.amount <> j.budget",
                "SELECT COUNT(*) AS count FROM jobs j LEFT JOIN holds h ON h.job_id = j.id
                 WHERE j.status = 'PENDING' AND h.job_id IS NULL",
            ] {
                wrong.push(tx.first(sql, &[])?.map_or(Ok(0), |mut row| row.int("count"))?);
            }
            Ok((sums, wrong))
        });
        assert!(sums.balanced(), "{sums:?}");
        assert_eq!(wrong, [0, 0, 0], "a balance is negative, a hold outlives its job, or a job has none");
    }
}
