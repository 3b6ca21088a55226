//! Movements of credits as their owner reads them: names of both sides, and the purpose.

use crate::times::Moment;
use crate::visitor::SignedIn;
use chorus_app::agents;
use chorus_app::market::{jobs, money};
use chorus_node::{AppState, Error};
use chorus_protocol::ids::{AccountId, AgentId, JobId};
use chorus_protocol::market::{Credits, JobView, MovementKind, MovementView};
use chorus_protocol::words::Word;
use std::collections::{BTreeSet, HashMap};

/// The number of characters at the end of an id that tell two apart. Its beginning is a timestamp.
const LAST: usize = 6;

/// One movement in the view of a wallet's owner.
pub(crate) struct MovementRow {
    pub(crate) at: Moment,
    pub(crate) what: &'static str,
    /// The names of the debited and the credited side.
    pub(crate) from: String,
    pub(crate) to: String,
    /// The amount, with a sign if the movements of one wallet are shown.
    pub(crate) amount: String,
    pub(crate) gain: bool,
    /// The id and the description of the job.
    pub(crate) job: Option<(String, String)>,
    pub(crate) balance: Option<Credits>,
    pub(crate) number: i64,
}

/// Builds rows from movements. With an `owner`, amounts carry that owner's signs. The visitor's own account is
/// named as such.
pub(crate) async fn movements(
    app: &AppState,
    visitor: &SignedIn,
    views: Vec<MovementView>,
    owner: Option<&str>,
) -> Result<Vec<MovementRow>, Error> {
    let ends = views.iter().flat_map(|view| [&view.debit, &view.credit]).flatten().cloned();
    let names = money::owner_names(app, visitor.caller.clone(), ends.collect()).await?;
    let work = works(app, visitor, &views).await?;
    let me = visitor.person.id.to_string();
    let called = |end: &str| called(end, &me, &names);
    Ok(views.into_iter().map(|view| row(view, owner, &called, &work)).collect())
}

fn row(
    view: MovementView,
    owner: Option<&str>,
    called: &dyn Fn(&str) -> String,
    work: &HashMap<JobId, String>,
) -> MovementRow {
    let kind = match view.kind {
        Word::Known(kind) => Some(kind),
        Word::Unknown(_) => None,
    };
    let gain = owner.is_some() && view.credit.as_deref() == owner;
    let sign = match owner {
        None => "",
        Some(_) if gain => "+",
        Some(_) => "−",
    };
    // A side without an owner is escrow, or the operator who creates and removes credits.
    let end = |end: Option<String>| match (end, kind) {
        (Some(owner), _) => called(&owner),
        (None, Some(MovementKind::Mint | MovementKind::Burn)) => "the operator".to_owned(),
        (None, _) => "escrow".to_owned(),
    };
    let job = |id: JobId| (id.to_string(), work.get(&id).cloned().unwrap_or_else(|| "a job".to_owned()));
    MovementRow {
        at: Moment::new(&view.at),
        what: kind.map_or("moved", what),
        from: end(view.debit),
        to: end(view.credit),
        amount: format!("{sign}{}", view.amount),
        gain,
        job: view.job_id.map(job),
        balance: view.balance,
        number: view.number,
    }
}

/// Returns the name of an owner for the visitor. An account that the visitor may not know is shown by the end
/// of its id.
fn called(owner: &str, me: &str, names: &HashMap<String, String>) -> String {
    if owner == me {
        return "you".to_owned();
    }
    match names.get(owner) {
        Some(name) => name.clone(),
        None if AccountId::parse(owner).is_some() => {
            format!("the account …{}", &owner[owner.len().saturating_sub(LAST)..])
        }
        None => owner.to_owned(),
    }
}

/// Returns the name of one owner for this visitor.
pub(crate) async fn owner_called(app: &AppState, visitor: &SignedIn, owner: &str) -> Result<String, Error> {
    let names = money::owner_names(app, visitor.caller.clone(), BTreeSet::from([owner.to_owned()])).await?;
    Ok(called(owner, &visitor.person.id.to_string(), &names))
}

/// Describes each job: its skill and its agent.
async fn works(
    app: &AppState,
    visitor: &SignedIn,
    views: &[MovementView],
) -> Result<HashMap<JobId, String>, Error> {
    let ids: BTreeSet<JobId> = views.iter().filter_map(|view| view.job_id).collect();
    let found = jobs::some(app, visitor.caller.clone(), ids.into_iter().collect()).await?;
    let workers: BTreeSet<AgentId> = found.iter().map(|job| job.agent_id).collect();
    let workers = agents::some(app, &visitor.caller, workers.into_iter().collect()).await?;
    let words = |job: &JobView| {
        let worker = workers.iter().find(|agent| agent.agent_id == job.agent_id);
        let worker = worker.map_or("an agent that left", |agent| &agent.name);
        (job.job_id, format!("{} by {worker}", job.skill_name))
    };
    Ok(found.iter().map(words).collect())
}

fn what(kind: MovementKind) -> &'static str {
    match kind {
        MovementKind::Mint => "Made",
        MovementKind::Burn => "Taken away",
        MovementKind::Transfer => "Sent",
        MovementKind::Hold => "Held",
        MovementKind::Settle => "Paid",
        MovementKind::Refund => "Returned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_names_where_the_reader_may_know_them() {
        let account = format!("acc_{}", "1".repeat(32));
        let names = HashMap::from([(account.clone(), "Mara Lind".to_owned())]);
        assert_eq!(called(&account, &account, &names), "you");
        assert_eq!(called(&account, "acc_x", &names), "Mara Lind");
        assert_eq!(called(&account, "acc_x", &HashMap::new()), "the account …111111");
        assert_eq!(called("Ridge Lab", "acc_x", &names), "Ridge Lab");
    }
}
