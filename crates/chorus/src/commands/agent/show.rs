//! Prints an agent's activities, one line each: a sentence for a person, JSON for a program.

use crate::output::{self, one_line};
use chorus_agent::harness::Activity;
use chorus_hub::Environment;
use chorus_protocol::time::rfc3339;
use owo_colors::OwoColorize;
use serde_json::json;

/// Creates a function that prints the activities of the agent `name`.
pub(super) fn teller(name: &str, json: bool) -> impl Fn(Activity) + Send + Sync + 'static {
    let name = name.to_owned();
    move |activity| {
        // A closed standard output does not stop the agent.
        if json {
            let mut line = json!(activity);
            line["agent"] = name.as_str().into();
            line["at"] = rfc3339(Environment::system().now()).into();
            output::json(&line).ok();
        } else {
            output::data(line(&name, &activity)).ok();
        }
    }
}

fn line(name: &str, activity: &Activity) -> String {
    format!("{} {}", one_line(name).bold(), what(name, activity))
}

fn what(name: &str, activity: &Activity) -> String {
    match activity {
        Activity::Registered => "registered".green().to_string(),
        Activity::Listening { to } => format!("listens to {}", one_line(to)).dimmed().to_string(),
        Activity::Connection { connection_string: Some(connection_string), kept_in } => {
            format!(
                "can be reached at {} (a secret, shown this once; kept in {})",
                one_line(connection_string),
                one_line(kept_in)
            )
        }
        Activity::Connection { connection_string: None, kept_in } => {
            format!("can be reached at the connection string in {}", one_line(kept_in)).dimmed().to_string()
        }
        Activity::Announced => "is known to the hub by its connection string".dimmed().to_string(),
        Activity::Unannounced { why } => {
            format!("{} to the hub by its connection string: {}", "is not known".yellow(), one_line(why))
        }
        Activity::Unguarded { address } => format!(
            "{}: whoever can reach {} can write, under any name; --webhook-secret takes signed messages only",
            "warning".yellow(),
            one_line(address)
        ),
        Activity::Membership { channel, name: Some(called) } => {
            format!("is in {} ({})", one_line(called), one_line(channel)).dimmed().to_string()
        }
        Activity::Membership { channel, name: None } => {
            let channel = one_line(channel);
            format!(
                "{} in {channel}; its owner can let it in: chorus channel join {channel} --agent {}",
                "is not".yellow(),
                one_line(name)
            )
        }
        Activity::Reconnecting { in_ms, why } => {
            format!("lost the hub: {}; tries again in {}", one_line(why), seconds(*in_ms))
                .dimmed()
                .to_string()
        }
        Activity::Skipped { what } => format!("{} {}", "skipped".yellow(), one_line(what)),
        Activity::Took { message, from, channel, pieces } => {
            let place =
                channel.as_ref().map(|channel| format!(" in {}", one_line(channel))).unwrap_or_default();
            let pieces = if *pieces > 1 { format!(", {pieces} messages in one") } else { String::new() };
            format!("took {} from {}{place}{pieces}", one_line(message), one_line(from))
        }
        Activity::BrokenOff { message } => {
            format!("begins {} anew, with what was said since", one_line(message)).dimmed().to_string()
        }
        Activity::Superseded { message } => {
            format!("leaves {}: it was taken back", one_line(message)).dimmed().to_string()
        }
        Activity::ToolCall { name } => format!("calls {}", one_line(name)).dimmed().to_string(),
        Activity::ToolResult { name, ok, elapsed_ms } => {
            let verb =
                if *ok { "called".dimmed().to_string() } else { "failed to call".yellow().to_string() };
            format!("{verb} {} ({})", one_line(name), seconds(*elapsed_ms))
        }
        Activity::PermissionAsked { .. } | Activity::PermissionDecided { .. } | Activity::Used { .. } => {
            of_a_coding_agent(activity)
        }
        Activity::Retrying { why, in_ms } => {
            format!("{} in {}: {}", "tries again".yellow(), seconds(*in_ms), one_line(why))
        }
        Activity::Unseen { why } => format!("{}: {}", "is not seen".yellow(), one_line(why)),
        Activity::Answered { characters, cut, elapsed_ms } => {
            let cut = if *cut { ", cut to fit" } else { "" };
            format!("{} with {characters} characters{cut} ({})", "answered".green(), seconds(*elapsed_ms))
        }
        Activity::Silent { why, elapsed_ms } => {
            let why = why.as_ref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
            format!("has nothing to say{why} ({})", seconds(*elapsed_ms))
        }
        Activity::Failed { why, elapsed_ms } => {
            format!("{}: {} ({})", "failed".red(), one_line(why), seconds(*elapsed_ms))
        }
        Activity::PutOff { message } => format!("answers {} at its next start", one_line(message)),
        Activity::Repeated { message } => {
            format!("has dealt with {} before", one_line(message)).dimmed().to_string()
        }
        Activity::Offering { .. }
        | Activity::OfferMade { .. }
        | Activity::JobBegan { .. }
        | Activity::JobReported { .. }
        | Activity::JobLeft { .. } => on_the_market(activity),
        Activity::Stopped => "stopped".dimmed().to_string(),
    }
}

