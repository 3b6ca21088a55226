//! The effect of words is as strong as they are clear, and what was asked comes before words.

use super::*;

/// A person's news and a courtesy with anything else in it: the agent sees them and decides.
#[test]
fn weak_evidence_has_a_weak_effect() {
    let declared = |intent, event| Event { intent: Some(intent), ..event };
    let holder = Recipient { holds_claim: true, ..in_role() };
    decides! {
        "news in a DM":
            in_dm(person("Status: it is down")), nobody()
            => to_me may_respond (buffered) status_broadcast;
        "a pasted error":
            naming(person("@bob ERROR: no such file")), named()
            => to_me may_respond (buffered) status_broadcast;
        "news in a thread":
            in_thread(person("FYI the reviewer wants a test")), asked()
            => to_me may_respond (buffered) status_broadcast;
        "for others of the thread it is chat":
            in_thread(person("FYI the reviewer wants a test")), participant()
            => to_my_role may_respond (notify) thread_participation;
        "for a role it is chat":
            naming(person("@ops heads up: prod is down")), in_role()
            => to_my_role may_respond (notify) role_mention;
        "for nobody it is chat":
            person("FYI the office is closed"), nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
        "a declared status is one":
            declared(Intent::Status, naming(person("@bob it is down"))), named()
            => to_me must_not_respond (digest) status_broadcast;
        "a thanks with something else":
            in_dm(person("thanks, works now")), nobody()
            => to_me may_respond (buffered) thanks;
        "to a role":
            naming(person("@ops thanks, works now")), in_role()
            => to_my_role may_respond (notify) role_mention;
        "to a role, for the holder of the claim":
            naming(person("@ops thanks, works now")), holder
            => to_my_role may_respond (buffered) role_mention;
        "a seen with something else":
            in_thread(person("ok, I will look at it tonight")), asked()
            => to_me may_respond (buffered) acknowledgement;
        "a declared thanks is one":
            declared(Intent::Thanks, in_dm(person("thanks, works now"))), nobody()
            => to_me ack_only (notify) thanks;
        "what sounds urgent is only urgent":
            in_dm(agent("Security incident: keys are public")), nobody()
            => to_me must_respond (immediate) direct_message;
        "an order to stop is an order":
            in_dm(person("stop the staging server")), nobody()
            => to_me must_respond (buffered) direct_message;
        "so it is in a thread":
            in_thread(person("revert the last commit")), asked()
            => to_me must_respond (buffered) thread_question;
    }
}

/// In a thread, as in a direct conversation, a message answers what the agent asked last.
#[test]
fn answers() {
    let to = |answers, event| Event { answers: Some(answers), ..event };
    let asked_back = |event| to(Intent::Question, event);
    decides! {
        "a yes": asked_back(in_thread(person("ok"))), asked() => to_me must_respond (buffered) thread_question;
        "a yes with thanks":
            asked_back(in_thread(person("ja, danke"))), asked()
            => to_me must_respond (buffered) thread_question;
        "leave":
            to(Intent::ApprovalRequest, in_thread(person("sure, thanks!"))), asked()
            => to_me must_respond (immediate) approval;
        "any words": asked_back(in_thread(person("port 8080"))), asked() => to_me must_respond (buffered) thread_question;
        "a pasted error":
            asked_back(in_thread(person("[ERROR] no such file"))), asked()
            => to_me must_respond (buffered) thread_question;
        "in a DM": asked_back(in_dm(person("ok thanks"))), nobody() => to_me must_respond (buffered) direct_message;
        "of who is named":
            asked_back(naming(in_thread(person("@bob ok")))), Recipient { named: true, ..asked() }
            => to_me must_respond (buffered) direct_mention;
        "who did not ask only hears of it":
            asked_back(in_thread(person("ok"))), participant()
            => to_my_role may_respond (notify) thread_participation;
        "to given work":
            to(Intent::Assignment, in_dm(person("ok"))), nobody()
            => to_me may_respond (buffered) acknowledgement;
        "agents thank each other for nothing":
            asked_back(in_dm(agent("thanks"))), nobody()
            => to_me ack_only (silent) thanks;
        "nothing is waited for":
            to(Intent::Chat, in_thread(person("ok"))), asked()
            => to_me ack_only (notify) acknowledgement;
    }
}
