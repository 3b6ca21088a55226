//! The verdict on an agent that declines a job.

use chorus_market::counting;
use chorus_market::escrow::Verdict;
use chorus_node::Error;
use chorus_protocol::code::Code;
use chorus_protocol::market::JobStatus;
use chorus_store::Tx;
use chorus_store::market::jobs::Job;
use chorus_store::market::reputation;

/// A verdict with the code and the message of the job's error.
type Decline = (Verdict, (String, String));

/// Judges an agent that declines a job, with its own code if it gave one. After the skill's decline period the
/// job counts as failed. `handed_at` is a time by which the agent had the job, used if the store knows none.
pub(super) fn judge(
    tx: &mut dyn Tx,
    job: &Job,
    handed_at: Option<i64>,
    code: Option<&str>,
    message: String,
    now: i64,
) -> Result<Decline, Error> {
    let agreed = &job.agreed;
    let known = reputation::evidence(tx, agreed, now, now)?.handed_at;
    if counting::may_decline(known.or(handed_at), agreed.skill_time_ms, now) {
        let code = code.unwrap_or(JobStatus::Rejected.as_str());
        return Ok((Verdict::Declined, (code.to_owned(), message)));
    }
    let seconds = agreed.skill_time_ms / 1000;
    let message =
        format!("{message}; it declined later than {seconds} s after it got the job, which is a failure");
    Ok((Verdict::Failed, (code.unwrap_or(Code::ExecutionError.as_str()).to_owned(), message)))
}
