//! The jobs requested at the agent's own address, with their results. A repeated request returns the same
//! result.
//!
//! Bounded in number and bytes: the oldest results are dropped first. Jobs in progress are bounded by the
//! queue.

use bytes::Bytes;
use chorus_protocol::ids::JobId;
use chorus_protocol::market::JobHandout;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, VecDeque};
use tokio::sync::watch;

/// The limits for the number of results and for their bytes in total.
const MOST_KEPT: usize = 10_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The result of a job, in the document's format, once it exists.
pub(super) type Outcome = watch::Receiver<Option<Bytes>>;

/// The state of a requested job.
#[derive(Debug)]
pub(super) enum Standing {
    /// The job is new. It is in progress from now on, and the sender publishes its result.
    New(watch::Sender<Option<Bytes>>, Outcome),
    /// The job is in progress or done.
    Known(Outcome),
    /// Another job has this id.
    Other,
}

#[derive(Debug)]
struct Entry {
    asked: [u8; 32],
    outcome: Outcome,
    /// `true` if a requester was told that the result comes later.
    put_off: bool,
}

/// The record of jobs; see the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    jobs: HashMap<JobId, Entry>,
    /// The completed jobs, oldest first, with the size of each result.
    done: VecDeque<(JobId, usize)>,
    bytes: usize,
}

impl Book {
    /// Looks a job up and adds it if it is new.
    pub(super) fn begin(&mut self, job: &JobHandout) -> Standing {
        let asked = digest(job);
        match self.jobs.get(&job.job_id) {
            Some(known) if known.asked == asked => Standing::Known(known.outcome.clone()),
            Some(_) => Standing::Other,
            None => {
                let (tell, outcome) = watch::channel(None);
                let entry = Entry { asked, outcome: outcome.clone(), put_off: false };
                self.jobs.insert(job.job_id, entry);
                Standing::New(tell, outcome)
            }
        }
    }

    /// Marks the result as deferred, or returns it if it exists by now.
    pub(super) fn put_off(&mut self, id: JobId) -> Option<Bytes> {
        let entry = self.jobs.get_mut(&id)?;
        let result = entry.outcome.borrow().clone();
        entry.put_off = result.is_none();
        result
    }

    /// Publishes a result. Returns `true` if a requester was told that it comes later.
    pub(super) fn finish(&mut self, id: JobId, tell: &watch::Sender<Option<Bytes>>, result: Bytes) -> bool {
        let Some(entry) = self.jobs.get(&id) else { return false };
        let put_off = entry.put_off;
        self.done.push_back((id, result.len()));
        self.bytes += result.len();
        tell.send_replace(Some(result));
        while self.done.len() > MOST_KEPT || self.bytes > MOST_BYTES {
            let Some((oldest, size)) = self.done.pop_front() else { break };
            self.jobs.remove(&oldest);
            self.bytes -= size;
        }
        put_off
    }

    /// Removes a job without a result, so that it may be requested again.
    pub(super) fn forget(&mut self, id: JobId) {
        // A completed job stays.
        if self.jobs.get(&id).is_some_and(|entry| entry.outcome.borrow().is_none()) {
            self.jobs.remove(&id);
        }
    }
}

/// Returns a digest of a job's content: requester, skill, input and budget. The time of the request may
/// differ.
fn digest(job: &JobHandout) -> [u8; 32] {
    let JobHandout { orchestrator_id, skill_name, input_data, budget, .. } = job;
    let asked = json!([orchestrator_id, skill_name, input_data, budget]);
    Sha256::digest(asked.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u128, skill: &str) -> JobHandout {
        let id = format!("{number:032x}");
        let job = json!({"job_id": id, "orchestrator_id": id, "skill_name": skill, "input_data": {"a": 1}, "budget": 0.15,
            "currency": "chorus_credits_v1", "callback_url": "", "timestamp_utc": ""});
        serde_json::from_str(&job.to_string()).unwrap()
    }

    #[test]
    fn the_same_job_is_the_same_and_another_is_not() {
        let mut book = Book::default();
        let (one, other) = (job(1, "add"), job(1, "sub"));
        let Standing::New(tell, _) = book.begin(&one) else { panic!() };
        assert!(matches!(book.begin(&one), Standing::Known(_)));
        assert!(matches!(book.begin(&other), Standing::Other));
        assert_eq!(book.put_off(one.job_id), None);
        assert!(book.finish(one.job_id, &tell, Bytes::from("done")), "somebody waits for it");
        assert_eq!(book.put_off(one.job_id).as_deref(), Some(&b"done"[..]));
        book.forget(one.job_id);
        let Standing::Known(outcome) = book.begin(&one) else { panic!() };
        assert_eq!(outcome.borrow().as_deref(), Some(&b"done"[..]));
        // A job without a result may be requested again.
        let two = job(2, "add");
        assert!(matches!(book.begin(&two), Standing::New(..)));
        book.forget(two.job_id);
        assert!(matches!(book.begin(&two), Standing::New(..)));
    }

    #[test]
    fn the_oldest_results_are_forgotten() {
        let mut book = Book::default();
        let large = Bytes::from(vec![b' '; MOST_BYTES / 2]);
        for number in 1..=3 {
            let job = job(number, "add");
            let Standing::New(tell, _) = book.begin(&job) else { panic!() };
            book.finish(job.job_id, &tell, large.clone());
        }
        assert_eq!((book.jobs.len(), book.done.len(), book.bytes), (2, 2, MOST_BYTES));
        assert!(matches!(book.begin(&job(1, "add")), Standing::New(..)));
        assert!(matches!(book.begin(&job(3, "add")), Standing::Known(_)));
    }
}