fn of_a_coding_agent(activity: &Activity) -> String {
    match activity {
        Activity::PermissionAsked { tool, approval } => format!(
            "{} for {}; a person answers: chorus approvals agree {approval}, or decline",
            "asks permission".yellow(),
            one_line(tool),
            approval = one_line(approval)
        ),
        Activity::PermissionDecided { tool, answer } => {
            format!("was answered about {}: {}", one_line(tool), one_line(answer))
        }
        Activity::Used { input_tokens, output_tokens, cost } => {
            let count =
                |tokens: &Option<u64>, what: &str| tokens.map(|tokens| format!("{tokens} tokens {what}"));
            let cost = cost.as_ref().map(|cost| format!("{} so far", one_line(cost)));
            let parts = [count(input_tokens, "in"), count(output_tokens, "out"), cost];
            format!("used {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
                .dimmed()
                .to_string()
        }
        _ => String::new(),
    }
}

fn on_the_market(activity: &Activity) -> String {
    match activity {
        Activity::Offering { skills, owner, kept_in } => {
            let kept = kept_in.as_ref().map(|path| format!("; the owner's key is in {}", one_line(path)));
            format!(
                "offers {} for {}{}",
                one_line(&skills.join(" ")),
                one_line(owner),
                kept.unwrap_or_default()
            )
        }
        Activity::JobBegan { job, skill } => format!("does the job {}: {}", one_line(job), one_line(skill)),
        Activity::OfferMade { skill, price } => {
            format!("offers a job of {} for {}", one_line(skill), one_line(price))
        }
        Activity::JobReported { job, status, paid } => {
            format!("reported the job {}: {}, paid {}", one_line(job), one_line(status), one_line(paid))
        }
        Activity::JobLeft { job } => {
            format!("leaves the job {}: it has ended", one_line(job)).dimmed().to_string()
        }
        _ => String::new(),
    }
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(activity: Activity) -> String {
        anstream::adapter::strip_str(&line("echo", &activity)).to_string()
    }

    #[test]
    fn one_harmless_line_each() {
        let took = Activity::Took {
            message: "evt_1".into(),
            from: "anna\u{1b}[2J\nx".into(),
            channel: Some("ops".into()),
            pieces: 3,
        };
        assert_eq!(shown(took), "echo took evt_1 from anna\\u{1b}[2J\\nx in ops, 3 messages in one");
        let answered = Activity::Answered { characters: 12, cut: true, elapsed_ms: 1250 };
        assert_eq!(shown(answered), "echo answered with 12 characters, cut to fit (1.2 s)");
        let absent = Activity::Membership { channel: "ch_1".into(), name: None };
        assert_eq!(
            shown(absent),
            "echo is not in ch_1; its owner can let it in: chorus channel join ch_1 --agent echo"
        );
    }
}
